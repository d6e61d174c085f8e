"""Finding each packet in both captures: near, where it came from its host, and far, behind the channel.

How equal keys are paired is pairing.py's, how a damaged copy is recognised bitflips.py's, which way a frame is bound
directions.py's; what follows from the pairs is left to the ledger and the summary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from ipaddress import IPv6Address

import numpy as np
from numpy.typing import NDArray

from captures.files.heads import read_heads
from captures.files.pcap import LONGEST_FRAME_BYTES, read_frames
from captures.frames.columns import ETHERNET_BYTES, Columns
from captures.frames.hashing import ODD_1, ODD_2
from captures.matches.bitflips import (
    NEIGHBOURS,
    Flip,
    find_few_bits_away,
    find_one_bit_away,
    is_unmistakable,
)
from captures.matches.directions import Bound, ByHost, bound_by_host, told
from captures.matches.pairing import DelayAround, pair_by_key
from captures.session import Session

Rows = NDArray[np.int64]
INTACT = -1

_HEADERS_BYTES = ETHERNET_BYTES + 60
"""Ethernet and the longest IPv4 header."""

_MOST_AT_ONCE = 16_384
_MARGIN = 4_096
"""Damaged copies are sought so many at a time, among the packets sent meanwhile and so many before and after."""
_NEAR = 256
"""The same for copies of packets that have one already: then all packets are candidates, not the lost ones only."""
_MOST_BYTES_AT_ONCE = 64 << 20

_Key = Callable[[Columns, Rows], NDArray[np.uint64]]
_Find = Callable[
    [Sequence[bytes], Sequence[int], Sequence[bytes], Sequence[int], Sequence[int], int | None], list[Flip]
]


def without(rows: Rows, taken: Rows) -> Rows:
    """The rows that are not among the taken ones, in their order."""
    if not len(rows) or not len(taken):
        return rows
    is_taken = np.zeros(max(rows.max(), taken.max()) + 1, np.bool_)
    is_taken[taken] = True
    return rows[~is_taken[rows]]


@dataclass(frozen=True, eq=False)
class Delivery:
    """What became of the session's packets that one host sent.

    `near` are the rows of the packets in the capture at the host's port, `far` the rows that pass the
    filter in the other one. Pair by pair, `sent` and `delivered` are the row of a packet and that of its
    copy, in the order of arrival; a packet that the channel duplicated is in several pairs. `flipped_bit` is
    the bit of the frame that was hit, or the first of them, counted from the most significant bit of its first
    byte, or INTACT.

    `background` is the same of the other frames that came from the host's side, whatever they are; its `far` are
    those that seem to. It is None in a background itself. `undirected` frames of the near capture are in neither:
    from which side they came cannot be told. `unmatched` are all rows of the far capture that are a copy of nothing in
    the near one, and were not sent by the host at the far port; empty in a background. `was_cut`: frames were cut when
    the pairs were found, so that a copy that seems intact may have been hit behind the cut.
    """

    near: Rows
    far: Rows
    sent: Rows
    delivered: Rows
    flipped_bit: NDArray[np.int64]
    delay_ns: NDArray[np.int64]
    background: Delivery | None = None
    undirected: int = 0
    unmatched: Rows = field(default_factory=lambda: np.empty(0, np.int64))
    was_cut: bool = False

    @property
    def lost(self) -> Rows:
        """The packets (rows of the near capture) that did not come out while the channel was captured."""
        return without(self.near, self.sent)

    @property
    def unexplained(self) -> Rows:
        """The rows that pass the filter in the far capture and are no copy of a frame in the near one."""
        own = without(self.far, self.delivered)
        return own if self.background is None else without(own, self.background.delivered)

    @property
    def outside(self) -> Rows:
        """The copies (rows of the far capture) that the filter misses, for the bit that was hit in them."""
        return without(self.delivered, self.far)

    @property
    def first_copies(self) -> NDArray[np.int64]:
        """The indices of the pairs without the duplicates: of every packet the copy that came first."""
        if not len(self.sent):
            return np.empty(0, np.int64)
        pairs = np.arange(len(self.sent))
        first = np.empty(self.sent.max() + 1, np.int64)
        first[self.sent[::-1]] = pairs[::-1]
        return np.flatnonzero(first[self.sent] == pairs)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Row of a packet, row of its copy, the flipped bit or INTACT."""

    sent: Rows
    delivered: Rows
    flipped_bit: NDArray[np.int64]

    def __add__(self, other: _Pairs) -> _Pairs:
        if not len(other.sent):
            return self
        return _Pairs(
            np.concatenate([self.sent, other.sent]),
            np.concatenate([self.delivered, other.delivered]),
            np.concatenate([self.flipped_bit, other.flipped_bit]),
        )

    def only(self, kept: NDArray[np.bool_] | Rows) -> _Pairs:
        return _Pairs(self.sent[kept], self.delivered[kept], self.flipped_bit[kept])


