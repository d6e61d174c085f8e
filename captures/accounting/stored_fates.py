"""The fate of each packet, stored beside a run's captures as pairs.json, and used if these were cut later.

A cut capture does not show every damaged bit, so results from complete frames are kept, also for later versions of this
package; captures that are still complete are matched anew by other code.
"""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from owlt.captures.accounting.derived_files import DerivedFile, Source, digest_of_code, is_of, keep, load, source_of
from owlt.captures.frames.columns import Columns, Rows
from owlt.captures.frames.session import Session
from owlt.captures.matches.delivery import INTACT, Crossing, Delivery
from owlt.captures.matches.matching import match_captures
from owlt.results.plain_files import digest_of_values

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
