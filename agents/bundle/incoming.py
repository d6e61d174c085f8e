"""A file while it comes in, piece by piece, beside the place where it appears once it is whole."""

from pathlib import Path
from typing import Self


class IncomingFile:
    """Open until the `with` ends. It appears at `output`."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._part = output.with_name(output.name + ".part")
        self._store = self._part.open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def write(self, offset: int, content: bytes) -> None:
        """Put a piece where it belongs."""
        self._store.seek(offset)
        self._store.write(content)

    def finish(self) -> None:
        """It is whole: let it appear."""
        self._store.close()
        self._part.replace(self._output)
