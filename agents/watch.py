"""Notes when a file was last changed, on the host that has it: `python -I -S watch.py DIRECTORY NAME` until SIGTERM.

A file's own time will not do: Linux stamps it with the clock of its last tick, 10 ms or more ago (inode(7),
"multigrain timestamps"). This is woken by every change (inotify(7)) and reads the clock itself. A file that is
moved into place has changed then.
"""

import ctypes
import os
import signal
import struct
import sys
import time

IN_MODIFY, IN_MOVED_TO, IN_CREATE = 0x002, 0x080, 0x100
EVENT = struct.Struct("iIII")


def main(directory: str, name: str) -> int:
    """Print "watching", and at the end "last change NANOSECONDS" since 1970, or "no change"."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init()
    if libc.inotify_add_watch(watch, os.fsencode(directory), IN_MODIFY | IN_MOVED_TO | IN_CREATE) < 0:
        print(f"cannot watch {directory}: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, _end)
    print("watching", flush=True)
    last_ns: int | None = None
    try:
        while True:
            events = os.read(watch, 65536)
            now_ns = time.time_ns()
            if _touches(events, os.fsencode(name)):
                last_ns = now_ns
    except InterruptedError:
        print("no change" if last_ns is None else f"last change {last_ns}", flush=True)
    return 0


def _end(_number: int, _frame: object) -> None:
    raise InterruptedError


def _touches(events: bytes, name: bytes) -> bool:
    """Whether one of the events is of the file."""
    place = 0
    while place < len(events):
        _, _, _, length = EVENT.unpack_from(events, place)
        of = events[place + EVENT.size : place + EVENT.size + length].rstrip(b"\0")
        if of == name:
            return True
        place += EVENT.size + length
    return False


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
