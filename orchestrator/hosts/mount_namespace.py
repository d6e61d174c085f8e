"""Mount namespaces (mount_namespaces(7)): calls in the mount namespace of another process, mount(2), and commands in a
mount namespace of their own.

Python has setns(2) and unshare(2) since 3.12; it does not wrap mount(2).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

CLONE_FS = 0x00000200
CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWNET = 0x40000000
FLAGS = {"ro": 0x1, "nosuid": 0x2, "nodev": 0x4, "bind": 0x1000}
"""Those of the options used here that mount(2) takes as flags."""
MNT_DETACH = 2
UMASK = 0o022
"""The umask for files that are created in the namespaces; it replaces the caller's umask."""

_LIBC = ctypes.CDLL(None, use_errno=True)

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Namespaces:
    """A thread in the network, UTS and mount namespaces of a process; the threads of this process keep theirs.

    A process that it starts is in these namespaces, too.
    """

    def __init__(self, pid: int) -> None:
        """Raises OSError if the process does not exist, or if CAP_SYS_ADMIN is missing."""
        self._thread = ThreadPoolExecutor(1, f"namespaces-of-{pid}")
        try:
            self.call(_enter, pid)
        except OSError:
            self.close()
            raise

    def call(self, work: Callable[Given, Result], *args: Given.args, **named: Given.kwargs) -> Result:
        """Call `work` in the namespaces and return its result. Raises what `work` raises; ConnectionError after
        `close`."""
        try:
            future = self._thread.submit(work, *args, **named)
        except RuntimeError as problem:
            raise ConnectionError(f"the namespaces were left: {problem}") from problem
        return future.result()

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()


def mount(source: str, target: str, kind: str, options: str) -> None:
    """Mount a file system of a kind, or with the option `bind` a directory. Raises OSError."""
    names = options.split(",")
    flags = sum(FLAGS[name] for name in names if name in FLAGS)
    rest = ",".join(name for name in names if name not in FLAGS)
    _require(_LIBC.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), rest.encode()), target)


def fstab_field(path: str) -> str:
    """A path as a field of fstab(5)."""
    return path.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011").replace("\n", "\\012")


def unmount(target: str) -> None:
    """Unmount lazily, as `umount -l`: open files stay usable. Raises OSError."""
    _require(_LIBC.umount2(target.encode(), MNT_DETACH), target)


def show_network(namespace: int) -> None:
    """Have /sys show the interfaces of a network namespace, which the calling thread enters. Raises OSError."""
    _require(_LIBC.setns(namespace, CLONE_NEWNET), "setns")
    unmount("/sys")
    mount("owlt-sys", "/sys", "sysfs", "ro")


def _enter(pid: int) -> None:
    """Enter the namespaces of a process: a thread can do this once it shares no working directory with others."""
    _require(_LIBC.unshare(CLONE_FS), "unshare")
    os.umask(UMASK)
    for name, kind in (("net", CLONE_NEWNET), ("uts", CLONE_NEWUTS), ("mnt", CLONE_NEWNS)):
        path = Path(f"/proc/{pid}/ns/{name}")
        with path.open() as file:
            _require(_LIBC.setns(file.fileno(), kind), str(path))


def _require(status: int, name: str) -> None:
    if status != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), name)


_READ_ONLY = "command -p mount --rbind /dev /dev && command -p mount -o remount,bind,ro /dev"
_SCRIPT = f"""command -p unshare --mount /bin/sh -c '{_READ_ONLY}' >/dev/null 2>&1 || exec "$@"
exec "$(command -pv unshare)" --mount /bin/sh -c '{_READ_ONLY} && exec "$@"' sh "$@\""""


def with_own_devices(command: Sequence[str]) -> list[str]:
    """The command; for root, in a mount namespace with a read-only /dev, in which programs can still write to devices.

    Compilers, linkers and their tests write to /dev/null, and some change the mode of their output or replace it with
    another file. An ordinary user's commands cannot do this.

    The command's PATH does not need to contain the programs that are used here. If root may not mount, as in some
    containers, the command runs unchanged.
    """
    return ["/bin/sh", "-c", _SCRIPT, "sh", *command] if os.geteuid() == 0 else list(command)
