"""TCP segments that are decoded without tshark: complete headers in Ethernet and IPv4 without options, with
consistent lengths.

What tshark adds to a segment, `tcp.analysis.duplicate_ack` and `tcp.analysis.keep_alive`, is found by its rules
(`tcp_analyze_sequence_number` in epan/dissectors/packet-tcp.c).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import ETHERNET
from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.columns import Columns, Rows
from owlt.captures.frames.decoding import ACK, FIN, HEADERS, RST, SEGMENT, SYN, TCP, Kind
from owlt.captures.frames.packets import IPV4_TYPE, WITHOUT_OPTIONS, header_is_right, transport_is_right
from owlt.captures.protocols.reader import Fields

_HEADERS = np.dtype([("ip", HEADERS), ("tcp", SEGMENT)])
"""The headers of a segment in Ethernet and IPv4 (RFC 9293, section 3.1)."""
_IP_AT, _TCP_AT, _SHORTEST_HEADER = 14, 34, 20
_FLAGS, _WRAP = 0xFFF, 1 << 32
_MOST_PACKET_BYTES = 16_384
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Segment:
    """The payload of a segment as far as captured, its length on the wire, and its fields by tshark's names.

    `checksums` say whether that of the IPv4 header is right, and that of TCP: None if not all that it covers was
    captured.
    """

    payload: bytes
    payload_bytes: int
    checksums: tuple[bool, bool | None]
    fields: Fields


def plain_segments(columns: Columns, rows: Rows) -> Iterator[Segment] | None:
    """The segments in these rows, in the order of time; None if any row has none of these. Raises OSError."""
    parts = [rows[first : first + _ROWS_AT_ONCE] for first in range(0, len(rows), _ROWS_AT_ONCE)]
    is_tcp = columns.link_type == ETHERNET and bool((columns.kind[rows] == Kind.TCP).all())
    if not is_tcp or not all(_read(columns, part).are_plain for part in parts):
        return None
    return _segments(columns, parts)


@dataclass(frozen=True)
class _Frames:
    """Frames with their headers as columns and as octets; where their payloads begin, and where their packets end."""

    frames: Sequence[bytes]
    headers: NDArray[np.void]
    octets: NDArray[np.uint8]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    is_covered: NDArray[np.bool_]
    are_plain: bool


def _read(columns: Columns, rows: Rows) -> _Frames:
    frames = read_frames(columns.path, columns.offset[rows], columns.captured_bytes[rows])
    heads = b"".join(frame[: _HEADERS.itemsize].ljust(_HEADERS.itemsize, b"\0") for frame in frames)
    headers = np.frombuffer(heads, _HEADERS)
    ends = _IP_AT + headers["ip"]["total_length"].astype(np.int64)
    begins = _TCP_AT + 4 * (headers["tcp"]["offset_and_flags"].astype(np.int64) >> 12)
    captured_bytes = columns.captured_bytes[rows].astype(np.int64)
    is_plain = (
        (headers["ip"]["ethernet_type"] == IPV4_TYPE)
        & (headers["ip"]["version_and_length"] == WITHOUT_OPTIONS)
        & (begins >= _TCP_AT + _SHORTEST_HEADER)
        & (begins <= ends)
        & (begins <= captured_bytes)
        & (ends <= columns.wire_bytes[rows])
        & (ends <= _MOST_PACKET_BYTES)
    )
    octets = np.frombuffer(heads, np.uint8).reshape(-1, _HEADERS.itemsize)
    return _Frames(frames, headers, octets, begins, ends, captured_bytes >= ends, bool(is_plain.all()))


def _segments(columns: Columns, parts: Iterable[Rows]) -> Iterator[Segment]:
    connections: dict[_Ends, _Connection] = {}
    for rows in parts:
        read = _read(columns, rows)
        covered = np.flatnonzero(read.is_covered)
        tcp_is_right = transport_is_right(read.frames, read.octets, read.ends, covered, TCP)
        for frame, begin, end, ip_right, tcp_right, is_covered, fields in zip(
            read.frames,
            read.begins.tolist(),
            read.ends.tolist(),
            header_is_right(read.octets).tolist(),
            tcp_is_right.tolist(),
            read.is_covered.tolist(),
            _analysed(read, connections),
            strict=True,
        ):
            checksums = (ip_right, tcp_right if is_covered else None)
            yield Segment(frame[begin:end], end - begin, checksums, fields)


class _Header(NamedTuple):
    """The numbers in the headers of a segment, and the length of its payload."""

    source: int
    destination: int
    source_port: int
    destination_port: int
    sequence: int
    acknowledgment: int
    flags: int
    window: int
    length: int


@dataclass
class _Direction:
    """What tshark remembers of one direction of a connection: the next sequence number, the last acknowledgement and
    window, and whether its last segment was a keep-alive."""

    next: int | None = None
    acknowledgment: int | None = None
    window: int | None = None
    is_keep_alive: bool = False


@dataclass
class _Connection:
    """Both directions, by the address and port of their source, since the SYN with a sequence number."""

    first_sequence: int | None = None
    directions: dict[tuple[int, int], _Direction] = field(default_factory=dict)


_Ends = frozenset[tuple[int, int]]
"""The two addresses and ports of a connection."""


def _analysed(read: _Frames, connections: dict[_Ends, _Connection]) -> Iterator[Fields]:
    """The fields of segments in the order of time, by tshark's names."""
    ip, tcp = read.headers["ip"], read.headers["tcp"]
    columns = [
        *(ip[name] for name in ("source", "destination")),
        *(tcp[name] for name in ("source", "destination", "sequence", "acknowledgment")),
        *(tcp["offset_and_flags"] & _FLAGS, tcp["window"], read.ends - read.begins),
    ]
    for values in zip(*(column.tolist() for column in columns), strict=True):
        header = _Header(*values)
        is_keep_alive, is_duplicate = _analyse(header, connections)
        yield {
            "tcp.srcport": str(header.source_port),
            "tcp.dstport": str(header.destination_port),
            "tcp.flags": str(header.flags),
            "tcp.seq_raw": str(header.sequence),
            "tcp.ack_raw": str(header.acknowledgment),
            "tcp.len": str(header.length),
            "tcp.analysis.keep_alive": "1" if is_keep_alive else "",
            "tcp.analysis.duplicate_ack": "1" if is_duplicate else "",
        }


