"""TCP: RFC 9293, with tshark's analysis of acknowledgements and keep-alives; and segments that are decoded without
tshark: complete headers in Ethernet and IPv4 without options, with consistent lengths.

What tshark adds to a segment, `tcp.analysis.duplicate_ack` and `tcp.analysis.keep_alive`, is computed for these by
tshark's rules (`tcp_analyze_sequence_number` in epan/dissectors/packet-tcp.c).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import ETHERNET, ETHERNET_BYTES
from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.checksums import TRANSPORT_AT, WITHOUT_OPTIONS, header_is_right, transport_is_right
from owlt.captures.frames.columns import Columns, Rows
from owlt.captures.frames.decoding import ACK, FIN, HEADERS, RST, SEGMENT, SYN, TCP, Kind
from owlt.captures.frames.packets import IPV4_TYPE
from owlt.captures.frames.session import Host
from owlt.captures.protocols.reader import Coverage, Fields, Packet, PacketContent, Reader, Unreadable, span

_WRAP = 1 << 32
_FAR = _WRAP // 2
_NAMED_BY_FLAG = ("SYN", "SYN-ACK", "FIN")
_OTHER: dict[Host, Host] = {"sender": "receiver", "receiver": "sender"}


@dataclass
class _Stream:
    """A connection in one direction: where its numbers begin and end. Places count from 0, the first byte of data.

    Where that is not known they count from `base`, so far before the first segment that all places are above 0.
    """

    first_sequence: int | None = None
    base: int | None = None
    end: int | None = None
    seen: Coverage = field(default_factory=Coverage)

    def begin(self, first_sequence: int) -> None:
        """Learn the number of the first byte of data from a SYN, if it was not known."""
        if self.first_sequence is None:
            self.first_sequence = self.base = first_sequence
            self.seen = Coverage()

    def begin_acknowledged(self, acknowledgment: int) -> int:
        """The sequence number of the first data byte after a SYN-ACK, which may acknowledge data in the SYN."""
        if self.first_sequence is not None and (acknowledgment - self.first_sequence) % _WRAP <= self.seen.furthest:
            return self.first_sequence
        return acknowledgment

    def place(self, sequence: int) -> int:
        """The byte that a sequence number stands for; numbers start again after 2^32, and so near the last one."""
        if self.base is None:
            self.base = (sequence - _FAR) % _WRAP
            self.seen.add(_FAR, _FAR)
        near = (sequence - self.base - self.seen.furthest + _FAR) % _WRAP - _FAR
        return self.seen.furthest + near


@dataclass(eq=False)
class _Connection:
    """Both directions, by the sending host."""

    streams: dict[Host, _Stream] = field(default_factory=lambda: {"sender": _Stream(), "receiver": _Stream()})
    is_over: bool = False


class Tcp(Reader):
    """Reads segments. Bytes are placed only if `stream_is_file`: the connection carries the file and nothing else.

    Retransmissions are recognised from the data of undamaged segments, and connections from their ports and SYNs:
    tshark takes a damaged SYN for one of a new connection, whose numbers it then expects.

    With `stream_is_file` a place is the byte of the stream, counted from the first. Where the capture has no SYN, the
    first byte is not known.
    """

    LAYER, TITLE = "tcp", "TCP"
    NEEDS_TSHARK = True
    FIELDS = (
        "tcp.srcport",
        "tcp.dstport",
        "tcp.flags",
        "tcp.seq_raw",
        "tcp.ack_raw",
        "tcp.len",
        "tcp.analysis.duplicate_ack",
        "tcp.analysis.keep_alive",
    )

    def __init__(self, stream_is_file: bool = False) -> None:
        self._stream_is_file = stream_is_file
        self._connections: dict[tuple[int | None, int | None], _Connection] = {}

    def ignorant(self) -> Tcp:
        """A reader without connections."""
        return Tcp(self._stream_is_file)

    def read(self, packet: Packet) -> PacketContent:
        """The content of a segment."""
        flags, length = packet.number("tcp.flags"), packet.number("tcp.len")
        sequence, acknowledgment = packet.number("tcp.seq_raw"), packet.number("tcp.ack_raw")
        if flags is None or length is None or sequence is None:
            raise Unreadable("a segment without its header")
        unit = self._connection(packet, flags, sequence, acknowledgment)
        ours, theirs = unit.streams[packet.host], unit.streams[_OTHER[packet.host]]
        name = _name(packet, flags, length)
        acknowledged = self._acknowledged(theirs, acknowledgment) if flags & ACK and not flags & RST else None
        unit.is_over |= bool(flags & (FIN | RST))
        if flags & RST:  # octets in it are no data of the stream: section 3.5.3
            return PacketContent(name, unit=unit)
        if flags & SYN:
            sequence = (sequence + 1) % _WRAP
        if flags & SYN and not length:
            return PacketContent(name, acknowledged_bytes=acknowledged, unit=unit)
        first_byte = ours.place(sequence)
        if length and name != "keep alive":
            new_bytes = ours.seen.add(max(first_byte, 0), max(first_byte + length, 0))
            name = name if new_bytes or name in _NAMED_BY_FLAG else "retransmission"
        if ours.first_sequence is None:
            return PacketContent(
                name, byte_count=length, acknowledged_bytes=acknowledged, unplaced=length > 0, unit=unit
            )
        if flags & FIN:
            ours.end = first_byte + length
        detail = span(first_byte, length) if length else f"ack {acknowledged}" if acknowledged is not None else ""
        if not length or name == "keep alive":
            return PacketContent(name, detail, acknowledged_bytes=acknowledged, unit=unit)
        if not self._stream_is_file:
            return PacketContent(name, detail, None, length, acknowledged, unplaced=True, unit=unit)
        return PacketContent(name, detail, first_byte, length, acknowledged, unit=unit)

    def _connection(self, packet: Packet, flags: int, sequence: int, acknowledgment: int | None) -> _Connection:
        """The one that a segment belongs to.

        A SYN-ACK has the start of both directions, which shows whether it is a new one; a SYN alone is accepted if
        there was none before, or if that one has ended.
        """
        ports = packet.number("tcp.srcport"), packet.number("tcp.dstport")
        key = ports if packet.host == "sender" else (ports[1], ports[0])
        known = self._connections.setdefault(key, _Connection())
        if not flags & SYN:
            return known
        begins: dict[Host, int] = {packet.host: (sequence + 1) % _WRAP}
        if flags & ACK and acknowledgment is not None:
            begins[_OTHER[packet.host]] = known.streams[_OTHER[packet.host]].begin_acknowledged(acknowledgment)
        is_another = any(known.streams[host].first_sequence not in (None, begin) for host, begin in begins.items())
        if is_another and (flags & ACK or known.is_over):
            known = self._connections[key] = _Connection()
        for host, begin in begins.items():
            known.streams[host].begin(begin)
        return known

    def _acknowledged(self, stream: _Stream, acknowledgment: int | None) -> int | None:
        """How much of a stream an acknowledgement covers, without its SYN and FIN."""
        if stream.first_sequence is None or acknowledgment is None or not self._stream_is_file:
            return None
        place = max(stream.place(acknowledgment), 0)
        return place if stream.end is None else min(place, stream.end)


def _name(packet: Packet, flags: int, length: int) -> str:
    if flags & RST:
        return "RST"
    if flags & SYN:
        return "SYN-ACK" if flags & ACK else "SYN"
    if flags & FIN:
        return "FIN"
    if length and packet.fields["tcp.analysis.keep_alive"]:
        return "keep alive"
    if length:
        return "data"
    return "dup ACK" if packet.fields["tcp.analysis.duplicate_ack"] else "ACK"


_HEADERS = np.dtype([("ip", HEADERS), ("tcp", SEGMENT)])
"""The headers of a segment in Ethernet and IPv4 (RFC 9293, section 3.1)."""
_SHORTEST_HEADER, _FLAGS = 20, 0xFFF
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
    ends = ETHERNET_BYTES + headers["ip"]["total_length"].astype(np.int64)
    begins = TRANSPORT_AT + 4 * (headers["tcp"]["offset_and_flags"].astype(np.int64) >> 12)
    captured_bytes = columns.captured_bytes[rows].astype(np.int64)
    is_plain = (
        (headers["ip"]["ethernet_type"] == IPV4_TYPE)
        & (headers["ip"]["version_and_length"] == WITHOUT_OPTIONS)
        & (begins >= TRANSPORT_AT + _SHORTEST_HEADER)
        & (begins <= ends)
        & (begins <= captured_bytes)
        & (ends <= columns.wire_bytes[rows])
        & (ends <= _MOST_PACKET_BYTES)
    )
    octets = np.frombuffer(heads, np.uint8).reshape(-1, _HEADERS.itemsize)
    return _Frames(frames, headers, octets, begins, ends, captured_bytes >= ends, bool(is_plain.all()))


def _segments(columns: Columns, parts: Iterable[Rows]) -> Iterator[Segment]:
    connections: dict[_Ends, _Analysis] = {}
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
class _Analysis:
    """Both directions, by the address and port of their source, since the SYN with a sequence number."""

    first_sequence: int | None = None
    directions: dict[tuple[int, int], _Direction] = field(default_factory=dict)


_Ends = frozenset[tuple[int, int]]
"""The two addresses and ports of a connection."""


def _analysed(read: _Frames, connections: dict[_Ends, _Analysis]) -> Iterator[Fields]:
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


def _analyse(header: _Header, connections: dict[_Ends, _Analysis]) -> tuple[bool, bool]:
    """Whether a segment is a keep-alive, and whether it is a duplicate acknowledgement; it is remembered."""
    source, destination = (header.source, header.source_port), (header.destination, header.destination_port)
    key = frozenset((source, destination))
    connection = connections.setdefault(key, _Analysis())
    if header.flags & SYN and not header.flags & ACK:
        if connection.first_sequence not in (None, header.sequence):
            connection = connections[key] = _Analysis()
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
        if own.next is None or 0 < (end - own.next) % _WRAP < _FAR:
            own.next = end
    own.window, own.acknowledgment = header.window, header.acknowledgment
    own.is_keep_alive = is_keep_alive
    return is_keep_alive, is_duplicate
