"""Finding each packet in both captures: near, where it came from its host, and far, behind the channel.

by_key.py pairs equal keys, damaged_copies.py finds the damaged copies, directions.py decides which way a frame is
bound, delivery.py holds the result. Conclusions from the pairs belong to `captures.accounting`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import ETHERNET
from owlt.captures.frames.checksums import completed, left_to_the_card
from owlt.captures.frames.columns import Columns, Rows, ip_starts, read_heads
from owlt.captures.frames.decoding import CE, ECT
from owlt.captures.frames.session import Session
from owlt.captures.matches.by_key import pair_by_key
from owlt.captures.matches.damaged_copies import with_damaged
from owlt.captures.matches.delivery import INTACT, Crossing, Delivery, without
from owlt.captures.matches.directions import (
    NO_PAIRS,
    ByHost,
    Direction,
    Pairs,
    bound_by_host,
    content_key,
    frame_key,
    unchecked_key,
    with_known_direction,
)

_IP_HEADER_BYTES, _IPV6_BYTES = 60, 40
"""The longest IPv4 header; that of IPv6 without extension headers."""
_TTL_AT, _HOP_LIMIT_AT = 8, 7
_REWRITTEN = (1, _TTL_AT, 10, 11)
"""Bytes of an IPv4 header: type of service, time to live, checksum."""
_NOT_ECN_IN_IPV6 = np.uint8(0xCF)
_MOST_HEADERS_AT_ONCE = 16_384


def match_captures(
    sender_capture: Columns, receiver_capture: Columns, session: Session, one_clock: bool = True
) -> Crossing:
    """The crossing of the session's packets between two captures, with the fate of each.

    Both columns must be hashed over the same number of bytes a frame (`read_columns`). With `one_clock` no copy is
    taken for one of a packet that was sent after it arrived, where there are several that it may be of. Raises OSError.
    """
    least_delay_ns = 0 if one_clock else None
    at_sender, at_receiver = (bound_by_host(capture, session) for capture in (sender_capture, receiver_capture))
    at_sender, at_receiver = _directed_by_time(sender_capture, receiver_capture, at_sender, at_receiver)
    forward = Direction(sender_capture, receiver_capture, at_sender["sender"], at_receiver["sender"], least_delay_ns)
    reverse = Direction(
        receiver_capture, sender_capture, at_receiver["receiver"], at_sender["receiver"], least_delay_ns
    )
    (forward, forward_pairs), (reverse, reverse_pairs) = _pair_unhurt(forward), _pair_unhurt(reverse)
    forward_pairs = with_damaged(forward, forward_pairs, np.concatenate([reverse_pairs.sent, reverse.near.session]))
    reverse_pairs = with_damaged(reverse, reverse_pairs, np.concatenate([forward_pairs.sent, forward.near.session]))
    unknown = without(at_sender[None].others, reverse_pairs.delivered)
    unknown_there = without(at_receiver[None].others, forward_pairs.delivered)
    return Crossing(
        sender_capture,
        receiver_capture,
        _delivery(forward, forward_pairs, reverse_pairs, reverse.near.session, len(unknown)),
        _delivery(reverse, reverse_pairs, forward_pairs, forward.near.session, len(unknown_there)),
    )


def _directed_by_time(
    sender_capture: Columns, receiver_capture: Columns, at_sender: ByHost, at_receiver: ByHost
) -> tuple[ByHost, ByHost]:
    """The crossing with the frames whose direction only their times show: they left later than they entered."""
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


def _delivery(direction: Direction, pairs: Pairs, of_other: Pairs, sent_by_other: Rows, undirected: int) -> Delivery:
    """`of_other` are the pairs of the other direction, and `sent_by_other` the session's packets that were sent there:
    their frames in this direction's captures do not belong to it, even if their Ethernet address is its own."""
    explained = np.concatenate([pairs.delivered, of_other.sent, sent_by_other])
    unmatched = without(np.arange(len(direction.far_capture)), explained)
    arrivals_ns = direction.far_capture.time_ns[pairs.delivered]
    if (np.diff(arrivals_ns) < 0).any() or (np.diff(pairs.delivered) < 0).any():
        pairs = pairs.only(np.lexsort((pairs.delivered, arrivals_ns)))
    if not len(direction.near.others):
        others = pairs.only(np.empty(0, np.int64))
    else:
        is_session = np.zeros(len(direction.near_capture), np.bool_)
        is_session[direction.near.session] = True
        kept = is_session[pairs.sent]
        pairs, others = pairs.only(kept), pairs.only(~kept)
    far_others = without(direction.far.others, pairs.delivered)
    background = _timed(direction, without(direction.near.others, of_other.delivered), far_others, others)
    session = _timed(direction, direction.near.session, direction.far.session, pairs)
    return replace(session, background=background, undirected=undirected, unmatched=unmatched)


