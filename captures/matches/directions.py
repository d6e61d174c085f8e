"""One direction of the channel between two captures: which frames go that way, and pairs of packets and copies in it.

The addresses of the session's packets show from which side of the channel they come. Other frames (ARP, IGMP, router
solicitations, other programs) are from the side from which the session's packets with the same Ethernet source come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv6Address

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import ETHERNET, LONGEST_FRAME_BYTES
from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.checksums import completed
from owlt.captures.frames.columns import Columns, Rows, read_heads
from owlt.captures.frames.decoding import ODD_1, ODD_2
from owlt.captures.frames.session import HOSTS, Host, Session, sent_by
from owlt.captures.matches.by_key import pair_by_key
from owlt.captures.matches.delivery import INTACT

_NONE = np.empty(0, np.int64)
_AT_ONCE = 1 << 16
_SAMPLE = 1_000
"""The number of a host's packets that decide its Ethernet address: the one that most of them have, in case some are
damaged."""


@dataclass(frozen=True, eq=False)
class Bound:
    """The frames from one side: the rows of the session's packets, and those of the others."""

    session: Rows
    others: Rows = field(default_factory=lambda: _NONE)

    @property
    def all(self) -> Rows:
        """Both."""
        return np.concatenate([self.session, self.others]) if len(self.others) else self.session


ByHost = dict[Host | None, Bound]
"""The frames of a capture by the host from whose side they come; None: it is not known."""


def bound_by_host(capture: Columns, session: Session) -> ByHost:
    """All frames of the capture."""
    belongs = {host: sent_by(capture, session, host) for host in HOSTS}
    sender, receiver = (np.flatnonzero(belongs[host]) for host in HOSTS)
    if len(sender) + len(receiver) == len(capture):
        return {"sender": Bound(sender), "receiver": Bound(receiver), None: Bound(_NONE)}
    rest = np.flatnonzero(~(belongs["sender"] | belongs["receiver"]))
    addresses = _ethernet_sources(capture, rest)
    of_sender, of_receiver = _usual_source(capture, sender), _usual_source(capture, receiver)
    if of_sender == of_receiver:
        return {"sender": Bound(sender), "receiver": Bound(receiver), None: Bound(_NONE, rest)}
    is_sender, is_receiver = addresses == of_sender, addresses == of_receiver
    return {
        "sender": Bound(sender, rest[is_sender]),
        "receiver": Bound(receiver, rest[is_receiver]),
        None: Bound(_NONE, rest[~is_sender & ~is_receiver]),
    }


def with_known_direction(bound: ByHost, of_sender: Rows, of_receiver: Rows) -> ByHost:
    """The frames by host, after the side of these frames has become known."""
    sender, receiver = bound["sender"], bound["receiver"]
    unknown = np.setdiff1d(bound[None].others, np.concatenate([of_sender, of_receiver]))
    return {
        "sender": Bound(sender.session, np.union1d(sender.others, of_sender)),
        "receiver": Bound(receiver.session, np.union1d(receiver.others, of_receiver)),
        None: Bound(_NONE, unknown),
    }