_NO_PAIRS = _Pairs(*np.empty((3, 0), np.int64))


@dataclass(frozen=True, eq=False)
class _Crossing:
    """One direction of the channel: where its frames set out and where they arrive. `least_delay_ns` is 0 where one
    clock took both captures, None where a frame may seem to arrive before it was sent."""

    near_capture: Columns
    far_capture: Columns
    near: Bound
    far: Bound
    least_delay_ns: int | None

    @cached_property
    def kinds(self) -> Rows:
        """For each row of the near capture a number that frames equal in every byte share; -1 for a frame that has no
        equal in this direction."""
        near = self.near.all
        _, kinds, count = np.unique(_frame_key(self.near_capture, near), return_inverse=True, return_counts=True)
        of_rows = np.full(len(self.near_capture), -1, np.int64)
        of_rows[near] = np.where(count[kinds] > 1, kinds, -1)
        return of_rows

    def certain(self, pairs: _Pairs) -> _Pairs:
        """The pairs whose packet has no equal, which cannot be another's; all of them where there are none."""
        certain = self.kinds[pairs.sent] < 0
        return pairs.only(certain) if certain.any() else pairs

    def least_delay_of(self, known: _Pairs) -> int | None:
        """The least delay that a pair may have, where the known ones show a lower one."""
        if self.least_delay_ns is None:
            return None
        delays = self.far_capture.time_ns[known.delivered] - self.near_capture.time_ns[known.sent]
        return int(delays.min(initial=self.least_delay_ns))


def match_captures(
    sender_capture: Columns, receiver_capture: Columns, session: Session, one_clock: bool = True
) -> tuple[Delivery, Delivery]:
    """What became of the packets of the sender, and of those of the receiver.

    Both columns must be hashed over the same number of bytes a frame (`read_columns`). With `one_clock` no copy is
    taken for one of a packet that was sent after it arrived, where there are several that it may be of. Raises OSError.
    """
    least_delay_ns = 0 if one_clock else None
    at_sender, at_receiver = (bound_by_host(capture, session) for capture in (sender_capture, receiver_capture))
    at_sender, at_receiver = _told_by_time(sender_capture, receiver_capture, at_sender, at_receiver)
    forward = _Crossing(sender_capture, receiver_capture, at_sender["sender"], at_receiver["sender"], least_delay_ns)
    reverse = _Crossing(
        receiver_capture, sender_capture, at_receiver["receiver"], at_sender["receiver"], least_delay_ns
    )
    forward_pairs, reverse_pairs = _pair_unhurt(forward), _pair_unhurt(reverse)
    forward_pairs = _with_damaged(forward, forward_pairs, np.concatenate([reverse_pairs.sent, reverse.near.session]))
    reverse_pairs = _with_damaged(reverse, reverse_pairs, np.concatenate([forward_pairs.sent, forward.near.session]))
    unknown = without(at_sender[None].others, reverse_pairs.delivered)
    unknown_there = without(at_receiver[None].others, forward_pairs.delivered)
    return (
        _delivery(forward, forward_pairs, reverse_pairs, reverse.near.session, len(unknown)),
        _delivery(reverse, reverse_pairs, forward_pairs, forward.near.session, len(unknown_there)),
    )


def _told_by_time(
    sender_capture: Columns, receiver_capture: Columns, at_sender: ByHost, at_receiver: ByHost
) -> tuple[ByHost, ByHost]:
    """The same with the frames of which only the times tell which way they went: they came out later than in."""
    here, there = at_sender[None].others, at_receiver[None].others
    first, second = pair_by_key(
        _frame_key(sender_capture, here),
        sender_capture.time_ns[here],
        _frame_key(receiver_capture, there),
        receiver_capture.time_ns[there],
    )
    is_forward = receiver_capture.time_ns[there[second]] >= sender_capture.time_ns[here[first]]
    return (
        told(at_sender, here[first[is_forward]], here[first[~is_forward]]),
        told(at_receiver, there[second[is_forward]], there[second[~is_forward]]),
    )


