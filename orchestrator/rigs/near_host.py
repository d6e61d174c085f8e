"""A host of a namespace rig: over SSH, except for what this machine can do to its files and processes directly."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path, PurePosixPath

from orchestrator.hosts.host import COMMAND_LIMIT_S, RUNS
from orchestrator.hosts.ssh_host import Login, SshHost

COPIED_BYTES = 1 << 20
WRITING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


class NearHost(SshHost):
    """A host on the kernel that this runs on.

    Files of its `base` are read and written in `directory`, which is the same directory as this machine sees it, and
    signals go to processes directly: SSH would be most of the cost of a run with a large file.
    """

    def __init__(self, login: Login, base: str, directory: Path) -> None:
        """Raises HostError as SshHost does."""
        super().__init__(login, base)
        self._directory = directory

    def write_file(self, path: str, content: bytes) -> None:
        here = self._here(path)
        if here is None:
            super().write_file(path, content)
        else:
            with os.fdopen(open_below(self._directory, here, WRITING), "wb") as file:
                file.write(content)

    def fetch_file(self, path: str, target: Path) -> None:
        here = self._here(path)
        if here is None:
            super().fetch_file(path, target)
        else:
            with os.fdopen(open_below(self._directory, here, os.O_RDONLY), "rb") as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy, COPIED_BYTES)

    def sha256(self, path: str, deadline_s: float = COMMAND_LIMIT_S) -> str | None:
        here = self._here(path)
        if here is None:
            return super().sha256(path, deadline_s)
        try:
            with os.fdopen(open_below(self._directory, here, os.O_RDONLY), "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return None

    def _signal_group(self, name: str, group: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.Signals[f"SIG{name}"])

    def _here(self, path: str) -> PurePosixPath | None:
        return place_here(path, self.base)


def place_here(path: str, base: str) -> PurePosixPath | None:
    """A host's file, relative to the host's `base`, if this machine sees it in the same place.

    None for a file elsewhere, and for one below `runs`, where the host has file systems of its own.
    """
    inside = PurePosixPath(path)
    if ".." in inside.parts or not inside.is_relative_to(base):
        return None
    relative = inside.relative_to(base)
    return None if relative.parts[:1] in ((), (RUNS,)) else relative


def open_below(directory: Path, relative: PurePosixPath, flags: int) -> int:
    """Open a file below a directory; return its descriptor. Raises OSError.

    No symbolic link below the directory is followed: programs on the host may have made it.
    """
    *parents, name = relative.parts
    place = os.open(directory, os.O_DIRECTORY)
    try:
        for parent in parents:
            inner = os.open(parent, os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
            os.close(place)
            place = inner
        # a FIFO would block
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644, dir_fd=place)
    finally:
        os.close(place)
