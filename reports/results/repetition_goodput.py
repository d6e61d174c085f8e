"""What a recorded run contributes to the decision on adaptive repetitions: its goodput, if that is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from owlt.captures.accounting.derived_files import CAPTURES
from owlt.captures.accounting.summary import CaptureSummary
from owlt.captures.files.plain_files import is_plain
from owlt.reports.results.delivery import ABORTED, COMPLETED
from owlt.reports.results.suspicion import FAILURE_NAME


def repetition_goodput(
    directory: Path, outcome: str, summary: Callable[[], CaptureSummary | None]
) -> tuple[float | None, ...]:
    """The goodput of the run in a directory, in bit/s; None in the tuple if it has none: it did not complete, or its
    captures have no summary.

    (): the goodput is not known, because the rig aborted the run or its captures have not been analysed yet.
    """
    if outcome == ABORTED:
        return ()
    if outcome != COMPLETED:
        return (None,)
    known = summary()
    if known is not None:
        return (known.goodput_bps,)
    return () if _is_analysis_awaited(directory) else (None,)


def _is_analysis_awaited(directory: Path) -> bool:
    return not (directory / FAILURE_NAME).exists() and all(is_plain(directory / name) for name in CAPTURES)
