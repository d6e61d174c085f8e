"""What is kept of attempts at a run that are repeated: `attempts/RUN/N/` in the results directory.

The record and the logs of an attempt stay, its captures do not: they show a fault of the rig, not the channel.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.disturbance import disturbance
from orchestrator.errors import ResultsConflict
from orchestrator.record import RECORD_NAME, RunRecord, read_record, write_record

DIRECTORY_NAME = "attempts"


def set_aside(results: Path, run_directory: Path) -> Path:
    """Move a run's directory to its earlier attempts, without its captures. Returns where it is now."""
    of_run = results / DIRECTORY_NAME / run_directory.name
    of_run.mkdir(parents=True, exist_ok=True)
    for capture in run_directory.glob("*.pcap"):
        capture.unlink()
    return run_directory.rename(of_run / str(1 + max(_numbers(of_run), default=0)))


def reasons(results: Path, run_id: str) -> list[str]:
    """Why each earlier attempt at a run was repeated, oldest first."""
    of_run = results / DIRECTORY_NAME / run_id
    return [_reason(of_run / str(number)) for number in sorted(_numbers(of_run))] if of_run.is_dir() else []


def number_record(results: Path, run_directory: Path, alone: bool) -> RunRecord:
    """Write into a new run's record which attempt it is, and whether it had a guest of its own. Returns the record."""
    record = read_record(run_directory)
    earlier = reasons(results, record.run_id)
    if earlier or alone:
        numbers = {"attempt": 1 + len(earlier), "earlier_attempts": earlier, "alone": alone}
        record = record.model_copy(update=numbers)
        write_record(record, run_directory)
    return record


def _numbers(of_run: Path) -> list[int]:
    return [int(path.name) for path in of_run.iterdir() if path.name.isdecimal()]


def _reason(directory: Path) -> str:
    try:
        record = read_record(directory)
    except (ResultsConflict, OSError):
        return f"{RECORD_NAME} was missing or damaged"
    why = record.reason or (disturbance(record.withheld) if record.withheld else "")
    return f"{record.outcome}: {why}" if why else str(record.outcome)
