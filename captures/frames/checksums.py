"""Checksums of packets: of one at a time, and of many plain frames at once.

The checksum is the Internet checksum (RFC 1071) of IPv4 headers, UDP and TCP (RFC 791, RFC 768, RFC 9293), and the
CRC32c of SCTP (RFC 9260, appendix A).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_address

import fastcrc
import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import ETHERNET_BYTES
from owlt.captures.frames.packets import (
    FRAGMENT_OFFSET,
    IPV4_BYTES,
    IPV4_TYPE,
    MORE_FRAGMENTS,
    SCTP,
    LocatedPacket,
    find_packet,
)

WITHOUT_OPTIONS = 0x45
"""The first octet of an IPv4 header without options."""
_ADDRESSES_AT, TRANSPORT_AT = ETHERNET_BYTES + 12, ETHERNET_BYTES + IPV4_BYTES
"""In a frame of Ethernet, without options of IPv4."""
_CHECKSUM_AT = {6: 16, 17: 6}
"""The offset of the checksum in a TCP and in a UDP header."""
_BEFORE_CHECKSUM, _BEHIND_CHECKSUM = slice(0, 8), slice(12, None)
"""The parts of an SCTP packet around its checksum."""
_ONES = 0xFFFF
_SWAPPED = 256
"""A sum of 16-bit words, modulo 0xFFFF, is multiplied by this if each word has its octets swapped (RFC 1071)."""


def has_right_checksums(frame: bytes, like: bytes) -> Iterator[tuple[slice, bool]]:
    """For each part of the frame that has a checksum: where it is, and whether the checksum is right.

    The parts are the IPv4 header and its payload, if that is a complete UDP datagram, TCP segment or SCTP packet. Where
    they begin and end is read from the frame `like` it, which is undamaged.
    """
    if int.from_bytes(like[12:14]) != IPV4_TYPE or len(like) < ETHERNET_BYTES + IPV4_BYTES:
        return
    body = ETHERNET_BYTES + (like[14] & 15) * 4
    end = ETHERNET_BYTES + int.from_bytes(like[16:18], "big")
    if not ETHERNET_BYTES + IPV4_BYTES <= body <= min(end, len(like)):
        return
    yield slice(ETHERNET_BYTES, body), _is_right(frame[ETHERNET_BYTES:body])
    protocol, is_fragment = like[23], int.from_bytes(like[20:22], "big") & (MORE_FRAGMENTS | FRAGMENT_OFFSET)
    if protocol == SCTP and not is_fragment and body + _BEHIND_CHECKSUM.start <= end <= len(like):
        yield slice(body, end), _with_crc(frame[body:end]) == frame[body:end]
        return
    checksum_at = body + _CHECKSUM_AT.get(protocol, end)
    if is_fragment or end > len(like) or checksum_at + 2 > end or not any(like[checksum_at : checksum_at + 2]):
        return
    pseudo_header = frame[_ADDRESSES_AT:TRANSPORT_AT] + bytes([0, protocol]) + (end - body).to_bytes(2, "big")
    yield slice(body, end), _is_right(pseudo_header + frame[body:end])


def completed(frame: bytes, wire_bytes: int, link_type: int) -> bytes:
    """The frame with the checksum of UDP, TCP or SCTP that a card fills in; unchanged if the checksum is correct
    already, or if the frame is cut or of another kind."""
    packet = find_packet(frame, wire_bytes, link_type)
    if not isinstance(packet, LocatedPacket) or packet.is_fragment or packet.end > len(frame):
        return frame
    if packet.protocol == SCTP and packet.body + _BEHIND_CHECKSUM.start <= packet.end:
        return frame[: packet.body] + _with_crc(frame[packet.body : packet.end]) + frame[packet.end :]
    checksum_at = packet.body + _CHECKSUM_AT.get(packet.protocol, packet.end)
    if checksum_at + 2 > packet.end:
        return frame
    pseudo_sum = _pseudo_sum(packet)
    if _folded(pseudo_sum + _sum(frame[packet.body : packet.end])) == _ONES:
        return frame
    segment = frame[packet.body : checksum_at] + b"\0\0" + frame[checksum_at + 2 : packet.end]
    checksum = _ONES - _folded(pseudo_sum + _sum(segment))
    if packet.protocol == 17 and not checksum:
        checksum = _ONES  # RFC 768: 0 stands for none
    return frame[:checksum_at] + checksum.to_bytes(2) + frame[checksum_at + 2 :]


def _with_crc(packet: bytes) -> bytes:
    """An SCTP packet with the right checksum, which is computed with the field 0, and sent lowest byte first."""
    before, behind = packet[_BEFORE_CHECKSUM], packet[_BEHIND_CHECKSUM]
    return before + fastcrc.crc32.iscsi(before + bytes(4) + behind).to_bytes(4, "little") + behind


def left_to_the_card(checksum: int, frame: bytes, wire_bytes: int, link_type: int) -> bool:
    """Whether a checksum is one that hosts leave to a card to complete: 0 or, except of SCTP, the sum of the pseudo
    header."""
    packet = find_packet(frame, wire_bytes, link_type)
    if not isinstance(packet, LocatedPacket):
        return False
    return not checksum or (packet.protocol != SCTP and checksum == _folded(_pseudo_sum(packet)))


def _pseudo_sum(packet: LocatedPacket) -> int:
    """The sum of the pseudo header, which the checksum covers too: addresses, protocol, length."""
    addresses = ip_address(packet.source).packed + ip_address(packet.destination).packed
    return _sum(addresses) + packet.protocol + _folded(packet.end - packet.body)


def _is_right(covered: bytes) -> bool:
    return _sum(covered) % _ONES == 0


def _sum(octets: bytes) -> int:
    words = np.frombuffer(octets + b"\0" * (len(octets) % 2), ">u2")
    return int(words.sum(dtype=np.int64))


def _folded(total: int) -> int:
    """The sum in 16 bits, with the carries added (RFC 1071)."""
    while total > _ONES:
        total = (total & _ONES) + (total >> 16)
    return total


def header_is_right(heads: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether the checksum of the IPv4 header is right, of Ethernet frames by their first octets."""
    right: NDArray[np.bool_] = _words(heads[:, ETHERNET_BYTES:TRANSPORT_AT]).sum(axis=1, dtype=np.int64) % _ONES == 0
    return right


