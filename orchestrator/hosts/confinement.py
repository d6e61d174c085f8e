"""Runs a program in its own PID, IPC and mount namespaces (unshare(1)), with limited resources and privileges.

When the program ends, the namespace's first process, a shell, ends, and the kernel kills what is left in it: a daemon
cannot survive. Shared memory and semaphores are private. The program is root without the capabilities that have an
effect outside its run: it cannot mount, set the clock, reboot, load modules or change its host's network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from owlt.agents.contract.side import SIGNALS
from owlt.orchestrator.hosts.printable import printable

NO_SUCH_PROGRAM = 126
NOT_CONFINED = 125
"""The exit status if a host cannot confine a program; its last line has the reason. Nothing was started."""
CANNOT_CONFINE = "owlt: this host cannot confine a program"
LEFT = "owlt: left running, now ended: "
"""Prefix of each of those commands in the program's errors."""

IGNORED = ",".join(name for name in SIGNALS if name != "KILL")
"""Signals that do not end the confinement itself: the program gets them as if it ran alone."""

CAPABILITIES = (
    *("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap"),
    *("net_bind_service", "net_raw", "sys_chroot"),
)
"""Capabilities of every confined program, as in capabilities(7): files and users, low ports and raw sockets."""

MOST_PROCESSES = 1024
"""Processes and threads of one program at a time (kernel.pid_max of its PID namespace, since Linux 6.14)."""
OPEN_FILES, MOST_OPEN_FILES = 1024, 4096
START_FILE = "/proc/start"
START_STEP_NS = 10_000_000
"""A guest on the exact clock starts a program at a multiple of this time (template-7.3.patch): how long it took for
what it did before makes no difference."""
MEMORY_FIRST = 1000
"""The oom_score_adj of a confined program: the kernel ends the largest of these first when memory runs out."""
PAGE_BYTES = 4096
SHARED_MEMORY_BYTES = 128_000_000
"""System V shared memory of a program (kernel.shmall of its IPC namespace) in addition to the size of its room. A
program with a heap in shared memory needs it even for a small file. Only the used part takes memory."""
WITHOUT_A_RUN_BYTES = 16_000_000
"""Size of /tmp and /dev/shm of a program outside of a run, such as one that prints a version."""

MOUNTS = "/dev/mounts"
"""Directory of files like fstab(5): the first and the last mounts of every program's namespace, and all mounts of a
program outside of a run."""
FIRST, LAST, ALONE = f"{MOUNTS}/first", f"{MOUNTS}/last", f"{MOUNTS}/alone"
KEPT = f"{MOUNTS}/kept"
"""The places of `LAST`, a line each: the host and its guest have them mounted already, and `mount --all` skips such."""

_START = f"""command -v "$1" >/dev/null || {{ echo "owlt: $1: there is no such program on this host" >&2
  exit {NO_SUCH_PROGRAM}; }}
exec "$@\""""
_SCRIPT = f"""exec 3>&2 2>/dev/null
fail() {{ echo "{CANNOT_CONFINE}: $1" >&3; exit {NOT_CONFINED}; }}
unmount_kept() {{  # umount adds 32 to its exit status for each place where nothing is mounted any more
  set --
  while IFS= read -r place; do set -- "$@" "$place"; done <{KEPT}
  [ $# -eq 0 ] || until umount -l "$@"; [ $? -ge $((32 * ($# < 7 ? $# : 7))) ]; do :; done
}}
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
unmount_kept
mount --all --fstab "$mounts" || fail "the mounts of $mounts"
read -r core_pattern </proc/sys/kernel/core_pattern
(echo {MEMORY_FIRST} >/proc/self/oom_score_adj
  ulimit -n {MOST_OPEN_FILES} && ulimit -S -n {OPEN_FILES} || fail "its number of open files"
  case $core_pattern in
    "|"*) set -- prlimit --core=1:1 "$@" ;;  # a core handler is run even if the limit is 0 (core(5))
    *) ulimit -c 0 ;;
  esac
  [ ! -e {START_FILE} ] || echo {START_STEP_NS} >{START_FILE}
  exec "$@" 2>&3 3>&-)
status=$?
for process in /proc/[0-9]*; do
  [ $process = /proc/1 ] && continue
  named=$(tr '\\0' ' ' <$process/cmdline)
  [ -z "$named" ] || echo "{LEFT}$named" >&3
done
exit $status"""
"""The messages of this shell itself, such as "Terminated", are discarded."""


@dataclass(frozen=True)
class Room:
    """Where a program on a host may write: the file systems in `mounts`, a file like fstab(5), and their size in bytes.

    `base` is the host's own directory: read-only for the program, except for what is mounted in it.
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
    """The command that runs `command` in its own namespaces. A signal to its process group reaches only the program.

    `capabilities` are added to CAPABILITIES. Exit status 125: the host cannot confine it. 126: there is no such
    program. 128 + n: signal n ended it.
    """
    ours = ["env", f"--ignore-signal={IGNORED}"]
    unshare = ["unshare", "--pid", "--ipc", "--mount", "--fork", "--kill-child=KILL", "--mount-proc"]
    settings = [f"{name}={value}" for name, value in (environment or {}).items()]
    script = ["sh", "-c", _SCRIPT, "sh", room.base, room.mounts, str((room.bytes + SHARED_MEMORY_BYTES) // PAGE_BYTES)]
    kept = ",".join(f"+{name.lower()}" for name in (*CAPABILITIES, *capabilities))
    privileges = ["setpriv", f"--bounding-set=-all,{kept}", "--inh-caps=-all"]
    program = ["env", f"--default-signal={IGNORED}", "HOME=/tmp", *settings, "/bin/sh", "-c", _START, "sh", *command]
    return [*ours, *unshare, *script, *privileges, *program]


def left_running(output: str) -> list[str]:
    """The commands that a confined program left running when it ended, from the text of its errors."""
    return [printable(command.strip()) for command in re.findall(rf"^{re.escape(LEFT)}(.*)$", output, re.MULTILINE)]
