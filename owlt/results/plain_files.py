"""Files and directories in a results directory, which another person may have made: the only way to open them.

A *plain* file is a regular file whose path contains no link: neither the file itself nor a directory in its path is a
symbolic link. Everything else (a link, a pipe, a socket, a device, a file above its size limit) is refused with
`NotPlain` before it is opened, so that nothing outside the directory is read or changed, and no call blocks. The path
of the directory that the user named may contain links: `real_root` resolves it once, where the user names it.

The kernel refuses links (openat2(2), RESOLVE_NO_SYMLINKS) in one call for the whole path. On a kernel without this
call, the path is opened one directory at a time.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import math
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from io import BufferedReader, FileIO
from pathlib import Path
from typing import IO, Annotated, Any, BinaryIO

from pydantic import AfterValidator
from pydantic_core import from_json

DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)
MOST_BYTES = 64_000_000
"""The largest file that is read as a whole, unless its reader sets another limit."""
MOST_DIRECTORIES = 64
"""The largest depth of directories in a results directory."""
LONGEST_NAME_BYTES = 255
MOST_HOLES = 8
"""The largest ratio of a large file's size to its space on the disk: a sparse file can take hours to read."""
_LARGEST: dict[type, float] = {int: 2**63 - 1, float: 1e30}
_READ_BYTES = 1 << 20
_STATUS_BLOCK_BYTES = 512

_OPENAT2 = 437  # the number is the same on every architecture
_RESOLVE_NO_SYMLINKS = 0x04
_AT_FDCWD = -100

Name = Path | str


class NotPlain(OSError):
    """An entry of a results directory that is not opened. The text states the path and the kind of the entry."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def real_root(path: Path) -> Path:
    """The path without links of a directory or file that the user named: the path itself if no part of it is a link or
    `..`, else the resolved path."""
    if ".." not in path.parts and not any(each.is_symlink() for each in (path, *path.parents)):
        return path
    return path.resolve()


def as_file_name(text: str) -> str:
    """Return a text that is the name of a file, without a directory. Raises ValueError for any other text."""
    if text in ("", ".", "..") or "/" in text or not text.isprintable():
        raise ValueError("should be the name of a file: without '/' and control characters, and not '.' or '..'")
    if len(os.fsencode(text)) > LONGEST_NAME_BYTES:
        raise ValueError(f"should be the name of a file: at most {LONGEST_NAME_BYTES} bytes")
    return text


FileName = Annotated[str, AfterValidator(as_file_name)]
"""A value in a file of results that becomes part of a path."""


def open_plain(path: Name, most_bytes: int | None = None) -> BufferedReader:
    """A plain file, opened for reading. Raises NotPlain, OSError."""
    return open(_reopened(path, os.O_RDONLY, most_bytes), "rb")


def read_plain(path: Name, most_bytes: int = MOST_BYTES) -> bytes:
    """The content of a plain file. Raises NotPlain, also for a file of more bytes, OSError."""
    descriptor = _reopened(path, os.O_RDONLY, most_bytes)
    try:
        size_bytes = os.fstat(descriptor).st_size
        content = os.read(descriptor, min(size_bytes, most_bytes) + 1)  # a larger buffer costs more than the call
        while len(content) < size_bytes and (more := os.read(descriptor, _READ_BYTES)):
            content += more
        return content
    finally:
        os.close(descriptor)


def read_plain_text(path: Name, most_bytes: int = MOST_BYTES) -> str:
    """The content of a plain file as text; bytes that are not UTF-8 are replaced."""
    return read_plain(path, most_bytes).decode(errors="replace")


def read_json(path: Name, most_bytes: int = MOST_BYTES, may_be_infinite: bool = False) -> Any:
    """The value in a plain JSON file. All its numbers are in the range of `_LARGEST`.

    `may_be_infinite`: a number may be infinite, such as an unlimited rate. Raises ValueError for invalid JSON, NaN,
    infinity without `may_be_infinite`, and numbers that are too large; NotPlain, OSError.
    """
    value = from_json(read_plain(path, most_bytes), allow_inf_nan=may_be_infinite)
    waiting = [value]
    for each in waiting:  # which grows
        kind = type(each)
        if kind is dict:
            waiting.extend(each.values())
        elif kind is list:
            waiting.extend(each)
        elif (kind is int or kind is float) and not -_LARGEST[kind] <= each <= _LARGEST[kind]:
            if may_be_infinite and abs(each) == math.inf:
                continue
            raise ValueError(f"a number is too large, expected at most {_LARGEST[kind]:g}")
    return value


def digest_of_values(values: object) -> str:
    """The SHA-256 of values of JSON, in hex."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def require_plain(path: Name) -> None:
    """Raise NotPlain unless a file is plain, OSError if it is missing: for files that a library opens by name."""
    os.close(_plain(path, None))


