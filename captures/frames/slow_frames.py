"""Where the packet is in frames with other headers than Ethernet and IPv4: tags of VLANs, IPv6, Linux cooked, raw IP.

The headers are scapy's, one at a time and never more than their fixed part, so that no frame takes long. What the
packet carries is left to columns.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from scapy.layers.inet import IP
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Dot3, Ether
from scapy.packet import Packet

from captures.files.blocks import ETHERNET, LINUX_COOKED, LINUX_COOKED_2, RAW_IP, RAW_IPV6

_IPV4_TYPE, _IPV6_TYPE = 0x0800, 0x86DD
_LINKS = {
    ETHERNET: (Ether, 14, "type"),
    LINUX_COOKED: (CookedLinux, 16, "proto"),
    LINUX_COOKED_2: (CookedLinuxV2, 20, "proto"),
}
_TAGS = {0x8100: Dot1Q, 0x88A8: Dot1AD, 0x9100: Dot1Q}
_MOST_HEADERS = 32
"""In a row: no network nests tags or extension headers so deep."""

_IPV4_BYTES, _IPV6_BYTES, _TAG_BYTES, _EXTENSION_BYTES = 20, 40, 4, 8
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _DESTINATION_OPTIONS = 0, 43, 44, 60
_EXTENSIONS = {  # and how much of each is read: none of the options
    _HOP_BY_HOP: (IPv6ExtHdrHopByHop, 2),
    _ROUTING: (IPv6ExtHdrRouting, 8),
    _FRAGMENT: (IPv6ExtHdrFragment, 8),
    _DESTINATION_OPTIONS: (IPv6ExtHdrDestOpt, 2),
}


@dataclass(frozen=True)
class FoundPacket:
    """A packet in a frame. `body` and `end` are the places in the frame where its headers (and extension headers)
    and itself end, which may be behind what was captured, never behind what was sent. `network` is 4 or 6."""

    network: int
    protocol: int
    source: str
    destination: str
    identification: int
    is_fragment: bool
    body: int
    end: int


def find_packet(frame: bytes, wire_bytes: int, link_type: int) -> FoundPacket | int:
    """The packet in a frame of which the captured part is given, or, where none can be read, the Ethernet type behind
    the tags (0 if there is none)."""
    ethernet_type = 0
    try:
        ethernet_type, start = find_network(frame, link_type)
        found = None
        if ethernet_type == _IPV4_TYPE:
            found = _ipv4(frame, start, wire_bytes)
        elif ethernet_type == _IPV6_TYPE:
            found = _ipv6(frame, start, wire_bytes)
    except Exception:  # whatever scapy makes of a stranger's bytes
        return ethernet_type
    return found or ethernet_type


def find_network(frame: bytes, link_type: int) -> tuple[int, int]:
    """The Ethernet type (a length in IEEE 802.3) of what the link carries behind the tags, and where that begins."""
    if link_type in _LINKS:
        layer, start, name = _LINKS[link_type]
        header = _read(layer, frame, 0, start)
        ethernet_type = header.len if isinstance(header, Dot3) else int(getattr(header, name))
    else:
        is_ipv6 = link_type == RAW_IPV6 or (link_type == RAW_IP and frame[0] >> 4 == 6)
        ethernet_type, start = _IPV6_TYPE if is_ipv6 else _IPV4_TYPE, 0
    for _ in range(_MOST_HEADERS):
        if ethernet_type not in _TAGS:
            return ethernet_type, start
        ethernet_type = int(_read(_TAGS[ethernet_type], frame, start, _TAG_BYTES).type)
        start += _TAG_BYTES
    return 0, start


def _ipv4(frame: bytes, start: int, wire_bytes: int) -> FoundPacket | None:
    header = _read(IP, frame, start, _IPV4_BYTES)
    body, packet_bytes = start + 4 * header.ihl, header.len or wire_bytes - start
    if header.version != 4 or header.ihl < 5 or packet_bytes < 4 * header.ihl or body > len(frame):
        return None
    return FoundPacket(
        network=4,
        protocol=header.proto,
        source=header.src,
        destination=header.dst,
        identification=header.id,
        is_fragment=bool(header.frag or header.flags.MF),
        body=body,
        end=min(start + packet_bytes, wire_bytes),
    )


def _ipv6(frame: bytes, start: int, wire_bytes: int) -> FoundPacket | None:
    header = _read(IPv6, frame, start, _IPV6_BYTES)
    if header.version != 6:
        return None
    protocol, body, is_fragment = header.nh, start + _IPV6_BYTES, False
    end = min(body + header.plen, wire_bytes)
    had_fragment = False
    for _ in range(_MOST_HEADERS):
        if protocol not in _EXTENSIONS or body + _EXTENSION_BYTES > min(end, len(frame)):
            break
        if protocol == _FRAGMENT and had_fragment:
            break
        extension = _read(_EXTENSIONS[protocol][0], frame, body, _EXTENSIONS[protocol][1])
        following = body + (_EXTENSION_BYTES if protocol == _FRAGMENT else 8 * (extension.len + 1))
        if following > min(end, len(frame)):
            break
        if protocol == _FRAGMENT:
            had_fragment, is_fragment = True, bool(extension.offset or extension.m)
        protocol, body = extension.nh, following
        if is_fragment:
            break
    return FoundPacket(
        network=6,
        protocol=protocol,
        source=header.src,
        destination=header.dst,
        identification=0,
        is_fragment=is_fragment,
        body=body,
        end=end,
    )


def _read(layer: type[Packet], frame: bytes, start: int, length: int) -> Packet:
    """The fixed part of a header; ValueError if it is not all there."""
    if start + length > len(frame):
        raise ValueError("the frame ends within a header")
    return layer(frame[start : start + length])
