"""The frames of a capture as numpy columns: times, lengths, addresses, ports, TCP fields, hashes; one row a frame.

Ethernet with IPv4 and UDP or TCP is read here, many frames at once. Where the packet is in a frame with other headers
slow_frames.py finds; what the file looks like is pcap.py's. Every frame is a row, and is named by its kind. What
belongs to a run is left to session.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from captures.files.blocks import BLOCK_BYTES, ETHERNET, LONGEST_FRAME_BYTES, Block, gather
from captures.files.growing import GrowingColumns
from captures.files.pcap import read_blocks
from captures.frames.hashing import hash_spans

if TYPE_CHECKING:
    from captures.frames.slow_frames import FoundPacket

ETHERNET_BYTES = 14
_IPV4_BYTES = 20
_PORTS_BYTES, _UDP_LENGTH_BYTES, _UDP_BYTES, _TCP_BYTES = 4, 6, 8, 20
TCP, UDP = 6, 17
_ICMP, _IGMP = 1, 2
"""Numbers of protocols (IANA)."""

_HEADERS = np.dtype(  # IEEE 802.3, RFC 791
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
_SEGMENT = np.dtype(  # RFC 9293; the ports are those of UDP (RFC 768) too, whose length is where TCP's sequence is
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

MOST_ADDRESSES = 1 << 18
"""Of IPv6, that are kept of one capture."""


class Kind(IntEnum):
    """What a frame is, as far as the columns tell it apart."""

    UDP = 0
    TCP = 1
    FRAGMENT = 2
    """Any fragment of an IPv4 or IPv6 packet, the first one too; `protocol` says of what."""
    ICMP = 3
    """Of IPv4; ICMPv6 is IPV6."""
    IGMP = 4
    OTHER_IPV4 = 5
    MALFORMED_IPV4 = 6
    """IPv4 by its Ethernet type, but no address or no port can be read from it."""
    ARP = 7
    IPV6 = 8
    """IPv6 with neither UDP nor TCP, or none that can be read."""
    VLAN = 9
    """Tagged, with neither IP nor ARP behind the tags."""
    OTHER = 10


_IPV4_TYPE, _ARP_TYPE, _IPV6_TYPE = 0x0800, 0x0806, 0x86DD
_TAG_TYPES = (0x8100, 0x88A8, 0x9100)
_SLOW_TYPES = (_IPV6_TYPE, *_TAG_TYPES)
_ETHERNET_KINDS = {
    _IPV4_TYPE: Kind.MALFORMED_IPV4,
    _ARP_TYPE: Kind.ARP,
    _IPV6_TYPE: Kind.IPV6,
    **dict.fromkeys(_TAG_TYPES, Kind.VLAN),
}
_IPV4_KINDS = np.full(256, Kind.OTHER_IPV4, np.uint8)
_IPV4_KINDS[[UDP, TCP, _ICMP, _IGMP]] = Kind.UDP, Kind.TCP, Kind.ICMP, Kind.IGMP
_HEAD_FACTOR = np.uint64(0xD6E8FEB86659FD93)
_HEAD_BYTES = 8
"""Of a body, hashed apart from the rest: the length of UDP's header, so that the rest is its payload."""


@dataclass(frozen=True, eq=False)
class Columns:
    """One row for each frame of the capture at `path`, in the file's order.

    `time_ns` is since the epoch, 0 for the `untimed_frames` that have no time in the file. `offset` is the file
    offset of a frame's first byte. `network` is 4 or 6 where an IP header can be read, else 0, and with it
    `protocol` (of IPv6: the one behind the extension headers), `identification` (of IPv4), `source` and
    `destination`: IPv4 addresses as integers, for IPv6 indices into `addresses`. Ports are 0 where there are none.

    `payload_bytes` is what the packet carries behind its UDP or TCP header, by the lengths in its headers and
    within what was sent; 0 in fragments, in all that is neither, and where these lengths are not captured or
    cannot be true.
    `sequence`, `acknowledgment`, `tcp_flags` (12 bits, reserved ones too) and `window` (as sent, not scaled) are 0
    where they are not captured; all but the first also where the TCP header claims less than its fixed length.

    `header_hash` is of the frame up to the end of its IP header, `body_hash` of what the IP packet carries, without
    the padding behind it, `payload_hash` of the bytes that `payload_bytes` counts, 0 where there are none. All three
    only as far as captured, and within the first `hashed_bytes` of the frame: equal payloads have equal hashes in
    any two captures where as many bytes of them are within that; of whole frames, whatever their headers.

    `link_type` is that of all frames (a number of `captures.files.blocks.LINK_TYPES`), 0 if they have several.
    `slow_frames` were read one by one, for their headers are not Ethernet and IPv4. `comments` are the file's own,
    `dropped` is how many packets it says the capture missed, None where it says nothing. `damage` says why the
    file could not be read to its end, and is empty when it could.
    """

    path: Path
    hashed_bytes: int
    damage: str
    time_ns: NDArray[np.int64]
    offset: NDArray[np.int64]
    captured_bytes: NDArray[np.uint32]
    wire_bytes: NDArray[np.uint32]
    kind: NDArray[np.uint8]
    network: NDArray[np.uint8]
    protocol: NDArray[np.uint8]
    source: NDArray[np.uint32]
    destination: NDArray[np.uint32]
    identification: NDArray[np.uint16]
    source_port: NDArray[np.uint16]
    destination_port: NDArray[np.uint16]
    payload_bytes: NDArray[np.uint32]
    sequence: NDArray[np.uint32]
    acknowledgment: NDArray[np.uint32]
    tcp_flags: NDArray[np.uint16]
    window: NDArray[np.uint16]
    header_hash: NDArray[np.uint64]
    body_hash: NDArray[np.uint64]
    payload_hash: NDArray[np.uint64]
    link_type: int = ETHERNET
    addresses: tuple[IPv6Address, ...] = ()
    slow_frames: int = 0
    untimed_frames: int = 0
    comments: tuple[str, ...] = ()
    dropped: int | None = None

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def is_cut(self) -> NDArray[np.bool_]:
        """Of which frames less was captured than was sent."""
        return self.captured_bytes < self.wire_bytes