def _analyse(header: _Header, connections: dict[_Ends, _Connection]) -> tuple[bool, bool]:
    """Whether a segment is a keep-alive, and whether it is a duplicate acknowledgement; it is remembered."""
    source, destination = (header.source, header.source_port), (header.destination, header.destination_port)
    key = frozenset((source, destination))
    connection = connections.setdefault(key, _Connection())
    if header.flags & SYN and not header.flags & ACK:
        if connection.first_sequence not in (None, header.sequence):
            connection = connections[key] = _Connection()
        connection.first_sequence = header.sequence
    own = connection.directions.setdefault(source, _Direction())
    other = connection.directions.setdefault(destination, _Direction())
    is_bare = not header.flags & (SYN | FIN | RST)
    is_probe = header.length == 1 and header.sequence == own.next and other.window == 0
    is_keep_alive = (
        not is_probe
        and is_bare
        and header.length <= 1
        and own.next is not None
        and header.sequence == (own.next - 1) % _WRAP
    )
    is_duplicate = (
        is_bare
        and header.length == 0
        and (header.window, header.sequence) == (own.window, own.next)
        and header.acknowledgment == own.acknowledgment
        and header.window > 0
        and not other.is_keep_alive
    )
    if not is_probe:
        end = (header.sequence + header.length + bool(header.flags & (SYN | FIN))) % _WRAP
        if own.next is None or 0 < (end - own.next) % _WRAP < _WRAP // 2:
            own.next = end
    own.window, own.acknowledgment = header.window, header.acknowledgment
    own.is_keep_alive = is_keep_alive
    return is_keep_alive, is_duplicate
