"""A capsule: a zip archive with the results of one recorded run, to be replayed on another machine.

Its directory `capsule/` has a results directory with that run alone, and `capsule.json`, the manifest: the size and
digest of each other file. The same files always give the same archive. An archive is treated as hostile: `unpack`
checks everything that it declares before it writes anything, and writes only regular files with known names.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Annotated, BinaryIO, Literal
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from owlt.inputs.mistake import Mistake, OwltError, Place
from owlt.results.plain_files import FileName, NotPlain, create, make_directory, open_plain, read_plain, write_whole

ENDING = ".capsule.zip"
MANIFEST_NAME = "capsule.json"
TOP = "capsule/"
"""The directory in the archive, so that it can also be unpacked by hand."""
PROGRAMS = "programs"

MOST_ARCHIVE_BYTES = 256 << 20
MOST_LIST_BYTES = 16 << 20
"""The largest list of entries, which is read as a whole."""
MOST_MANIFEST_BYTES = 16 << 20
MOST_UNPACKED_BYTES = 2 << 30


@dataclass(frozen=True)
class Limits:
    """The largest capsule that is written or unpacked. The unpacked files have at most `free_bytes` and, in addition,
    `expansion` times the bytes of the archive."""

    archive_bytes: int = MOST_ARCHIVE_BYTES
    entries: int = 50_000
    free_bytes: int = 64 << 20
    expansion: int = 50

    def unpacked_bytes(self, archive_bytes: int) -> int:
        """The most that an archive of so many bytes may have."""
        return min(MOST_UNPACKED_BYTES, self.free_bytes + self.expansion * archive_bytes)


LIMITS = Limits()
LONGEST_NAME = 1_000
_BLOCK_BYTES = 1 << 20

_NAME = r"(?!\.+(?:/|\Z))[ -.0-\[\]-~]{1,255}"
"""A part of a name: printable ASCII without slashes, and not dots alone."""
_KNOWN = re.compile(
    rf"{re.escape(MANIFEST_NAME)}|plan\.json|(certificates|machines)/{_NAME}\.json"
    rf"|runs/{_NAME}/{_NAME}\.(json|pcap|out|err|log|csv|txt)|runs/{_NAME}/kept(/{_NAME}){{1,8}}"
    rf"|{PROGRAMS}(/{_NAME}){{1,30}}"
)
_END = struct.Struct("<4s4H2IH")
"""The last record of a zip archive without a comment (APPNOTE 4.3.16)."""
_ZIP64_LOCATOR, _ZIP64_LOCATOR_BYTES = b"PK\x06\x07", 20
_REGULAR, _PROGRAM = 0o100644, 0o100755
_ENCRYPTED = 0x1

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Content(BaseModel):
    """The size and the SHA-256 of a file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size_bytes: Annotated[int, Field(ge=0, le=MOST_UNPACKED_BYTES)]
    sha256: Digest


