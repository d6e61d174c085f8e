"""Directories and files that are replaced only when their successors are complete.

If a build is interrupted, the earlier ones stay; the next build removes the draft.
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
"""renameat2(2): exchange both names at once, so that neither is ever missing."""


@contextmanager
def replaced_directory(directory: Path, ours: Collection[str]) -> Iterator[Path]:
    """An empty directory beside `directory`, which takes its place at the end of the block.

    One process builds at a time; others wait. Entries of the earlier directory whose names are not in `ours` are kept.
    If the block raises, the earlier directory stays, and the draft is removed. Raises OSError.
    """
    with directory.with_name(f".{directory.name}.lock").open("a") as lock:
        with suppress(OSError):  # a file system without locks: the user must not build twice at once
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
    """An empty directory below `directory`, whose files move there at the end of the block, each atomically.

    For a directory that may hold other files. If the block raises, nothing there has changed. Raises OSError.
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
    """The umask of this process; it can only be read by setting it."""
    os.umask(mask := os.umask(0))
    return mask


def _is_page(path: Path) -> bool:
    """Whether a file is a page: pages move last, after everything that they show."""
    return path.suffix == ".html"


def _remove(draft: Path) -> None:
    shutil.rmtree(draft, ignore_errors=True)


def _carry_over(earlier: Path, directory: Path, ours: Collection[str]) -> None:
    """Move entries that owlt did not write from an earlier directory to its successor."""
    if not (earlier.is_dir() and directory.is_dir()):
        return
    for path in earlier.iterdir():
        if path.name not in ours and not (directory / path.name).exists():
            path.rename(directory / path.name)


def _exchange(one: Path, other: Path) -> None:
    """Exchange the names of two directories, atomically if the file system can, else through a third name."""
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