def is_plain(path: Name) -> bool:
    """Whether a plain file exists."""
    with suppress(OSError):
        require_plain(path)
        return True
    return False


def is_plain_directory(path: Name) -> bool:
    """Whether a directory exists whose path contains no link."""
    with suppress(OSError):
        os.close(_directory(path))
        return True
    return False


def open_capture(path: Path) -> FileIO:
    """A capture, opened for reading, unbuffered. Raises NotPlain unless it is a regular file, OSError.

    A link is followed: the user may have named the capture. Those of a recorded run are examined with `is_plain` first.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _refuse(os.fstat(descriptor), path)
    except NotPlain:
        os.close(descriptor)
        raise
    return FileIO(descriptor)


def open_to_lock(path: Name) -> IO[bytes]:
    """A plain file, opened for flock(2), not to change it. NFS requires that it is open for writing, so it is if this
    user may write it. Raises NotPlain, OSError."""
    try:
        return os.fdopen(_reopened(path, os.O_RDWR, None), "rb", buffering=0)
    except OSError as problem:
        if problem.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return open_plain(path)


def open_in_place(path: Name, mode: str) -> IO[str]:
    """A plain text file, opened for changes in place ("r+", "a", "a+"); "a" and "a+" create it.

    A file with several names (hard links) is refused, since the other names may be elsewhere. Raises NotPlain, OSError.
    """
    flags = {"r+": os.O_RDWR, "a": os.O_WRONLY | os.O_APPEND, "a+": os.O_RDWR | os.O_APPEND}[mode]
    try:
        descriptor = _reopened(path, flags, None, has_one_name=True)
    except FileNotFoundError:
        if mode == "r+":
            raise
        try:
            descriptor = _open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:  # another process was faster
            descriptor = _reopened(path, flags, None, has_one_name=True)
    return os.fdopen(descriptor, mode, buffering=1)


def create(path: Name) -> BinaryIO:
    """A new file, opened for writing; a file or link of its name is removed first. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with _directory_of(path) as (parent, name):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)
        return os.fdopen(os.open(name, flags | os.O_CLOEXEC, 0o666, dir_fd=parent), "wb")


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a file through a draft beside it, so that the file is complete or missing even if the machine stops.

    A link of its name is replaced, not followed. Returns the path. Raises OSError, which names the file.
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        with create(draft) as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        move(draft, path)
    except OSError as problem:
        with suppress(OSError):
            remove(draft)
        raise _naming(problem, path) from problem
    return path


def move(source: Name, target: Name) -> None:
    """Rename a file or directory; neither path may contain a link. A file replaces another one. Raises OSError."""
    with _directory_of(source) as (from_parent, from_name), _directory_of(target) as (to_parent, to_name):
        os.rename(from_name, to_name, src_dir_fd=from_parent, dst_dir_fd=to_parent)


def link(source: Name, target: Name) -> None:
    """Give a plain file another name (a hard link). Raises NotPlain, OSError."""
    require_plain(source)
    with _directory_of(source) as (from_parent, from_name), _directory_of(target) as (to_parent, to_name):
        os.link(from_name, to_name, src_dir_fd=from_parent, dst_dir_fd=to_parent, follow_symlinks=False)
    try:
        require_plain(target)
    except NotPlain:  # it was replaced in between
        remove(target)
        raise


def make_directory(path: Path) -> Path:
    """Make a directory and its parents unless it exists. Raises NotPlain if its path contains a link, OSError."""
    try:
        os.close(_directory(path))
    except FileNotFoundError:
        make_directory(path.parent)
        with _directory_of(path) as (parent, name), suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
        os.close(_directory(path))
    return path