class Manifest(BaseModel):
    """What a capsule is: which run, what each of its files is, and what was left out or replaced."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    run_id: FileName
    owlt: str
    """The version that made the capsule."""
    losses: dict[Literal["forward", "reverse"], list[int]] | None = None
    """The packets that were lost or damaged, by direction, counted from 1; None: not known."""
    notes: list[str] = []
    """What was cut, left out or replaced, a sentence each."""
    programs: dict[str, str] = {}
    """The path that each program, library or module had on its machine, by its name in the capsule."""
    files: dict[str, Content] = {}
    """Every other file of the capsule, by its name below `capsule/`."""


class BrokenCapsule(OwltError):
    """A file that is not a capsule, or one that is damaged or hostile."""


def write_capsule(
    path: Path, manifest: Manifest, files: Mapping[str, bytes | Path], limits: Limits = LIMITS
) -> Manifest:
    """Write a capsule of these files, by their names below `capsule/`. Returns the manifest with `files` filled in.

    The same manifest and files give the same bytes. Raises ValueError for a name that `unpack` would refuse, OwltError
    for files that are too large for it, OSError.
    """
    contents = {name: _content(files[name]) for name in sorted(files)}
    if unknown := [name for name in contents if name == MANIFEST_NAME or not is_known(name)]:
        raise ValueError(f"{unknown[0]}: is not the name of a file of a capsule")
    manifest = manifest.model_copy(update={"files": contents})
    archive = BytesIO()
    with ZipFile(archive, "w") as target:
        text = manifest.model_dump_json(indent=1) + "\n"
        target.writestr(_entry(MANIFEST_NAME), text, ZIP_DEFLATED, 9)
        for name in contents:
            target.writestr(_entry(name), _bytes(files[name]), ZIP_DEFLATED, 9)
    archive_bytes = archive.tell()
    _require_moderate(sum(each.size_bytes for each in contents.values()), archive_bytes, len(contents), limits)
    write_whole(path, archive.getvalue())
    return manifest


def _require_moderate(unpacked_bytes: int, archive_bytes: int, count: int, limits: Limits) -> None:
    most_bytes = limits.unpacked_bytes(archive_bytes)
    if archive_bytes > limits.archive_bytes or unpacked_bytes > most_bytes or count >= limits.entries:
        problem = f"the capsule would have {count:,} files of {unpacked_bytes:,} bytes, compressed {archive_bytes:,}"
        expected = f"at most {limits.entries:,} files of {most_bytes:,} bytes, {limits.archive_bytes:,}"
        raise OwltError(Mistake(problem, expected, "repeat the problem with a shorter transfer, or leave out programs"))


def is_known(name: str) -> bool:
    """Whether a file of a capsule may have this name."""
    return len(name) <= LONGEST_NAME and _KNOWN.fullmatch(name) is not None


def unpack(path: Path, directory: Path, limits: Limits = LIMITS) -> Manifest:
    """Unpack a capsule into an empty directory. Returns its manifest.

    Raises BrokenCapsule, in which the entry is named, for a file that is not a capsule, that is damaged, or that could
    do harm: before anything is written, except for content that is not as it is declared. OSError.
    """
    try:
        with open_plain(path, limits.archive_bytes) as file:
            _require_short_list(file, limits)
            with ZipFile(file) as archive:
                return _unpacked(archive, os.fstat(file.fileno()).st_size, directory, limits)
    except BrokenCapsule as broken:
        raise BrokenCapsule(*(mistake.at(Place(str(path))) for mistake in broken.mistakes)) from None
    except NotPlain as problem:
        raise BrokenCapsule(Mistake(str(problem.strerror), where=Place(str(path)))) from None
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeError, ValueError) as problem:
        raise BrokenCapsule(_damaged(str(problem)).at(Place(str(path)))) from None


def _damaged(why: str) -> Mistake:
    return Mistake(f"is not a capsule, or damaged ({why})", "a file that 'owlt capsule' wrote", "copy it again")


def _refused(name: str, problem: str, expected: str) -> BrokenCapsule:
    return BrokenCapsule(Mistake(f"{name}: {problem}", expected, "do not use a capsule that you did not ask for"))


def _require_short_list(file: BinaryIO, limits: Limits) -> None:
    """Raise BrokenCapsule unless the end of the archive declares a list of entries that can be read as a whole."""
    size_bytes = file.seek(0, os.SEEK_END)
    if size_bytes < _END.size:
        raise BrokenCapsule(_damaged("it is too short"))
    file.seek(max(0, size_bytes - _END.size - _ZIP64_LOCATOR_BYTES))
    end = file.read()
    signature, disk, first_disk, on_disk, entries, list_bytes, offset, comment = _END.unpack(end[-_END.size :])
    if signature != b"PK\x05\x06" or comment or disk or first_disk or on_disk != entries:
        raise BrokenCapsule(_damaged("it does not end as a zip archive without a comment"))
    if end.startswith(_ZIP64_LOCATOR) or entries > limits.entries or list_bytes > MOST_LIST_BYTES:
        expected = f"at most {limits.entries:,} entries in a list of {MOST_LIST_BYTES:,} bytes"
        raise _refused("list of entries", f"{entries:,} entries, {list_bytes:,} bytes", expected)
    if offset + list_bytes + _END.size != size_bytes:
        raise BrokenCapsule(_damaged("something is before or behind the archive"))
    file.seek(0)


def _unpacked(archive: ZipFile, archive_bytes: int, directory: Path, limits: Limits) -> Manifest:
    entries: dict[str, ZipInfo] = {}
    for entry in archive.infolist():
        name = entry.filename.removeprefix(TOP)
        _require_harmless(entry, name)
        if name in entries:
            raise _refused(name, "is there twice", "each name once")
        entries[name] = entry
    most_bytes = limits.unpacked_bytes(archive_bytes)
    if (total := sum(entry.file_size for entry in entries.values())) > most_bytes:
        raise _refused("all files", f"{total:,} bytes unpacked", f"at most {most_bytes:,}")
    if MANIFEST_NAME not in entries or entries[MANIFEST_NAME].file_size > MOST_MANIFEST_BYTES:
        raise BrokenCapsule(_damaged(f"{MANIFEST_NAME} is missing or too large"))
    manifest = _manifest(archive.read(entries.pop(MANIFEST_NAME)))
    _require_declared(entries, manifest)
    for name, entry in entries.items():
        _write(archive, entry, manifest.files[name], directory / name)
    return manifest


def _require_harmless(entry: ZipInfo, name: str) -> None:
    """Raise BrokenCapsule unless an entry is a regular file with a known name, compressed as `write_capsule` does."""
    if not entry.filename.startswith(TOP) or not is_known(name):
        raise _refused(repr(entry.filename[:LONGEST_NAME]), "is not a name of a file of a capsule", f"{TOP}plan.json")
    if entry.external_attr >> 16 not in (_REGULAR, _PROGRAM):
        raise _refused(name, "is a link, a directory or a special file", "a regular file")
    if entry.flag_bits & _ENCRYPTED or entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise _refused(name, "is encrypted or compressed in another way", "the compression 'deflate'")


def _manifest(content: bytes) -> Manifest:
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(map(str, first["loc"]))
        version = "; a newer version of owlt may have made it" if where == "schema_version" else ""
        raise BrokenCapsule(_damaged(f"{MANIFEST_NAME}: {where}: {first['msg']}{version}")) from None


def _require_declared(entries: Mapping[str, ZipInfo], manifest: Manifest) -> None:
    """Raise BrokenCapsule unless the manifest names exactly these files, with their sizes."""
    for name in sorted(entries.keys() ^ manifest.files.keys()):
        where = "the archive" if name in manifest.files else MANIFEST_NAME
        raise _refused(repr(name[:LONGEST_NAME]), f"is not in {where}", "the files that the manifest names")
    for name, entry in entries.items():
        if entry.file_size != manifest.files[name].size_bytes:
            expected = f"{manifest.files[name].size_bytes:,}, as in {MANIFEST_NAME}"
            raise _refused(name, f"has {entry.file_size:,} bytes", expected)


def _write(archive: ZipFile, entry: ZipInfo, content: Content, path: Path) -> None:
    """Unpack one file, of at most its declared bytes. Raises BrokenCapsule if its digest is not the manifest's."""
    digest = hashlib.sha256()
    make_directory(path.parent)
    with archive.open(entry) as source, create(path) as target:
        while block := source.read(_BLOCK_BYTES):
            digest.update(block)
            target.write(block)
    if digest.hexdigest() != content.sha256:
        raise BrokenCapsule(_damaged(f"{entry.filename}: its SHA-256 is not the one in {MANIFEST_NAME}"))
    if entry.external_attr >> 16 == _PROGRAM:
        path.chmod(0o755)


def _content(given: bytes | Path) -> Content:
    content = _bytes(given)
    return Content(size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def _bytes(given: bytes | Path) -> bytes:
    return read_plain(given, MOST_ARCHIVE_BYTES) if isinstance(given, Path) else given


def _entry(name: str) -> ZipInfo:
    """An entry without a time, an owner, or anything else of the machine."""
    entry = ZipInfo(f"{TOP}{name}")
    entry.create_system = 3
    entry.external_attr = (_PROGRAM if name.startswith(f"{PROGRAMS}/") else _REGULAR) << 16
    return entry
