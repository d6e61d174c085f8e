"""One citable file with the data that a page of a reproduction is made from; the page can be made again without a run.

A ZIP file. `manifest.json` has the SHA-256 of each other member: the claims and the text of the page (`claims.yaml`,
`page.md`), the tables of `database` (`tables/*.parquet`, for any program), where the runs come from (`facts.json`), the
page as it was written (`page/`), and of each sweep, in a directory of its name, the plan, the certificates, the digests
of the files of the machine, and the captures of one run as a sample.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from io import BytesIO
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pydantic import ValidationError

from owlt.inputs.mistake import Mistake, Place
from owlt.inputs.validation import first_error
from owlt.reports.reproduction.claims import NAME, Reproduction, load_claims
from owlt.reports.reproduction.database import ALL_RUNS, CAPTURES, TABLES, database_of_files, write_files
from owlt.reports.reproduction.evidence import Evidence, Facts
from owlt.reports.results.load import Results, Run
from owlt.results.files import CERTIFICATES, MACHINES, PLAN_NAME, ReportError
from owlt.results.foreign_zip import BrokenZip, open_foreign_zip
from owlt.results.plain_files import files_in, is_plain, read_plain, real_root, write_whole
from owlt.results.record import RECORD_NAME
from owlt.results.recorded_runs import run_directory

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
