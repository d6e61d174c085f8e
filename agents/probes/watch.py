"""Notes when a file was last changed, on the host that has it: `python -I -S watch.py DIRECTORY NAME [SHA256 BYTES]`.

The file's own time is not precise: Linux stamps it with the clock of its last tick, 10 ms or more ago (inode(7),
"multigrain timestamps"). This program wakes on every change (inotify(7)) and reads the clock itself. Moving a file
into place is a change; changes of other files of the directory do not wake it. Writes through a memory map are not
noticed. Runs until SIGTERM.

It is started in every run, so it imports little; what only a comparison needs is imported only for one.
"""

import ctypes
import os
import signal
import stat
import struct
import sys
import time

IN_MODIFY, IN_CLOSE_WRITE, IN_MOVED_FROM, IN_MOVED_TO = 0x002, 0x008, 0x040, 0x080
IN_CREATE, IN_DELETE, IN_DONT_FOLLOW = 0x100, 0x200, 0x2000000
OF_DIRECTORY = IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE
OF_FILE = IN_MODIFY | IN_CLOSE_WRITE
CHANGES = IN_MODIFY | IN_MOVED_TO | IN_CREATE
EVENT = struct.Struct("iIII")
QUIET_S = 0.05
"""A file that has not changed for this time is compared with the hash, if there is one."""


class _Ended(BaseException):
    """SIGTERM was received. Not an Exception, so that only `main` catches it."""


def main(directory: str, name: str, sha256: str = "", size_bytes: str = "0") -> int:
    """Print "watching", then "delivered" once the file has the size and the hash, and at the end "no change" or
    "last change NANOSECONDS", since 1970."""
    try:
        events = Events(directory, name)
    except OSError as error:
        print(f"cannot watch {directory}: {error.strerror}", file=sys.stderr)
        return 1
    comparison = Comparison(f"{directory}/{name}", sha256, int(size_bytes)) if sha256 else None
    last_ns: int | None = None
    try:
        signal.signal(signal.SIGTERM, _end)
        print("watching", flush=True)
        while True:
            mask = events.wait()
            if mask:
                now_ns = time.time_ns()
                if mask & CHANGES:
                    last_ns = now_ns
                if comparison is not None:
                    comparison.put_off(now_ns)
    except _Ended:
        print("no change" if last_ns is None else f"last change {last_ns}", flush=True)
    return 0


class Events:
    """What happens to one file of a directory, whether or not there is such a file. Raises OSError.

    The directory is watched for the name, and the file, once there is one, for its content: a watch of the directory
    for content would wake for every write to any of its files.
    """

    def __init__(self, directory: str, name: str) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._inotify = self._libc.inotify_init()
        self._name = os.fsencode(name)
        self._path = os.fsencode(f"{directory}/{name}")
        self._directory = self._watch(os.fsencode(directory), OF_DIRECTORY)
        if self._directory < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._file = self._watch(self._path, OF_FILE | IN_DONT_FOLLOW)

    def wait(self) -> int:
        """Sleep until something happens in the directory or to the file; the masks of the events of the file."""
        mask = 0
        for watch, event, name in parsed(os.read(self._inotify, 65536)):
            if watch == self._directory and name == self._name:
                self._follow()
                mask |= event
            elif watch == self._file:
                mask |= event & OF_FILE
        return mask

    def _follow(self) -> None:
        """Another file may have the name now. What is written before it is watched happens before `wait` ends."""
        self._libc.inotify_rm_watch(self._inotify, self._file)  # fails where the file is gone, and so its watch
        self._file = self._watch(self._path, OF_FILE | IN_DONT_FOLLOW)

    def _watch(self, path: bytes, mask: int) -> int:
        return int(self._libc.inotify_add_watch(self._inotify, path, mask))


class Comparison:
    """Compares the file with the hash once it has been quiet, in a thread so that the watch is not delayed.

    It prints "delivered" if they are equal, and ends then. Only a regular file of the right size is read: a
    program may have made a FIFO, which is never ready, or a sparse file without end.
    """

    def __init__(self, path: str, sha256: str, size_bytes: int) -> None:
        import hashlib
        import threading

        self._digest = hashlib.file_digest
        self._path = path
        self._sha256 = sha256
        self._size_bytes = size_bytes
        self._changed_ns = 0
        self._is_changed = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def put_off(self, now_ns: int) -> None:
        """The file has changed: compare it after a quiet time."""
        self._changed_ns = now_ns
        if not self._is_changed.is_set():  # to set it again would take system calls, for each write to the file
            self._is_changed.set()

    def _run(self) -> None:
        is_delivered = False
        while not is_delivered:
            self._is_changed.wait()
            self._sleep_until_quiet()
            self._is_changed.clear()  # what changes from here on may not be what is compared
            is_delivered = self._is_equal()
        print("delivered", flush=True)

    def _sleep_until_quiet(self) -> None:
        """Until `QUIET_S` after the last change, however the clock is set meanwhile."""
        changed_ns = None
        while changed_ns != self._changed_ns:
            changed_ns = self._changed_ns
            quiet_s = (time.time_ns() - changed_ns) / 1e9
            time.sleep(min(max(QUIET_S - quiet_s, 0.0), QUIET_S))

    def _is_equal(self) -> bool:
        try:
            with open(self._path, "rb", opener=_open_at_once) as file:
                is_comparable = _is_regular(file.fileno(), self._size_bytes)
                return is_comparable and self._digest(file, "sha256").hexdigest() == self._sha256
        except OSError:
            return False


def _open_at_once(path: str, flags: int) -> int:
    """Follow no link, and do not block: a FIFO opens without a writer."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _is_regular(file: int, size_bytes: int) -> bool:
    status = os.fstat(file)
    return stat.S_ISREG(status.st_mode) and status.st_size == size_bytes


def _end(_number: int, _frame: object) -> None:
    raise _Ended


def parsed(events: bytes) -> list[tuple[int, int, bytes]]:
    """Watch, mask and name of each event, in order. An event of the watched file itself has no name."""
    parts = []
    place = 0
    while place < len(events):
        watch, mask, _, length = EVENT.unpack_from(events, place)
        place += EVENT.size + length
        parts.append((watch, mask, events[place - length : place].rstrip(b"\0")))
    return parts


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