def _timed(direction: Direction, near: Rows, far: Rows, pairs: Pairs) -> Delivery:
    near_capture, far_capture = direction.near_capture, direction.far_capture
    delay_ns = far_capture.time_ns[pairs.delivered] - near_capture.time_ns[pairs.sent]
    was_cut = bool(near_capture.is_cut.any() or far_capture.is_cut.any())
    return Delivery(near, far, pairs.sent, pairs.delivered, pairs.flipped_bit, delay_ns, was_cut=was_cut)


def _pair_unhurt(direction: Direction) -> tuple[Direction, Pairs]:
    """The pairs of intact copies, and the direction with `is_offloaded` set.

    It pairs equal frames; then, of the rest, frames with equal contents whose headers differ, because a router or a
    queue rewrote them (no damage) or bits were flipped that the filter does not examine; then frames whose checksum was
    completed by the host's card.
    """
    near, far = direction.near.all, direction.far.all
    equal = direction.intact(near, far, frame_key, NO_PAIRS)
    near, far = without(near, equal.sent), without(far, equal.delivered)
    alike = direction.intact(near, far, content_key, equal)
    near, far = without(near, alike.sent), without(far, alike.delivered)
    offloaded = direction.intact(near, far, unchecked_key, equal + alike)
    offloaded = offloaded.only(_are_completed(direction, offloaded))
    changed = alike + offloaded
    if not len(changed.sent):
        return direction, equal
    sent_headers, arrived_headers = direction.near_capture.header_hash, direction.far_capture.header_hash
    is_changed = sent_headers[changed.sent] != arrived_headers[changed.delivered]
    unchanged = len(direction.near.session) - len(without(direction.near.session, equal.sent))
    unchanged += int(np.count_nonzero(~is_changed))
    bits = _header_bits(direction, changed.sent, changed.delivered, is_routed=bool(is_changed.sum() > unchanged))
    changed = Pairs(changed.sent, changed.delivered, np.where(is_changed, bits, INTACT))
    return replace(direction, is_offloaded=bool(len(offloaded.sent))), equal + changed


def _are_completed(direction: Direction, pairs: Pairs) -> NDArray[np.bool_]:
    """For pairs that differ only in the checksum, whether the copy's checksum is correct or, if the copy is cut,
    whether the packet's checksum is one that hosts leave to a card."""
    near, far = direction.near_capture, direction.far_capture
    link_types = near.link_type or ETHERNET, far.link_type or ETHERNET
    kept = np.zeros(len(pairs.sent), np.bool_)
    for start in range(0, len(kept), _MOST_HEADERS_AT_ONCE):
        part = slice(start, start + _MOST_HEADERS_AT_ONCE)
        sent, delivered = pairs.sent[part], pairs.delivered[part]
        rows = zip(
            *(direction.near_frames(sent), near.wire_bytes[sent].tolist(), near.checksum[sent].tolist()),
            *(direction.far_frames(delivered), far.wire_bytes[delivered].tolist()),
            strict=True,
        )
        kept[part] = [
            completed(copy, copy_bytes, link_types[1]) == copy
            if len(copy) >= copy_bytes
            else left_to_the_card(checksum, packet, packet_bytes, link_types[0])
            for packet, packet_bytes, checksum, copy, copy_bytes in rows
        ]
    return kept