def _delivery(crossing: _Crossing, pairs: _Pairs, of_other: _Pairs, sent_by_other: Rows, undirected: int) -> Delivery:
    """`of_other` are the pairs of the other direction, and `sent_by_other` the session's packets that were sent there:
    what they have in this direction's captures is not of this direction, whichever its Ethernet address."""
    explained = np.concatenate([pairs.delivered, of_other.sent, sent_by_other])
    unmatched = without(np.arange(len(crossing.far_capture)), explained)
    if (np.diff(pairs.delivered) < 0).any():
        pairs = pairs.only(np.argsort(pairs.delivered))
    if not len(crossing.near.others):
        others = pairs.only(np.empty(0, np.int64))
    else:
        is_session = np.zeros(len(crossing.near_capture), np.bool_)
        is_session[crossing.near.session] = True
        kept = is_session[pairs.sent]
        pairs, others = pairs.only(kept), pairs.only(~kept)
    far_others = without(crossing.far.others, pairs.delivered)
    background = _timed(crossing, without(crossing.near.others, of_other.delivered), far_others, others)
    session = _timed(crossing, crossing.near.session, crossing.far.session, pairs)
    return replace(session, background=background, undirected=undirected, unmatched=unmatched)


def _timed(crossing: _Crossing, near: Rows, far: Rows, pairs: _Pairs) -> Delivery:
    near_capture, far_capture = crossing.near_capture, crossing.far_capture
    delay_ns = far_capture.time_ns[pairs.delivered] - near_capture.time_ns[pairs.sent]
    was_cut = bool(near_capture.is_cut.any() or far_capture.is_cut.any())
    return Delivery(near, far, pairs.sent, pairs.delivered, pairs.flipped_bit, delay_ns, was_cut=was_cut)


def _pair_unhurt(crossing: _Crossing) -> _Pairs:
    """Equal frames; then, of what is left, frames with equal contents whose headers differ: bits were hit
    that the filter does not look at, or, where that is so of most, a router has rewritten them, which is no damage."""
    near, far = crossing.near.all, crossing.far.all
    sent, delivered = _pair(crossing, near, far, _frame_key, _NO_PAIRS)
    equal = _Pairs(sent, delivered, np.full(len(sent), INTACT, np.int64))
    near, far = without(near, sent), without(far, delivered)
    sent, delivered = _pair(crossing, near, far, _content_key, equal)
    if not len(sent):
        return equal
    unchanged = len(crossing.near.session) - len(without(crossing.near.session, equal.sent))
    return equal + _Pairs(sent, delivered, _header_bits(crossing, sent, delivered, is_routed=len(sent) > unchanged))


def _pair(crossing: _Crossing, near: Rows, far: Rows, key: _Key, known: _Pairs) -> tuple[Rows, Rows]:
    near_capture, far_capture = crossing.near_capture, crossing.far_capture
    sent, delivered = pair_by_key(
        key(near_capture, near),
        near_capture.time_ns[near],
        key(far_capture, far),
        far_capture.time_ns[far],
        known=(near_capture.time_ns[known.sent], far_capture.time_ns[known.delivered]),
        least_delay_ns=crossing.least_delay_ns,
    )
    return near[sent], far[delivered]


def _frame_key(capture: Columns, rows: Rows) -> NDArray[np.uint64]:
    return capture.header_hash[rows] * np.uint64(3) + capture.body_hash[rows]


def _content_key(capture: Columns, rows: Rows) -> NDArray[np.uint64]:
    """What no router changes: addresses, protocol, identification and all behind the IP header."""
    source, destination = (
        _address_key(capture, numbers[rows], rows) for numbers in (capture.source, capture.destination)
    )
    packet = capture.identification[rows].astype(np.uint64) << np.uint64(8) | capture.protocol[rows]
    key: NDArray[np.uint64] = capture.body_hash[rows] + (source * ODD_2 + destination) * ODD_1 + packet * ODD_2
    return key


def _address_key(capture: Columns, numbers: NDArray[np.uint32], rows: Rows) -> NDArray[np.uint64]:
    """What stands for the addresses in any capture: IPv6 addresses have indices in each of its own."""
    keys = numbers.astype(np.uint64)
    if capture.addresses:
        is_wide = capture.network[rows] == 6
        known = np.array([_folded(address) for address in capture.addresses], np.uint64)
        keys[is_wide] = known[numbers[is_wide]]
    return keys


