"""A capsule: a zip archive with the results of one recorded run, to be replayed on another machine.

Its directory `capsule/` has a results directory with that run alone, and `capsule.json`, the manifest: the size and
digest of each other file. The same files always give the same archive. An archive is treated as hostile
(`owlt.results.foreign_zip`): `unpack` checks everything that it declares before it writes anything, and writes only
regular files with known names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Annotated, Literal
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from owlt.inputs.mistake import Mistake, OwltError, Place
from owlt.inputs.validation import first_error
from owlt.results.files import PLAN_NAME
from owlt.results.foreign_zip import LONGEST_NAME, NAME, BrokenZip, ForeignZip, damaged, open_foreign_zip, refused
from owlt.results.plain_files import FileName, create, make_directory, read_plain, write_whole

ENDING = ".capsule.zip"
MANIFEST_NAME = "capsule.json"
TOP = "capsule/"
"""The directory in the archive, so that it can also be unpacked by hand."""
PROGRAMS = "programs"

MOST_ARCHIVE_BYTES = 256 << 20
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
        """The largest total size of the files that an archive of this size may unpack to."""
        return min(MOST_UNPACKED_BYTES, self.free_bytes + self.expansion * archive_bytes)


LIMITS = Limits()
_KNOWN = re.compile(
    rf"{re.escape(MANIFEST_NAME)}|plan\.json|(certificates|machines)/{NAME}\.json"
    rf"|runs/{NAME}/{NAME}\.(json|pcap|out|err|log|csv|txt)|runs/{NAME}/kept(/{NAME}){{1,8}}"
    rf"|{PROGRAMS}(/{NAME}){{1,30}}"
)
_REGULAR, _PROGRAM = 0o100644, 0o100755

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Content(BaseModel):
    """The size and the SHA-256 of a file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size_bytes: Annotated[int, Field(ge=0, le=MOST_UNPACKED_BYTES)]
    sha256: Digest


class Manifest(BaseModel):
    """Describes a capsule: its run, each of its files, and what was left out or replaced."""

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

    Raises BrokenCapsule, which names the entry, for a file that is not a capsule, is damaged, or could do harm. Nothing
    has been written then, unless the content of an entry differs from its declaration. Raises OSError.
    """
    try:
        with open_foreign_zip(path, limits.archive_bytes, limits.entries, (_REGULAR, _PROGRAM).__contains__) as archive:
            return _unpacked(archive, directory, limits)
    except BrokenZip as broken:
        raise BrokenCapsule(*(mistake.at(Place(str(path))) for mistake in broken.mistakes)) from None


def _unpacked(archive: ForeignZip, directory: Path, limits: Limits) -> Manifest:
    for name in archive.entries:
        if not name.startswith(TOP) or not is_known(name.removeprefix(TOP)):
            raise refused(repr(name), "is not a name of a file of a capsule", f"{TOP}{PLAN_NAME}")
    archive.require_at_most(limits.unpacked_bytes(archive.size_bytes), archive.entries)
    top = archive.entries.get(f"{TOP}{MANIFEST_NAME}")
    if top is None or top.file_size > MOST_MANIFEST_BYTES:
        raise damaged(f"{MANIFEST_NAME} is missing or too large")
    manifest = _manifest(archive.read(top.filename))
    entries = {name.removeprefix(TOP): entry for name, entry in archive.entries.items() if entry is not top}
    _require_declared(entries, manifest)
    for name, entry in entries.items():
        _write(archive, entry, manifest.files[name], directory / name)
    return manifest


def _manifest(content: bytes) -> Manifest:
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as problem:
        where, message = first_error(problem)
        version = "; a newer version of owlt may have made it" if where == "schema_version" else ""
        raise damaged(f"{MANIFEST_NAME}: {where}: {message}{version}") from None


def _require_declared(entries: Mapping[str, ZipInfo], manifest: Manifest) -> None:
    """Raise BrokenZip unless the manifest names exactly these files, with their sizes."""
    for name in sorted(entries.keys() ^ manifest.files.keys()):
        where = "the archive" if name in manifest.files else MANIFEST_NAME
        raise refused(repr(name[:LONGEST_NAME]), f"is not in {where}", "the files that the manifest names")
    for name, entry in entries.items():
        if entry.file_size != manifest.files[name].size_bytes:
            expected = f"{manifest.files[name].size_bytes:,}, as in {MANIFEST_NAME}"
            raise refused(name, f"has {entry.file_size:,} bytes", expected)


def _write(archive: ForeignZip, entry: ZipInfo, content: Content, path: Path) -> None:
    """Unpack one file, of at most its declared bytes. Raises BrokenZip if its digest is not the manifest's."""
    digest = hashlib.sha256()
    make_directory(path.parent)
    with create(path) as target:
        for block in archive.blocks(entry.filename):
            digest.update(block)
            target.write(block)
    if digest.hexdigest() != content.sha256:
        raise damaged(f"{entry.filename}: its SHA-256 is not the one in {MANIFEST_NAME}")
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
