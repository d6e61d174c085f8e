"""When the receiver's file became whole: noted on the receiver, by `agents/watch.py`, at its last change."""

from __future__ import annotations

import re
import threading
from contextlib import ExitStack
from pathlib import Path, PurePath

from orchestrator.findings import Ended
from orchestrator.program import Program
from orchestrator.record import Outcome
from orchestrator.rigs.rig import Rig

WATCHING_S = 30.0
WHOLE = "^whole$"


def start_watch(
    rig: Rig,
    received: str,
    content: tuple[str, int] | None,
    directory: Path,
    news: threading.Condition,
    undo: ExitStack,
) -> Program:
    """Note on the receiver when its file changes last, and say once it has `content`: a SHA-256 and a size in bytes."""
    place = PurePath(received)
    awaited = [str(each) for each in content or ()]
    command = [rig.python, "-I", "-S", rig.watch, str(place.parent), place.name, *awaited]
    watch = rig.receiver.host.start(command, str(place.parent), directory / "watch", news=news)
    undo.callback(watch.stop)
    if not watch.wait_for_line("^watching$", WATCHING_S):
        raise Ended(Outcome.ABORTED, f"the receiver's file cannot be watched{watch.last_words}")
    return watch


def last_change_ns(watch: Program) -> int | None:
    """When the file changed last, in ns since 1970 of the receiver's clock; None when it was not seen to.

    Ends the watch.
    """
    watch.stop()
    noted = re.search(r"^last change (\d+)$", watch.output(), re.MULTILINE)
    return int(noted[1]) if noted else None