def remove(path: Name) -> None:
    """Remove a file, or a link itself, if it exists. Raises OSError."""
    with suppress(FileNotFoundError), _directory_of(path) as (parent, name):
        os.unlink(name, dir_fd=parent)


def remove_tree(path: Name) -> None:
    """Remove a directory with its contents, or a file, or a link itself, as far as possible."""
    with suppress(OSError), _directory_of(path) as (parent, name):
        if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            shutil.rmtree(name, ignore_errors=True, dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)


def names_in(directory: Name) -> list[str]:
    """The sorted names of all entries of a directory whose path contains no link; [] if it is missing."""
    try:
        with listed(directory) as entries:
            return sorted(entry.name for entry in entries)
    except OSError:
        return []


def files_in(directory: Path, ending: str = "") -> list[Path]:
    """The plain files in a directory whose names have an ending, sorted; [] if the directory is missing."""
    return _entries(directory, ending, are_directories=False)


def directories_in(directory: Path) -> list[Path]:
    """The directories in a directory, without symbolic links, sorted; [] if the directory is missing."""
    return _entries(directory, "", are_directories=True)


def require_plain_tree(root: Path, except_for: str = "") -> None:
    """Raise NotPlain if a directory contains entries other than plain files and directories, or is nested too deeply.

    `except_for` names an entry that must be a directory and is not searched. A missing directory is accepted. The cost
    is one or two system calls for each directory.
    """
    waiting = [(root, 0)]
    while waiting:
        directory, depth = waiting.pop()
        if depth > MOST_DIRECTORIES:
            problem = f"is {depth} directories deep, expected at most {MOST_DIRECTORIES}"
            raise NotPlain(errno.ELOOP, problem, str(directory))
        with suppress(FileNotFoundError), listed(directory) as entries:
            for entry in entries:
                path = directory / entry.name
                is_exception = not depth and entry.name == except_for
                if entry.is_dir(follow_symlinks=False) and not is_exception:
                    waiting.append((path, depth + 1))
                elif is_exception or not entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        _refuse(path.lstat(), path, is_directory=is_exception)


@contextmanager
def listed(directory: Name) -> Iterator[Iterator[os.DirEntry[str]]]:
    """The entries of a directory whose path contains no link; the caller must not follow links among them. Raises
    NotPlain, OSError."""
    descriptor = _directory(directory, os.O_RDONLY)
    try:
        with os.scandir(descriptor) as entries:
            yield entries
    finally:
        os.close(descriptor)


def _entries(directory: Path, ending: str, are_directories: bool) -> list[Path]:
    try:
        with listed(directory) as entries:
            names = [
                entry.name
                for entry in entries
                if entry.name.endswith(ending)
                and (entry.is_dir(follow_symlinks=False) if are_directories else entry.is_file(follow_symlinks=False))
            ]
    except OSError:
        return []
    return [directory / name for name in sorted(names)]


def _reopened(path: Name, flags: int, most_bytes: int | None, has_one_name: bool = False) -> int:
    """A descriptor of a plain file, which is opened only after its kind is known: opening a pipe or a device can block
    or have side effects."""
    descriptor = _plain(path, most_bytes, has_one_name)
    try:
        return os.open(f"/proc/self/fd/{descriptor}", flags | os.O_CLOEXEC)
    except FileNotFoundError:  # no /proc is mounted here
        return _open(path, flags | os.O_NONBLOCK)
    except OSError as problem:
        raise _naming(problem, path) from None
    finally:
        os.close(descriptor)


