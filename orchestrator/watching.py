"""When the receiver's file became whole: noted on the receiver, by `agents/watch.py`, at its last change."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

from orchestrator.findings import Ended
from orchestrator.host import Program
from orchestrator.launching import READY_S, last_words
from orchestrator.record import Outcome
from orchestrator.rigs.rig import Rig


def start_watch(rig: Rig, path: str, directory: Path, name: str, undo: ExitStack) -> Program:
    """Note on the receiver when its file changes last."""
    command = [rig.python, "-I", "-S", rig.watch, path, name]
    watch = rig.receiver.host.start(command, path, directory / "watch")
    undo.callback(watch.stop)
    if not watch.wait_for_line("^watching$", READY_S):
        raise Ended(Outcome.ABORTED, f"the receiver's file cannot be watched{last_words(watch)}")
    return watch


def last_change_ns(watch: Program) -> int | None:
    """When the file changed last, in ns since 1970 of the receiver's clock; None when it was not seen to.

    Ends the watch.
    """
    watch.stop()
    noted = re.search(r"^last change (\d+)$", watch.output(), re.MULTILINE)
    return int(noted[1]) if noted else None
