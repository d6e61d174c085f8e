"""The state of the received file, read without opening it: an implementation may have put anything in its place.

Opening a FIFO waits for a writer, a symbolic link leads to a file that never crossed the channel, and a sparse file
of a terabyte takes an hour to hash.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass

from orchestrator.hosts.host import Host

_FORMAT = "--printf=%f %d %s %b %B\\n"
KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


@dataclass(frozen=True)
class ReceivedFile:
    """Size and kind by lstat(2). A file with a `fault`, in words, must not be opened."""

    size_bytes: int
    fault: str = ""


def inspect_received(host: Host, path: str, run_dir: str, most_bytes: int) -> ReceivedFile | None:
    """The file at `path`, below a run directory that holds `most_bytes`; None if there is none."""
    status = host.run(["stat", _FORMAT, "--", run_dir, path])
    if status.exit_status != 0:
        return None
    directory, file = (line.split() for line in status.stdout.decode().splitlines())
    size_bytes, on_disk_bytes = int(file[2]), int(file[3]) * int(file[4])
    is_inside = file[1] == directory[1]
    return ReceivedFile(size_bytes, _fault(int(file[0], 16), is_inside, size_bytes, on_disk_bytes, most_bytes))


def _fault(mode: int, is_inside: bool, size_bytes: int, on_disk_bytes: int, most_bytes: int) -> str:
    kind = next((name for is_kind, name in KINDS if is_kind(mode)), None)
    if kind is not None:
        return f"is {kind}, not a regular file"
    if not is_inside:
        return "is not in the run directory: one of the directories above it is a symbolic link"
    if size_bytes > max(most_bytes, on_disk_bytes):
        return (
            f"is a sparse file of {size_bytes} bytes, of which {on_disk_bytes} are stored; "
            f"its run directory holds {most_bytes}"
        )
    return ""