_DTYPES = {
    name: np.dtype(dtype)
    for dtype, names in {
        "i8": ("time_ns", "offset"),
        "u8": ("header_hash", "body_hash", "payload_hash"),
        "u4": (
            *("captured_bytes", "wire_bytes", "source", "destination"),
            *("payload_bytes", "sequence", "acknowledgment"),
        ),
        "u2": ("identification", "source_port", "destination_port", "tcp_flags", "window"),
        "u1": ("kind", "network", "protocol"),
    }.items()
    for name in names
}


def read_columns(path: Path, hashed_bytes: int = LONGEST_FRAME_BYTES) -> Columns:
    """The columns of the pcap or pcapng at `path`, in bounded memory beside the columns.

    The hashes look at the first `hashed_bytes` of each frame: with the smaller of two captures' snapshot
    lengths, their hashes can be compared. Raises NotACapture, OSError.
    """
    rows = GrowingColumns(_DTYPES)
    addresses = _Addresses()
    comments: list[str] = []
    link_types: set[int] = set()
    slow_frames = untimed_frames = 0
    file_bytes = path.stat().st_size
    for block in read_blocks(path):
        decoded, slow = _decode(block, hashed_bytes, addresses)
        rows.append(decoded, (block.file_offset + BLOCK_BYTES) / max(file_bytes, 1))
        slow_frames += slow
        untimed_frames += block.untimed_frames
        comments += block.comments
        link_types.update(np.flatnonzero(np.bincount(block.link_types)).tolist())
    damage = "; ".join(text for text in (block.damage, addresses.damage) if text)
    return Columns(
        path,
        hashed_bytes,
        damage,
        **rows.arrays(),
        link_type=link_types.pop() if len(link_types) == 1 else 0,
        addresses=addresses.known,
        slow_frames=slow_frames,
        untimed_frames=untimed_frames,
        comments=tuple(comments),
        dropped=block.dropped,
    )


class _Addresses:
    """The IPv6 addresses of a capture, in the order in which they came."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._refused = 0

    def numbers(self, *addresses: str) -> list[int] | None:
        """Their indices; None if there are too many to keep these."""
        if len(self._numbers) + len(addresses) > MOST_ADDRESSES and not all(map(self._numbers.__contains__, addresses)):
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
        return f"{self._refused} packets were not read, for the capture has more than {MOST_ADDRESSES} IPv6 addresses"


@dataclass(frozen=True, eq=False)
class _Packets:
    """Where the packet is in each frame of a block: its headers end at `body`, itself at `end`, which may be behind
    what was captured. `network` is 0 where there is none; `kind` is then right, and else still to be set."""

    network: NDArray[np.uint8]
    protocol: NDArray[np.uint8]
    source: NDArray[np.uint32]
    destination: NDArray[np.uint32]
    identification: NDArray[np.uint16]
    is_fragment: NDArray[np.bool_]
    body: NDArray[np.int64]
    end: NDArray[np.int64]
    kind: NDArray[np.uint8]


def _decode(block: Block, hashed_bytes: int, addresses: _Addresses) -> tuple[dict[str, NDArray[np.generic]], int]:
    """The block's part of the columns, and how many frames were slow."""
    packets, slow = _find_packets(block, addresses)
    body, end = packets.body, np.minimum(packets.end, block.captured_bytes)
    _set_kinds(packets, end - body)
    segments = gather(block.data, block.starts + body, _SEGMENT.itemsize).view(_SEGMENT)[:, 0]
    is_tcp, is_udp = packets.kind == Kind.TCP, packets.kind == Kind.UDP
    has_ports = is_tcp | is_udp
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
        "source_port": segments["source"] * has_ports,
        "destination_port": segments["destination"] * has_ports,
        "payload_bytes": payload_end - payload,
        **_tcp_fields(segments, is_tcp, end - body),
        **_hashes(block, packets, segments, payload, payload_end, hashed_bytes),
    }
    return decoded, slow


