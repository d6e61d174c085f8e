"""A build's program in PID, IPC and mount namespaces of its own (unshare(1)), so that all it starts ends with it.

The program's own end ends the namespace's first process, a shell, and with that the kernel kills whatever is left in
it: a daemon cannot stay. Shared memory and semaphores are nobody else's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

NO_SUCH_PROGRAM = 126
_LEFT = "owlt: left running, now ended: "
_SCRIPT = f"""mount -t tmpfs tmpfs /dev/shm 2>/dev/null
command -v "$1" >/dev/null || {{ echo "owlt: $1: there is no such program on this host" >&2; exit {NO_SUCH_PROGRAM}; }}
"$@"
status=$?
for process in /proc/[0-9]*; do
  [ $process = /proc/1 ] && continue
  named=$({{ tr '\\0' ' ' <$process/cmdline; }} 2>/dev/null)
  [ -z "$named" ] || echo "{_LEFT}$named" >&2
done
exit $status"""


def confined(command: Sequence[str]) -> list[str]:
    """The command in namespaces of its own. A signal to its process group reaches the program and not the shell.

    Exit status 126: there is no such program. 128 and a number: it was ended by that signal.
    """
    unshare = ["unshare", "--pid", "--ipc", "--mount", "--fork", "--kill-child=KILL", "--mount-proc"]
    return [*unshare, "sh", "-c", _SCRIPT, "sh", *command]


def left_running(output: str) -> list[str]:
    """The commands of what a confined program left behind when it ended, from what it wrote to its errors."""
    return [command.strip() for command in re.findall(rf"^{re.escape(_LEFT)}(.*)$", output, re.MULTILINE)]
