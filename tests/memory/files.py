"""The files of a host in memory: regular files, directories, links and file systems of a limited size."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

BLOCK_BYTES = 512
PAGE_BYTES = 4096
_ROOT_BYTES = 2**40
_MOST_LINKS = 40


@dataclass(frozen=True)
class Entry:
    """What stands at a path. `stored_bytes` of a sparse file are fewer than its size; `target` is a link's."""

    mode: int
    content: bytes = b""
    target: str = ""
    size_bytes: int = 0
    stored_bytes: int = 0
    changed_at_ns: int | None = None


@dataclass(frozen=True)
class FileSystem:
    """What is mounted somewhere."""

    device: int
    size_bytes: int


class Files:
    """All files of a host. `changed` is notified of every change; `clock_ns` stamps files."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self.changed = threading.Condition()
        self._clock_ns = clock_ns
        self._entries: dict[str, Entry] = {"/": Entry(stat.S_IFDIR | 0o755)}
        self._mounts: dict[str, FileSystem] = {"/": FileSystem(1, _ROOT_BYTES)}
        self._devices = 1

    def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Make a regular file or replace one. Raises OSError."""
        place = self._parent_of(path)
        before = self._entries.get(place)
        if before is not None and stat.S_ISDIR(before.mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        with self.changed:
            free_bytes = self.free_bytes(place) + (before.stored_bytes if before else 0)
            if len(content) > free_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            size_bytes = len(content)
            self._entries[place] = Entry(
                stat.S_IFREG | mode, content, "", size_bytes, size_bytes, changed_at_ns=self._clock_ns()
            )
            self.changed.notify_all()

    def place(self, path: str, entry: Entry) -> None:
        """Put anything at a path: a link, a FIFO, a sparse file."""
        with self.changed:
            self._entries[self._parent_of(path)] = entry
            self.changed.notify_all()

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        self.place(path, Entry(stat.S_IFLNK | 0o777, target=target, size_bytes=len(target)))

    def read(self, path: str) -> bytes:
        """The content of a regular file, through links. Raises OSError."""
        entry = self.entry(self.resolved(path))
        if not stat.S_ISREG(entry.mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return entry.content

    def entry(self, path: str) -> Entry:
        """What stands at a path itself, as lstat(2) sees it. Raises FileNotFoundError."""
        entry = self._entries.get(self._parent_of(path))
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return entry

    def exists(self, path: str) -> bool:
        """Whether anything is there, through links."""
        try:
            self.entry(self.resolved(path))
        except OSError:
            return False
        return True

    def is_file(self, path: str) -> bool:
        """Whether a regular file is there, through links."""
        return self.exists(path) and stat.S_ISREG(self.entry(self.resolved(path)).mode)

    def is_directory(self, path: str) -> bool:
        """Whether a directory is there, through links."""
        return self.exists(path) and stat.S_ISDIR(self.entry(self.resolved(path)).mode)

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it. Raises NotADirectoryError."""
        with self.changed:
            for each in [*reversed(PurePosixPath(path).parents), PurePosixPath(path)]:
                place = self.resolved(str(each))
                entry = self._entries.setdefault(place, Entry(stat.S_IFDIR | 0o755))
                if not stat.S_ISDIR(entry.mode):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            self.changed.notify_all()

    def remove(self, path: str) -> None:
        """Remove what is there and all below it, if anything is."""
        with self.changed:
            for each in [place for place in self._entries if place == path or place.startswith(f"{path}/")]:
                del self._entries[each]
            self.changed.notify_all()

    def below(self, directory: str) -> list[str]:
        """The paths of the regular files below a directory."""
        return [
            path
            for path, entry in list(self._entries.items())
            if path.startswith(f"{directory}/") and stat.S_ISREG(entry.mode)
        ]

    def mount(self, path: str, size_bytes: int) -> None:
        """Put an empty file system of this size at a directory."""
        self.make_directory(path)
        self._devices += 1
        self._mounts[path] = FileSystem(self._devices, size_bytes)

    def unmount(self, path: str) -> None:
        """Take a file system away, with what is on it, if there is one."""
        if self._mounts.pop(path, None) is not None:
            for each in self.below(path):
                self.remove(each)

    def file_system(self, path: str) -> FileSystem:
        """The file system that a path is on."""
        return self._mounts[self._mount_point(path)]

    def free_bytes(self, path: str) -> int:
        """How much more the file system of a path holds."""
        point = self._mount_point(path)
        used = sum(self._entries[each].stored_bytes for each in self.below(point.rstrip("/")))
        return max(self._mounts[point].size_bytes - used, 0)

    def fill(self, path: str) -> None:
        """Leave no room on the file system of a path."""
        point = self._mount_point(path)
        self._mounts[point] = replace(self._mounts[point], size_bytes=0)

    def resolved(self, path: str) -> str:
        """The path without links, as far as it exists. Raises OSError for links in a circle."""
        parts, done, links = list(PurePosixPath(path).parts[1:]), PurePosixPath("/"), 0
        while parts:
            part = parts.pop(0)
            done = done.parent if part == ".." else done / part
            entry = self._entries.get(str(done))
            if entry is not None and stat.S_ISLNK(entry.mode):
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                target = PurePosixPath(done.parent, entry.target)
                parts, done = [*target.parts[1:], *parts], PurePosixPath("/")
        return str(done)

    def _parent_of(self, path: str) -> str:
        """The path with its directory resolved. Raises FileNotFoundError where that is none."""
        pure = PurePosixPath(path)
        parent = self.resolved(str(pure.parent))
        entry = self._entries.get(parent)
        if entry is None or not stat.S_ISDIR(entry.mode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return str(PurePosixPath(parent, pure.name)) if pure.name else "/"

    def _mount_point(self, path: str) -> str:
        pure = PurePosixPath(path)
        return next(str(each) for each in (pure, *pure.parents) if str(each) in self._mounts)
