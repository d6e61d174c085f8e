"""A build's program in PID, IPC and mount namespaces of its own (unshare(1)), with bounded means and few privileges.

The program's own end ends the namespace's first process, a shell, and with that the kernel kills whatever is left in
it: a daemon cannot stay. Shared memory and semaphores are nobody else's. It is root without the capabilities that
reach beyond its run: it cannot mount, set the clock, reboot, load modules or change its host's network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.side import SIGNALS
from orchestrator.printable import printable

NO_SUCH_PROGRAM = 126
NOT_CONFINED = 125
"""The exit status where a host cannot bound a build; its last line says why. Nothing was started."""
CANNOT_CONFINE = "owlt: this host cannot confine a build"
LEFT = "owlt: left running, now ended: "
"""What stands in front of each of those commands, among the program's errors."""

IGNORED = ",".join(name for name in SIGNALS if name != "KILL")
"""The signals that end no part of this: the program gets them as if it ran alone."""

CAPABILITIES = (
    *("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap"),
    *("net_bind_service", "net_raw", "sys_chroot"),
)
"""What root may do in every build, by the names of capabilities(7): those of files and users, low ports and raw
sockets."""

MOST_PROCESSES = 1024
"""Processes and threads of one program at a time (kernel.pid_max of its PID namespace, since Linux 6.14)."""
MOST_OPEN_FILES = 4096
MEMORY_FIRST = 1000
"""The oom_score_adj of a build: when memory runs out, the kernel ends the largest of its programs before any other."""
PAGE_BYTES = 4096
WITHOUT_A_RUN_BYTES = 16_000_000
"""For /tmp and /dev/shm of a program outside of a run, such as one that prints a version."""

MOUNTS = "/dev/mounts"
"""Where a host has lines for fstab(5): what every program's namespace begins and ends with, and all of one that is in
no run."""
FIRST, LAST, ALONE = f"{MOUNTS}/first", f"{MOUNTS}/last", f"{MOUNTS}/alone"
KEPT = f"{MOUNTS}/kept"
"""The places of `LAST`, a line each: the host and its guest have them mounted already, and `mount --all` skips such."""

_START = f"""command -v "$1" >/dev/null || {{ echo "owlt: $1: there is no such program on this host" >&2
  exit {NO_SUCH_PROGRAM}; }}
exec "$@\""""
_SCRIPT = f"""exec 3>&2 2>/dev/null
fail() {{ echo "{CANNOT_CONFINE}: $1" >&3; exit {NOT_CONFINED}; }}
base=$1 mounts=$2 shared_pages=$3
shift 3
read -r _ _ release _ </proc/version
major=${{release%%.*}} minor=${{release#*.}}
if [ $((major * 1000 + ${{minor%%[!0-9]*}})) -ge 6014 ]; then
  echo {MOST_PROCESSES} >/proc/sys/kernel/pid_max || fail "its number of processes"
fi
echo $shared_pages >/proc/sys/kernel/shmall || fail "its shared memory"
echo 64 >/proc/sys/kernel/msgmni || fail "its message queues"
mount -o remount,bind,ro "$base" || fail "$base does not become read-only"
while IFS= read -r place; do while umount -l "$place"; do :; done; done <{KEPT}
mount --all --fstab "$mounts" || fail "the mounts of $mounts"
(echo {MEMORY_FIRST} >/proc/self/oom_score_adj; exec "$@" 2>&3 3>&-)
status=$?
for process in /proc/[0-9]*; do
  [ $process = /proc/1 ] && continue
  named=$(tr '\\0' ' ' <$process/cmdline)
  [ -z "$named" ] || echo "{LEFT}$named" >&3
done
exit $status"""
"""What this shell itself has to say, such as "Terminated", is not the program's and goes nowhere."""


@dataclass(frozen=True)
class Room:
    """Where a program on a host may write: what `mounts`, a file like fstab(5), gives it; so many bytes.

    `base` is the host's own directory: read-only for the program but for what is mounted in it.
    """

    base: str
    mounts: str
    bytes: int


def confined(
    command: Sequence[str],
    room: Room,
    environment: Mapping[str, str] | None = None,
    capabilities: Sequence[str] = (),
) -> list[str]:
    """The command in namespaces of its own. A signal to its process group reaches the program and not the shell.

    `capabilities` are what it has beside CAPABILITIES. Exit status 125: the host cannot confine it. 126: there is no
    such program. 128 and a number: it was ended by that signal.
    """
    ours = ["env", f"--ignore-signal={IGNORED}"]
    unshare = ["unshare", "--pid", "--ipc", "--mount", "--fork", "--kill-child=KILL", "--mount-proc"]
    settings = [f"{name}={value}" for name, value in (environment or {}).items()]
    script = ["sh", "-c", _SCRIPT, "sh", room.base, room.mounts, str(room.bytes // PAGE_BYTES)]
    # a core of one byte is none, and none is handed to the machine's core handler either (core(5))
    limits = ["prlimit", "--core=1:1", f"--nofile=1024:{MOST_OPEN_FILES}"]
    kept = ",".join(f"+{name.lower()}" for name in (*CAPABILITIES, *capabilities))
    privileges = ["setpriv", f"--bounding-set=-all,{kept}", "--inh-caps=-all"]
    program = ["env", f"--default-signal={IGNORED}", "HOME=/tmp", *settings, "/bin/sh", "-c", _START, "sh", *command]
    return [*ours, *unshare, *script, *limits, *privileges, *program]


def left_running(output: str) -> list[str]:
    """The commands of what a confined program left behind when it ended, from what it wrote to its errors."""
    return [printable(command.strip()) for command in re.findall(rf"^{re.escape(LEFT)}(.*)$", output, re.MULTILINE)]