def _folded(address: IPv6Address) -> int:
    prefix, interface = divmod(int(address), 1 << 64)
    return prefix ^ interface


def _header_bits(crossing: _Crossing, sent: Rows, delivered: Rows, is_routed: bool) -> NDArray[np.int64]:
    """The first bit in which the headers of a packet and of its copy differ. Behind a router, which changes several
    of them, only one that differs alone is damage."""
    bits = np.full(len(sent), INTACT, np.int64)
    for start in range(0, len(sent), _MOST_AT_ONCE):
        part = slice(start, start + _MOST_AT_ONCE)
        packets = read_heads(crossing.near_capture, sent[part], _HEADERS_BYTES)
        difference = packets ^ read_heads(crossing.far_capture, delivered[part], _HEADERS_BYTES)
        count = np.bitwise_count(difference).sum(axis=1, dtype=np.int64)
        byte = np.argmax(difference > 0, axis=1)
        highest = np.unpackbits(difference[np.arange(len(byte)), byte, None], axis=1).argmax(axis=1)
        bits[part] = np.where((count == 1) | ((count > 0) & (not is_routed)), 8 * byte + highest, INTACT)
    return bits


def _with_damaged(crossing: _Crossing, pairs: _Pairs, explained: Rows) -> _Pairs:
    """The pairs with those of damaged copies. Of packets equal in every byte an intact copy and a damaged one say the
    same, so which is whose is found out once both are known. Then other packets than before may be those without a
    copy, so copies are sought once more."""
    for _ in range(2):
        damaged = _pair_damaged(crossing, pairs, explained)
        if not len(damaged.sent):
            break
        pairs = _in_order(crossing, pairs + damaged)
    return pairs


def _in_order(crossing: _Crossing, pairs: _Pairs) -> _Pairs:
    """The pairs, where those of equal packets are made anew of all their copies."""
    near_capture, far_capture = crossing.near_capture, crossing.far_capture
    is_shared = crossing.kinds[pairs.sent] >= 0
    shared, known = pairs.only(is_shared), pairs.only(~is_shared)
    if not len(shared.sent):
        return pairs
    near = crossing.near.all[crossing.kinds[crossing.near.all] >= 0]
    sent, copy = pair_by_key(
        crossing.kinds[near].astype(np.uint64),
        near_capture.time_ns[near],
        crossing.kinds[shared.sent].astype(np.uint64),
        far_capture.time_ns[shared.delivered],
        known=(near_capture.time_ns[known.sent], far_capture.time_ns[known.delivered]),
        least_delay_ns=crossing.least_delay_ns,
    )
    return known + _Pairs(near[sent], shared.delivered[copy], shared.flipped_bit[copy])


def _pair_damaged(crossing: _Crossing, pairs: _Pairs, explained: Rows) -> _Pairs:
    """The damaged copies: sought among all frames of the far capture that are neither paired nor `explained`,
    whatever they look like. First those with one bit hit, then those with few, then those of them whose checksums are
    right; at last second copies of packets that have one, where headers alone would not do to tell packets that are
    alike."""
    near, far_capture = crossing.near.all, crossing.far_capture
    lost = without(near, pairs.sent)
    others = without(without(np.arange(len(far_capture)), pairs.delivered), explained)
    one = _flipped(crossing, lost, others, pairs, find_one_bit_away, _MARGIN)
    few = _flipped(
        crossing, without(lost, one.sent), without(others, one.delivered), pairs + one, find_few_bits_away, _MARGIN
    )
    found = one + few
    lost, others = without(lost, found.sent), without(others, found.delivered)
    found += _cancelling(crossing, lost, others, pairs + found)
    others = without(others, found.delivered)
    again = _flipped(crossing, near, others, pairs + found, find_one_bit_away, _NEAR)
    others = without(others, again.delivered)
    whole = others[far_capture.captured_bytes[others] == far_capture.wire_bytes[others]]
    found += again
    return found + _flipped(crossing, near, whole, pairs + found, partial(find_few_bits_away, may_cancel=0), _NEAR)


