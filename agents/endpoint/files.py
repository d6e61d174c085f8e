"""The file that a sender sends, mapped into memory, and a file during its reception, named otherwise until complete."""

from __future__ import annotations

import mmap
import os
from io import BufferedReader
from pathlib import Path
from typing import Self

WRITE_BYTES = 1 << 16
"""Adjacent pieces are written together, about this many bytes in one call."""


class IncomingFile:
    """Open until the `with` ends. It has the name `output` only when complete; until then `output` with `.part`."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self.part = output.with_name(output.name + ".part")
        """Where the file is until it is complete; `flush` writes all of it there."""
        self._file = self.part.open("w+b", buffering=0)
        self._waiting = bytearray()
        self._waiting_from = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, offset: int, piece: bytes | memoryview) -> None:
        """Store a piece at its offset. It is written with those that follow it, or by `flush`."""
        if offset != self._waiting_from + len(self._waiting):
            self.flush()
            self._waiting_from = offset
        self._waiting += piece
        if len(self._waiting) >= WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the stored pieces to the file."""
        if not self._waiting:
            return
        waiting, begin = memoryview(self._waiting), self._waiting_from
        written = 0
        while written < len(waiting):  # a file system that gets full takes some of it first
            written += os.pwrite(self._file.fileno(), waiting[written:], begin + written)
        self._waiting_from = begin + written
        self._waiting = bytearray()

    def truncate(self, size_bytes: int) -> None:
        """Give the file this size."""
        self.flush()
        self._file.truncate(size_bytes)

    def opened(self) -> BufferedReader:
        """The stored data, opened for reading from the start."""
        self.flush()
        return self.part.open("rb")

    def finish(self) -> None:
        """The file is complete: give it its name."""
        self.close()
        self.part.replace(self._output)

    def close(self) -> None:
        """Write the stored pieces and close the file, complete or not."""
        if not self._file.closed:
            with self._file:
                self.flush()


def map_file(path: Path) -> mmap.mmap | bytes:
    """The bytes of a file, to be sliced. An empty file cannot be mapped."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
