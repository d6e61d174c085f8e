"""Merging results directories of one sweep: every run of each, once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from owlt.captures.files.plain_files import (
    directories_in,
    files_in,
    make_directory,
    move,
    read_plain,
    remove_tree,
    write_whole,
)
from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.errors import ResultsConflict
from owlt.orchestrator.planning.plan import PLAN_NAME, read_plan, read_plan_values
from owlt.orchestrator.planning.stored.differences import differences
from owlt.orchestrator.planning.stored.presentation import without_presentation
from owlt.orchestrator.provenance.provenance import DIRECTORY_NAME as MACHINES
from owlt.orchestrator.repetitions.due import due_runs
from owlt.orchestrator.results.certificates import DIRECTORY_NAME as CERTIFICATES
from owlt.orchestrator.results.record import RunRecord
from owlt.orchestrator.results.recorded_runs import RUNS, Recorded, read_recorded, run_directory
from owlt.orchestrator.shards.copying import copy_attempts, copy_directory
from owlt.orchestrator.shards.machines import machine_differences
from owlt.orchestrator.status.results_lock import lock_state, locked
from owlt.reports.results.upgrades import MOST_PLAN_BYTES

SAME = ("run_id", "seed", "outcome", "reason", "started_at_ns", "ended_at_ns", "received_sha256")
"""What two records of a run have in common if both show the same packets."""
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
    """In what the machines differ that performed the runs, if that was accepted."""


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
    """By its lock, which is only read: a source may be read-only."""
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
    """The same packets need the same files."""
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
