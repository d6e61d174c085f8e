"""Which process owns the local rig: it holds a lock for as long as it lives, and its number is in the locked file.

The lock ends with the process, however that ends; the number stays if it was killed. This distinguishes
a rig that a killed process left from one that is in use, and from namespaces of the same names that owlt did not make.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

FILE = Path("/run/owlt-rig")
TAKING_DOWN_S = 10.0
"""How long an owner may take to take its rig down, after the process that started it was killed."""
PERIOD_S = 0.05


class RigInUse(Exception):
    """A living process owns the rig."""


class Ownership:
    """The locked file."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    @property
    def is_abandoned(self) -> bool:
        """Whether the latest owner was killed before its rig was taken down."""
        self._file.seek(0)
        return bool(self._file.read())

    def begin(self) -> None:
        """Note that this process raises its rig."""
        self.end()
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def end(self) -> None:
        """Note that no rig stands."""
        self._file.seek(0)
        self._file.truncate()


@contextmanager
def owned(path: Path = FILE, limit_s: float = TAKING_DOWN_S) -> Iterator[Ownership]:
    """Lock the file. Raises RigInUse if a living process has locked it for `limit_s`."""
    with path.open("a+") as file:
        end_s = time.monotonic() + limit_s
        while not _try(file):
            if time.monotonic() > end_s:
                raise RigInUse
            time.sleep(PERIOD_S)
        yield Ownership(file)


def _try(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
