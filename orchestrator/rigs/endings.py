"""What something other than owlt's own programs ended on a rig's kernel: its memory ran out, or the guest's warden."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from orchestrator.confinement import MEMORY_FIRST
from orchestrator.printable import printable
from orchestrator.rigs import warden

KERNEL_LOG = "/dev/kmsg"
RECORD_BYTES = 8192
_KILLED = re.compile(rf"Killed process \d+ \((.*)\) .*\boom_score_adj:{MEMORY_FIRST}$", re.MULTILINE)


class Endings:
    """What was ended since it was asked last; a sentence each."""

    def __init__(self) -> None:
        """Begin with what the kernel logs from now on. Where its log cannot be read, memory is never named."""
        self._log: int | None = None
        with suppress(OSError):
            self._log = os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._log, 0, os.SEEK_END)

    def take(self) -> list[str]:
        """The sentences, and begin anew."""
        return [printable(each) for each in (warden.take_note(), for_memory(self._logged())) if each]

    def close(self) -> None:
        """Read no more."""
        if self._log is not None:
            os.close(self._log)

    def _logged(self) -> str:
        """What the kernel has logged since the last call, a record a line (Documentation/ABI/testing/dev-kmsg)."""
        records = []
        while self._log is not None:
            try:
                records.append(os.read(self._log, RECORD_BYTES))
            except BlockingIOError:
                break
            except BrokenPipeError:  # older records were overwritten before they were read
                continue
        return b"".join(records).decode(errors="replace")


def for_memory(log: str) -> str:
    """Which programs of builds the kernel ended for memory, in words, from its log; "" if none."""
    killed = _KILLED.findall(log)
    return f"the kernel ended {', '.join(killed)} because memory ran out" if killed else ""
