"""Programs of a run that were killed: by the rig's kernel because memory ran out, or by the guest's warden.

The warden ends an implementation's programs in a guest at the supervisor's request. On the clock exact, a program that
computes without end stops virtual time, so no timer in the guest expires and a time limit has no effect. The
supervisor, which uses the machine's clock, types a line at the guest's console: the number of seconds without an event.
This is an interrupt, and the process that waits for the line has real-time priority, so it runs before all others
(sched(7)).
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import IO

from owlt.orchestrator.hosts.confinement import MEMORY_FIRST
from owlt.orchestrator.hosts.printable import printable

WARDEN_NOTE = "/run/owlt-ended"
"""In the guest: which programs were killed, and after how many seconds."""

_WARDEN_LISTENS = f"""while silence_s=$(dd bs=64 count=1 2>/dev/null) && [ -n "$silence_s" ]; do
  cat /proc/[0-9]*/status 2>/dev/null | awk -F '\\t' '
    /^Name:/ {{ name = $2 }}
    /^State:/ {{ state = substr($2, 1, 1) }}
    /^NSpid:/ && NF > 2 {{ programs++; if (state == "R") running[name]++; if (NF == 3 && $3 == 1) print $2 }}
    END {{
      for (name in running) names = names (names ? ", " : "") running[name] " x " name
      if (programs) print "'"$silence_s"'", programs, names >"{WARDEN_NOTE}"
    }}' | xargs -r kill -KILL
done"""

WARDEN_SCRIPT = "chrt -f 1 sh -c {} </dev/console >/dev/null 2>&1 &".replace(
    "{}", "'" + _WARDEN_LISTENS.replace("'", "'\\''") + "'"
)
"""Shell lines that start it in a guest."""


def ask_warden(console: IO[str] | None, silence_s: float) -> bool:
    """Have a guest end its programs, through its console. False if it has none, or has ended."""
    if console is None:
        return False
    with suppress(OSError, ValueError):
        console.write(f"{silence_s:g}\n")
        console.flush()
        return True
    return False


def take_note(path: str = WARDEN_NOTE) -> str:
    """The programs that the warden of this guest has killed since the last call, as a sentence; "" if none."""
    note = Path(path)
    try:
        silence_s, programs, *names = note.read_bytes().decode(errors="replace").strip().split(" ", 2)
    except FileNotFoundError:
        return ""
    note.unlink()
    running = f" (running: {names[0]})" if names else ""
    return (
        f"the implementation computed for {silence_s} s of wall time during which no virtual time passed; "
        f"its {programs} processes were killed{running}"
    )


KERNEL_LOG = "/dev/kmsg"
RECORD_BYTES = 8192
_KILLED = re.compile(rf"Killed process \d+ \((.*)\) .*\boom_score_adj:{MEMORY_FIRST}$", re.MULTILINE)


class KilledPrograms:
    """The programs that were killed since the last `take`, a sentence each."""

    def __init__(self, note: str = WARDEN_NOTE) -> None:
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
        return [printable(each) for each in (take_note(self._note), for_memory(self._logged())) if each]

    def close(self) -> None:
        """Read no more."""
        if self._log is not None:
            os.close(self._log)

    def _logged(self) -> str:
        """The kernel's log since the last call, one record per line (Documentation/ABI/testing/dev-kmsg)."""
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
