"""Files that an implementation left on a host: the received file, its comparison with the sent one, logs kept from
failed runs, and all others that it did not remove.

The state of the received file is read without opening it, as an implementation may have put anything in its place:
opening a FIFO waits for a writer, a symbolic link leads to a file that never crossed the channel, and a sparse file of
a terabyte takes an hour to hash.

A receiver that allocates the file before its data arrives leaves zeros where data is missing: such a gap is a run of at
least SHORTEST_GAP_BYTES zeros, or of any length at the end of the file. The test files are random: they have such a run
with a probability below 2^-100, so a byte that was damaged to zero is not taken for a gap.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from owlt.orchestrator.hosts.host import FileStatus, Host
from owlt.orchestrator.hosts.printable import printable
from owlt.results.files import KEPT_NAME

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


SHORTEST_GAP_BYTES = 16
_ZEROS = re.compile(rb"\x00{%d,}|\x00+\Z" % SHORTEST_GAP_BYTES)


@dataclass(frozen=True)
class Comparison:
    """A received file compared with the sent one. Positions count from 0."""

    size_bytes: int
    sent_bytes: int
    present_bytes: int
    """Number of bytes that are in their place as they were sent."""
    first_gap: int | None = None
    """Position of the first missing byte, in a gap or behind the end; None if no byte is missing."""
    last_present: int | None = None
    """Position of the last byte that is present."""
    first_wrong: int | None = None
    """Position of the first byte outside gaps that differs from the sent one; None if there is none."""

    @property
    def is_complete(self) -> bool:
        """Whether it is equal to the sent file."""
        return self.first_wrong is None and self.first_gap is None

    @property
    def is_part(self) -> bool:
        """Whether a part of the file is present, a part is missing, and nothing else is there."""
        return self.first_wrong is None and self.first_gap is not None and self.present_bytes > 0

    @property
    def text(self) -> str:
        """What the receiver has, in words that complete a sentence."""
        if self.first_wrong is not None:
            return (
                f"the received file is not the one that was sent: it has {self.size_bytes:,} bytes of "
                f"{self.sent_bytes:,}, and the first wrong one is at {self.first_wrong:,}"
            )
        if self.first_gap is None or self.last_present is None:
            return f"the receiver has {'all' if self.first_gap is None else 'none'} of {self.sent_bytes:,} bytes"
        if self.last_present < self.first_gap:
            zeros = "; zeros follow" if self.size_bytes > self.first_gap else ""
            return f"the receiver has the first {self.present_bytes:,} of {self.sent_bytes:,} bytes{zeros}"
        return (
            f"the receiver has {self.present_bytes:,} of {self.sent_bytes:,} bytes; "
            f"the first that is missing is at {self.first_gap:,}"
        )


def compare(received: bytes, sent: bytes, size_bytes: int) -> Comparison:
    """Compare a received file of `size_bytes` with the sent one; `received` has at most as many bytes as were sent."""
    present, last_present, first_gap, first_wrong = 0, None, None, None
    for start, end, is_gap in _pieces(received):
        if received[start:end] == sent[start:end]:
            present, last_present = present + end - start, end - 1
        elif is_gap:
            before, after = _zeros_around(sent[start:end])
            after = after if end < len(received) else 0
            present += before + after
            first_gap = start + before if first_gap is None else first_gap
            last_present = end - 1 if after else start + before - 1 if before else last_present
        else:
            first_wrong = start + _first_difference(received[start:end], sent[start:end])
            break
    if size_bytes > len(sent):  # another file, whose zeros are no gaps
        first_wrong = min(place for place in (first_wrong, first_gap, len(sent)) if place is not None)
    if first_gap is None and size_bytes < len(sent):
        first_gap = size_bytes
    return Comparison(size_bytes, len(sent), present, first_gap, last_present, first_wrong)


def _pieces(content: bytes) -> list[tuple[int, int, bool]]:
    """The content, split at its runs of zeros: start, end, whether it is such a run."""
    pieces, place = [], 0
    for zeros in _ZEROS.finditer(content):
        pieces += [(place, zeros.start(), False)] if zeros.start() > place else []
        pieces.append((zeros.start(), zeros.end(), True))
        place = zeros.end()
    return pieces + ([(place, len(content), False)] if place < len(content) else [])


def _zeros_around(sent: bytes) -> tuple[int, int]:
    """Numbers of zeros that were sent before and behind a gap, where they look like a part of it."""
    return len(sent) - len(sent.lstrip(b"\x00")), len(sent) - len(sent.rstrip(b"\x00"))


def _first_difference(one: bytes, other: bytes) -> int:
    """Position of the first difference between two pieces of equal length, found by bisection."""
    low, high = 0, len(one)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle)
    return low


KEPT_BYTES = 1_000_000
"""Number of bytes that are kept of each file, from its end: logs end with what went wrong."""


def keep_files(names: Iterable[str], host: Host, run_dir: str, directory: Path) -> None:
    """Copy the ends of files of a host's run directory, if they exist, to `kept/ROLE/` in the run's results directory.

    Only regular files below the run directory are copied; links are not followed.
    """
    for name in names:
        path = str(PurePosixPath(run_dir, name))
        if not _is_own(host, run_dir, path):
            continue
        content = host.check(["tail", "--bytes", str(KEPT_BYTES), "--", path])
        target = directory / KEPT_NAME / host.role / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _is_own(host: Host, run_dir: str, path: str) -> bool:
    """Whether a path is a regular file that is reached without a link."""
    real = host.run(["realpath", "--canonicalize-existing", "--", run_dir, path])
    if real.exit_status != 0:
        return False
    directory, file = real.stdout.decode(errors="replace").splitlines()[:2]
    is_direct = PurePosixPath(directory, PurePosixPath(path).relative_to(run_dir)) == PurePosixPath(file)
    return is_direct and host.run(["test", "-f", path]).exit_status == 0


MOST_LEFT = 20
"""Files that are named; the number of the others follows."""
_ROOMS = {"": "", ".room/tmp": "/tmp", ".room/shm": "/dev/shm"}
"""What a run directory's file system holds, by its place behind the run directory's name, and its place for a side."""


def files_left(host: Host, run_dir: str, since_ns: int, known: Iterable[str]) -> list[str]:
    """The files in the run directory, /tmp and /dev/shm of a side whose status changed after a time, in ns since 1970.

    Each with its name and size, without the `known` ones, which are named by their paths below the run directory.
    """
    places = [f"{run_dir}{suffix}" for suffix in _ROOMS]
    listed = host.files_below(*places)
    if listed is None:
        return ["more files than can be listed"]
    skipped = {f"{run_dir}/{name}" for name in known}
    left = sorted(
        f"{printable(_as_seen(file.path, run_dir))} ({file.size_bytes} B)"
        for file in listed
        if file.path not in skipped and file.changed_at_ns >= since_ns
    )
    more = len(left) - MOST_LEFT
    return left[:MOST_LEFT] + ([f"and {more} more"] if more > 0 else [])


def _as_seen(path: str, run_dir: str) -> str:
    """A path as the side has it: in its run directory, /tmp or /dev/shm. What a side has put in place of one of these
    keeps its path on the host."""
    suffix = next((suffix for suffix in reversed(_ROOMS) if path.startswith(f"{run_dir}{suffix}/")), "")
    name = path.removeprefix(f"{run_dir}{suffix}/")
    return f"{_ROOMS[suffix]}/{name}" if suffix else name
