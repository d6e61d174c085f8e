"""Attempts at a run that was repeated, set aside in `attempts/RUN/N/` of the results directory.

The record and the logs of an attempt stay, its captures do not: they show a fault of the rig, not the channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from owlt.captures.files.plain_files import (
    directories_in,
    files_in,
    is_plain,
    make_directory,
    move,
    read_plain,
    remove,
    write_whole,
)
from owlt.orchestrator.errors import ResultsConflict
from owlt.orchestrator.results.disturbance import disturbance
from owlt.orchestrator.results.reason_codes import ReasonCode
from owlt.orchestrator.results.record import RECORD_NAME, RunRecord, read_record, write_record
from owlt.orchestrator.results.repeat_rules import reason_code
from owlt.orchestrator.results.same_failures import ATTEMPTS, note_captures

SEED_NAME = "seed"
MOST_SEED_BYTES = 100
"""Beside the attempts: the seed of a run that is performed again with another one, also by a later start."""


def set_aside(results: Path, run_directory: Path) -> Path:
    """Move a run's directory to its earlier attempts, without its captures. Returns where it is now."""
    of_run = results / ATTEMPTS / run_directory.name
    make_directory(of_run)
    with suppress(ResultsConflict, OSError):  # its record is damaged
        note_captures(run_directory, read_record(run_directory))
    for capture in files_in(run_directory, ".pcap"):
        remove(capture)
    place = of_run / str(1 + max(_numbers(of_run), default=0))
    move(run_directory, place)
    return place


def reasons(results: Path, run_id: str) -> list[str]:
    """Why each earlier attempt at a run was repeated, oldest first."""
    of_run = results / ATTEMPTS / run_id
    return [_reason(of_run / str(number)) for number in sorted(_numbers(of_run))]


def note_seeds(results: Path, run_ids: Iterable[str], new_seeds: Mapping[str, int]) -> None:
    """Note the seeds of runs that are performed again; a run that is not in `new_seeds` has that of the plan."""
    for run_id in run_ids:
        place = results / ATTEMPTS / run_id / SEED_NAME
        if run_id in new_seeds:
            make_directory(place.parent)
            write_whole(place, f"{new_seeds[run_id]}\n")
        else:
            remove(place)


def noted_seeds(results: Path) -> dict[str, int]:
    """The seeds that take the place of the plan's, by run, until the run is performed again with another one."""
    places = [directory / SEED_NAME for directory in directories_in(results / ATTEMPTS)]
    return {place.parent.name: int(read_plain(place, MOST_SEED_BYTES)) for place in places if is_plain(place)}


def number_record(results: Path, run_directory: Path) -> RunRecord:
    """Write into a new run's record which attempt it is, and what later ones are compared with. Returns the record."""
    record = note_captures(run_directory, read_record(run_directory))
    earlier = reasons(results, record.run_id)
    if earlier:
        numbers = {"attempt": 1 + len(earlier), "earlier_attempts": earlier}
        record = record.model_copy(update=numbers)
        write_record(record, run_directory)
    return record


def _numbers(of_run: Path) -> list[int]:
    return [int(path.name) for path in directories_in(of_run) if path.name.isdecimal()]


def _reason(directory: Path) -> str:
    try:
        record = read_record(directory)
    except (ResultsConflict, OSError):
        return f"{ReasonCode.DAMAGED}: {RECORD_NAME} was missing or damaged"
    why = record.reason or (disturbance(record.machine_delay) if record.machine_delay else "")
    ended = f"{record.outcome} ({reason_code(record)})" if reason_code(record) else str(record.outcome)
    return f"{ended}: {why}" if why else ended
