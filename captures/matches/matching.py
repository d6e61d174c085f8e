"""Finding each packet in both captures: near, where it came from its host, and far, behind the channel.

pairing.py pairs equal keys, damaged_copies.py finds the damaged copies, directions.py decides which way a frame is
bound, delivery.py holds the result; what follows from the pairs belongs to the ledger and the summary.
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv6Address

import numpy as np
from numpy.typing import NDArray

from captures.frames.columns import Columns
from captures.frames.decoding import ETHERNET_BYTES
from captures.frames.hashing import ODD_1, ODD_2
from captures.frames.heads import read_heads
from captures.matches.crossing import NO_PAIRS, Crossing, Pairs, frame_key
from captures.matches.damaged_copies import with_damaged
from captures.matches.delivery import INTACT, Delivery, Rows, without
from captures.matches.directions import ByHost, bound_by_host, with_known_direction
from captures.matches.pairing import pair_by_key
from captures.session.session import Session

_HEADERS_BYTES = ETHERNET_BYTES + 60
"""Ethernet and the longest IPv4 header."""
_MOST_HEADERS_AT_ONCE = 16_384


def match_captures(
    sender_capture: Columns, receiver_capture: Columns, session: Session, one_clock: bool = True
) -> tuple[Delivery, Delivery]:
    """What became of the packets of the sender, and of those of the receiver.

    Both columns must be hashed over the same number of bytes a frame (`read_columns`). With `one_clock` no copy is
    taken for one of a packet that was sent after it arrived, where there are several that it may be of. Raises OSError.
    """
    least_delay_ns = 0 if one_clock else None
    at_sender, at_receiver = (bound_by_host(capture, session) for capture in (sender_capture, receiver_capture))
    at_sender, at_receiver = _directed_by_time(sender_capture, receiver_capture, at_sender, at_receiver)
    forward = Crossing(sender_capture, receiver_capture, at_sender["sender"], at_receiver["sender"], least_delay_ns)
    reverse = Crossing(receiver_capture, sender_capture, at_receiver["receiver"], at_sender["receiver"], least_delay_ns)
    forward_pairs, reverse_pairs = _pair_unhurt(forward), _pair_unhurt(reverse)
    forward_pairs = with_damaged(forward, forward_pairs, np.concatenate([reverse_pairs.sent, reverse.near.session]))
    reverse_pairs = with_damaged(reverse, reverse_pairs, np.concatenate([forward_pairs.sent, forward.near.session]))
    unknown = without(at_sender[None].others, reverse_pairs.delivered)
    unknown_there = without(at_receiver[None].others, forward_pairs.delivered)
    return (
        _delivery(forward, forward_pairs, reverse_pairs, reverse.near.session, len(unknown)),
        _delivery(reverse, reverse_pairs, forward_pairs, forward.near.session, len(unknown_there)),
    )


def _directed_by_time(
    sender_capture: Columns, receiver_capture: Columns, at_sender: ByHost, at_receiver: ByHost
) -> tuple[ByHost, ByHost]:
    """The same with the frames of which only the times tell which way they went: they came out later than in."""
    here, there = at_sender[None].others, at_receiver[None].others
    first, second = pair_by_key(
        frame_key(sender_capture, here),
        sender_capture.time_ns[here],
        frame_key(receiver_capture, there),
        receiver_capture.time_ns[there],
    )
    is_forward = receiver_capture.time_ns[there[second]] >= sender_capture.time_ns[here[first]]
    return (
        with_known_direction(at_sender, here[first[is_forward]], here[first[~is_forward]]),
        with_known_direction(at_receiver, there[second[is_forward]], there[second[~is_forward]]),
    )


def _delivery(crossing: Crossing, pairs: Pairs, of_other: Pairs, sent_by_other: Rows, undirected: int) -> Delivery:
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


def _timed(crossing: Crossing, near: Rows, far: Rows, pairs: Pairs) -> Delivery:
    near_capture, far_capture = crossing.near_capture, crossing.far_capture
    delay_ns = far_capture.time_ns[pairs.delivered] - near_capture.time_ns[pairs.sent]
    was_cut = bool(near_capture.is_cut.any() or far_capture.is_cut.any())
    return Delivery(near, far, pairs.sent, pairs.delivered, pairs.flipped_bit, delay_ns, was_cut=was_cut)


def _pair_unhurt(crossing: Crossing) -> Pairs:
    """Equal frames; then, of what is left, frames with equal contents whose headers differ: bits were hit
    that the filter does not look at, or, where that is so of most, a router has rewritten them, which is no damage."""
    near, far = crossing.near.all, crossing.far.all
    equal = crossing.intact(near, far, frame_key, NO_PAIRS)
    near, far = without(near, equal.sent), without(far, equal.delivered)
    alike = crossing.intact(near, far, _content_key, equal)
    sent, delivered = alike.sent, alike.delivered
    if not len(sent):
        return equal
    unchanged = len(crossing.near.session) - len(without(crossing.near.session, equal.sent))
    return equal + Pairs(sent, delivered, _header_bits(crossing, sent, delivered, is_routed=len(sent) > unchanged))


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
        reference = np.array([_folded(address) for address in capture.addresses], np.uint64)
        keys[is_wide] = reference[numbers[is_wide]]
    return keys


def _folded(address: IPv6Address) -> int:
    prefix, interface = divmod(int(address), 1 << 64)
    return prefix ^ interface


def _header_bits(crossing: Crossing, sent: Rows, delivered: Rows, is_routed: bool) -> NDArray[np.int64]:
    """The first bit in which the headers of a packet and of its copy differ. Behind a router, which changes several
    of them, only one that differs alone is damage."""
    bits = np.full(len(sent), INTACT, np.int64)
    for start in range(0, len(sent), _MOST_HEADERS_AT_ONCE):
        part = slice(start, start + _MOST_HEADERS_AT_ONCE)
        packets = read_heads(crossing.near_capture, sent[part], _HEADERS_BYTES)
        difference = packets ^ read_heads(crossing.far_capture, delivered[part], _HEADERS_BYTES)
        count = np.bitwise_count(difference).sum(axis=1, dtype=np.int64)
        byte = np.argmax(difference > 0, axis=1)
        highest = np.unpackbits(difference[np.arange(len(byte)), byte, None], axis=1).argmax(axis=1)
        bits[part] = np.where((count == 1) | ((count > 0) & (not is_routed)), 8 * byte + highest, INTACT)
    return bits
