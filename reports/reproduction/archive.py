"""The data that a page of a reproduction is made from, a database of its runs and their provenance; and one citable
file with these data, from which the page can be made again without a run.

The archive is a ZIP file. `manifest.json` has the SHA-256 of each other member: the claims and the text of the page
(`claims.yaml`, `page.md`), the tables of `database` (`tables/*.parquet`, for any program), where the runs come from
(`facts.json`), the page as it was written (`page/`), and of each sweep, in a directory of its name, the plan, the
certificates, the digests of the files of the machine, and the captures of one run as a sample.
"""

from __future__ import annotations

import json
import re
import resource
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from io import BytesIO
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pydantic import BaseModel, ConfigDict, ValidationError

from owlt.inputs.mistake import Mistake, Place
from owlt.inputs.validation import first_error
from owlt.reports.page.provenance import provenance_of
from owlt.reports.reproduction.claims import NAME, Reproduction, load_claims
from owlt.reports.reproduction.database import ALL_RUNS, CAPTURES, TABLES, database, database_of_files, write_files
from owlt.reports.results.load import Results, Run
from owlt.results.files import CERTIFICATES, MACHINES, PLAN_NAME, Performance, ReportError, Reproduced, read_reproduced
from owlt.results.foreign_zip import BrokenZip, open_foreign_zip
from owlt.results.judgements import NOT_RUN
from owlt.results.plain_files import files_in, is_plain, read_plain, real_root, write_whole
from owlt.results.record import ON_THE_RECEIVER, RECORD_NAME
from owlt.results.recorded_runs import run_directory

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


QUICK = "-quick"
"""The end of the name of a sweep that is a part of the grid."""


class Facts(BaseModel):
    """Where the runs of a reproduction come from, for people."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: tuple[tuple[str, str, str], ...]
    """The sweep, what it is, and its value; several values if runs differ."""
    reproduced: dict[str, Reproduced | None]
    """The claims that each sweep's results recorded at the start of their runs, in the order of the sweeps."""


@dataclass(frozen=True)
class Evidence:
    """What a page is made from: the database of its runs, and the facts."""

    connection: DuckDBPyConnection
    facts: Facts

    @property
    def runs_text(self) -> str:
        """The number of runs with each outcome, for each sweep."""
        sweeps = list(self.facts.reproduced)
        texts = [self._outcomes_text(sweep) for sweep in sweeps]
        if len(sweeps) == 1:
            return texts[0]
        return "; ".join(f"{sweep}: {text}" for sweep, text in zip(sweeps, texts, strict=True))

    def _outcomes_text(self, sweep: str) -> str:
        query = (
            "SELECT outcome, count(*), count(suspect) FROM all_runs WHERE sweep = ? GROUP BY outcome ORDER BY 2 DESC, 1"
        )
        rows = self.connection.execute(query, [sweep]).fetchall()
        parts = [f"{count} {outcome.replace('_', ' ')}" for outcome, count, _ in rows if outcome != NOT_RUN]
        parts += [f"{count} not performed" for outcome, count, _ in rows if outcome == NOT_RUN]
        suspect = sum(count for *_, count in rows)
        return f"{', '.join(parts)} ({suspect} suspect)" if suspect else ", ".join(parts)

    @property
    def form_text(self) -> str:
        """Which of its two sweeps the results have, and how often it was performed."""
        sweep = next(iter(self.facts.reproduced))
        query = "SELECT run_id, outcome != ? FROM all_runs WHERE sweep = ?"
        rows = self.connection.execute(query, [NOT_RUN, sweep]).fetchall()
        counts: Counter[str] = Counter()
        for run_id, is_performed in rows:
            counts[run_id.rpartition("_r")[0]] += is_performed
        least, most = min(counts.values()), max(counts.values())
        if least < most:
            return (
                f"The numbers on this page come from {counts.total():,} of the {len(rows):,} runs of the complete "
                f"grid: its {len(counts)} cells were performed {least} to {most} times each."
            )
        often = "once" if most == 1 else f"{most} times"
        if sweep.endswith(QUICK):
            return f"The numbers on this page come from the quick form, a fraction of the grid, performed {often}."
        return f"The numbers on this page come from the complete grid, performed {often}."


