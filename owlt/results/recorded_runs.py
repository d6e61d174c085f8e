"""The one reader of recorded runs: the directories in `runs/`, their records, and what else lies beside them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from owlt.inputs.mistake import Mistake, Place, ResultsConflict
from owlt.results.judgements import is_repeated_later
from owlt.results.plain_files import (
    NotPlain,
    directories_in,
    is_plain_directory,
    names_in,
    real_root,
    require_plain_tree,
)
from owlt.results.record import RECORD_NAME, DamagedRecord, RunRecord, read_record

RUNS = "runs"
UNPUBLISHED = "workers"
"""The directory of runs that are not published yet. Programs may leave any files there: it is removed, never read."""


@dataclass(frozen=True)
class RecordedRun:
    """A run with a record, and its directory."""

    directory: Path
    record: RunRecord


@dataclass(frozen=True)
class Recorded:
    """The content of `runs/` of a results directory, compared with the plan."""

    records: dict[str, RunRecord] = field(default_factory=dict)
    """The recorded runs, by run id."""
    damaged: dict[str, str] = field(default_factory=dict)
    """The problem of each damaged record, by run id."""
    strays: tuple[Path, ...] = ()
    """Files and directories that are not runs of the plan."""

    @property
    def warnings(self) -> list[str]:
        """A sentence for everything that is not used."""
        unused = [f"{problem}; 'owlt run' performs the run again" for problem in self.damaged.values()]
        return [*unused, *(f"{stray}: not a run of this sweep, ignored; move it elsewhere" for stray in self.strays)]


def results_root(path: Path) -> Path:
    """A results directory that the user named, with the links in its path resolved; it may be missing.

    Raises ResultsConflict if an entry in it is neither a file nor a directory (a link, a pipe, a socket, a device), so
    that a command refuses it before it reads or changes anything.
    """
    root = real_root(path)
    try:
        require_plain_tree(root, except_for=UNPUBLISHED)
    except NotPlain as problem:
        raise ResultsConflict(
            Mistake(
                str(problem.strerror),
                fix=f"to see all of them: find {shlex.quote(str(path))} ! -type f ! -type d",
                where=Place(str(problem.filename)),
            )
        ) from problem
    except OSError as problem:
        raise ResultsConflict(
            Mistake(f"cannot be read ({problem.strerror})", where=Place(str(problem.filename or root)))
        ) from problem
    return root


def run_directory(results: Path, run_id: str) -> Path:
    """The directory of a run, recorded or not."""
    return results / RUNS / run_id


def is_recorded(directory: Path) -> bool:
    """Whether a run's directory has a record, readable or not."""
    return (directory / RECORD_NAME).exists()


def recorded_directories(results: Path) -> list[Path]:
    """The directories of all runs that have a record, in the order of their names."""
    return [path for path in directories_in(results / RUNS) if is_recorded(path)]


def recorded_runs(results: Path) -> Iterator[RecordedRun]:
    """All runs that have a record, in the order of their names.

    Raises DamagedRecord if one cannot be read, ResultsConflict if a newer version of owlt wrote it.
    """
    return (RecordedRun(path, read_record(path)) for path in recorded_directories(results))


def read_recorded(results: Path, planned: Collection[str]) -> Recorded:
    """The records of the planned runs. Raises ResultsConflict if a newer version of owlt wrote one."""
    records, damaged, strays = {}, {}, []
    for path in _entries(results):
        if path.name not in planned or not is_plain_directory(path):
            strays.append(path)
            continue
        try:
            record = read_record(path)
        except FileNotFoundError:
            continue
        except DamagedRecord as problem:
            damaged[path.name] = str(problem)
            continue
        if record.run_id == path.name:
            records[path.name] = record
        else:
            damaged[path.name] = f"{path / RECORD_NAME}: is the record of another run, {record.run_id}"
    return Recorded(records, damaged, tuple(strays))


def standing(recorded: Recorded) -> set[str]:
    """The runs that a start of the sweep need not perform."""
    return {run_id for run_id, record in recorded.records.items() if not is_repeated_later(record)}


def _entries(results: Path) -> list[Path]:
    runs = results / RUNS
    return [runs / name for name in names_in(runs)]
