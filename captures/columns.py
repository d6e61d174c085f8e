"""The frames of a capture as numpy columns: times, lengths, addresses, ports, hashes; one row a frame.

Ethernet with IPv4 and UDP or TCP is understood; every other frame is kept as a row and named by its kind.
What belongs to a run is left to session.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from captures.hashing import gather, hash_spans
from captures.pcap import (
    LONGEST_FRAME_BYTES,
    RECORD_HEADER_BYTES,
    Block,
    PcapHeader,
    read_blocks,
    read_header,
)

ETHERNET_BYTES = 14
_IPV4_BYTES = 20
_PORTS_BYTES = 4
_ICMP, _IGMP, _TCP, _UDP = 1, 2, 6, 17

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
_PORTS = np.dtype([("source", ">u2"), ("destination", ">u2")])
_MORE_FRAGMENTS_OR_OFFSET = 0x3FFF


class Kind(IntEnum):
    """What a frame is, as far as the columns tell it apart."""

    UDP = 0
    TCP = 1
    FRAGMENT = 2
    """Any IPv4 fragment, the first one too; `protocol` says of what."""
    ICMP = 3
    IGMP = 4
    OTHER_IPV4 = 5
    MALFORMED_IPV4 = 6
    """IPv4 by its Ethernet type, but no address or no port can be read from it."""
    ARP = 7
    IPV6 = 8
    VLAN = 9
    OTHER = 10


_ETHERNET_KINDS = {0x0806: Kind.ARP, 0x86DD: Kind.IPV6, 0x8100: Kind.VLAN, 0x88A8: Kind.VLAN}
_IPV4_TYPE = 0x0800


@dataclass(frozen=True, eq=False)
class Columns:
    """One row for each frame of the capture at `path`, in the file's order.

    `offset` is the file offset of a frame's first byte. Addresses are IPv4 addresses as integers; these,
    `protocol` and `identification` are 0 where no IPv4 header can be read, ports are 0 where there are
    none. `header_hash` is of the frame up to the end of its IPv4 header, `body_hash` of what the IPv4
    packet carries, without the padding behind it; both only as far as captured, and within `hashed_bytes`
    of the frame. `damage` says why the file could not be read to its end, and is empty when it could.
    """

    path: Path
    hashed_bytes: int
    damage: str
    time_ns: NDArray[np.int64]
    offset: NDArray[np.int64]
    captured_bytes: NDArray[np.uint32]
    wire_bytes: NDArray[np.uint32]
    kind: NDArray[np.uint8]
    protocol: NDArray[np.uint8]
    source: NDArray[np.uint32]
    destination: NDArray[np.uint32]
    identification: NDArray[np.uint16]
    source_port: NDArray[np.uint16]
    destination_port: NDArray[np.uint16]
    header_hash: NDArray[np.uint64]
    body_hash: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.time_ns)


def read_columns(path: Path, hashed_bytes: int = LONGEST_FRAME_BYTES) -> Columns:
    """The columns of the pcap at `path` (µs or ns, either byte order), in bounded memory beside the columns.

    The hashes look at the first `hashed_bytes` of each frame: with the smaller of two captures' snapshot
    lengths, their hashes can be compared. Raises NotACapture, OSError.
    """
    header = read_header(path)
    decoded, damage = [], ""
    for block in read_blocks(path, header):
        decoded.append(_decode(block, header, hashed_bytes))
        damage = block.damage
    arrays = {name: np.concatenate([block[name] for block in decoded]) for name in decoded[0]}
    return Columns(path, hashed_bytes, damage, **arrays)


def _decode(block: Block, header: PcapHeader, hashed_bytes: int) -> dict[str, NDArray[np.generic]]:
    data, starts = block.data, block.records + RECORD_HEADER_BYTES
    words = gather(data, block.records, RECORD_HEADER_BYTES).view(header.byte_order + "u4")
    seconds, fraction, captured, wire = words.T.astype(np.int64)
    fields = gather(data, starts, _HEADERS.itemsize).view(_HEADERS)[:, 0]

    is_ip, header_bytes, packet_bytes = _ipv4_lengths(fields, captured, wire)
    body = np.where(is_ip, ETHERNET_BYTES + header_bytes, np.minimum(ETHERNET_BYTES, captured))
    body_end = np.minimum(captured, np.where(is_ip, ETHERNET_BYTES + packet_bytes, captured))
    kind = _kinds(fields, captured, is_ip, body_end - body)
    ports = gather(data, starts + body, _PORTS_BYTES).view(_PORTS)[:, 0]
    has_ports = (kind == Kind.UDP) | (kind == Kind.TCP)

    body_hashed = np.maximum(np.minimum(body_end, hashed_bytes) - body, 0)
    return {
        "time_ns": seconds * 1_000_000_000 + fraction * header.tick_ns,
        "offset": block.file_offset + starts,
        "captured_bytes": captured.astype(np.uint32),
        "wire_bytes": wire.astype(np.uint32),
        "kind": kind,
        "protocol": np.where(is_ip, fields["protocol"], 0).astype(np.uint8),
        "source": np.where(is_ip, fields["source"], 0).astype(np.uint32),
        "destination": np.where(is_ip, fields["destination"], 0).astype(np.uint32),
        "identification": np.where(is_ip, fields["identification"], 0).astype(np.uint16),
        "source_port": np.where(has_ports, ports["source"], 0).astype(np.uint16),
        "destination_port": np.where(has_ports, ports["destination"], 0).astype(np.uint16),
        "header_hash": hash_spans(data, starts, np.minimum(body, hashed_bytes)),
        "body_hash": hash_spans(data, starts + body, body_hashed),
    }


def _ipv4_lengths(
    fields: NDArray[np.void], captured: NDArray[np.int64], wire: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """Which frames have an IPv4 header that can be read, its length, and the packet's; by Wireshark's rules.

    A total length of 0 stands for the rest of the frame, as segmentation offload leaves it.
    """
    version, words = fields["version_and_length"] >> 4, fields["version_and_length"] & 15
    header_bytes = words.astype(np.int64) * 4
    packet_bytes = fields["total_length"].astype(np.int64)
    packet_bytes = np.where(packet_bytes == 0, wire - ETHERNET_BYTES, packet_bytes)
    readable = (
        (captured >= ETHERNET_BYTES + np.maximum(header_bytes, _IPV4_BYTES))
        & (fields["ethernet_type"] == _IPV4_TYPE)
        & (version == 4)
        & (header_bytes >= _IPV4_BYTES)
        & (packet_bytes >= header_bytes)
    )
    return readable, header_bytes, packet_bytes


def _kinds(
    fields: NDArray[np.void],
    captured: NDArray[np.int64],
    is_ip: NDArray[np.bool_],
    body_bytes: NDArray[np.int64],
) -> NDArray[np.uint8]:
    ethernet_type = np.where(captured >= ETHERNET_BYTES, fields["ethernet_type"], 0)
    protocol = fields["protocol"]
    is_fragment = is_ip & (fields["fragment"] & _MORE_FRAGMENTS_OR_OFFSET > 0)
    has_ports = body_bytes >= _PORTS_BYTES
    choices = [
        (is_fragment, Kind.FRAGMENT),
        (is_ip & (protocol == _UDP) & has_ports, Kind.UDP),
        (is_ip & (protocol == _TCP) & has_ports, Kind.TCP),
        (is_ip & (protocol == _ICMP), Kind.ICMP),
        (is_ip & (protocol == _IGMP), Kind.IGMP),
        (is_ip & (protocol != _UDP) & (protocol != _TCP), Kind.OTHER_IPV4),
        (ethernet_type == _IPV4_TYPE, Kind.MALFORMED_IPV4),
        *((ethernet_type == number, kind) for number, kind in _ETHERNET_KINDS.items()),
    ]
    kinds = np.select([rows for rows, _ in choices], [kind.value for _, kind in choices], Kind.OTHER.value)
    return kinds.astype(np.uint8)