def _usual_source(capture: Columns, rows: Rows) -> int:
    """The Ethernet source that most of the frames have; -1 where there are none."""
    if not len(rows):
        return -1
    sources, counts = np.unique(_ethernet_sources(capture, rows[:: -(-len(rows) // _SAMPLE)]), return_counts=True)
    return int(sources[counts.argmax()])


def _ethernet_sources(capture: Columns, rows: Rows) -> Rows:
    """The source addresses of the frames as numbers; 0 if the capture does not reach so far."""
    weights = np.int64(256) ** np.arange(5, -1, -1)
    parts = (read_heads(capture, rows[start : start + _AT_ONCE], 12) for start in range(0, len(rows), _AT_ONCE))
    return np.concatenate([_NONE, *(part[:, 6:].astype(np.int64) @ weights for part in parts)])


_SHORTEST_BYTES = 60
"""The shortest Ethernet frame without its checksum (IEEE 802.3)."""

Key = Callable[[Columns, Rows], NDArray[np.uint64]]
"""Computes a key that is equal for rows of both captures that belong together."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Row of a packet, row of its copy, the flipped bit or INTACT."""

    sent: Rows
    delivered: Rows
    flipped_bit: NDArray[np.int64]

    def __add__(self, other: Pairs) -> Pairs:
        if not len(other.sent):
            return self
        return Pairs(
            np.concatenate([self.sent, other.sent]),
            np.concatenate([self.delivered, other.delivered]),
            np.concatenate([self.flipped_bit, other.flipped_bit]),
        )

    def only(self, kept: NDArray[np.bool_] | Rows) -> Pairs:
        return Pairs(self.sent[kept], self.delivered[kept], self.flipped_bit[kept])


NO_PAIRS = Pairs(*np.empty((3, 0), np.int64))


@dataclass(frozen=True, eq=False)
class Direction:
    """One direction of the channel: the frames that set out at its near capture and those that arrive at its far one.

    `least_delay_ns` is 0 where one clock took both captures, None if a frame may seem to arrive before it was sent.
    `is_offloaded`: the host leaves checksums to its card, which completes them behind the near capture.
    """

    near_capture: Columns
    far_capture: Columns
    near: Bound
    far: Bound
    least_delay_ns: int | None
    is_offloaded: bool = False

    @cached_property
    def kinds(self) -> Rows:
        """For each row of the near capture a number that frames equal in every byte share; -1 for a frame that has no
        equal in this direction."""
        near = self.near.all
        _, kinds, count = np.unique(frame_key(self.near_capture, near), return_inverse=True, return_counts=True)
        of_rows = np.full(len(self.near_capture), -1, np.int64)
        of_rows[near] = np.where(count[kinds] > 1, kinds, -1)
        return of_rows

    def intact(self, near: Rows, far: Rows, key: Key, reference: Pairs) -> Pairs:
        """The pairs of rows with equal keys, as of intact copies; `reference` are pairs that show the delay, too."""
        sent_ns, arrived_ns = self.near_capture.time_ns, self.far_capture.time_ns
        sent, delivered = pair_by_key(
            key(self.near_capture, near),
            sent_ns[near],
            key(self.far_capture, far),
            arrived_ns[far],
            reference=(sent_ns[reference.sent], arrived_ns[reference.delivered]),
            least_delay_ns=self.least_delay_ns,
        )
        return Pairs(near[sent], far[delivered], np.full(len(sent), INTACT, np.int64))

    def near_frames(self, rows: Rows) -> list[bytes]:
        """The frames that were sent in these rows, with the checksums that the host left to its card."""
        frames = _frames(self.near_capture, rows)
        if not self.is_offloaded:
            return frames
        lengths, link_type = self.near_capture.wire_bytes[rows].tolist(), self.near_capture.link_type or ETHERNET
        return [completed(frame, length, link_type) for frame, length in zip(frames, lengths, strict=True)]

    def far_frames(self, rows: Rows) -> list[bytes]:
        """The frames that arrived in these rows."""
        return _frames(self.far_capture, rows)

    def certain(self, pairs: Pairs) -> Pairs:
        """The pairs whose packet has no equal, so that they are unambiguous; all pairs if there are none."""
        certain = self.kinds[pairs.sent] < 0
        return pairs.only(certain) if certain.any() else pairs

    def least_delay_of(self, reference: Pairs) -> int | None:
        """The least delay that a pair may have, where the known ones show a lower one."""
        if self.least_delay_ns is None:
            return None
        delays = self.far_capture.time_ns[reference.delivered] - self.near_capture.time_ns[reference.sent]
        return int(delays.min(initial=self.least_delay_ns))


def frame_key(capture: Columns, rows: Rows) -> NDArray[np.uint64]:
    """A key of all hashed parts of a frame."""
    return capture.header_hash[rows] * np.uint64(3) + _body_key(capture, rows)


def content_key(capture: Columns, rows: Rows) -> NDArray[np.uint64]:
    """A key of the parts that no router changes: addresses, protocol, identification and all after the IP header."""
    return _packet_key(capture, rows) + _body_key(capture, rows)


def unchecked_key(capture: Columns, rows: Rows) -> NDArray[np.uint64]:
    """A key of the parts that neither a router nor a card that completes checksums changes."""
    return _packet_key(capture, rows) + capture.body_hash[rows]


def _body_key(capture: Columns, rows: Rows) -> NDArray[np.uint64]:
    key: NDArray[np.uint64] = capture.body_hash[rows] + capture.checksum[rows] * ODD_1
    return key


def _packet_key(capture: Columns, rows: Rows) -> NDArray[np.uint64]:
    source, destination = (
        _address_key(capture, numbers[rows], rows) for numbers in (capture.source, capture.destination)
    )
    packet = capture.identification[rows].astype(np.uint64) << np.uint64(8) | capture.protocol[rows]
    key: NDArray[np.uint64] = (source * ODD_2 + destination) * ODD_1 + packet * ODD_2
    return key


def _address_key(capture: Columns, numbers: NDArray[np.uint32], rows: Rows) -> NDArray[np.uint64]:
    """Keys of the addresses that are equal in all captures: the indices of IPv6 addresses differ between captures."""
    keys = numbers.astype(np.uint64)
    if capture.addresses:
        is_wide = capture.network[rows] == 6
        reference = np.array([_folded(address) for address in capture.addresses], np.uint64)
        keys[is_wide] = reference[numbers[is_wide]]
    return keys


def _folded(address: IPv6Address) -> int:
    prefix, interface = divmod(int(address), 1 << 64)
    return prefix ^ interface


def padded_bytes(capture: Columns, rows: Rows) -> NDArray[np.uint32]:
    """The lengths of frames on the wire, with the padding that a host's own capture does not contain."""
    lengths = capture.wire_bytes[rows]
    return np.maximum(lengths, np.uint32(_SHORTEST_BYTES)) if capture.link_type == ETHERNET else lengths


def _frames(capture: Columns, rows: Rows) -> list[bytes]:
    lengths = np.minimum(capture.captured_bytes[rows], min(capture.hashed_bytes, LONGEST_FRAME_BYTES))
    frames = read_frames(capture.path, capture.offset[rows], lengths)
    if capture.link_type != ETHERNET or (capture.wire_bytes[rows] >= _SHORTEST_BYTES).all():
        return frames
    whole_bytes = capture.wire_bytes[rows].tolist()
    return [
        frame.ljust(_SHORTEST_BYTES, b"\0") if len(frame) == whole else frame
        for frame, whole in zip(frames, whole_bytes, strict=True)
    ]
