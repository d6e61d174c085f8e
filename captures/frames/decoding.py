"""The headers of many frames at once: what each frame is, its addresses, ports, TCP fields and hashes.

packets.py finds the packet in frames with other headers than Ethernet and IPv4.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import ETHERNET, ETHERNET_BYTES, LONGEST_FRAME_BYTES, Block, gather
from owlt.captures.frames.packets import ARP_TYPE, IPV4_TYPE, IPV6_TYPE, SCTP, TAG_TYPES, LocatedPacket, find_packet

_MOST_ADDRESSES = 1 << 18
"""The most IPv6 addresses that are kept of one capture."""

_IPV4_BYTES = 20
_PORTS_BYTES, _UDP_LENGTH_BYTES, _UDP_BYTES, _TCP_BYTES, SCTP_BYTES = 4, 6, 8, 20, 12
_WINDOW_END = 16
"""The part of a TCP header that must be present for tshark to use its length field."""
TCP, UDP = 6, 17
_ICMP, _IGMP = 1, 2
"""Numbers of protocols (IANA)."""
Transport = Literal["udp", "tcp", "sctp"]
TRANSPORTS: dict[Transport, int] = {"udp": UDP, "tcp": TCP, "sctp": SCTP}
"""The protocols with ports, whose packets a session can have."""

HEADERS = np.dtype(  # IEEE 802.3, RFC 791
    [
        ("ethernet_destination", "S6"),
        ("ethernet_source", "S6"),
        ("ethernet_type", ">u2"),
        ("version_and_length", "u1"),
        ("type_of_service", "u1"),
        ("total_length", ">u2"),
        ("identification", ">u2"),
        ("fragment", ">u2"),
        ("time_to_live", "u1"),
        ("protocol", "u1"),
        ("checksum", ">u2"),
        ("source", ">u4"),
        ("destination", ">u4"),
    ]
)
SEGMENT = np.dtype(  # RFC 9293; the ports are those of UDP (RFC 768) and SCTP (RFC 9260) too. UDP's length is where
    # TCP's sequence is, and the checksum of SCTP where TCP's acknowledgment is.
    [
        ("source", ">u2"),
        ("destination", ">u2"),
        ("sequence", ">u4"),
        ("acknowledgment", ">u4"),
        ("offset_and_flags", ">u2"),
        ("window", ">u2"),
        ("checksum", ">u2"),
        ("urgent", ">u2"),
    ]
)
_MORE_FRAGMENTS_OR_OFFSET = 0x3FFF
_TCP_FLAGS = 0x0FFF
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
"""Flags of a TCP segment (RFC 9293, section 3.1)."""
_ECN = 3
ECT, CE = (1, 2), 3
"""The two bits of RFC 3168 in the type of service: the sender understands marks; a queue has marked the packet."""
_UDP_CHECKSUM_AT, _TCP_CHECKSUM_AT, _SCTP_CHECKSUM_AT, _CHECKSUM_BYTES = 6, 16, 8, 2


class Kind(IntEnum):
    """The kinds of frames that the columns distinguish."""

    UDP = 0
    TCP = 1
    SCTP = 2
    FRAGMENT = 3
    """Any fragment of an IPv4 or IPv6 packet, the first one too; `protocol` says of what."""
    ICMP = 4
    """ICMP over IPv4; ICMPv6 is IPV6."""
    IGMP = 5
    OTHER_IPV4 = 6
    MALFORMED_IPV4 = 7
    """IPv4 by its Ethernet type, but no address or no port can be read from it."""
    ARP = 8
    IPV6 = 9
    """IPv6 with none of these transports, or none that can be read."""
    VLAN = 10
    """Tagged, with neither IP nor ARP behind the tags."""
    OTHER = 11


KINDS: dict[Transport, Kind] = {"udp": Kind.UDP, "tcp": Kind.TCP, "sctp": Kind.SCTP}
WITH_PORTS = tuple(KINDS.values())
"""The kinds of the transports: the lowest numbers."""
OF_PROGRAMS = (*WITH_PORTS, Kind.FRAGMENT, Kind.OTHER_IPV4)
"""The kinds of frames that an implementation may cause."""


_SLOW_TYPES = (IPV6_TYPE, *TAG_TYPES)
_ETHERNET_KINDS = {
    IPV4_TYPE: Kind.MALFORMED_IPV4,
    ARP_TYPE: Kind.ARP,
    IPV6_TYPE: Kind.IPV6,
    **dict.fromkeys(TAG_TYPES, Kind.VLAN),
}
_IPV4_KINDS = np.array(
    [
        {UDP: Kind.UDP, TCP: Kind.TCP, SCTP: Kind.SCTP, _ICMP: Kind.ICMP, _IGMP: Kind.IGMP}.get(
            protocol, Kind.OTHER_IPV4
        )
        for protocol in range(256)
    ],
    np.uint8,
)
_HEAD_FACTOR = np.uint64(0xD6E8FEB86659FD93)
_HEAD_BYTES = 8
"""The first bytes of a body, hashed separately: the length of UDP's header, so that the rest is its payload."""


