"""Directories and files that are replaced when their successors are complete, and not before.

Whoever is interrupted leaves the earlier ones as they were; the next to build removes what was begun.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

AT_FDCWD = -100
RENAME_EXCHANGE = 2
"""renameat2(2): both names at once, so that at no moment one is missing."""


@contextmanager
def replaced_directory(directory: Path, ours: Collection[str]) -> Iterator[Path]:
    """An empty directory beside `directory`, which takes its place at the end of the block.

    One process at a time builds; another waits for it. Entries of the earlier directory whose names are not `ours`
    are kept. When the block raises, the earlier directory stays, and what was begun is removed. Raises OSError.
    """
    with directory.with_name(f".{directory.name}.lock").open("a") as lock:
        with suppress(OSError):  # a file system without locks: builds are then the user's to keep apart
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in directory.parent.glob(f".{directory.name}.draft-*"):
            _carry_over(left, directory, ours)
            _remove(left)
        draft = Path(tempfile.mkdtemp(prefix=f".{directory.name}.draft-", dir=directory.parent))
        draft.chmod(0o777 & ~_umask())
        try:
            yield draft
            if directory.exists():
                _exchange(draft, directory)
                _carry_over(draft, directory, ours)
            else:
                draft.rename(directory)
        finally:
            _remove(draft)


@contextmanager
def replaced_files(directory: Path) -> Iterator[Path]:
    """An empty directory below `directory`, whose files take their places there at the end of the block, each at once.

    For a directory that may hold anything else. When the block raises, nothing there has changed. Raises OSError.
    """
    draft = directory / ".draft"
    _remove(draft)
    draft.mkdir(parents=True)
    try:
        yield draft
        for path in sorted(draft.iterdir(), key=_is_page):
            path.replace(directory / path.name)
    finally:
        _remove(draft)


def _umask() -> int:
    """What this process takes from the modes of its files; it can only be read by setting it."""
    os.umask(mask := os.umask(0))
    return mask


def _is_page(path: Path) -> bool:
    """A page comes last, behind all that it shows."""
    return path.suffix == ".html"


def _remove(draft: Path) -> None:
    shutil.rmtree(draft, ignore_errors=True)


def _carry_over(earlier: Path, directory: Path, ours: Collection[str]) -> None:
    """Move what somebody else put into an earlier directory to its successor."""
    if not (earlier.is_dir() and directory.is_dir()):
        return
    for path in earlier.iterdir():
        if path.name not in ours and not (directory / path.name).exists():
            path.rename(directory / path.name)


def _exchange(one: Path, other: Path) -> None:
    """Let two directories change names, at once where the file system can, else by way of a third name."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return
    if (number := ctypes.get_errno()) not in (errno.EINVAL, errno.ENOSYS, errno.EXDEV, errno.EOPNOTSUPP):
        raise OSError(number, os.strerror(number), str(other))
    between = one.with_name(f"{one.name}-earlier")
    _remove(between)
    other.rename(between)
    one.rename(other)
    between.rename(one)
