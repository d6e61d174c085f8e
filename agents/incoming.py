"""A file while it comes in, beside the place where it appears once it is whole."""

import os
from io import DEFAULT_BUFFER_SIZE, BufferedRandom, FileIO
from pathlib import Path
from typing import Self


class IncomingFile:
    """Open until the `with` ends. It appears at `output`, as a whole: until then it is `output` with `.part`."""

    def __init__(self, output: Path, buffer_bytes: int = DEFAULT_BUFFER_SIZE) -> None:
        self._output = output
        self._part = output.with_name(output.name + ".part")
        self.content = BufferedRandom(FileIO(self._part, "w+"), buffer_bytes)
        """To be read, or written in order: `buffer_bytes` go to the kernel together."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, offset: int, piece: bytes | memoryview) -> None:
        """Put a piece where it belongs, past the buffer of `content`."""
        written = os.pwrite(self.content.fileno(), piece, offset)
        while written < len(piece):  # a file system that gets full takes some of it first
            written += os.pwrite(self.content.fileno(), piece[written:], offset + written)

    def finish(self) -> None:
        """It is whole: let it appear."""
        self.content.close()
        self._part.replace(self._output)

    def close(self) -> None:
        """Leave it as it is."""
        self.content.close()
