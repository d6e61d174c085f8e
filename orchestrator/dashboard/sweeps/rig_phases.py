"""The phases of a run in the rig, from the journal: what its worker did, and for how long.

They are not those of the session, which the packets show: a rig also stages files, starts captures and fetches them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from owlt.captures.files.plain_files import open_plain
from owlt.orchestrator.status.journal import JOURNAL_NAME, entries_in
from owlt.orchestrator.workers.events import Entry, PhaseStarted, RunEnded, RunPublished, RunRepeated, RunStarted

LONGEST_LINE_BYTES = 1_000_000
LONGEST_JOURNAL_BYTES = 64_000_000
"""Of a longer journal only the end is searched."""
BEFORE, AFTER = "before the first phase", "publish"


@dataclass(frozen=True)
class RigPhase:
    """A phase, and how long it took on this machine's clock."""

    name: str
    duration_s: float


def rig_phases(results: Path, run_id: str) -> Sequence[RigPhase]:
    """The phases of the latest time that a run was performed, in their order; [] if the journal does not have them."""
    began: list[tuple[str, float]] = []
    for entry in entries_in(_lines_of(results / JOURNAL_NAME, run_id)):
        if getattr(entry.event, "run_id", "") != run_id:
            continue  # of a run whose name begins in the same way
        name = _phase_that_begins(entry)
        if name == BEFORE:
            began = []
        if name is not None:
            began.append((name, entry.at_s))
    ends_s = [at_s for _, at_s in began[1:]]
    phases = [RigPhase(name, end_s - at_s) for (name, at_s), end_s in zip(began, ends_s, strict=False)]
    return [phase for phase in phases if phase.name != BEFORE or phase.duration_s > 0]


def _phase_that_begins(entry: Entry) -> str | None:
    """The phase that begins with an entry; "": the last one has ended; None: it has nothing to do with phases."""
    match entry.event:
        case RunStarted():
            return BEFORE
        case PhaseStarted(phase=phase):
            return phase
        case RunEnded():
            return AFTER
        case RunPublished() | RunRepeated():
            return ""
    return None


def _lines_of(journal: Path, run_id: str) -> Iterator[str]:
    """The lines of a journal that contain the name of a run."""
    name = run_id.encode()
    try:
        with open_plain(journal) as file:
            file.seek(max(file.seek(0, os.SEEK_END) - LONGEST_JOURNAL_BYTES, 0))
            for line in iter(lambda: file.readline(LONGEST_LINE_BYTES), b""):
                if name in line:
                    yield line.decode(errors="replace")
    except OSError:
        return