def _plain(path: Name, most_bytes: int | None, has_one_name: bool = False) -> int:
    """A descriptor (O_PATH) of a plain file."""
    descriptor = _open(path, os.O_PATH)
    try:
        status = os.fstat(descriptor)
        _refuse(status, path)
        if most_bytes is not None and status.st_size > most_bytes:
            raise NotPlain(
                errno.EFBIG, f"has {status.st_size:,} bytes, expected at most {most_bytes:,}", os.fspath(path)
            )
        if status.st_size > MOST_BYTES and status.st_blocks * _STATUS_BLOCK_BYTES * MOST_HOLES < status.st_size:
            raise NotPlain(
                errno.EFBIG,
                f"has {status.st_size:,} bytes, almost all of them in holes (a sparse file), which owlt never writes; "
                "to keep it, copy it with: cp --sparse=never",
                os.fspath(path),
            )
        if has_one_name and status.st_nlink > 1:
            raise NotPlain(
                errno.EMLINK,
                f"is one of {status.st_nlink} hard links to a file, so owlt does not change it; replace it with a copy",
                os.fspath(path),
            )
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _refuse(status: os.stat_result, path: Name, is_directory: bool = False) -> None:
    """Raise NotPlain unless it is a regular file, or a directory."""
    kind = stat.S_IFMT(status.st_mode)
    expected = "a directory" if is_directory else "a file or a directory" if kind == stat.S_IFLNK else "a file"
    if kind == (stat.S_IFDIR if is_directory else stat.S_IFREG):
        return
    number = {stat.S_IFDIR: errno.EISDIR, stat.S_IFLNK: errno.ELOOP}.get(kind, errno.EINVAL)
    raise NotPlain(number, f"is {_KINDS.get(kind, 'a special file')}, expected {expected}; remove it", os.fspath(path))


_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFREG: "a file",
    stat.S_IFLNK: "a link, which owlt does not follow in results",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def _directory_of(path: Name) -> Iterator[tuple[int, str]]:
    """A descriptor of the directory that a path is in, and the name there."""
    parent, name = os.path.split(os.fspath(path))
    descriptor = _directory(parent or ".")
    try:
        yield descriptor, name
    except OSError as problem:
        raise _naming(problem, path) from None
    finally:
        os.close(descriptor)


def _directory(path: Name, flags: int = os.O_PATH) -> int:
    try:
        return _open(path, flags | os.O_DIRECTORY)
    except NotADirectoryError as problem:
        raise NotPlain(problem.errno, "is not a directory", os.fspath(path)) from None


def _naming(problem: OSError, path: Name) -> OSError:
    """The error with the path that the caller named."""
    if isinstance(problem, NotPlain):
        return problem
    return OSError(problem.errno, problem.strerror, os.fspath(path))


def _open(path: Name, flags: int, mode: int = 0) -> int:
    """A descriptor of the entry at a path. Raises NotPlain if the path contains a link."""
    text = os.fspath(path)
    if ".." in text.split("/"):
        raise NotPlain(errno.ELOOP, "contains '..', which owlt does not follow in results", text)
    open_path = _open_at_once if _has_openat2() else _open_by_hand
    try:
        return open_path(text, flags | os.O_CLOEXEC, mode)
    except OSError as problem:
        if problem.errno == errno.ELOOP:
            raise NotPlain(
                errno.ELOOP,
                "is a link, or its path contains one; owlt does not follow links in results: replace it with its "
                "target, or remove it",
                text,
            ) from None
        raise


def _open_at_once(path: str, flags: int, mode: int) -> int:
    how = _OpenHow(flags, mode, _RESOLVE_NO_SYMLINKS)
    if "\0" in path:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    while True:
        descriptor = int(_libc().syscall(_OPENAT2, _AT_FDCWD, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how)))
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            raise OSError(number, os.strerror(number), path)


def _open_by_hand(path: str, flags: int, mode: int) -> int:
    """A descriptor of the entry at a path, opened one directory at a time."""
    *parents, name = [part for part in path.split("/") if part not in ("", ".")] or ["."]
    here = os.open("/" if path.startswith("/") else ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for parent in parents:
            _require_no_link(parent, here, path)
            below = os.open(parent, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
        _require_no_link(name, here, path)
        return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=here)
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror, path) from None
    finally:
        os.close(here)


def _require_no_link(name: str, directory: int, path: str) -> None:
    """Raise OSError with ELOOP for a link. The later open does not follow links either."""
    with suppress(FileNotFoundError):
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def _has_openat2() -> bool:
    """Whether the kernel has the call (Linux 5.6), and no container's filter forbids it."""
    try:
        os.close(_open_at_once(".", os.O_PATH | os.O_CLOEXEC, 0))
    except OSError:
        return False
    return True
