"""Reading a ZIP archive that somebody else made, which may be hostile.

The list of entries is checked before any content is read: the number of entries, and that each is a regular file with a
relative name that appears once, stored or compressed with deflate. A reader limits the number of bytes that it reads.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from owlt.inputs.mistake import Mistake, OwltError
from owlt.results.plain_files import NotPlain, open_plain

MOST_LIST_BYTES = 16 << 20
"""The largest list of entries, which is read as a whole."""
LONGEST_NAME = 1_000
NAME = r"(?!\.+(?:/|\Z))[ -.0-\[\]-~]{1,255}"
"""A part of a name: printable ASCII without slashes, and not dots alone."""
_RELATIVE = re.compile(rf"{NAME}(/{NAME})*")
_BLOCK_BYTES = 1 << 20
_END = struct.Struct("<4s4H2IH")
"""The last record of an archive without a comment (APPNOTE 4.3.16)."""
_ZIP64_LOCATOR, _ZIP64_LOCATOR_BYTES = b"PK\x06\x07", 20
_ENCRYPTED = 0x1


class BrokenZip(OwltError):
    """A file that is not an archive, or one that is damaged or hostile. The mistake names the entry."""


def damaged(why: str) -> BrokenZip:
    """The error for an archive that was changed after it was written."""
    return BrokenZip(Mistake(f"is not a file of owlt, or damaged ({why})", "a file as owlt wrote it", "copy it again"))


def refused(name: str, problem: str, expected: str) -> BrokenZip:
    """The error for an archive with an entry that may do harm."""
    return BrokenZip(Mistake(f"{name}: {problem}", expected, "do not use a file that you did not ask for"))


def is_regular(mode: int) -> bool:
    """Whether an entry is a regular file by its mode, or has no mode."""
    return stat.S_IFMT(mode) in (0, stat.S_IFREG)


@dataclass(frozen=True, eq=False)
class ForeignZip:
    """An open archive whose list of entries has been checked. `size_bytes` is that of the archive."""

    archive: ZipFile
    entries: dict[str, ZipInfo]
    size_bytes: int

    def require_at_most(self, most_bytes: int, names: Iterable[str]) -> None:
        """Raise BrokenZip if these entries declare more bytes in total."""
        total = sum(self.entries[name].file_size for name in names if name in self.entries)
        if total > most_bytes:
            raise refused("all files", f"{total:,} bytes unpacked", f"at most {most_bytes:,}")

    def read(self, name: str) -> bytes:
        """The content of an entry, of the size that it declares. Raises BrokenZip, also if the entry is missing."""
        return b"".join(self.blocks(name))

    def blocks(self, name: str) -> Iterator[bytes]:
        """The content of an entry in blocks. Raises BrokenZip."""
        if name not in self.entries:
            raise damaged(f"{name} is missing")
        with _stating_damage(), self.archive.open(self.entries[name]) as source:
            while block := source.read(_BLOCK_BYTES):
                yield block


@contextmanager
def open_foreign_zip(
    path: Path, most_bytes: int, most_entries: int, is_mode: Callable[[int], bool] = is_regular
) -> Iterator[ForeignZip]:
    """Open an archive of at most `most_bytes` and `most_entries`; `is_mode` accepts the mode of each entry.

    Raises BrokenZip, OSError.
    """
    try:
        opened = open_plain(path, most_bytes)
    except NotPlain as problem:
        raise BrokenZip(Mistake(str(problem.strerror))) from None
    with opened as file:
        _require_short_list(file, most_entries)
        with _stating_damage():
            archive = ZipFile(file)
        with archive:
            yield ForeignZip(archive, _entries(archive, is_mode), os.fstat(file.fileno()).st_size)


@contextmanager
def _stating_damage() -> Iterator[None]:
    try:
        yield
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeError, ValueError) as problem:
        raise damaged(str(problem)) from None


def _require_short_list(file: BinaryIO, most_entries: int) -> None:
    """Raise BrokenZip unless the end of the archive declares a list of entries that is small enough to be read."""
    size_bytes = file.seek(0, os.SEEK_END)
    if size_bytes < _END.size:
        raise damaged("it is too short")
    file.seek(max(0, size_bytes - _END.size - _ZIP64_LOCATOR_BYTES))
    end = file.read()
    signature, disk, first_disk, on_disk, entries, list_bytes, offset, comment = _END.unpack(end[-_END.size :])
    if signature != b"PK\x05\x06" or comment or disk or first_disk or on_disk != entries:
        raise damaged("its end is not that of a ZIP archive without a comment")
    if end.startswith(_ZIP64_LOCATOR) or entries > most_entries or list_bytes > MOST_LIST_BYTES:
        expected = f"at most {most_entries:,} entries in a list of {MOST_LIST_BYTES:,} bytes"
        raise refused("list of entries", f"{entries:,} entries, {list_bytes:,} bytes", expected)
    if offset + list_bytes + _END.size != size_bytes:
        raise damaged("there is data before or after the archive")
    file.seek(0)


def _entries(archive: ZipFile, is_mode: Callable[[int], bool]) -> dict[str, ZipInfo]:
    entries: dict[str, ZipInfo] = {}
    for entry in archive.infolist():
        name = entry.filename
        if len(name) > LONGEST_NAME or not _RELATIVE.fullmatch(name):
            raise refused(repr(name[:LONGEST_NAME]), "is not the name of a file in a directory", "a relative name")
        if not is_mode(entry.external_attr >> 16):
            raise refused(name, "is a link, a directory or a special file", "a regular file")
        if entry.flag_bits & _ENCRYPTED or entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise refused(name, "is encrypted or has another compression", "the compression 'deflate'")
        if name in entries:
            raise refused(name, "appears twice", "each name once")
        entries[name] = entry
    return entries
