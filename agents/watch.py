"""Notes when a file was last changed, on the host that has it: `python -I -S watch.py DIRECTORY NAME [SHA256]`.

A file's own time will not do: Linux stamps it with the clock of its last tick, 10 ms or more ago (inode(7),
"multigrain timestamps"). This is woken by every change (inotify(7)) and reads the clock itself. A file that is
moved into place has changed then. Runs until SIGTERM.
"""

import ctypes
import hashlib
import os
import select
import signal
import struct
import sys
import time
from pathlib import Path

IN_MODIFY, IN_CLOSE_WRITE, IN_MOVED_TO, IN_CREATE = 0x002, 0x008, 0x080, 0x100
EVENT = struct.Struct("iIII")
QUIET_S = 0.05
"""A file that has not changed for so long is compared with the hash, if there is one."""


def main(directory: str, name: str, sha256: str = "") -> int:
    """Print "watching", "whole" once the file has the hash, and at the end "last change NANOSECONDS" since 1970, or
    "no change"."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init()
    wanted = IN_MODIFY | IN_MOVED_TO | IN_CREATE | IN_CLOSE_WRITE
    if libc.inotify_add_watch(watch, os.fsencode(directory), wanted) < 0:
        print(f"cannot watch {directory}: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, _end)
    print("watching", flush=True)
    path = Path(directory, name)
    last_ns: int | None = None
    compare = False
    try:
        while True:
            if compare and not select.select([watch], [], [], QUIET_S)[0]:
                compare = False
                if _has(path, sha256):
                    sha256 = ""
                    print("whole", flush=True)
            events = _masks(os.read(watch, 65536), os.fsencode(name))
            now_ns = time.time_ns()
            if any(mask & ~IN_CLOSE_WRITE for mask in events):
                last_ns = now_ns
            compare = bool(sha256) and (compare or bool(events))
    except InterruptedError:
        print("no change" if last_ns is None else f"last change {last_ns}", flush=True)
    return 0


def _end(_number: int, _frame: object) -> None:
    raise InterruptedError


def _has(path: Path, sha256: str) -> bool:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except OSError:
        return False


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