@contextmanager
def evidence_of(results: Sequence[Results], reproduction: Reproduction) -> Iterator[Evidence]:
    """The evidence in results directories. Raises BadQuery and ReportError."""
    facts = facts_of(results)
    with database(results, reproduction) as connection:
        yield Evidence(connection, facts)


def facts_of(results: Sequence[Results]) -> Facts:
    """The facts of results directories. Raises ReportError."""
    reproduced = {each.sweep.name: read_reproduced(each.directory) for each in results}
    rows = [row for each in results for row in _rows_of(each, reproduced[each.sweep.name])]
    return Facts(rows=tuple(rows), reproduced=reproduced)


def _rows_of(results: Results, reproduced: Reproduced | None) -> Iterator[tuple[str, str, str]]:
    provenance, sweep = provenance_of(results), results.sweep.name
    for fact in provenance.facts:
        yield sweep, fact.name, "; ".join(fact.values)
    yield sweep, "seeds of runs", f"{provenance.seeds:,}, derived from the seed of the sweep"
    for each in provenance.implementations:
        yield sweep, each.name, "; ".join(map(short_version, each.versions)) or "unknown version"
    if reproduced and reproduced.performances:
        yield from ((sweep, name, text) for name, text in _of_performances(reproduced.performances))


def short_version(version: str) -> str:
    """Of a version that a program printed in several lines, the first line; and the digests of its files, which stand
    behind the last line (`orchestrator.run.versions`)."""
    sides = [re.sub(r"\n.*?(?=( \([^()]*\))?$)", "", side, flags=re.DOTALL) for side in version.split(ON_THE_RECEIVER)]
    return ON_THE_RECEIVER.join(dict.fromkeys(sides))


def _of_performances(performances: Sequence[Performance]) -> Iterator[tuple[str, str]]:
    dates = [f"{datetime.fromtimestamp(each.started_at_s, UTC):%Y-%m-%d %H:%M}" for each in performances]
    yield "started (UTC)", "; ".join(dates)
    minutes, seconds = divmod(round(sum(each.seconds for each in performances)), 60)
    yield "time taken", f"{minutes} min {seconds} s"
    yield "processor", "; ".join(dict.fromkeys(f"{each.processors} x {each.processor}" for each in performances))


MANIFEST = "manifest.json"
FACTS = "facts.json"
TEMPLATE = "page.md"
READ = (NAME, TEMPLATE, FACTS, *(f"tables/{table}.parquet" for table in (ALL_RUNS, *TABLES)))
"""The members that a page is made from."""
MOST_ARCHIVE_BYTES = 1_000_000_000
MOST_MEMBERS = 50_000
MOST_MEMBER_BYTES = 1_000_000_000
"""Of all members together that are read, uncompressed."""
MOST_MEMORY_BYTES = 4_000_000_000
"""That an archive and its page take in addition to what the process has: its lists and queries decide how much."""
MOST_SAMPLE_BYTES = 1_000_000
"""Of the captures of the sample."""
_DATE = (1980, 1, 1, 0, 0, 0)


Public = Callable[[Any], Any]
"""Values of JSON, without what they say of the user and the machine."""


def write_archive(
    path: Path,
    evidence: Evidence,
    results: Sequence[Results],
    directory: Path,
    page: Path,
    public: Public,
    kept: Mapping[str, str],
) -> Path:
    """Write the archive of a page that was made of these results; the page's name is that of the reproduction.
    Of the tables in `kept`, it has the rows that meet the SQL condition.

    Raises BadQuery for a wrong condition, OSError.
    """
    name = page.stem
    members = {NAME: read_plain(directory / NAME), TEMPLATE: read_plain(directory / TEMPLATE)}
    members[FACTS] = _json(public(evidence.facts.model_dump(mode="json")))
    with TemporaryDirectory() as tables:
        write_files(evidence.connection, Path(tables), kept)
        members |= {f"tables/{each.name}": read_plain(each, MOST_ARCHIVE_BYTES) for each in files_in(Path(tables))}
    members |= {f"page/{each.name}": read_plain(each) for each in files_in(page.parent) if each.name.startswith(name)}
    for each in results:
        members |= {f"{each.sweep.name}/{member}": content for member, content in _members_of(each, public)}
    manifest = {"name": name, "sha256": {each: sha256(content).hexdigest() for each, content in members.items()}}
    return write_whole(real_root(path), _zipped({MANIFEST: _json(manifest), **members}))


