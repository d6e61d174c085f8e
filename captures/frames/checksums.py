"""The Internet checksum of the parts of a frame that carry one (RFC 791, RFC 768, RFC 9293, RFC 1071)."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

import numpy as np

from owlt.captures.frames.decoding import ETHERNET_BYTES
from owlt.captures.frames.slow_frames import LocatedPacket, find_packet

_IPV4 = b"\x08\x00"
_CHECKSUM_AT = {6: 16, 17: 6}
"""Where in a TCP and in a UDP header the checksum is."""
_ONES = 0xFFFF


def has_right_checksums(frame: bytes, like: bytes) -> Iterator[tuple[slice, bool]]:
    """For each part of the frame that has a checksum: where it is, and whether the checksum is right.

    The parts are the IPv4 header and what it carries, if that is UDP or TCP, whole, and all there. Where they begin
    and end is read from the frame `like` it, which is undamaged.
    """
    if like[12:14] != _IPV4 or len(like) < ETHERNET_BYTES + 20:
        return
    body = ETHERNET_BYTES + (like[14] & 15) * 4
    end = ETHERNET_BYTES + int.from_bytes(like[16:18], "big")
    if not ETHERNET_BYTES + 20 <= body <= min(end, len(like)):
        return
    yield slice(ETHERNET_BYTES, body), _is_right(frame[ETHERNET_BYTES:body])
    protocol, is_fragment = like[23], int.from_bytes(like[20:22], "big") & 0x3FFF
    checksum_at = body + _CHECKSUM_AT.get(protocol, end)
    if is_fragment or end > len(like) or checksum_at + 2 > end or not any(like[checksum_at : checksum_at + 2]):
        return
    pseudo_header = frame[26:34] + bytes([0, protocol]) + (end - body).to_bytes(2, "big")
    yield slice(body, end), _is_right(pseudo_header + frame[body:end])


def completed(frame: bytes, wire_bytes: int, link_type: int) -> bytes:
    """The frame with the UDP or TCP checksum that a card fills in; unchanged if the checksum is correct already, or if
    the frame is cut or of another kind."""
    packet = find_packet(frame, wire_bytes, link_type)
    if not isinstance(packet, LocatedPacket) or packet.is_fragment or packet.end > len(frame):
        return frame
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


def left_to_the_card(checksum: int, frame: bytes, wire_bytes: int, link_type: int) -> bool:
    """Whether a checksum is one that hosts leave to a card to complete: the sum of the pseudo header, or 0."""
    packet = find_packet(frame, wire_bytes, link_type)
    return isinstance(packet, LocatedPacket) and checksum in (0, _folded(_pseudo_sum(packet)))


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