def _cancelling(crossing: _Crossing, lost: Rows, others: Rows, known: _Pairs) -> _Pairs:
    """Copies with few bits hit that left the checksums right, of packets that are like no other sent about then."""
    any_may = partial(find_few_bits_away, may_cancel=8 * LONGEST_FRAME_BYTES)
    pairs = _flipped(crossing, lost, others, known, any_may, _MARGIN)
    if not len(pairs.sent):
        return pairs
    near_capture, far_capture = crossing.near_capture, crossing.far_capture
    near = _by_time(near_capture, crossing.near.all)
    places = np.searchsorted(near_capture.time_ns[near], near_capture.time_ns[pairs.sent])
    kept = np.zeros(len(pairs.sent), np.bool_)
    for number, (row, place) in enumerate(zip(pairs.sent.tolist(), places.tolist(), strict=True)):
        around = near[max(place - NEIGHBOURS, 0) : place + NEIGHBOURS]
        around = around[near_capture.wire_bytes[around] == near_capture.wire_bytes[row]]
        (packet,) = _frames(near_capture, pairs.sent[number : number + 1])
        (copy,) = _frames(far_capture, pairs.delivered[number : number + 1])
        kept[number] = is_unmistakable(packet, copy, _frames(near_capture, around))
    return pairs.only(kept)


def _flipped(crossing: _Crossing, packets: Rows, copies: Rows, known: _Pairs, find: _Find, margin: int) -> _Pairs:
    """The pairs that `find` makes of the packets and copies, each in one at most."""
    near_capture, far_capture = crossing.near_capture, crossing.far_capture
    packets, copies = _of_equal_lengths(near_capture, packets, far_capture, copies)
    if not len(copies):
        return _NO_PAIRS
    departures, arrivals = near_capture.time_ns[packets], far_capture.time_ns[copies]
    known = crossing.certain(known)
    least_delay_ns = crossing.least_delay_of(known)
    around = DelayAround(far_capture.time_ns[known.delivered], near_capture.time_ns[known.sent])
    delays = around.at(arrivals, otherwise=arrivals[0] - departures[0])
    places = np.searchsorted(departures, arrivals - delays)
    by_place = np.argsort(places, kind="stable")
    copies, arrivals, delays = copies[by_place], arrivals[by_place], delays[by_place]
    is_left = np.ones(len(packets), np.bool_)
    pairs = _NO_PAIRS
    longest = int(far_capture.captured_bytes[copies].max())
    for some, there in _portions(places[by_place], len(packets), longest, margin):
        numbers = there.start + np.flatnonzero(is_left[there])
        flips = find(
            _frames(near_capture, packets[numbers]),
            departures[numbers].tolist(),
            _frames(far_capture, copies[some]),
            arrivals[some].tolist(),
            delays[some].tolist(),
            least_delay_ns,
        )
        packet, copy, bit = np.array(flips, np.int64).reshape(-1, 3).T
        is_left[numbers[packet]] = False
        pairs += _Pairs(packets[numbers[packet]], copies[some][copy], bit)
    return pairs


def _of_equal_lengths(near_capture: Columns, near: Rows, far_capture: Columns, far: Rows) -> tuple[Rows, Rows]:
    """The near and the far rows whose length some of the others have, in the order of time."""
    near_lengths, far_lengths = near_capture.wire_bytes[near], far_capture.wire_bytes[far]
    near, far = near[np.isin(near_lengths, far_lengths)], far[np.isin(far_lengths, near_lengths)]
    return _by_time(near_capture, near), _by_time(far_capture, far)


def _portions(
    places: NDArray[np.int64], packets: int, longest_bytes: int, margin: int
) -> Iterator[tuple[slice, slice]]:
    """Some copies at once, by the places where they belong among the packets, with the packets around there."""
    most = max(min(_MOST_AT_ONCE, _MOST_BYTES_AT_ONCE // max(longest_bytes, 1)), 1)
    start = 0
    while start < len(places):
        end = min(start + most, int(np.searchsorted(places, places[start] + most, "right")))
        yield (
            slice(start, end),
            slice(max(int(places[start]) - margin, 0), min(int(places[end - 1]) + margin, packets)),
        )
        start = end


def _by_time(capture: Columns, rows: Rows) -> Rows:
    return rows[np.argsort(capture.time_ns[rows], kind="stable")]


def _frames(capture: Columns, rows: Rows) -> list[bytes]:
    lengths = np.minimum(capture.captured_bytes[rows], min(capture.hashed_bytes, LONGEST_FRAME_BYTES))
    return read_frames(capture.path, capture.offset[rows], lengths)
