"""The state of the received file, read without opening it: an implementation may have put anything in its place.

Opening a FIFO waits for a writer, a symbolic link leads to a file that never crossed the channel, and a sparse file
of a terabyte takes an hour to hash.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass

from owlt.orchestrator.hosts.file_status import FileStatus
from owlt.orchestrator.hosts.host import Host

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
    statuses = host.statuses(run_dir, path)
    if statuses is None:
        return None
    directory, file = statuses
    return ReceivedFile(file.size_bytes, _fault(file, file.device == directory.device, most_bytes))


def _fault(file: FileStatus, is_inside: bool, most_bytes: int) -> str:
    kind = next((name for is_kind, name in KINDS if is_kind(file.mode)), None)
    if kind is not None:
        return f"is {kind}, not a regular file"
    if not is_inside:
        return "is not in the run directory: one of the directories above it is a symbolic link"
    if file.size_bytes > max(most_bytes, file.stored_bytes):
        return (
            f"is a sparse file of {file.size_bytes} bytes, of which {file.stored_bytes} are stored; "
            f"its run directory holds {most_bytes}"
        )
    return ""
