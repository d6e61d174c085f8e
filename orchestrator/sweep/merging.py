"""Merging results directories of one sweep: every run of each, once, copied, if machines with the same files performed
them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from owlt.inputs.mistake import Mistake, Place, ResultsConflict
from owlt.orchestrator.planning.plan import read_plan, read_plan_values
from owlt.orchestrator.planning.repetitions import due_runs
from owlt.orchestrator.planning.stored_plan import differences, without_presentation
from owlt.orchestrator.rigs.provenance import OF_AN_IMPLEMENTATION, Provenance, difference, read_provenances
from owlt.orchestrator.run.same_failures import ATTEMPTS
from owlt.results.files import CERTIFICATES, MACHINES, PLAN_NAME
from owlt.results.lock import lock_state, locked
from owlt.results.plain_files import (
    NotPlain,
    create,
    directories_in,
    files_in,
    is_plain,
    link,
    make_directory,
    move,
    names_in,
    open_plain,
    read_plain,
    remove_tree,
    write_whole,
)
from owlt.results.record import RECORD_NAME, RunRecord
from owlt.results.recorded_runs import RUNS, Recorded, read_recorded, run_directory
from owlt.results.upgrades import MOST_PLAN_BYTES

COPIED_BYTES = 1 << 20


def copy_directory(source: Path, target: Path) -> Path:
    """Copy a directory, without its permissions: the source may be read-only, the copy must not be."""
    target.mkdir()
    for directory in directories_in(source):
        copy_directory(directory, target / directory.name)
    for file in files_in(source):
        copy_file(file, target / file.name)
    return target


def copy_file(source: Path, target: Path) -> None:
    """Copy the content of a plain file to a new one. Raises NotPlain, OSError."""
    with open_plain(source) as file, create(target) as copy:
        shutil.copyfileobj(file, copy, COPIED_BYTES)


def link_or_copy(source: Path, target: Path) -> None:
    """Create a hard link to a plain file; if that is not possible, copy it, with its modification time.

    Raises NotPlain, OSError.
    """
    try:
        link(source, target)
    except NotPlain:
        raise
    except OSError:  # another file system, one without links, or a file of another user
        copy_file(source, target)
        status = source.lstat()
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)


def copy_attempts(
    into: Path, sources: Sequence[Path], chosen: Mapping[str, Path], recorded: Collection[str], drafts: Path
) -> None:
    """Copy the earlier attempts at runs: of a recorded run, from the source that it is `chosen` from, of a run without
    a record, from all sources. Attempts that are there already are not copied again."""
    for source in sources:
        for run in directories_in(source / ATTEMPTS):
            if chosen.get(run.name) == source or run.name not in recorded:
                _copy_attempts_at(run, into / ATTEMPTS / run.name, drafts)


def _copy_attempts_at(source: Path, target: Path, drafts: Path) -> None:
    make_directory(target)
    there = {_record(path) for path in _numbered(target)}
    for attempt in _numbered(source):
        if _record(attempt) not in there:
            last = max((int(path.name) for path in _numbered(target)), default=0)
            move(copy_directory(attempt, drafts / f"{source.name}-{attempt.name}"), target / str(last + 1))


def _numbered(of_run: Path) -> list[Path]:
    return sorted((path for path in directories_in(of_run) if path.name.isdecimal()), key=lambda path: int(path.name))


def _record(attempt: Path) -> bytes:
    """What distinguishes two attempts; an attempt whose record was lost is identified by its files."""
    path = attempt / RECORD_NAME
    return read_plain(path) if is_plain(path) else repr(names_in(attempt)).encode()


def machine_differences(records: Mapping[str, RunRecord], directories: Sequence[Path]) -> list[str]:
    """A phrase for each group of files that has several digests in the records, with the files if they are known.

    The programs of an implementation are compared between its own runs. Records without provenance, of older versions
    of owlt, are not compared.
    """
    machines = [machine for directory in directories for machine in read_provenances(directory)]
    digests: dict[tuple[str, str], set[str]] = {}
    for record in records.values():
        for group, digest in record.provenance.items():
            of = record.implementation if group == OF_AN_IMPLEMENTATION else ""
            digests.setdefault((group, of), set()).add(digest)
    return [_phrase(group, of, sorted(values), machines) for (group, of), values in digests.items() if len(values) > 1]


def _phrase(group: str, implementation: str, digests: list[str], machines: list[Provenance]) -> str:
    what = f"the programs of {implementation}" if implementation else group
    for one, other in combinations(digests, 2):
        pairs = _groups(group, implementation, one, machines), _groups(group, implementation, other, machines)
        if phrase := next((difference(what, *pair) for pair in zip(*pairs, strict=False)), ""):
            return phrase
    return f"{what}: {', '.join(digests)}"


def _groups(group: str, implementation: str, digest: str, machines: list[Provenance]) -> Iterator[dict[str, str]]:
    """The files of the first machine whose group has this digest."""
    for machine in machines:
        if machine.digests(implementation).get(group) == digest:
            yield machine.implementations.get(implementation, {}) if implementation else machine.groups[group]
            return


SAME = ("run_id", "seed", "outcome", "reason", "ended_at_ns", "received_sha256")
"""The fields that are equal in two records of a run if both show the same packets. The time of the launch, before the
programs start, may differ by microseconds if one shared its beginning (`orchestrator.run.branching`)."""
VERSIONS = ("owlt", "python", "kernel")


@dataclass(frozen=True)
class Merged:
    """The result of merging."""

    copied: int
    """Runs that the directory did not have."""
    equal: int
    """Runs that it had, or that several directories have, with the same result."""
    missing: int
    """Runs of the plan that are due and that no directory has."""
    different: tuple[str, ...] = ()
    """The differences between the machines that performed the runs, if they were accepted."""


def merge(into: Path, sources: Sequence[Path], accept_differences: bool = False) -> Merged:
    """Copy every recorded run of the sources, with certificates and attempts, into a results directory, new or not.

    Each run appears by one rename. The sources stay as they are, and may be read-only. Raises ResultsConflict, before
    anything is changed, if a source is no results directory or is in use, if two directories have different plans, if a
    run is in two of them with different results, if the first directory has a damaged run, or, unless
    `accept_differences`, if runs were performed with different versions or on machines that differ.
    """
    _require_one_plan([path for path in (into, *sources) if path != into or (into / PLAN_NAME).exists()])
    plan = read_plan(sources[0])
    run_ids = {run.run_id for run in plan.runs}
    for source in sources:
        _require_not_running(source)
    there = read_recorded(into, run_ids)
    _require_undamaged(into, there)
    chosen: dict[str, Path] = {}
    records = dict(there.records)
    equal = 0
    for source in sources:
        for run_id, record in read_recorded(source, run_ids).records.items():
            if run_id not in records:
                records[run_id], chosen[run_id] = record, source
                continue
            _require_same(records[run_id], record, source)
            equal += 1
    different = machine_differences(records, [into, *sources])
    if not accept_differences:
        _require_one_version(records)
        _require_no_difference(different)
    _copy(into, sources, chosen, records)
    missing = due_runs(plan, into, records) - records.keys()
    return Merged(len(chosen), equal, len(missing), tuple(different))


def _require_not_running(source: Path) -> None:
    """Raise ResultsConflict if a source is in use. Its lock is only read: a source may be read-only."""
    state = lock_state(source)
    if state.state == "running":
        problem = f"is in use by another 'owlt run' ({state.holder or 'its lock names no process'})"
        raise ResultsConflict(
            Mistake(problem, fix="wait until it has ended, or interrupt it", where=Place(str(source)))
        )


def _require_one_plan(directories: Sequence[Path]) -> None:
    plans = [_plan_of(directory) for directory in directories]
    first, *others = [without_presentation(plan | {"history": []}) for plan in plans]
    for directory, plan in zip(directories[1:], others, strict=True):
        if unlike := differences(first, plan):
            problem = f"has another plan than {directories[0]}: {'; '.join(unlike)}"
            fix = "merge directories of one sweep file"
            raise ResultsConflict(Mistake(problem, fix=fix, where=Place(str(directory))))


def _plan_of(directory: Path) -> dict[str, Any]:
    try:
        return read_plan_values(directory)
    except FileNotFoundError:
        expected = "a directory that 'owlt run' made"
        raise ResultsConflict(Mistake("is not a results directory", expected, where=Place(str(directory)))) from None


def _require_undamaged(into: Path, there: Recorded) -> None:
    """A run cannot be renamed onto a damaged one, which may hold the only copy of something."""
    for run_id, problem in there.damaged.items():
        fix = f"remove {run_directory(into, run_id)}, or have 'owlt run' perform the run again"
        raise ResultsConflict(
            Mistake(f"has a damaged run ({problem})", "records that can be read", fix, Place(str(into)))
        )


def _require_same(here: RunRecord, other: RunRecord, source: Path) -> None:
    if unlike := [name for name in SAME if getattr(here, name) != getattr(other, name)]:
        problem = f"{here.run_id} has another {unlike[0]} than in the directories before"
        fix = "remove one of the two runs, or merge without this directory"
        raise ResultsConflict(Mistake(problem, "each run once, or with the same result", fix, Place(str(source))))


def _require_no_difference(different: Sequence[str]) -> None:
    """Raise ResultsConflict if machines differ, because equal packets need equal files."""
    if different:
        problem = f"the runs were performed on machines that differ in {'; '.join(different)}"
        fix = "perform all shards on machines with the same files, or accept that with --accept-differences"
        raise ResultsConflict(Mistake(problem, "machines with the same files", fix))


def _require_one_version(records: Mapping[str, RunRecord]) -> None:
    for name in VERSIONS:
        versions = sorted({record.versions[name] for record in records.values() if name in record.versions})
        if len(versions) > 1:
            problem = f"the runs were performed with different versions of {name}: {', '.join(versions)}"
            fix = "perform all shards with one version"
            raise ResultsConflict(Mistake(problem, "one version", fix))


def _copy(into: Path, sources: Sequence[Path], chosen: Mapping[str, Path], recorded: Collection[str]) -> None:
    """Copy plan, machines, certificates, runs and attempts, each complete before it gets its name."""
    make_directory(into)
    with locked(into):
        if not (into / PLAN_NAME).exists():
            write_whole(into / PLAN_NAME, read_plain(sources[0] / PLAN_NAME, MOST_PLAN_BYTES))
        for name in (RUNS, CERTIFICATES, MACHINES):
            make_directory(into / name)
        for source in sources:
            for file in _certificates_and_machines(source):
                place = into / file.relative_to(source)
                if not place.exists():
                    make_directory(place.parent)
                    write_whole(place, read_plain(file))
        copies = Path(mkdtemp(prefix=".merging-", dir=into))
        try:
            for run_id, source in chosen.items():
                move(copy_directory(run_directory(source, run_id), copies / run_id), run_directory(into, run_id))
            copy_attempts(into, sources, chosen, recorded, copies)
        finally:
            remove_tree(copies)


def _certificates_and_machines(results: Path) -> list[Path]:
    """The files with the provenance of each machine, and the certificates that were measured there."""
    machines = results / MACHINES
    of_machines = [directory / CERTIFICATES for directory in directories_in(machines)]
    return [file for each in (results / CERTIFICATES, machines, *of_machines) for file in files_in(each, ".json")]
