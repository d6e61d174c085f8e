"""The file that a sender sends, mapped into memory: no system call reads a piece of it."""

import mmap
import os
from pathlib import Path


def map_file(path: Path) -> mmap.mmap | bytes:
    """The bytes of a file, to be sliced. An empty file cannot be mapped."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
