"""A filestore of one file for LibreCube's entity, whatever path a Metadata PDU names."""

from pathlib import Path
from typing import Any

from cfdp.filestore import VirtualFileStore  # type: ignore[import-untyped]
from cfdp.filestore.native import NativeFileHandle, NativeTemporaryFileHandle  # type: ignore[import-untyped]


class OneFile(VirtualFileStore):  # type: ignore[misc]  # LibreCube's cfdp has no types
    """The file at `path`: read where it is, written beside it until `publish`.

    All other requests of the standard's filestore raise NotImplementedError, as the library's base class does.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._is_written = False

    def open(self, _name: str, mode: str = "rb") -> Any:
        if mode == "rb":
            return NativeFileHandle(self._path, mode)
        self._is_written = True
        return NativeFileHandle(self._part, mode)

    def open_tempfile(self) -> Any:
        """Where segments wait until the file is whole. The engine copies them to `open(name, "wb")` then."""
        return NativeTemporaryFileHandle()

    def is_file(self, _name: str) -> bool:
        return True

    def get_size(self, _name: str) -> int:
        return self._path.stat().st_size

    def publish(self) -> bool:
        """Give a written file its name. False when none has been written."""
        if self._is_written:
            self._part.replace(self._path)
        return self._is_written
