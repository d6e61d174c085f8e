"""The time of delivery: the last change of the receiver's file, noted on the receiver by `agents/probes/watch.py`."""

from __future__ import annotations

import re
import threading
from contextlib import ExitStack
from pathlib import Path, PurePath

from owlt.orchestrator.hosts.program import Program
from owlt.orchestrator.rigs.rig import Rig
from owlt.orchestrator.run.result import Ended
from owlt.results.record import Outcome, ReasonCode

WATCHING_S = 30.0
COMPLETE = "^delivered$"
"""The line that the watch prints once the file has the expected size and hash."""


def start_watch(
    rig: Rig,
    received: str,
    content: tuple[str, int] | None,
    directory: Path,
    news: threading.Condition,
    undo: ExitStack,
) -> Program:
    """Start to watch the receiver's file; the watch prints once it has `content`: a SHA-256 and a size in bytes."""
    place = PurePath(received)
    awaited = [str(each) for each in content or ()]
    command = [rig.python, "-I", "-S", rig.watch, str(place.parent), place.name, *awaited]
    watch = rig.receiver.host.start(command, str(place.parent), directory / "watch", news=news)
    undo.callback(watch.stop)
    if not watch.wait_for_line("^watching$", WATCHING_S):
        raise Ended(Outcome.ABORTED, ReasonCode.HOST, f"the receiver's file cannot be watched{watch.last_words}")
    return watch


def last_change_ns(watch: Program, clock_offset_ns: int = 0) -> int | None:
    """The time of the file's last change, in ns since 1970; None if no change was noted.

    `clock_offset_ns`: how far the receiver's clock is ahead of the emulator's, whose clock the captures have.

    Ends the watch.
    """
    watch.stop()
    match = re.search(r"^last change (\d+)$", watch.output(), re.MULTILINE)
    return int(match[1]) - clock_offset_ns if match else None