def _members_of(results: Results, public: Public) -> Iterator[tuple[str, bytes]]:
    """What the archive has of one sweep."""

    def published(path: Path) -> bytes:
        return json.dumps(public(json.loads(read_plain(path))), separators=(",", ":")).encode()

    yield PLAN_NAME, published(results.directory / PLAN_NAME)
    for folder in (CERTIFICATES, MACHINES):
        for path in files_in(results.directory / folder, ".json"):
            yield f"{folder}/{path.name}", published(path)
    sizes = {run.record.run_id: _captures_bytes(run) for run in results.runs if run.completed}
    run_id = min(sizes, key=lambda each: sizes[each], default="")
    if run_id and sizes[run_id] <= MOST_SAMPLE_BYTES:
        sample = run_directory(results.directory, run_id)
        yield f"sample/{run_id}/{RECORD_NAME}", published(sample / RECORD_NAME)
        for file in CAPTURES.values():
            yield f"sample/{run_id}/{file}", read_plain(sample / file)


def _captures_bytes(run: Run) -> float:
    """The size of a run's captures; infinite if one is missing."""
    paths = [run.directory / file for file in CAPTURES.values()]
    return sum(path.stat().st_size for path in paths) if all(map(is_plain, paths)) else inf


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _zipped(members: Mapping[str, bytes]) -> bytes:
    """The same members give the same bytes."""
    content = BytesIO()
    with ZipFile(content, "w") as archive:
        for name, member in members.items():
            archive.writestr(ZipInfo(name, _DATE), member, ZIP_DEFLATED, 9)
    return content.getvalue()


@contextmanager
def evidence_in(path: Path, name: str) -> Iterator[tuple[Evidence, Reproduction, str]]:
    """The evidence in the archive of a reproduction, its claims, and the text of its page.

    Raises ReportError if it is not one, or a member differs from the manifest; ClaimsError, BadQuery.
    """
    try:
        with _bounded_memory(), TemporaryDirectory() as directory:
            members = _read(path, name)
            for member, content in members.items():
                write_whole(Path(directory, Path(member).name), content)
            reproduction = load_claims(Path(directory))
            with database_of_files(Path(directory), reproduction) as connection:
                yield Evidence(connection, _facts(path, members[FACTS])), reproduction, members[TEMPLATE].decode()
    except MemoryError:
        raise _unusable(path, f"its page takes more than {MOST_MEMORY_BYTES:,} bytes of memory") from None


@contextmanager
def _bounded_memory() -> Iterator[None]:
    """Bound the memory of this process: the database does not count the values of all functions of SQL."""
    used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bounds = [each for each in (soft, used_bytes + MOST_MEMORY_BYTES) if each != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(bounds), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _facts(path: Path, content: bytes) -> Facts:
    try:
        return Facts.model_validate_json(content)
    except ValidationError as problem:
        raise _unusable(path, f"{FACTS}: {first_error(problem)[1]}") from problem


def _read(path: Path, name: str) -> dict[str, bytes]:
    """The members that a page is made from, each as the manifest has it."""
    try:
        with open_foreign_zip(real_root(path), MOST_ARCHIVE_BYTES, MOST_MEMBERS) as archive:
            archive.require_at_most(MOST_MEMBER_BYTES, (MANIFEST, *READ))
            manifest: Any = json.loads(archive.read(MANIFEST))
            members = {member: archive.read(member) for member in READ}
            named, digests = manifest["name"], manifest["sha256"]
            changed = [member for member in READ if digests[member] != sha256(members[member]).hexdigest()]
    except BrokenZip as broken:
        raise _unusable(path, "; ".join(mistake.problem for mistake in broken.mistakes)) from broken
    except (LookupError, TypeError, ValueError, RecursionError) as problem:
        raise _unusable(path, str(problem)) from problem
    if changed:
        raise _unusable(path, f"{', '.join(changed)}: differs from the manifest")
    if named != name:
        raise _unusable(path, f"it is of {named!r}")
    return members


def _unusable(path: Path, problem: str) -> ReportError:
    expected = "an archive that 'owlt reproduce NAME --archive FILE' wrote"
    return ReportError(Mistake(f"cannot be used: {problem}", expected, where=Place(str(path))))
