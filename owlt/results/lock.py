"""One `owlt run` at a time on a results directory: a lock on its file `lock`, which names the holder.

The lock is flock(2) and ends with the process, however that ends; the file stays. On a network file system it holds
between machines as far as flock does there (NFSv4 does; NFS mounted with `nolock` or `local_lock` holds on one machine
only). If the file is unlocked but names a process on another machine, this is reported: the process was killed there,
or it runs where this machine cannot see its lock.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal

from pydantic_core import from_json

from owlt.inputs.mistake import Mistake, OwltError, Place
from owlt.results.plain_files import make_directory, open_in_place, open_plain

LOCK_NAME = "lock"
MOST_LOCK_BYTES = 10_000
WAITS_S = (0.05, 0.1, 0.2)
"""The waiting times between attempts at a lock that another process holds."""


class ResultsInUse(OwltError):
    """Another `owlt run` is running in the results directory."""


@dataclass(frozen=True)
class Holder:
    """A process that holds the lock. `started` is local time with its offset from UTC."""

    host: str
    pid: int
    started: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, started {self.started}"


@dataclass(frozen=True)
class LockState:
    """Whether the lock is held, and the process that wrote its name into the file."""

    state: Literal["running", "ended", "killed", "unknown"]
    holder: Holder | None


def lock_state(results: Path) -> LockState:
    """Whether an `owlt run` is running in a results directory; changes nothing.

    A process that did not release the lock was killed, or its machine failed; on another machine, it may still be
    running (see the module's docstring).
    """
    try:
        with io.TextIOWrapper(open_plain(results / LOCK_NAME, MOST_LOCK_BYTES)) as file:
            is_held = not _try(file, fcntl.LOCK_SH)
            holder = _holder(file)
    except FileNotFoundError:
        return LockState("ended", None)
    except OSError:
        return LockState("unknown", None)
    if is_held:
        return LockState("running", holder)
    if holder is None:
        return LockState("ended", None)
    return LockState("killed" if holder.host == socket.gethostname() else "unknown", holder)


def require_free(results: Path) -> None:
    """Raise ResultsInUse where another process holds the lock of a results directory; changes nothing.

    Raises OwltError where the lock cannot be opened, such as one that root made.
    """
    try:
        with open_in_place(results / LOCK_NAME, "r+") as file:
            _lock(file, results)
    except FileNotFoundError:
        return
    except OSError as problem:
        raise OwltError(
            Mistake(
                f"cannot be opened ({problem.strerror})",
                "a file that this user may write",
                "run owlt as the user who made it, or choose another directory with --results",
                Place(str(results / LOCK_NAME)),
            )
        ) from problem


def interrupt_holder(results: Path) -> Holder:
    """Interrupt the `owlt run` in a results directory, as Ctrl-C does. Returns its process.

    Raises OwltError if there is none, or this process may not interrupt it: it is on another machine, or another
    user's. The process has to have the lock open, because others may have written the file.
    """
    found = lock_state(results)
    if found.state != "running" or found.holder is None:
        raise OwltError(Mistake("no 'owlt run' is running there", where=Place(str(results))))
    holder = found.holder
    by_hand = f"end it there: kill -INT {holder.pid}"
    if holder.host != socket.gethostname():
        raise OwltError(Mistake(f"{holder} is on another machine", fix=by_hand, where=Place(str(results))))
    try:
        lock = (results / LOCK_NAME).lstat()
        opened = [each.stat() for each in Path(f"/proc/{holder.pid}/fd").iterdir() if each.exists()]
        if not any(os.path.samestat(lock, each) for each in opened):
            raise OwltError(Mistake(f"{holder} does not hold its lock", where=Place(str(results / LOCK_NAME))))
        os.kill(holder.pid, signal.SIGINT)
    except OSError as problem:
        wrong = f"{holder} cannot be interrupted ({problem.strerror})"
        raise OwltError(Mistake(wrong, fix=by_hand, where=Place(str(results)))) from problem
    return holder


@contextmanager
def locked(results: Path) -> Iterator[Holder | None]:
    """Hold the lock of a results directory, which is created if necessary.

    Gives the holder on another machine that did not release the lock, None if there is none.
    Raises ResultsInUse when another process holds it, OwltError where the file system has no locks.
    """
    make_directory(results)
    with open_in_place(results / LOCK_NAME, "a+") as file:
        _lock(file, results)
        left = _holder(file)
        here = Holder(socket.gethostname(), os.getpid(), time.strftime("%Y-%m-%d %H:%M:%S %z"))
        _write(file, json.dumps(asdict(here)) + "\n")
        try:
            yield left if left and left.host != here.host else None
        finally:
            _write(file, "")


def _lock(file: IO[str], results: Path) -> None:
    """Lock the file. A process that reads the state of the lock holds it for less than the shortest wait."""
    try:
        for wait_s in WAITS_S:
            if _try(file, fcntl.LOCK_EX):
                return
            time.sleep(wait_s)
    except OSError as problem:
        raise OwltError(
            Mistake(
                f"cannot be locked ({problem.strerror}), so a second 'owlt run' there could not be noticed",
                fix="choose a directory on a file system that supports flock, with --results",
                where=Place(str(results)),
            )
        ) from problem
    holder = _holder(file)
    raise ResultsInUse(
        f"{results}: in use by another 'owlt run' ({holder or 'its lock names no process'}); wait until it has "
        "ended, or interrupt it, or choose another directory with --results"
    )


def _try(file: IO[str], kind: int) -> bool:
    """Lock a file, unless another process holds it. Raises OSError where the file system has no locks."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        return False
    return True


def _holder(file: IO[str]) -> Holder | None:
    file.seek(0)
    try:
        written = from_json(file.read(MOST_LOCK_BYTES))
        return Holder(str(written["host"]), int(written["pid"]), str(written["started"]))
    except (ValueError, LookupError, TypeError):
        return None


def _write(file: IO[str], text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()
