"""Files derived from a run's captures and stored beside them as JSON, until the captures or the code change. One of
them is pairs.json, the fate of each packet.

A capture is identified by its SHA-256, which copying does not change, the code by the SHA-256 of this package's
modules. A capture cut to its headers cannot give better results than the complete one, so the hash of the cut form is
entered as a second accepted one before it replaces the complete form: results from complete frames stay valid. A cut
capture does not show every damaged bit, so pairs.json from complete frames is kept, also for later versions of this
package; captures that are still complete are matched again when the code has changed.
"""

from __future__ import annotations

import base64
import hashlib
import os
import zlib
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict

from owlt.captures.frames.columns import Columns, Rows
from owlt.captures.frames.session import Session
from owlt.captures.matches.delivery import INTACT, Crossing, Delivery
from owlt.captures.matches.matching import match_captures
from owlt.results.plain_files import create, digest_of_values, move, open_plain, read_json
from owlt.results.upgrades import NewerVersion, Steps, upgraded

CAPTURES = ("sender.pcap", "receiver.pcap")
MOST_DERIVED_BYTES = 512_000_000
"""The largest file derived from captures: the fates of the packets of a long run take the most space."""


class Source(BaseModel):
    """The source of a derived file: the SHA-256 of the code, of the arguments and, by file name, of each capture in
    every form in which it may lie there (as captured; cut to its headers).

    `seen` is the size in bytes and the time in ns of each file when it was hashed last: while these are the same, so
    is its content. A copy has another time, and is hashed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str
    arguments: str
    captures: dict[str, list[str]]
    seen: dict[str, tuple[int, int]]

    def with_forms(self, forms: Mapping[str, Path]) -> Source:
        """The source with one more accepted form of each capture, which will replace the present one."""
        captures = {name: sorted({*known, digest_of_file(forms[name])}) for name, known in self.captures.items()}
        seen = {name: _size_and_time(path) for name, path in forms.items()}
        return self.model_copy(update={"captures": captures, "seen": seen})


class DerivedFile(BaseModel):
    """A result that can be stored beside the captures; `source` is None until then."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    upgrades: ClassVar[Steps] = {}
    """Upgrades of files of older schema versions; {}: there are none."""

    source: Source | None = None


AnyDerivedFile = TypeVar("AnyDerivedFile", bound=DerivedFile)


def load_or_make(
    path: Path, kind: type[AnyDerivedFile], arguments: object, make: Callable[[], AnyDerivedFile]
) -> AnyDerivedFile:
    """The file at `path` if the captures beside it, the arguments (JSON) and the code are still those it was made from;
    else the result of `make`, which is then stored. Raises what `make` raises, OSError."""
    stored = load(path, kind)
    source = stored.source if stored else None
    made_by = digest_of_code(), digest_of_values(arguments)
    if stored and source and (source.code, source.arguments) == made_by and is_of(source, path.parent):
        seen = _seen(path.parent)
        if source.seen != seen:
            keep(path, stored.model_copy(update={"source": source.model_copy(update={"seen": seen})}))
        return stored
    source = source_of(path.parent, arguments)
    made = make().model_copy(update={"source": source})
    keep(path, made)
    return made


def source_of(run_dir: Path, arguments: object) -> Source:
    """The source of a result made now from the captures in `run_dir` and the arguments (JSON). Raises OSError."""
    return Source(
        code=digest_of_code(),
        arguments=digest_of_values(arguments),
        captures=digests_of_captures(run_dir),
        seen=_seen(run_dir),
    )


def is_of(source: Source, run_dir: Path) -> bool:
    """Whether the captures in `run_dir` have one of the forms in the source. Raises OSError."""
    return source.seen == _seen(run_dir) or all(
        set(digests) <= set(source.captures.get(name, ())) for name, digests in digests_of_captures(run_dir).items()
    )


def _seen(run_dir: Path) -> dict[str, tuple[int, int]]:
    return {name: _size_and_time(run_dir / name) for name in CAPTURES}


def load(path: Path, kind: type[AnyDerivedFile]) -> AnyDerivedFile | None:
    """The file at `path`, upgraded; None if it does not exist, is damaged, or has a version without an upgrade."""
    try:
        values = read_json(path, MOST_DERIVED_BYTES)
        return kind.model_validate(upgraded(values, kind.upgrades) if kind.upgrades else values)
    except (OSError, ValueError, NewerVersion):
        return None


def keep(path: Path, made: DerivedFile) -> None:
    """Write it completely or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with create(partial) as file:
        file.write((made.model_dump_json(indent=2) + "\n").encode())
    move(partial, path)


def digests_of_captures(run_dir: Path) -> dict[str, list[str]]:
    """The SHA-256 of both captures of a run, in hex, each as the one form that it has now."""
    return {name: [_digest_at(run_dir / name, *_size_and_time(run_dir / name))] for name in CAPTURES}


@lru_cache(maxsize=len(CAPTURES))
def _digest_at(path: Path, size_bytes: int, changed_ns: int) -> str:
    """The digest of a file, computed once while it does not change, because several results are made from it."""
    return digest_of_file(path)


def digest_of_file(path: Path) -> str:
    """The SHA-256 of the file, in hex."""
    with open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size_and_time(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def digest_of_code() -> str:
    """The SHA-256 of this package's modules, in hex: with other code, all is made again."""
    return digest_of_modules(Path(__file__).resolve().parents[1])