def _header_bits(direction: Direction, sent: Rows, delivered: Rows, is_routed: bool) -> NDArray[np.int64]:
    """The first bit in which the headers of a packet and of its copy differ, except in fields that routers and queues
    rewrite. Behind a router, which also changes the link's addresses, only a single different bit is damage."""
    bits = np.full(len(sent), INTACT, np.int64)
    for start in range(0, len(sent), _MOST_HEADERS_AT_ONCE):
        part = slice(start, start + _MOST_HEADERS_AT_ONCE)
        difference = _unexplained_differences(direction, sent[part], delivered[part], is_routed)
        count = np.bitwise_count(difference).sum(axis=1, dtype=np.int64)
        byte = np.argmax(difference > 0, axis=1)
        highest = np.unpackbits(difference[np.arange(len(byte)), byte, None], axis=1).argmax(axis=1)
        bits[part] = np.where((count == 1) | ((count > 0) & (not is_routed)), 8 * byte + highest, INTACT)
    return bits


def _unexplained_differences(direction: Direction, sent: Rows, delivered: Rows, is_routed: bool) -> NDArray[np.uint8]:
    """The bits in which headers differ, from the first byte of the frame on, except rewritten fields: in IPv4, the type
    of service, a smaller time to live and the header checksum, if the copy's header checksum is correct; in IPv6, which
    has no header checksum, the mark of a queue (RFC 3168) and, behind a router, a smaller hop limit."""
    near, far = direction.near_capture, direction.far_capture
    at, far_at = ip_starts(near, sent), ip_starts(far, delivered)
    width = int(at.max(initial=0)) + _IP_HEADER_BYTES
    packets = read_heads(near, sent, width)
    difference = packets ^ read_heads(far, delivered, width, far_at - at)
    places = np.arange(width)
    in_link = places < at[:, None]
    difference[in_link & ((at != far_at) | (near.link_type != far.link_type))[:, None]] = 0

    in_header = at[:, None] + np.arange(_IP_HEADER_BYTES)
    headers = np.take_along_axis(packets, in_header, axis=1)
    copies = headers ^ np.take_along_axis(difference, in_header, axis=1)
    is_ipv4 = near.network[sent] == 4
    header_bytes = np.where(is_ipv4, (headers[:, 0] & 15).astype(np.int64) * 4, _IP_HEADER_BYTES)
    header_bytes[~is_ipv4 & (near.checksum[sent] != far.checksum[delivered])] = _IPV6_BYTES
    difference[places >= (at + header_bytes)[:, None]] = 0

    covered = np.where(np.arange(_IP_HEADER_BYTES) < header_bytes[:, None], copies, 0)
    sums = covered[:, ::2].sum(axis=1, dtype=np.int64) * 256 + covered[:, 1::2].sum(axis=1, dtype=np.int64)
    is_rewritten = is_ipv4 & (sums % 0xFFFF == 0) & (copies[:, _TTL_AT] <= headers[:, _TTL_AT])
    rows = np.flatnonzero(is_rewritten)
    for place in _REWRITTEN:
        difference[rows, at[rows] + place] = 0
    rows = np.flatnonzero(~is_ipv4 & np.isin(near.ecn[sent], ECT) & (far.ecn[delivered] == CE))
    difference[rows, at[rows] + 1] &= _NOT_ECN_IN_IPV6
    if is_routed:
        rows = np.flatnonzero(~is_ipv4 & (copies[:, _HOP_LIMIT_AT] < headers[:, _HOP_LIMIT_AT]))
        difference[rows, at[rows] + _HOP_LIMIT_AT] = 0
    return difference
