"""The run directory of a host that runs an implementation: a file system of its own, which also holds the
implementation's /tmp, /var/tmp and /dev/shm.

Beside the directory lie `.room`, where its file system is mounted, and `.mounts`, a file like fstab(5) with what a
confined program mounts (`orchestrator.hosts.confinement`). `MAKE` and `REMOVE` are scripts for the host's shell;
`make_run_directory` and `remove_run_directory` do the same in the mount namespace of the caller.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from owlt.orchestrator.hosts.confinement import FIRST, LAST
from owlt.orchestrator.hosts.mount_namespace import mount, unmount

LABEL = "owlt-run"
"""Source of the file system in the table of mounts."""
_BINDS = "\n".join(
    f"{{path}}.room/{name} {place} none bind 0 0"
    for name, place in (("tmp", "/tmp"), ("tmp", "/var/tmp"), ("shm", "/dev/shm"))
)

MAKE = f"""set -e
mkdir -p "$1" "$1.room"
mount -t tmpfs -o "size=$2,mode=755,nosuid,nodev" {LABEL} "$1.room"
mkdir -m 755 "$1.room/run"
mkdir -m 1777 "$1.room/tmp" "$1.room/shm"
mount --bind "$1.room/run" "$1"
cat {FIRST} - {LAST} >"$1.mounts" <<END
{_BINDS.format(path="$1")}
END
"""
"""Makes the run directory $1, which holds $2 bytes."""
REMOVE = 'umount -l "$1" "$1.room"; rm -rf "$1" "$1.room" "$1.mounts"'


def make_run_directory(path: str, size_bytes: int) -> None:
    """Make a run directory that holds so many bytes. Raises OSError."""
    room = Path(f"{path}.room")
    for directory in (Path(path), room):
        directory.mkdir(parents=True, exist_ok=True)
    mount(LABEL, str(room), "tmpfs", f"size={size_bytes},mode=755,nosuid,nodev")
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
