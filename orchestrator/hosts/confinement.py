"""Runs a program in its own PID, IPC and mount namespaces (unshare(1)), with limited resources and privileges.

When the program ends, the namespace's first process, a shell, ends, and the kernel kills what is left in it: a daemon
cannot survive. Shared memory and semaphores are private. The program is root without the capabilities that have an
effect outside its run: it cannot mount, set the clock, reboot, load modules or change its host's network.

It writes to its run directory: a file system of its own, which also holds its /tmp, /var/tmp and /dev/shm. Beside the
directory lie `.room`, where its file system is mounted, and `.mounts`, a file like fstab(5) with what a confined
program mounts. `MAKE_RUN_DIRECTORY` and `REMOVE_RUN_DIRECTORY` are scripts for the host's shell; `make_run_directory`
and `remove_run_directory` do the same in the mount namespace of the caller.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from owlt.agents.contract.side import SIGNALS
from owlt.orchestrator.hosts.mount_namespace import mount, unmount
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
"""A guest on the exact clock starts a program at a multiple of this time (template-7.3.patch): so the duration of its
earlier work makes no difference."""
MEMORY_FIRST = 1000
"""The oom_score_adj of a confined program: the kernel ends the largest of these first when memory runs out."""
PAGE_BYTES = 4096
SHARED_MEMORY_BYTES = 128_000_000
"""System V shared memory of a program (kernel.shmall of its IPC namespace) in addition to the size of its room. A
program with a heap in shared memory needs it even for a small file. Only the used part takes memory."""
WITHOUT_A_RUN_BYTES = 16_000_000
"""Size of /tmp and /dev/shm of a program outside of a run."""

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


@dataclass(frozen=True)
class Confinement:
    """How a third-party program runs on a host: where it may write, with which variables in its environment, and with
    which capabilities in addition to CAPABILITIES.
    """

    room: Room
    environment: Mapping[str, str] = field(default_factory=dict)
    capabilities: Sequence[str] = ()


def without_a_run(base: str) -> Confinement:
    """How a program runs on a host outside of a run, such as one that prints a version."""
    return Confinement(Room(base, ALONE, WITHOUT_A_RUN_BYTES))


def confined(command: Sequence[str], confinement: Confinement) -> list[str]:
    """The command that runs `command` in its own namespaces. A signal to its process group reaches only the program.

    Exit status 125: the host cannot confine it. 126: there is no such
    program. 128 + n: signal n ended it.
    """
    ours = ["env", f"--ignore-signal={IGNORED}"]
    unshare = ["unshare", "--pid", "--ipc", "--mount", "--fork", "--kill-child=KILL", "--mount-proc"]
    settings = [f"{name}={value}" for name, value in confinement.environment.items()]
    room = confinement.room
    script = ["sh", "-c", _SCRIPT, "sh", room.base, room.mounts, str((room.bytes + SHARED_MEMORY_BYTES) // PAGE_BYTES)]
    kept = ",".join(f"+{name.lower()}" for name in (*CAPABILITIES, *confinement.capabilities))
    privileges = ["setpriv", f"--bounding-set=-all,{kept}", "--inh-caps=-all"]
    program = ["env", f"--default-signal={IGNORED}", "HOME=/tmp", *settings, "/bin/sh", "-c", _START, "sh", *command]
    return [*ours, *unshare, *script, *privileges, *program]


def left_running(output: str) -> list[str]:
    """The commands that a confined program left running when it ended, from the text of its errors."""
    return [printable(command.strip()) for command in re.findall(rf"^{re.escape(LEFT)}(.*)$", output, re.MULTILINE)]


RUN_LABEL = "owlt-run"
"""Source of the file system in the table of mounts."""
_BINDS = "\n".join(
    f"{{path}}.room/{name} {place} none bind 0 0"
    for name, place in (("tmp", "/tmp"), ("tmp", "/var/tmp"), ("shm", "/dev/shm"))
)

MAKE_RUN_DIRECTORY = f"""set -e
mkdir -p "$1" "$1.room"
mount -t tmpfs -o "size=$2,mode=755,nosuid,nodev" {RUN_LABEL} "$1.room"
mkdir -m 755 "$1.room/run"
mkdir -m 1777 "$1.room/tmp" "$1.room/shm"
mount --bind "$1.room/run" "$1"
cat {FIRST} - {LAST} >"$1.mounts" <<END
{_BINDS.format(path="$1")}
END
"""
"""Makes the run directory $1, which holds $2 bytes."""
REMOVE_RUN_DIRECTORY = 'umount -l "$1" "$1.room"; rm -rf "$1" "$1.room" "$1.mounts"'


def make_run_directory(path: str, size_bytes: int) -> None:
    """Make a run directory that holds so many bytes. Raises OSError."""
    room = Path(f"{path}.room")
    for directory in (Path(path), room):
        directory.mkdir(parents=True, exist_ok=True)
    mount(RUN_LABEL, str(room), "tmpfs", f"size={size_bytes},mode=755,nosuid,nodev")
    for name, mode in (("run", 0o755), ("tmp", 0o1777), ("shm", 0o1777)):
        (room / name).mkdir()
        (room / name).chmod(mode)
    mount(str(room / "run"), path, "", "bind")
    first, last = (Path(name).read_text() for name in (FIRST, LAST))
    Path(f"{path}.mounts").write_text(f"{first}{_BINDS.format(path=path)}\n{last}")


def remove_run_directory(path: str) -> None:
    """Remove what there is of a run directory."""
    for mounted in (path, f"{path}.room"):
        with suppress(OSError):
            unmount(mounted)
        shutil.rmtree(mounted, ignore_errors=True)
    Path(f"{path}.mounts").unlink(missing_ok=True)