def transport_is_right(
    frames: Sequence[bytes], heads: NDArray[np.uint8], ends: NDArray[np.int64], rows: NDArray[np.int64], protocol: int
) -> NDArray[np.bool_]:
    """Whether the checksum of UDP or TCP is right in these rows of the frames; False in others. `heads` are their first
    octets, and `ends` is where their IPv4 packets end."""
    is_right = np.zeros(len(frames), np.bool_)
    if not len(rows):
        return is_right
    segments = [frames[row][TRANSPORT_AT:end] for row, end in zip(rows.tolist(), ends[rows].tolist(), strict=True)]
    words = np.frombuffer(b"".join(octets + b"\0" * (len(octets) % 2) for octets in segments), "<u2")
    word_counts = (ends[rows] - TRANSPORT_AT + 1) // 2
    sums = np.add.reduceat(words, np.cumsum(word_counts) - word_counts, dtype=np.int64)
    sums += _words(heads[rows, _ADDRESSES_AT:TRANSPORT_AT]).sum(axis=1, dtype=np.int64)
    sums += (ends[rows] - TRANSPORT_AT + protocol) * _SWAPPED
    is_right[rows] = sums % _ONES == 0
    return is_right


def _words(octets: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """Rows of octets as rows of 16-bit words, each with its octets swapped."""
    words: NDArray[np.uint16] = np.ascontiguousarray(octets).view("<u2")
    return words
