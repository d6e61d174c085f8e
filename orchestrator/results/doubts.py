"""Why a run is suspect: what its record states, and what its captures show."""

from __future__ import annotations

from pathlib import Path

from owlt.captures.accounting.derived_files import SUMMARY
from owlt.captures.files.plain_files import read_json
from owlt.orchestrator.results.record import RunRecord


def doubts_of(record: RunRecord, directory: Path) -> tuple[str, ...]:
    """Why the run in a run directory is suspect; () if it is not."""
    return together(record, doubts_in(directory / SUMMARY))


def together(record: RunRecord, of_captures: tuple[str, ...]) -> tuple[str, ...]:
    """The reasons in a record and those in a summary, each once."""
    return tuple(dict.fromkeys((*record.suspect, *of_captures)))


def doubts_in(summary: Path) -> tuple[str, ...]:
    """The reasons in a summary of any version; () if there is none that can be read.

    To validate all of a summary would take a hundred times as long.
    """
    try:
        reasons = read_json(summary)["suspect"]
    except (OSError, ValueError, LookupError, TypeError):
        return ()
    return tuple(map(str, reasons)) if isinstance(reasons, list) else ()
