"""Names of the frames that do not belong to the session, such as ARP, mDNS or router solicitation.

Most are named from the columns; of the others, of which there are few, the frame itself is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import LINK_TYPES, LONGEST_FRAME_BYTES
from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.columns import Columns
from owlt.captures.frames.decoding import Kind
from owlt.captures.frames.packets import ARP_TYPE, IPV4_TYPE, IPV6_TYPE, LocatedPacket, find_network, find_packet

_ICMPV6 = 58
_WELL_KNOWN_PORTS = {  # IANA's service name and port number registry
    53: "DNS",
    67: "DHCP",
    68: "DHCP",
    123: "NTP",
    137: "NetBIOS",
    138: "NetBIOS",
    546: "DHCPv6",
    547: "DHCPv6",
    1900: "SSDP",
    3702: "WS-Discovery",
    5353: "mDNS",
    5355: "LLMNR",
}
_NAMES = {
    Kind.UDP: "UDP",
    Kind.TCP: "TCP",
    Kind.SCTP: "SCTP",
    Kind.FRAGMENT: "fragment",
    Kind.ICMP: "ICMP",
    Kind.IGMP: "IGMP",
    Kind.OTHER_IPV4: "other IPv4",
    Kind.MALFORMED_IPV4: "malformed IPv4",
    Kind.ARP: "ARP",
    Kind.IPV6: "other IPv6",
    Kind.VLAN: "VLAN",
    Kind.OTHER: "other",
}
_READ_KINDS = (Kind.IPV6, Kind.VLAN, Kind.OTHER)
_MOST_READ = 10_000
"""Frames of which the headers are read, which takes a ten-thousandth of a second each; the others go by their kind."""
_PREFIX_BYTES = 128

_IP_PROTOCOLS = {  # IANA's protocol numbers
    4: "IP in IP",
    41: "IPv6 in IP",
    46: "RSVP",
    47: "GRE",
    50: "ESP",
    51: "AH",
    89: "OSPF",
    103: "PIM",
    112: "VRRP",
}
_ICMPV6_TYPES = {  # RFC 4443, RFC 2710, RFC 3810, RFC 4861
    1: "ICMPv6 unreachable",
    2: "ICMPv6 too big",
    3: "ICMPv6 time exceeded",
    4: "ICMPv6 parameter problem",
    128: "ICMPv6 echo",
    129: "ICMPv6 echo",
    130: "MLD query",
    131: "MLD report",
    132: "MLD done",
    133: "router solicitation",
    134: "router advertisement",
    135: "neighbour solicitation",
    136: "neighbour advertisement",
    137: "ICMPv6 redirect",
    143: "MLD report",
}
_ETHERNET_TYPES = {  # IEEE's registry
    ARP_TYPE: "ARP",
    0x8035: "RARP",
    0x8808: "Ethernet flow control",
    0x8809: "LACP",
    0x8847: "MPLS",
    0x8848: "MPLS",
    0x8863: "PPPoE",
    0x8864: "PPPoE",
    0x888E: "EAPOL",
    0x88CC: "LLDP",
    0x88E5: "MACsec",
    0x88F7: "PTP",
    0x9000: "Ethernet loopback",
}
_LONGEST_802_3 = 1500
_LLC_BYTES, _SNAP_BYTES = 3, 5
_SNAP_SAP = 0xAA
_SAPS = {0x42: "STP", 0xE0: "IPX", 0xF0: "NetBEUI", 0xFE: "IS-IS"}
_SNAP_PROTOCOLS = {
    bytes.fromhex("00000c2000"): "CDP",
    bytes.fromhex("00000c010b"): "STP",
    bytes.fromhex("00000c2004"): "DTP",
}


def name_background(columns: Columns, rows: Iterable[int] | NDArray[np.int64]) -> list[str]:
    """The name of each of the rows, as "router solicitation", "mDNS" or "ARP"; bounded in time. Raises OSError."""
    numbers = np.asarray(rows, np.int64)
    kinds = columns.kind[numbers].tolist()
    names = [_NAMES[Kind(kind)] for kind in kinds]
    _name_by_port(columns, numbers, names)
    for index in np.flatnonzero(columns.kind[numbers] == Kind.OTHER_IPV4).tolist():
        names[index] = _IP_PROTOCOLS.get(int(columns.protocol[numbers[index]]), names[index])
    read = np.flatnonzero(np.isin(columns.kind[numbers], _READ_KINDS))[:_MOST_READ]
    if len(read):
        lengths = np.minimum(columns.captured_bytes[numbers[read]], np.uint32(_PREFIX_BYTES))
        frames = read_frames(columns.path, columns.offset[numbers[read]], lengths)
        for index, frame in zip(read.tolist(), frames, strict=True):
            names[index] = _name_of_frame(frame, columns.link_type) or names[index]
    return names


def count_background(columns: Columns, rows: NDArray[np.int64]) -> Counter[str]:
    """The number of rows with each name."""
    return Counter(name_background(columns, rows))


def _name_by_port(columns: Columns, rows: NDArray[np.int64], names: list[str]) -> None:
    is_udp = columns.kind[rows] == Kind.UDP
    for port, name in _WELL_KNOWN_PORTS.items():
        has_port = (columns.source_port[rows] == port) | (columns.destination_port[rows] == port)
        for index in np.flatnonzero(is_udp & has_port).tolist():
            names[index] = name


def _name_of_frame(frame: bytes, link_type: int) -> str | None:
    """By what the link carries behind the tags, and of ICMPv6 by the message."""
    if link_type not in LINK_TYPES:
        return None
    packet = find_packet(frame, LONGEST_FRAME_BYTES, link_type)
    if isinstance(packet, LocatedPacket):
        if packet.protocol == _ICMPV6 and packet.network == 6 and packet.body < len(frame) and not packet.is_fragment:
            return _ICMPV6_TYPES.get(frame[packet.body], "ICMPv6")
        return _IP_PROTOCOLS.get(packet.protocol)
    if packet in (IPV4_TYPE, IPV6_TYPE) or not packet:
        return None
    if packet > _LONGEST_802_3:
        return _ETHERNET_TYPES.get(packet, f"Ethernet type 0x{packet:04x}")
    _, start = find_network(frame, link_type)
    return _name_of_llc(frame[start : start + _LLC_BYTES + _SNAP_BYTES])


def _name_of_llc(header: bytes) -> str | None:
    """IEEE 802.2, and the protocol identifier of SNAP (IEEE 802)."""
    if len(header) < _LLC_BYTES:
        return None
    if header[0] == _SNAP_SAP and len(header) == _LLC_BYTES + _SNAP_BYTES:
        return _SNAP_PROTOCOLS.get(header[_LLC_BYTES:], "SNAP")
    return _SAPS.get(header[0], "LLC")
