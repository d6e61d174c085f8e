"""The packet in a single frame of any link: where it begins and ends.

Frames may have other headers than Ethernet and IPv4: VLAN tags, IPv6, Linux cooked, raw IP. They are read one at a
time, and of each header only the fixed part, so that no frame takes long. decoding.py reads many plain frames at once.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

from owlt.captures.files.blocks import ETHERNET, LINUX_COOKED, LINUX_COOKED_2, RAW_IP, RAW_IPV6

IPV4_TYPE, ARP_TYPE, IPV6_TYPE = 0x0800, 0x0806, 0x86DD
"""Ethernet types (IEEE's registry)."""
SCTP = 132
"""The number of the protocol (RFC 9260)."""
_LINKS = {ETHERNET: (14, 12), LINUX_COOKED: (16, 14), LINUX_COOKED_2: (20, 0)}
"""The length of the link's header in bytes, and the offset of the Ethernet type in it: IEEE 802.3, LINKTYPE_LINUX_SLL,
_SLL2."""
TAG_TYPES = (0x8100, 0x88A8, 0x9100)
_TAG_BYTES, _TYPE_AT_IN_TAG = 4, 2
"""IEEE 802.1Q: priority and VLAN, then the type of what follows."""
_MOST_HEADERS = 32
"""The most consecutive tags or extension headers that are read; real networks use far fewer."""

IPV4_BYTES, _IPV6_BYTES, _EXTENSION_BYTES = 20, 40, 8
MORE_FRAGMENTS, FRAGMENT_OFFSET = 0x2000, 0x1FFF
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _DESTINATION_OPTIONS = 0, 43, 44, 60
_PAD, _JUMBO, _JUMBO_BYTES = 0, 0xC2, 4
_LONGEST_WITHOUT_JUMBO = 65_535
"""RFC 2675: only the length of a longer payload is in an option."""
_EXTENSIONS = (_HOP_BY_HOP, _ROUTING, _FRAGMENT, _DESTINATION_OPTIONS)


@dataclass(frozen=True)
class LocatedPacket:
    """A packet in a frame. `body` is the offset where its headers (and extension headers) end, `end` the offset where
    the packet ends. Both may exceed the captured length, but not the sent length. `network` is 4 or 6, `ecn` the two
    bits of RFC 3168."""

    network: int
    protocol: int
    source: str
    destination: str
    identification: int
    is_fragment: bool
    ecn: int
    body: int
    end: int


def find_packet(frame: bytes, wire_bytes: int, link_type: int) -> LocatedPacket | int:
    """The packet in a frame of which the captured part is given; if none can be read, the Ethernet type behind the tags
    (0 if there is none)."""
    ethernet_type = 0
    try:
        ethernet_type, start = find_network(frame, link_type)
        packet = None
        if ethernet_type == IPV4_TYPE:
            packet = _ipv4(frame, start, wire_bytes)
        elif ethernet_type == IPV6_TYPE:
            packet = _ipv6(frame, start, wire_bytes)
    except ValueError:
        return ethernet_type
    return packet or ethernet_type


def find_network(frame: bytes, link_type: int) -> tuple[int, int]:
    """The Ethernet type (a length in IEEE 802.3) of what the link carries behind the tags, and where that begins.

    Raises ValueError if the frame ends within these headers.
    """
    if link_type in _LINKS:
        start, type_at = _LINKS[link_type]
        ethernet_type = _number(_header(frame, 0, start), type_at)
    else:
        is_ipv6 = link_type == RAW_IPV6 or (link_type == RAW_IP and _header(frame, 0, 1)[0] >> 4 == 6)
        ethernet_type, start = IPV6_TYPE if is_ipv6 else IPV4_TYPE, 0
    for _ in range(_MOST_HEADERS):
        if ethernet_type not in TAG_TYPES:
            return ethernet_type, start
        ethernet_type = _number(_header(frame, start, _TAG_BYTES), _TYPE_AT_IN_TAG)
        start += _TAG_BYTES
    return 0, start


def _ipv4(frame: bytes, start: int, wire_bytes: int) -> LocatedPacket | None:
    """RFC 791, section 3.1."""
    header = _header(frame, start, IPV4_BYTES)
    header_bytes = 4 * (header[0] & 0x0F)
    body, packet_bytes = start + header_bytes, _number(header, 2) or wire_bytes - start
    if header[0] >> 4 != 4 or header_bytes < IPV4_BYTES or packet_bytes < header_bytes or body > len(frame):
        return None
    return LocatedPacket(
        network=4,
        protocol=header[9],
        source=socket.inet_ntop(socket.AF_INET, header[12:16]),
        destination=socket.inet_ntop(socket.AF_INET, header[16:20]),
        identification=_number(header, 4),
        is_fragment=bool(_number(header, 6) & (MORE_FRAGMENTS | FRAGMENT_OFFSET)),
        ecn=header[1] & 3,
        body=body,
        end=min(start + packet_bytes, wire_bytes),
    )


def _ipv6(frame: bytes, start: int, wire_bytes: int) -> LocatedPacket | None:
    """RFC 8200, section 3."""
    header = _header(frame, start, _IPV6_BYTES)
    if header[0] >> 4 != 6:
        return None
    body = start + _IPV6_BYTES
    payload_bytes = _number(header, 4) or _jumbo_bytes(frame, header[6], body, wire_bytes)
    end = min(body + payload_bytes, wire_bytes)
    protocol, body, is_fragment = _behind_extensions(frame, header[6], body, end)
    return LocatedPacket(
        network=6,
        protocol=protocol,
        source=socket.inet_ntop(socket.AF_INET6, header[8:24]),
        destination=socket.inet_ntop(socket.AF_INET6, header[24:40]),
        identification=0,
        is_fragment=is_fragment,
        ecn=header[1] >> 4 & 3,
        body=body,
        end=end,
    )


def _jumbo_bytes(frame: bytes, protocol: int, body: int, wire_bytes: int) -> int:
    """The length of what follows the header at whose end `body` is, if its own field is 0: that of the option for
    jumbograms (RFC 2675), or of a host's "BIG TCP" packet without this option the rest of the frame; else 0."""
    if protocol != _HOP_BY_HOP:
        return wire_bytes - body if wire_bytes - body > _LONGEST_WITHOUT_JUMBO else 0
    options = frame[body + 2 : body + 8 * (int.from_bytes(frame[body + 1 : body + 2]) + 1)]
    while options:
        if options[0] == _PAD:
            options = options[1:]
            continue
        value = options[2 : 2 + int.from_bytes(options[1:2])]
        if options[0] == _JUMBO and len(value) == _JUMBO_BYTES:
            length = int.from_bytes(value)
            return length if length > _LONGEST_WITHOUT_JUMBO else 0
        options = options[2 + len(value) :]
    return 0


def _behind_extensions(frame: bytes, protocol: int, body: int, end: int) -> tuple[int, int, bool]:
    """The protocol behind the extension headers (RFC 8200, section 4) that begin at `body`, where it begins, and
    whether it is in a fragment. The first header that is not complete, and a second fragment header, end the search."""
    had_fragment = False
    for _ in range(_MOST_HEADERS):
        if protocol not in _EXTENSIONS or body + _EXTENSION_BYTES > min(end, len(frame)):
            break
        if protocol == _FRAGMENT and had_fragment:
            break
        extension = _header(frame, body, _EXTENSION_BYTES)
        following = body + (_EXTENSION_BYTES if protocol == _FRAGMENT else 8 * (extension[1] + 1))
        if following > min(end, len(frame)):
            break
        is_fragment = False
        if protocol == _FRAGMENT:
            had_fragment, is_fragment = True, bool(_number(extension, 2) & 0xFFF9)  # offset, and "more fragments"
        protocol, body = extension[0], following
        if is_fragment:
            return protocol, body, True
    return protocol, body, False


def _header(frame: bytes, start: int, length: int) -> bytes:
    """The fixed part of a header; ValueError if it is not all there."""
    if start + length > len(frame):
        raise ValueError("the frame ends within a header")
    return frame[start : start + length]


def _number(header: bytes, place: int) -> int:
    """The 16 bits that begin at this byte."""
    return header[place] << 8 | header[place + 1]
