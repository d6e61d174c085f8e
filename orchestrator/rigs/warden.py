"""Ends builds in a guest when its supervisor asks: on the clock exact a program that computes stops virtual time.

Nothing in the guest that waits for a moment is ever woken then, so a time limit does not help. The supervisor, whose
clock is the machine's, types a line at the guest's console: for how many seconds it has heard nothing. That is an
interrupt, and what waits for the line is a real-time process, which runs before all others (sched(7)).
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

NOTE = "/run/owlt-ended"
"""What was ended, and after how many seconds, in the guest."""

_LISTEN = f"""while silence_s=$(dd bs=64 count=1 2>/dev/null) && [ -n "$silence_s" ]; do
  cat /proc/[0-9]*/status 2>/dev/null | awk -F '\\t' '
    /^Name:/ {{ name = $2 }}
    /^State:/ {{ state = substr($2, 1, 1) }}
    /^NSpid:/ && NF > 2 {{ programs++; if (state == "R") running[name]++; if (NF == 3 && $3 == 1) print $2 }}
    END {{
      for (name in running) names = names (names ? ", " : "") running[name] " x " name
      if (programs) print "'"$silence_s"'", programs, names >"{NOTE}"
    }}' | xargs -r kill -KILL
done"""

SCRIPT = "chrt -f 1 sh -c {} </dev/console >/dev/null 2>&1 &".replace("{}", "'" + _LISTEN.replace("'", "'\\''") + "'")
"""Shell lines that start it in a guest."""


def ask(guest: subprocess.Popen[str], silence_s: float) -> bool:
    """Have a guest end its builds. False where it has nobody to ask, or is gone."""
    if guest.stdin is None:
        return False
    with suppress(OSError, ValueError):
        guest.stdin.write(f"{silence_s:g}\n")
        guest.stdin.flush()
        return True
    return False


def take_note() -> str:
    """What the warden of this guest has ended since the last call, in words; "" if nothing."""
    note = Path(NOTE)
    try:
        silence_s, programs, *names = note.read_bytes().decode(errors="replace").strip().split(" ", 2)
    except FileNotFoundError:
        return ""
    note.unlink()
    running = f"; running were {names[0]}" if names else ""
    return (
        f"the build computed for {silence_s} s of wall time in which no virtual time passed, "
        f"and its {programs} processes were ended{running}"
    )
