"""A build's program in PID, IPC and mount namespaces of its own (unshare(1)), so that all it starts ends with it.

The program's own end ends the namespace's first process, a shell, and with that the kernel kills whatever is left in
it: a daemon cannot stay. Shared memory and semaphores are nobody else's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agents.side import SIGNALS

NO_SUCH_PROGRAM = 126
LEFT = "owlt: left running, now ended: "
"""What stands in front of each of those commands, among the program's errors."""

IGNORED = ",".join(name for name in SIGNALS if name != "KILL")
"""The signals that end no part of this: the program gets them as if it ran alone."""

_START = f"""command -v "$1" >/dev/null || {{ echo "owlt: $1: there is no such program on this host" >&2
  exit {NO_SUCH_PROGRAM}; }}
exec "$@\""""
_SCRIPT = f"""exec 3>&2 2>/dev/null
mount -t tmpfs tmpfs /dev/shm
(exec "$@" 2>&3 3>&-)
status=$?
for process in /proc/[0-9]*; do
  [ $process = /proc/1 ] && continue
  named=$(tr '\\0' ' ' <$process/cmdline)
  [ -z "$named" ] || echo "{LEFT}$named" >&3
done
exit $status"""
"""What this shell itself has to say, such as "Terminated", is not the program's and goes nowhere."""


def confined(command: Sequence[str], environment: Mapping[str, str] | None = None) -> list[str]:
    """The command in namespaces of its own. A signal to its process group reaches the program and not the shell.

    Exit status 126: there is no such program. 128 and a number: it was ended by that signal.
    """
    ours = ["env", f"--ignore-signal={IGNORED}"]
    unshare = ["unshare", "--pid", "--ipc", "--mount", "--fork", "--kill-child=KILL", "--mount-proc"]
    settings = [f"{name}={value}" for name, value in (environment or {}).items()]
    program = ["env", f"--default-signal={IGNORED}", *settings, "/bin/sh", "-c", _START, "sh", *command]
    return [*ours, *unshare, "sh", "-c", _SCRIPT, "sh", *program]


def left_running(output: str) -> list[str]:
    """The commands of what a confined program left behind when it ended, from what it wrote to its errors."""
    return [command.strip() for command in re.findall(rf"^{re.escape(LEFT)}(.*)$", output, re.MULTILINE)]