@dataclass(frozen=True, eq=False)
class _Packets:
    """Where the packet is in each frame of a block: its headers end at `body`, the packet at `end`, which may be beyond
    the captured part. `network` is 0 if there is none; `kind` is then final, otherwise still to be set."""

    network: NDArray[np.uint8]
    protocol: NDArray[np.uint8]
    source: NDArray[np.uint32]
    destination: NDArray[np.uint32]
    identification: NDArray[np.uint16]
    ecn: NDArray[np.uint8]
    is_fragment: NDArray[np.bool_]
    body: NDArray[np.int64]
    end: NDArray[np.int64]
    kind: NDArray[np.uint8]


def decode(block: Block, hashed_bytes: int, addresses: AddressNumbers) -> tuple[dict[str, NDArray[np.generic]], int]:
    """The block's part of the columns, and how many frames were slow. The checksums in the block's data are cleared."""
    packets, slow = _find_packets(block, addresses)
    body, end = packets.body, np.minimum(packets.end, block.captured_bytes)
    _set_kinds(packets, end - body)
    segments = gather(block.data, block.starts + body, SEGMENT.itemsize).view(SEGMENT)[:, 0]
    is_tcp, is_udp = packets.kind == Kind.TCP, packets.kind == Kind.UDP
    has_ports = packets.kind <= WITH_PORTS[-1]
    payload, payload_end = _payloads(segments, packets, is_udp, is_tcp, block.captured_bytes)
    decoded: dict[str, NDArray[np.generic]] = {
        "time_ns": block.time_ns,
        "offset": block.file_offset + block.starts,
        "captured_bytes": block.captured_bytes,
        "wire_bytes": block.wire_bytes,
        "kind": packets.kind,
        "network": packets.network,
        "protocol": packets.protocol,
        "source": packets.source,
        "destination": packets.destination,
        "identification": packets.identification,
        "ecn": packets.ecn,
        "source_port": segments["source"] * has_ports,
        "destination_port": segments["destination"] * has_ports,
        "payload_bytes": payload_end - payload,
        **_tcp_fields(segments, is_tcp, end - body),
        "checksum": _take_checksums(block, segments, body, packets.kind, np.minimum(end, hashed_bytes) - body),
        **_hashes(block, packets, segments, payload, payload_end, hashed_bytes),
    }
    return decoded, slow


