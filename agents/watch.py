"""Notes when a file was last changed, on the host that has it: `python -I -S watch.py DIRECTORY NAME [SHA256 BYTES]`.

A file's own time will not do: Linux stamps it with the clock of its last tick, 10 ms or more ago (inode(7),
"multigrain timestamps"). This is woken by every change (inotify(7)) and reads the clock itself. A file that is
moved into place has changed then. What is written through a memory map wakes nobody. Runs until SIGTERM.
"""

import ctypes
import hashlib
import os
import select
import signal
import stat
import struct
import sys
import threading
import time
from pathlib import Path

IN_MODIFY, IN_CLOSE_WRITE, IN_MOVED_TO, IN_CREATE = 0x002, 0x008, 0x080, 0x100
EVENT = struct.Struct("iIII")
QUIET_S = 0.05
"""A file that has not changed for so long is compared with the hash, if there is one."""


class _Ended(BaseException):
    """SIGTERM came. Not an Exception: nobody is to catch it but who waits for it."""


def main(directory: str, name: str, sha256: str = "", size_bytes: str = "0") -> int:
    """Print "watching", then "whole" once the file has the size and the hash, and at the end "last change NANOSECONDS"
    since 1970, or "no change"."""
    libc = ctypes.CDLL(None, use_errno=True)
    changes = libc.inotify_init()
    wanted = IN_MODIFY | IN_MOVED_TO | IN_CREATE | IN_CLOSE_WRITE
    if libc.inotify_add_watch(changes, os.fsencode(directory), wanted) < 0:
        print(f"cannot watch {directory}: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        return 1
    comparison = Comparison(Path(directory, name), sha256, int(size_bytes))
    last_ns: int | None = None
    try:
        signal.signal(signal.SIGTERM, _end)
        print("watching", flush=True)
        while True:
            ready, _, _ = select.select([changes, comparison], [], [], comparison.due_in_s)
            if changes in ready:
                events = _masks(os.read(changes, 65536), os.fsencode(name))
                now_ns = time.time_ns()
                if any(mask & ~IN_CLOSE_WRITE for mask in events):
                    last_ns = now_ns
                if events:
                    comparison.put_off()
            elif comparison in ready:
                comparison.end()
            if comparison.due_in_s == 0:
                comparison.begin()
    except _Ended:
        print("no change" if last_ns is None else f"last change {last_ns}", flush=True)
    return 0


class Comparison:
    """Of the file with the hash, beside the watch, which would come late to a change; readable once it has an answer.

    It prints "whole" when they are the same, and is over then. Only a regular file of the right size is read: a
    build may have made a FIFO, which is never ready, or a sparse file without end.
    """

    def __init__(self, path: Path, sha256: str, size_bytes: int) -> None:
        self._path = path
        self._sha256 = sha256
        self._size_bytes = size_bytes
        self._answers, self._answer = os.pipe()
        self._goes_on = False
        self._due_s: float | None = None

    @property
    def due_in_s(self) -> float | None:
        """In how long it is to begin; None: not at all for now."""
        if self._due_s is None or self._goes_on or not self._sha256:
            return None
        return max(0.0, self._due_s - time.monotonic())

    def put_off(self) -> None:
        """The file has changed: it is compared once it has been quiet."""
        self._due_s = time.monotonic() + QUIET_S

    def fileno(self) -> int:
        return self._answers

    def begin(self) -> None:
        self._goes_on, self._due_s = True, None
        threading.Thread(target=self._compare, daemon=True).start()

    def end(self) -> None:
        """Take the answer."""
        self._goes_on = False
        if os.read(self._answers, 1) == b"y":
            self._sha256 = ""
            print("whole", flush=True)

    def _compare(self) -> None:
        try:
            with open(self._path, "rb", opener=_open_at_once) as file:
                is_comparable = _is_regular(file.fileno(), self._size_bytes)
                same = is_comparable and hashlib.file_digest(file, "sha256").hexdigest() == self._sha256
        except OSError:
            same = False
        os.write(self._answer, b"y" if same else b"n")


def _open_at_once(path: str, flags: int) -> int:
    """Follow no link, and wait for nobody: a FIFO opens without a writer."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _is_regular(file: int, size_bytes: int) -> bool:
    status = os.fstat(file)
    return stat.S_ISREG(status.st_mode) and status.st_size == size_bytes


def _end(_number: int, _frame: object) -> None:
    raise _Ended


def _masks(events: bytes, name: bytes) -> list[int]:
    """What happened to the file, in order: the masks of those events that are of it."""
    found = []
    place = 0
    while place < len(events):
        _, mask, _, length = EVENT.unpack_from(events, place)
        if events[place + EVENT.size : place + EVENT.size + length].rstrip(b"\0") == name:
            found.append(mask)
        place += EVENT.size + length
    return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