def _find_packets(block: Block, addresses: _Addresses) -> tuple[_Packets, int]:
    """By Wireshark's rules; a total length of 0 stands for the rest of the frame, as segmentation offload leaves it."""
    captured_bytes, wire_bytes = block.captured_bytes, block.wire_bytes
    fields = gather(block.data, block.starts, _HEADERS.itemsize).view(_HEADERS)[:, 0]
    ethernet_type = np.where(captured_bytes >= ETHERNET_BYTES, fields["ethernet_type"], 0)
    header_bytes = (fields["version_and_length"] & 15).astype(np.int64) * 4
    packet_bytes = fields["total_length"].astype(np.int64)
    packet_bytes = np.where(packet_bytes == 0, wire_bytes - ETHERNET_BYTES, packet_bytes)
    body = ETHERNET_BYTES + header_bytes
    is_ip = (
        (ethernet_type == _IPV4_TYPE)
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
        is_fragment=is_ip & (fields["fragment"] & _MORE_FRAGMENTS_OR_OFFSET > 0),
        body=body,
        end=np.minimum(ETHERNET_BYTES + packet_bytes, wire_bytes),
        kind=np.zeros(len(is_ip), np.uint8),
    )
    return packets, 0 if is_ip.all() else _find_others(block, packets, ethernet_type, addresses)


def _find_others(block: Block, packets: _Packets, ethernet_type: NDArray[np.int64], addresses: _Addresses) -> int:
    """Set what is known of the frames that are not Ethernet with IPv4; returns how many were slow."""
    is_ethernet, others = block.link_types == ETHERNET, np.flatnonzero(packets.network == 0)
    packets.body[others] = np.minimum(ETHERNET_BYTES, block.captured_bytes[others])
    packets.end[others] = block.wire_bytes[others]
    packets.kind[others] = Kind.OTHER
    for number, kind in _ETHERNET_KINDS.items():
        packets.kind[others[(ethernet_type[others] == number) & is_ethernet[others]]] = kind
    slow = others[np.isin(ethernet_type[others], _SLOW_TYPES) | ~is_ethernet[others]]
    if len(slow):
        from captures.frames.slow_frames import FoundPacket, find_packet  # imports scapy, which takes half a second

        starts, ends = block.starts[slow], block.starts[slow] + block.captured_bytes[slow]
        for row, start, end in zip(slow.tolist(), starts.tolist(), ends.tolist(), strict=True):
            frame = block.data[start:end].tobytes()
            found = find_packet(frame, int(block.wire_bytes[row]), int(block.link_types[row]))
            if isinstance(found, FoundPacket):
                _set_packet(packets, row, found, addresses)
            elif found in (_IPV4_TYPE, _IPV6_TYPE, _ARP_TYPE):
                packets.kind[row] = _ETHERNET_KINDS[found]
    return len(slow)


def _set_packet(packets: _Packets, row: int, found: FoundPacket, addresses: _Addresses) -> None:
    if found.network == 4:
        numbers: list[int] | None = [int(IPv4Address(address)) for address in (found.source, found.destination)]
    else:
        numbers = addresses.numbers(found.source, found.destination)
    if numbers is None:
        packets.kind[row] = Kind.IPV6
        return
    packets.source[row], packets.destination[row] = numbers
    packets.network[row], packets.protocol[row] = found.network, found.protocol
    packets.identification[row], packets.is_fragment[row] = found.identification, found.is_fragment
    packets.body[row], packets.end[row] = found.body, found.end


def _set_kinds(packets: _Packets, body_bytes: NDArray[np.int64]) -> None:
    kind = _IPV4_KINDS[packets.protocol]
    kind[(kind <= Kind.TCP) & (body_bytes < _PORTS_BYTES)] = Kind.MALFORMED_IPV4
    kind[(packets.network == 6) & (kind > Kind.TCP)] = Kind.IPV6
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
        is_whole |= is_tcp & (there >= _TCP_BYTES) & (header_bytes >= _TCP_BYTES)
        payload = np.where(is_tcp, body + header_bytes, payload)
        payload_end = np.where(is_tcp, end, payload_end)
    return payload, np.where(is_whole, np.maximum(payload_end, payload), payload)


def _tcp_header_bytes(segments: NDArray[np.void]) -> NDArray[np.int64]:
    header_bytes: NDArray[np.int64] = (segments["offset_and_flags"] >> np.uint16(12)).astype(np.int64) * 4
    return header_bytes


def _tcp_fields(
    segments: NDArray[np.void], is_tcp: NDArray[np.bool_], there: NDArray[np.int64]
) -> dict[str, NDArray[np.generic]]:
    """Of the bytes of the segment that are there; nothing but the sequence number if its header cannot be so long."""
    if not is_tcp.any():
        return {}
    is_sound = is_tcp & (_tcp_header_bytes(segments) >= _TCP_BYTES) & (there > 12)
    return {
        "sequence": segments["sequence"] * (is_tcp & (there >= 8)),
        "acknowledgment": segments["acknowledgment"] * is_sound,
        "tcp_flags": (segments["offset_and_flags"] & np.uint16(_TCP_FLAGS)) * (is_sound & (there >= 14)),
        "window": segments["window"] * (is_sound & (there >= 16)),
    }


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
