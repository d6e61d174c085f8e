"""What a file is, without opening it: lstat(2)."""

from __future__ import annotations

import os
from dataclasses import dataclass

FORMAT = "--printf=%f %d %s %b %B\\n"
"""For stat(1): a line for each file, which `from_line` reads."""
BLOCK_BYTES = 512
"""Unit of `os.stat_result.st_blocks`."""


@dataclass(frozen=True)
class FileStatus:
    """`mode` as in inode(7); `stored_bytes` of a sparse file are fewer than its size."""

    mode: int
    device: int
    size_bytes: int
    stored_bytes: int


def from_line(line: str) -> FileStatus:
    """The status that stat(1) printed with `FORMAT`."""
    mode, device, size_bytes, blocks, block_bytes = line.split()
    return FileStatus(int(mode, 16), int(device), int(size_bytes), int(blocks) * int(block_bytes))


def statuses_here(paths: tuple[str, ...]) -> list[FileStatus]:
    """The status of each file, as the caller sees them. Raises OSError."""
    results = map(os.lstat, paths)
    return [FileStatus(each.st_mode, each.st_dev, each.st_size, each.st_blocks * BLOCK_BYTES) for each in results]
