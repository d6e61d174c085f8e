"""Ends an implementation's programs in a guest at the supervisor's request.

On the clock exact, a program that computes without end stops virtual time, so no timer in the guest expires and a time
limit has no effect. The supervisor, which uses the machine's clock, types a line at the guest's console: the number of
seconds without an event. This is an interrupt, and the process that waits for the line has real-time priority, so it
runs before all others (sched(7)).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import IO

NOTE = "/run/owlt-ended"
"""In the guest: which programs were killed, and after how many seconds."""

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


def ask(console: IO[str] | None, silence_s: float) -> bool:
    """Have a guest end its programs, through its console. False if it has none, or has ended."""
    if console is None:
        return False
    with suppress(OSError, ValueError):
        console.write(f"{silence_s:g}\n")
        console.flush()
        return True
    return False


def take_note(path: str = NOTE) -> str:
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