def _find_packets(block: Block, addresses: AddressNumbers) -> tuple[_Packets, int]:
    """Find the packets by Wireshark's rules; a total length of 0 means the rest of the frame, as segmentation offload
    leaves it."""
    captured_bytes, wire_bytes = block.captured_bytes, block.wire_bytes
    fields = gather(block.data, block.starts, HEADERS.itemsize).view(HEADERS)[:, 0]
    ethernet_type = np.where(captured_bytes >= ETHERNET_BYTES, fields["ethernet_type"], 0)
    header_bytes = (fields["version_and_length"] & 15).astype(np.int64) * 4
    packet_bytes = fields["total_length"].astype(np.int64)
    packet_bytes = np.where(packet_bytes == 0, wire_bytes - ETHERNET_BYTES, packet_bytes)
    body = ETHERNET_BYTES + header_bytes
    is_ip = (
        (ethernet_type == IPV4_TYPE)
        & (block.link_types == ETHERNET)
        & (fields["version_and_length"] >= 0x40 + _IPV4_BYTES // 4)
        & (fields["version_and_length"] < 0x50)
        & (captured_bytes >= body)
        & (packet_bytes >= header_bytes)
    )
    packets = _Packets(
        network=is_ip * np.uint8(4),
        protocol=fields["protocol"] * is_ip,
        source=fields["source"] * is_ip,
        destination=fields["destination"] * is_ip,
        identification=fields["identification"] * is_ip,
        ecn=(fields["type_of_service"] & np.uint8(_ECN)) * is_ip,
        is_fragment=is_ip & (fields["fragment"] & _MORE_FRAGMENTS_OR_OFFSET > 0),
        body=body,
        end=np.minimum(ETHERNET_BYTES + packet_bytes, wire_bytes),
        kind=np.zeros(len(is_ip), np.uint8),
    )
    return packets, 0 if is_ip.all() else _find_others(block, packets, ethernet_type, addresses)


def _find_others(block: Block, packets: _Packets, ethernet_type: NDArray[np.int64], addresses: AddressNumbers) -> int:
    """Set the values of the frames that are not Ethernet with IPv4. Returns how many were slow."""
    is_ethernet, others = block.link_types == ETHERNET, np.flatnonzero(packets.network == 0)
    packets.body[others] = np.minimum(ETHERNET_BYTES, block.captured_bytes[others])
    packets.end[others] = block.wire_bytes[others]
    packets.kind[others] = Kind.OTHER
    for number, kind in _ETHERNET_KINDS.items():
        packets.kind[others[(ethernet_type[others] == number) & is_ethernet[others]]] = kind
    slow = others[np.isin(ethernet_type[others], _SLOW_TYPES) | ~is_ethernet[others]]
    if len(slow):
        starts, ends = block.starts[slow], block.starts[slow] + block.captured_bytes[slow]
        for row, start, end in zip(slow.tolist(), starts.tolist(), ends.tolist(), strict=True):
            frame = block.data[start:end].tobytes()
            packet = find_packet(frame, int(block.wire_bytes[row]), int(block.link_types[row]))
            if isinstance(packet, LocatedPacket):
                _set_packet(packets, row, packet, addresses)
            elif packet in (IPV4_TYPE, IPV6_TYPE, ARP_TYPE):
                packets.kind[row] = _ETHERNET_KINDS[packet]
    return len(slow)


def _set_packet(packets: _Packets, row: int, packet: LocatedPacket, addresses: AddressNumbers) -> None:
    if packet.network == 4:
        numbers: list[int] | None = [int(IPv4Address(address)) for address in (packet.source, packet.destination)]
    else:
        numbers = addresses.numbers(packet.source, packet.destination)
    if numbers is None:
        packets.kind[row] = Kind.IPV6
        return
    packets.source[row], packets.destination[row] = numbers
    packets.network[row], packets.protocol[row] = packet.network, packet.protocol
    packets.identification[row], packets.is_fragment[row] = packet.identification, packet.is_fragment
    packets.ecn[row] = packet.ecn
    packets.body[row], packets.end[row] = packet.body, packet.end


def _set_kinds(packets: _Packets, body_bytes: NDArray[np.int64]) -> None:
    kind = _IPV4_KINDS[packets.protocol]
    kind[(kind <= WITH_PORTS[-1]) & (body_bytes < _PORTS_BYTES)] = Kind.MALFORMED_IPV4
    kind[(kind == Kind.SCTP) & (body_bytes < SCTP_BYTES)] = Kind.MALFORMED_IPV4  # tshark reads no port of such a packet
    kind[(packets.network == 6) & (kind > WITH_PORTS[-1])] = Kind.IPV6
    kind[packets.is_fragment] = Kind.FRAGMENT
    np.copyto(packets.kind, kind, where=packets.network > 0)


def _payloads(
    segments: NDArray[np.void],
    packets: _Packets,
    is_udp: NDArray[np.bool_],
    is_tcp: NDArray[np.bool_],
    captured_bytes: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where in each frame the payload begins and ends, which is behind what was captured in a cut frame."""
    body, end = packets.body, packets.end
    there = np.minimum(end, captured_bytes) - body
    udp_bytes = (segments["sequence"] >> np.uint32(16)).astype(np.int64)
    is_whole = is_udp & (there >= _UDP_LENGTH_BYTES)
    payload = body + _UDP_BYTES
    payload_end = np.minimum(body + udp_bytes, end)
    if is_tcp.any():
        header_bytes = _tcp_header_bytes(segments)
        is_whole |= is_tcp & (there >= _WINDOW_END) & (header_bytes >= _TCP_BYTES)
        payload = np.where(is_tcp, body + header_bytes, payload)
        payload_end = np.where(is_tcp, end, payload_end)
    is_sctp = packets.kind == Kind.SCTP
    if is_sctp.any():
        is_whole |= is_sctp & (there >= SCTP_BYTES)
        payload = np.where(is_sctp, body + SCTP_BYTES, payload)
        payload_end = np.where(is_sctp, end, payload_end)
    return payload, np.where(is_whole, np.maximum(payload_end, payload), payload)


def _tcp_header_bytes(segments: NDArray[np.void]) -> NDArray[np.int64]:
    header_bytes: NDArray[np.int64] = (segments["offset_and_flags"] >> np.uint16(12)).astype(np.int64) * 4
    return header_bytes


def _tcp_fields(
    segments: NDArray[np.void], is_tcp: NDArray[np.bool_], there: NDArray[np.int64]
) -> dict[str, NDArray[np.generic]]:
    """The TCP fields from the captured bytes of the segment; only the sequence number if its header length is
    impossible."""
    if not is_tcp.any():
        return {}
    is_sound = is_tcp & (_tcp_header_bytes(segments) >= _TCP_BYTES) & (there > 12)
    return {
        "sequence": segments["sequence"] * (is_tcp & (there >= 8)),
        "acknowledgment": segments["acknowledgment"] * is_sound,
        "tcp_flags": (segments["offset_and_flags"] & np.uint16(_TCP_FLAGS)) * (is_sound & (there >= 14)),
        "window": segments["window"] * (is_sound & (there >= 16)),
    }


def _take_checksums(
    block: Block,
    segments: NDArray[np.void],
    body: NDArray[np.int64],
    kind: NDArray[np.uint8],
    there: NDArray[np.int64],
) -> NDArray[np.generic]:
    """The checksums of UDP, TCP and SCTP, which are cleared in the block's data, so that no hash depends on them: a
    card may fill them in between two captures. `there` are the bytes of each segment that are hashed."""
    has_udp = (kind == Kind.UDP) & (there >= _UDP_CHECKSUM_AT + _CHECKSUM_BYTES)
    has_tcp = (kind == Kind.TCP) & (there >= _TCP_CHECKSUM_AT + _CHECKSUM_BYTES)
    has_sctp = (kind == Kind.SCTP) & (there >= _SCTP_CHECKSUM_AT + 2 * _CHECKSUM_BYTES)
    second_half = _SCTP_CHECKSUM_AT + _CHECKSUM_BYTES
    for has, at in (
        (has_udp, _UDP_CHECKSUM_AT),
        (has_tcp, _TCP_CHECKSUM_AT),
        (has_sctp, _SCTP_CHECKSUM_AT),
        (has_sctp, second_half),
    ):
        places = (block.starts + body)[has] + at
        block.data[places] = block.data[places + 1] = 0
    of_udp = (segments["sequence"] & np.uint32(0xFFFF)).astype(np.uint16)
    checksums: NDArray[np.generic] = np.where(has_tcp, segments["checksum"], of_udp * has_udp).astype(np.uint32)
    np.copyto(checksums, segments["acknowledgment"], where=has_sctp)
    return checksums


def _hashes(
    block: Block,
    packets: _Packets,
    segments: NDArray[np.void],
    payload: NDArray[np.int64],
    payload_end: NDArray[np.int64],
    hashed_bytes: int,
) -> dict[str, NDArray[np.generic]]:
    """A body is hashed in two parts, the second of which mostly is the payload: most bytes are hashed once. Where it
    is divided depends on nothing but the protocol and the body's hashed bytes, so equal bodies have equal hashes."""
    data, starts, body = block.data, block.starts, packets.body
    hashed_end = np.minimum(np.minimum(packets.end, block.captured_bytes), hashed_bytes)
    body_bytes = np.maximum(hashed_end - body, 0)
    head_bytes = np.minimum(body_bytes, _HEAD_BYTES)
    is_tcp = packets.protocol == TCP
    if is_tcp.any():
        header_bytes = _tcp_header_bytes(segments)
        is_tcp &= (body_bytes >= _TCP_BYTES) & (header_bytes >= _TCP_BYTES) & (header_bytes <= body_bytes)
        head_bytes = np.where(is_tcp, header_bytes, head_bytes)
    rest = body + head_bytes
    rest_bytes = body_bytes - head_bytes
    rest_hash = hash_spans(data, starts + rest, rest_bytes)
    payload_bytes = np.maximum(np.minimum(payload_end, hashed_end) - payload, 0)
    is_rest = (payload == rest) & (payload_bytes == rest_bytes)
    payload_hash = rest_hash * is_rest
    if not is_rest.all():
        apart = np.flatnonzero(~is_rest & (payload_bytes > 0))
        payload_hash[apart] = hash_spans(data, (starts + payload)[apart], payload_bytes[apart])
    return {
        "header_hash": hash_spans(data, starts, np.minimum(body, hashed_bytes)),
        "body_hash": hash_spans(data, starts + body, head_bytes) * _HEAD_FACTOR + rest_hash,
        "payload_hash": payload_hash,
    }


class AddressNumbers:
    """The IPv6 addresses of a capture, in the order in which they came."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._refused = 0

    def numbers(self, *addresses: str) -> list[int] | None:
        """Their indices; None if there are too many to keep these."""
        if len(self._numbers) + len(addresses) > _MOST_ADDRESSES and not all(
            map(self._numbers.__contains__, addresses)
        ):
            self._refused += 1
            return None
        return [self._numbers.setdefault(address, len(self._numbers)) for address in addresses]

    @property
    def known(self) -> tuple[IPv6Address, ...]:
        return tuple(map(IPv6Address, self._numbers))

    @property
    def damage(self) -> str:
        if not self._refused:
            return ""
        return (
            f"{self._refused} packets were not read, because the capture has more than {_MOST_ADDRESSES} IPv6 addresses"
        )


ODD_1, ODD_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
"""Factors for one key of several columns: x * ODD_1 + y * ODD_2 modulo 2^64."""
_WORD_BYTES = 8
_WEIGHTS = np.random.Generator(np.random.PCG64(2014)).integers(
    0, 2**64, LONGEST_FRAME_BYTES // _WORD_BYTES + 1, dtype=np.uint64
) | np.uint64(1)
_KEPT = np.array([2**64 - 1] + [2 ** (8 * n) - 1 for n in range(1, _WORD_BYTES)], np.uint64)
"""The mask that keeps the span's own bytes of its last little-endian word, by length modulo 8."""
_WORDS_AT_ONCE = 1 << 15
"""The number of words at once: intermediate results stay in the processor's cache; for larger arrays the C library
requests new memory from the kernel each time."""
_WIDTHS = np.unique(np.append(np.arange(9), 2.0 ** np.arange(3, 15.2, 0.25))).astype(np.int64)
"""Numbers of words: spans from one of them to the next, a fifth longer at most, are hashed together."""


def hash_spans(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The 64-bit hash of each span of bytes, 0 for an empty one; a quarter of its length and 8 bytes behind a span must
    be inside `data`.

    A multilinear hash (Lemire and Kaser, "Strongly universal string hashing is fast", 2014) over 64-bit words
    with fixed random odd weights: the same in every process, and no protection against an adversary.
    """
    hashes: NDArray[np.uint64] = lengths.astype(np.uint64) * _WEIGHTS[-1]
    words = (lengths + (_WORD_BYTES - 1)) // _WORD_BYTES
    if not len(words) or not (most := words.max()):
        return hashes
    if words.min() == most:
        hashes += _hash_rows(data, starts, lengths, words)
        return hashes
    widths = np.searchsorted(_WIDTHS, words)
    for width in np.flatnonzero(np.bincount(widths)[1:]) + 1:
        rows = np.flatnonzero(widths == width)
        hashes[rows] += _hash_rows(data, starts[rows], lengths[rows], words[rows])
    return hashes


def _hash_rows(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], words: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """The weighted sums of spans of about the same, not zero, number of words."""
    least, most = int(words.min()), int(words.max())
    sums: NDArray[np.uint64] = np.empty(len(starts), np.uint64)
    step = max(_WORDS_AT_ONCE // most, 1)
    for first in range(0, len(starts), step):
        part = slice(first, first + step)
        spans = gather(data, starts[part], most * _WORD_BYTES).view("<u8")
        rest = lengths[part] % _WORD_BYTES
        if least == most:
            spans[:, -1] &= _KEPT[rest]
        else:
            spans[np.arange(len(spans)), words[part] - 1] &= _KEPT[rest]
            spans[:, least:] *= np.arange(least, most) < words[part, None]
        spans ^= spans >> np.uint64(32)  # the low bits of a product know nothing of the word's high bits
        np.einsum("ij,j->i", spans, _WEIGHTS[:most], out=sums[part])
    return sums