@cache
def digest_of_modules(package: Path) -> str:
    """The SHA-256 of a package's modules, in hex."""
    modules = sorted(package.rglob("*.py"))
    return digest_of_values({str(path.relative_to(package)): digest_of_file(path) for path in modules})


PAIRS = "pairs.json"


class StoredDelivery(BaseModel):
    """One direction, as `captures.matches.delivery.Delivery` has it. Rows are differences from one to the next, 32 bits
    each, compressed (zlib) and written in base64. `hit` are the indices of the damaged pairs, `bits` which was hit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    near: str
    far: str
    sent: str
    delivered: str
    hit: str
    bits: str
    unmatched: str
    undirected: int
    background: StoredDelivery | None = None

    @classmethod
    def of(cls, delivery: Delivery) -> StoredDelivery:
        """The delivery in its stored form."""
        hit = np.flatnonzero(delivery.flipped_bit != INTACT)
        return cls(
            near=_packed(delivery.near),
            far=_packed(delivery.far),
            sent=_packed(delivery.sent),
            delivered=_packed(delivery.delivered),
            hit=_packed(hit),
            bits=_packed(delivery.flipped_bit[hit]),
            unmatched=_packed(delivery.unmatched),
            undirected=delivery.undirected,
            background=None if delivery.background is None else cls.of(delivery.background),
        )

    def delivery(self, near: Columns, far: Columns, was_cut: bool) -> Delivery:
        """The delivery between the two captures. Raises ValueError, LookupError, zlib.error if it cannot be one."""
        most = len(near) + len(far)
        sent, delivered = _unpacked(self.sent, most), _unpacked(self.delivered, most)
        flipped_bit = np.full(len(sent), INTACT, np.int64)
        flipped_bit[_unpacked(self.hit, most)] = _unpacked(self.bits, most)
        return Delivery(
            near=_unpacked(self.near, most),
            far=_unpacked(self.far, most),
            sent=sent,
            delivered=delivered,
            flipped_bit=flipped_bit,
            delay_ns=far.time_ns[delivered] - near.time_ns[sent],
            background=None if self.background is None else self.background.delivery(near, far, was_cut),
            undirected=self.undirected,
            unmatched=_unpacked(self.unmatched, most),
            was_cut=was_cut,
        )


class StoredPairs(DerivedFile):
    """Both directions. `was_cut`: frames were cut already when the pairs were found."""

    schema_version: int = 1
    was_cut: bool
    forward: StoredDelivery
    reverse: StoredDelivery

    def crossing(self, at_sender: Columns, at_receiver: Columns) -> Crossing:
        """The crossing between the captures with these columns."""
        return Crossing(
            at_sender,
            at_receiver,
            self.forward.delivery(at_sender, at_receiver, self.was_cut),
            self.reverse.delivery(at_receiver, at_sender, self.was_cut),
        )


def load_pairs(run_dir: Path, at_sender: Columns, at_receiver: Columns, session: Session) -> Crossing | None:
    """The stored pairs of the captures in `run_dir` with these columns; None if they are of other captures or another
    session, or if the present code can find them again. Raises OSError."""
    stored = load(run_dir / PAIRS, StoredPairs)
    if (
        stored is None
        or stored.source is None
        or not _is_valid(stored, stored.source, run_dir, at_sender, at_receiver, session)
    ):
        return None
    try:
        return stored.crossing(at_sender, at_receiver)
    except (ValueError, LookupError, zlib.error):
        return None  # changed by somebody else


def load_or_match(run_dir: Path, at_sender: Columns, at_receiver: Columns, session: Session) -> Crossing:
    """The stored pairs of the captures in `run_dir` with these columns; else the pairs found in them, which are then
    stored. Raises OSError."""
    stored = load_pairs(run_dir, at_sender, at_receiver, session)
    if stored is not None:
        return stored
    found = match_captures(at_sender, at_receiver, session)
    pairs = StoredPairs(
        source=source_of(run_dir, _arguments(session)),
        was_cut=found.forward.was_cut,
        forward=StoredDelivery.of(found.forward),
        reverse=StoredDelivery.of(found.reverse),
    )
    keep(run_dir / PAIRS, pairs)
    return found


def _is_valid(
    stored: StoredPairs, source: Source, run_dir: Path, at_sender: Columns, at_receiver: Columns, session: Session
) -> bool:
    if source.arguments != digest_of_values(_arguments(session)) or not is_of(source, run_dir):
        return False
    is_cut = bool(at_sender.is_cut.any() or at_receiver.is_cut.any())
    return source.code == digest_of_code() or (is_cut and not stored.was_cut)


def _arguments(session: Session) -> list[object]:
    return [session.model_dump(mode="json")]


def _packed(rows: Rows) -> str:
    return base64.b64encode(zlib.compress(np.diff(rows, prepend=0).astype("<i4").tobytes(), level=1)).decode()


def _unpacked(text: str, most: int) -> Rows:
    """The rows. Raises ValueError for more than `most` rows before it unpacks them: a few bytes can expand to 1 TB."""
    unpacking = zlib.decompressobj()
    steps = np.frombuffer(unpacking.decompress(base64.b64decode(text), 4 * most + 1), "<i4")
    if unpacking.unconsumed_tail or len(steps) > most:
        raise ValueError(f"more than {most} rows")
    return np.cumsum(steps, dtype=np.int64)
