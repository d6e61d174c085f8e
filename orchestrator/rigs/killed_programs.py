"""Programs of a run that were killed: by the rig's kernel because memory ran out, or by the guest's warden."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from owlt.orchestrator.hosts.confinement import MEMORY_FIRST
from owlt.orchestrator.hosts.printable import printable
from owlt.orchestrator.rigs import warden

KERNEL_LOG = "/dev/kmsg"
RECORD_BYTES = 8192
_KILLED = re.compile(rf"Killed process \d+ \((.*)\) .*\boom_score_adj:{MEMORY_FIRST}$", re.MULTILINE)


class KilledPrograms:
    """The programs that were killed since the last `take`, a sentence each."""

    def __init__(self, note: str = warden.NOTE) -> None:
        """Begin with what the kernel logs from now on. If its log cannot be read, memory is never named.

        `note` is where the guest's warden writes.
        """
        self._note = note
        self._log: int | None = None
        with suppress(OSError):
            self._log = os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._log, 0, os.SEEK_END)

    def take(self) -> list[str]:
        """Return the sentences, and forget them."""
        return [printable(each) for each in (warden.take_note(self._note), for_memory(self._logged())) if each]

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
    """The implementation's programs that the kernel ended for memory, from its log, as a sentence; "" if none."""
    killed = _KILLED.findall(log)
    return f"the kernel killed {', '.join(killed)} because memory ran out" if killed else ""
