"""Several results directories as one, for a report over them: runs of the same cell are pooled only if comparable.

The combined directory has its own records. Its captures, summaries and logs are hard links to the sources' files, or
copies. The sources are only read. The directory can be made again at any time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp

from pydantic_core import to_json

from owlt.agents.contract.implementation import Implementation
from owlt.inputs.axes import OF_THE_LINK
from owlt.inputs.mistake import Mistake, Place, ResultsConflict
from owlt.inputs.sweep import Adaptive, Sweep
from owlt.orchestrator.planning.plan import Batch, Plan, Run, read_plan, read_plan_values
from owlt.orchestrator.planning.repetitions import due_runs
from owlt.orchestrator.planning.stored_plan import differences, without_presentation, write_plan
from owlt.orchestrator.sweep.merging import copy_file, link_or_copy
from owlt.results.files import CERTIFICATES
from owlt.results.permutation import Permutation
from owlt.results.plain_files import files_in, is_plain_directory, make_directory, move, remove_tree, write_whole
from owlt.results.record import RECORD_NAME, RunRecord, write_record
from owlt.results.recorded_runs import RUNS, read_recorded, run_directory
from owlt.results.upgrades import SOURCES_NAME

SAME = ("outcome", "ended_at_ns", "received_sha256", "received_bytes")
"""The fields that are equal in two records of one seed on the clock exact if the implementation sends the same
packets."""
VERSIONS = {"kernel": "kernel", "implementation": "version of the implementation"}


@dataclass
class CombinedSource:
    """One of the directories, and what became of its runs."""

    directory: str
    label: str
    sweep: str
    seed: int
    runs: int = 0
    """Recorded runs that the combined directory has."""
    duplicates: int = 0
    """Runs on the clock exact that an earlier directory has with the same seed and result: they count once."""
    apart: dict[str, list[str]] = field(default_factory=dict)
    """Implementations that are not pooled with those of an earlier directory, and why."""


@dataclass(frozen=True)
class _Part:
    """The values read from one directory."""

    path: Path
    label: str
    plan: Plan
    records: dict[str, RunRecord]
    due: set[str]

    @cached_property
    def profiles(self) -> dict[str, object]:
        """The values in the profile of each implementation that decide its packets."""
        return dict(without_presentation(read_plan_values(self.path))["implementations"])

    def runs_of(self, name: str) -> list[Run]:
        """The runs of an implementation that are due or recorded."""
        return [run for run in self.plan.runs if run.run_id in self.due and run.permutation.implementation == name]

    @cached_property
    def guest_seeds(self) -> dict[str, int]:
        """As the plan has them, computed once."""
        return self.plan.guest_seeds

    def records_of(self, name: str) -> list[RunRecord]:
        """Its records."""
        return [record for record in self.records.values() if record.implementation == name]


def combine(sources: Sequence[Path], into: Path) -> list[CombinedSource]:
    """Make a results directory of the runs of several. Replaces one that was made in this way.

    An implementation of a later directory is pooled with that of an earlier one if profile, versions, rig, channels and
    advertised values are the same; else it gets a name of its own, NAME+in=LABEL. Raises ResultsConflict if a directory
    cannot be read, if clocks differ, if the sweeps have no common form of a grid, or if `into` is something else.
    """
    _require_own(into)
    parts = _parts(sources)
    _require_common_form(parts)
    pool = _Pool()
    reports = [pool.take(part) for part in parts]
    make_directory(into.parent)
    draft = Path(mkdtemp(prefix=f".{into.name}.draft-", dir=into.parent))
    try:
        _write(parts, pool, reports, draft, into)
        draft.chmod(0o755)
        if is_plain_directory(into / "report"):
            move(into / "report", draft / "report")
        remove_tree(into)
        move(draft, into)
    finally:
        remove_tree(draft)
    return reports


def _require_own(into: Path) -> None:
    if into.is_dir() and any(into.iterdir()) and not (into / SOURCES_NAME).is_file():
        problem = "exists, and was not made by 'owlt report' from several directories"
        raise ResultsConflict(Mistake(problem, "a new directory", "choose another with --out", Place(str(into))))


def _parts(sources: Sequence[Path]) -> list[_Part]:
    parts: list[_Part] = []
    for number, path in enumerate(sources, start=1):
        if path.resolve() in {part.path.resolve() for part in parts}:
            raise ResultsConflict(Mistake("is given twice", "each directory once", where=Place(str(path))))
        try:
            plan = read_plan(path)
        except FileNotFoundError:
            expected = "a directory that 'owlt run' made"
            raise ResultsConflict(Mistake("is not a results directory", expected, where=Place(str(path)))) from None
        records = read_recorded(path, {run.run_id for run in plan.runs}).records
        name = re.sub(r"[^A-Za-z0-9_.-]", "-", path.resolve().name)
        label = name if name not in {part.label for part in parts} else f"{name}-{number}"
        parts.append(_Part(path, label, plan, records, due_runs(plan, path, records)))
    return parts


def _require_common_form(parts: Sequence[_Part]) -> None:
    """Raise ResultsConflict if a page cannot show the sweeps together."""
    first = parts[0]
    for part in parts[1:]:
        for what, here in _form(part.plan.sweep).items():
            there = _form(first.plan.sweep)[what]
            if here != there:
                problem = f"another {what} than {first.path}: {here}, and {there} there"
                fix = "make a report of each"
                raise ResultsConflict(Mistake(problem, "sweeps that one page can show", fix, Place(str(part.path))))


def _form(sweep: Sweep) -> dict[str, str]:
    """The form that all sweeps of a page have in common."""
    return {
        "clock": sweep.clock,
        "kind of channels": "named profiles" if sweep.channel else "values of the sweep",
        "kind of load": "durations" if sweep.gives("duration") else "files",
        "set of axes of the channel": ", ".join(axis for axis in OF_THE_LINK if sweep.gives(axis)) or "none",
    }


class _Pool:
    """The runs of all directories so far, under their new names."""

    def __init__(self) -> None:
        self.implementations: dict[str, Implementation] = {}
        self.runs: list[tuple[Run, _Part, Run]] = []
        """The new run, and the directory and the run that it is made of."""
        self._first: dict[str, _Part] = {}
        self._channels: dict[Permutation, tuple[str, Path]] = {}
        self._advertised: dict[Permutation, tuple[dict[str, float | None], Path]] = {}
        self._by_seed: dict[tuple[Permutation, int], tuple[RunRecord, Path]] = {}
        self._counts: dict[Permutation, int] = defaultdict(int)

    def take(self, part: _Part) -> CombinedSource:
        """Add the runs of a directory."""
        source = CombinedSource(str(part.path), part.label, part.plan.sweep.name, part.plan.sweep.seed)
        for name, implementation in part.plan.implementations.items():
            reasons = list(self._reasons(part, name))
            new_name = f"{name}+in={part.label}" if reasons else name
            if reasons:
                source.apart[name] = reasons
                title = f"{implementation.title} ({part.label})"
                implementation = implementation.model_copy(update={"name": new_name, "title": title})
            self.implementations.setdefault(new_name, implementation)
            self._first.setdefault(name, part)
            for run in part.runs_of(name):
                self._add(part, run, new_name, source)
        return source

    def _add(self, part: _Part, run: Run, name: str, source: CombinedSource) -> None:
        point = run.permutation.model_copy(update={"implementation": name})
        record = part.records.get(run.run_id)
        if record is not None and part.plan.sweep.clock == "exact":
            if (point, run.seed) in self._by_seed:
                source.duplicates += 1
                return
            self._by_seed[point, run.seed] = (record, part.path)
        self._channels.setdefault(point, (run.channel_key, part.path))
        if record is not None:
            self._advertised.setdefault(point, (record.advertised, part.path))
        self._counts[point] += 1
        number = self._counts[point]
        new = {"run_id": f"{point.slug}_r{number}", "permutation": point, "repetition": number, "is_baseline": False}
        self.runs.append((run.model_copy(update=new | {"order": len(self.runs) + 1}), part, run))
        source.runs += record is not None

    def _reasons(self, part: _Part, name: str) -> Iterator[str]:
        """Why an implementation cannot be pooled with that of an earlier directory; nothing if it can."""
        first = self._first.get(name)
        if first is None:
            return
        there = first.path
        yield from (f"another profile than in {there}: {each}" for each in _differing_profile(part, first, name))
        for key, what in VERSIONS.items():
            here, before = (
                {record.versions[key] for record in each.records_of(name) if key in record.versions}
                for each in (part, first)
            )
            if here and before and here != before:
                words = f"{' and '.join(sorted(here))}, {' and '.join(sorted(before))} there"
                yield f"another {what} than in {there}: {words}"
        if part.plan.sweep.rig != first.plan.sweep.rig:
            yield f"another rig than in {there}: {part.plan.sweep.rig}, {first.plan.sweep.rig} there"
        yield from _first_of(self._cell_reasons(part, name))

    def _cell_reasons(self, part: _Part, name: str) -> Iterator[str]:
        for run in part.runs_of(name):
            key, path = self._channels.get(run.permutation, (run.channel_key, part.path))
            if key != run.channel_key:
                yield f"another channel than in {path} in the cell {run.permutation.cell}"
            record = part.records.get(run.run_id)
            if record is None:
                continue
            before, path = self._advertised.get(run.permutation, (record.advertised, part.path))
            if before != record.advertised:
                yield f"other advertised values than in {path} in the cell {run.permutation.cell}"
            known = self._by_seed.get((run.permutation, run.seed)) if part.plan.sweep.clock == "exact" else None
            if known and (unlike := [each for each in SAME if getattr(known[0], each) != getattr(record, each)]):
                yield f"{run.run_id} has the same seed as in {known[1]} and another {unlike[0]}"


def _first_of(reasons: Iterator[str]) -> Iterator[str]:
    """The first of several reasons, which are alike."""
    first = next(reasons, None)
    if first is not None:
        yield first


def _differing_profile(part: _Part, first: _Part, name: str) -> list[str]:
    there, here = ({name: each.profiles[name]} for each in (first, part))
    return differences(there, here)


def _write(parts: Sequence[_Part], pool: _Pool, reports: Sequence[CombinedSource], draft: Path, into: Path) -> None:
    sweeps = [part.plan.sweep for part in parts]
    titles = dict.fromkeys(sweep.title or sweep.name for sweep in sweeps)
    named = list(dict.fromkeys(name for sweep in sweeps for name in sweep.channel or ()))
    asserted = [each for sweep in sweeps for each in sweep.assertions]
    name = re.sub(r"[^a-z0-9]+", "-", into.name.lower()).strip("-") or "combined"
    sweep = sweeps[0].model_copy(
        update={
            "name": name,
            "title": "; ".join(titles),
            "implementations": list(pool.implementations),
            "channel": named or None,
            "repetitions": _repetitions(sweeps, max((run.repetition for run, _, _ in pool.runs), default=1)),
            "baseline": None,
            "assertions": [each for place, each in enumerate(asserted) if each not in asserted[:place]],
        }
    )
    plan = Plan(
        sweep=sweep,
        implementations=pool.implementations,
        channels={key: channel for part in parts for key, channel in part.plan.channels.items()},
        certifications=[],
        batches=[Batch(index=run.order, seed=part.guest_seeds[old.run_id], runs=[run]) for run, part, old in pool.runs],
    )
    write_plan(plan, draft)
    write_whole(
        draft / SOURCES_NAME, to_json({"sources": [asdict(each) for each in reports]}, indent=2).decode() + "\n"
    )
    (draft / CERTIFICATES).mkdir()
    for part in parts:
        for file in files_in(part.path / CERTIFICATES, ".json"):
            if not (draft / CERTIFICATES / file.name).exists():
                copy_file(file, draft / CERTIFICATES / file.name)
    (draft / RUNS).mkdir()
    for run, part, old in pool.runs:
        if record := part.records.get(old.run_id):
            _write_run(run, record, run_directory(part.path, old.run_id), draft, pool)


def _repetitions(sweeps: Sequence[Sweep], most: int) -> int | Adaptive:
    """The number of repetitions; if a sweep ended them as soon as its choice was decided, the rule with most looks: the
    choice of a report shares its error among them."""
    rules = [sweep.adaptive for sweep in sweeps if sweep.adaptive and sweep.adaptive.looks]
    if not rules:
        return most
    rule = max(rules, key=lambda each: len(each.looks))
    return rule.model_copy(update={"at_most": max(most, rule.at_most)})


def _write_run(run: Run, record: RunRecord, source: Path, draft: Path, pool: _Pool) -> None:
    """Write the run under its new name: its own record, and hard links to all other files of the source, or copies if
    the file system or the owner of the source does not allow links."""
    directory = run_directory(draft, run.run_id)
    directory.mkdir()
    name = run.permutation.implementation
    own = {"run_id": run.run_id, "implementation": name, "repetition": run.repetition, "order": run.order}
    own |= {"title": pool.implementations[name].title} if name != record.implementation else {}
    write_record(record.model_copy(update=own), directory)
    for file in files_in(source):
        if file.name != RECORD_NAME:
            link_or_copy(file, directory / file.name)
