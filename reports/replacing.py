"""Directories and files that are replaced only when their successors are complete.

If a build is interrupted, the earlier ones stay; the next build removes the draft.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from owlt.results.plain_files import (
    directories_in,
    files_in,
    is_plain_directory,
    make_directory,
    move,
    names_in,
    open_in_place,
    remove_tree,
)

AT_FDCWD = -100
RENAME_EXCHANGE = 2
"""renameat2(2): exchange both names at once, so that neither is ever missing."""


@contextmanager
def replaced_directory(directory: Path, ours: Collection[str]) -> Iterator[Path]:
    """An empty directory beside `directory`, which takes its place at the end of the block.

    One process builds at a time; others wait. Entries of the earlier directory whose names are not in `ours` are kept.
    If the block raises, the earlier directory stays, and the draft is removed. Raises OSError.
    """
    with open_in_place(directory.with_name(f".{directory.name}.lock"), "a") as lock:
        with suppress(OSError):  # a file system without locks: the user must not build twice at once
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in directories_in(directory.parent):
            if not left.name.startswith(f".{directory.name}.draft-"):
                continue
            _carry_over(left, directory, ours)
            remove_tree(left)
        draft = Path(tempfile.mkdtemp(prefix=f".{directory.name}.draft-", dir=directory.parent))
        draft.chmod(0o777 & ~_umask())
        try:
            yield draft
            if is_plain_directory(directory):
                _exchange(draft, directory)
                _carry_over(draft, directory, ours)
            else:
                move(draft, directory)
        finally:
            remove_tree(draft)


@contextmanager
def replaced_files(directory: Path) -> Iterator[Path]:
    """An empty directory below `directory`, whose files move there at the end of the block, each atomically.

    For a directory that may hold other files. If the block raises, nothing there has changed. Raises OSError.
    """
    draft = directory / ".draft"
    remove_tree(draft)
    make_directory(draft)
    try:
        yield draft
        for path in sorted(files_in(draft), key=_is_page):
            move(path, directory / path.name)
    finally:
        remove_tree(draft)


def _umask() -> int:
    """The umask of this process; it can only be read by setting it."""
    os.umask(mask := os.umask(0))
    return mask


def _is_page(path: Path) -> bool:
    """Whether a file is a page: pages move last, after everything that they show."""
    return path.suffix == ".html"


def _carry_over(earlier: Path, directory: Path, ours: Collection[str]) -> None:
    """Move entries that owlt did not write from an earlier directory to its successor."""
    if not is_plain_directory(directory):
        return
    there = names_in(directory)
    for name in names_in(earlier):
        if name not in ours and name not in there:
            move(earlier / name, directory / name)


def _exchange(one: Path, other: Path) -> None:
    """Exchange the names of two directories, atomically if the file system can, else through a third name."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return
    if (number := ctypes.get_errno()) not in (errno.EINVAL, errno.ENOSYS, errno.EXDEV, errno.EOPNOTSUPP):
        raise OSError(number, os.strerror(number), str(other))
    between = one.with_name(f"{one.name}-earlier")
    remove_tree(between)
    move(other, between)
    move(one, other)
    move(between, one)
