"""Dissecting the session's packets: each with the reader of its protocol, and with the fields that this asks for.

Most readers read the octets themselves. tshark, which takes longer to start than to dissect a thousand packets, reads
the other protocols, and finds the octets where a packet is not a plain datagram: a whole UDP datagram in Ethernet and
IPv4 without options, whose lengths agree with each other; or where a segment of TCP is none (tcp.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import ETHERNET
from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.checksums import WITHOUT_OPTIONS, header_is_right, transport_is_right
from owlt.captures.frames.columns import Columns, Rows, by_time
from owlt.captures.frames.decoding import HEADERS, SCTP_BYTES, TCP, TRANSPORTS, UDP, Kind, Transport
from owlt.captures.frames.packets import IPV4_TYPE
from owlt.captures.frames.session import HOSTS, Host, Session, sent_by
from owlt.captures.protocols.bundles import Bundles
from owlt.captures.protocols.cfdp import Cfdp
from owlt.captures.protocols.ltp import Ltp
from owlt.captures.protocols.norm import Norm
from owlt.captures.protocols.others import Datagrams, Quic, Sctp, Udt, Uftp
from owlt.captures.protocols.reader import NO_FIELDS, Packet, Reader
from owlt.captures.protocols.saratoga import Saratoga
from owlt.captures.protocols.tcp import Segment, Tcp, plain_segments
from owlt.captures.protocols.tshark import LEFT_ALONE, NOT_TSHARKS, Dissector, NoDissection, ip_packets, tshark_fields

_HEADERS = np.dtype([("ip", HEADERS), ("ports", "S4"), ("udp_length", ">u2"), ("udp_checksum", ">u2")])
"""The headers of a UDP datagram in Ethernet and IPv4 (RFC 768)."""
_IP_AT, _UDP_AT = 14, 34
_MOST_PACKET_BYTES = 16_384
"""Longer packets are left to tshark, which completes cut packets up to this length."""


_READERS: dict[str, Callable[[], Reader]] = {
    "cfdp": Cfdp,
    "ltp": Ltp,
    "norm": Norm,
    "bundle": Bundles,
    "saratoga": Saratoga,
    "quic": Quic,
    "uftp": Uftp,
    "udt": Udt,
}
"""The readers by the protocol's name in a dissector."""
_NOT_DISSECTED = tuple(
    part for name in ("bundle", "bpv7", "cfdp", "ltp", "norm") for part in ("--disable-protocol", name)
)
"""Protocols that tshark does not dissect: they are read here, and reassembling bundles takes tshark most of its
time."""
_FIELDS = (
    "frame.protocols",
    "_ws.malformed",
    "ip.hdr_len",
    "ip.len",
    "ip.id",
    "ip.flags.mf",
    "ip.checksum.status",
    "ipv6.plen",
    "udp.srcport",
    "udp.dstport",
    "udp.length",
    "udp.checksum.status",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.len",
    "tcp.checksum.status",
    "sctp.srcport",
    "sctp.dstport",
    "sctp.checksum.status",
)
_CHECKSUMS = {"0": False, "1": True}
_NAMES = {number: transport for transport, number in TRANSPORTS.items()}
_UDP_HEADER_BYTES, _IPV6_HEADER_BYTES = 8, 40
_FRAGMENT_OFFSET_AT = 6
"""The position of the fragment offset in IPv4's header; tshark's unit (octets or eight octets) depends on its
version."""
_ROWS_AT_ONCE = 4096
_ROWS_BETWEEN_TSHARKS = 32_768
"""The number of rows for one tshark process, if it is needed for any of them: they are in memory together."""


@dataclass(frozen=True, slots=True)
class Dissected:
    """A packet of the session with its fields.

    `row` is its row in the columns, `reader` that of its protocol. `malformed` says that tshark could not read it.
    `checksums` say whether that of its IPv4 header is right, and that of its transport: None if there is none, or
    not all that it covers was captured. `fragment` is a fragment's IPv4 identification, and `fragment_at` where in the
    datagram, its UDP header not counted, its octets begin: 0 in the first.
    """

    row: int
    packet: Packet
    reader: Reader
    malformed: bool
    checksums: tuple[bool | None, bool | None]
    fragment: str | None
    fragment_at: int


def dissect(
    columns: Columns, session: Session, dissector: Dissector, hosts: Sequence[Host] = HOSTS
) -> Iterator[Dissected]:
    """The session's packets that these hosts sent, in the order of time.

    Raises NoDissection if tshark is needed, and missing or fails, or frames of several link types are in one capture;
    OSError where it cannot be read.
    """
    if not columns.link_type and len(columns):
        raise NoDissection(
            f"{columns.path}: frames of several link types: split it by interface: "
            "tshark -r IN -Y frame.interface_id==0 -w OUT"
        )
    sent = {host: sent_by(columns, session, host) for host in HOSTS}
    is_sender = sent["sender"]
    rows = by_time(columns, np.flatnonzero(np.logical_or.reduce([sent[host] for host in hosts])))
    if not len(rows):
        return
    readers = _Readers(dissector)
    capture = _Capture(columns, is_sender, session, readers)
    protocols = columns.protocol[rows]
    if (protocols == TCP).all() and (segments := plain_segments(columns, rows)) is not None:
        yield from capture.by_segments(rows, segments)
        return
    if readers.need_tshark or (protocols != UDP).any():
        yield from capture.by_tshark(rows)
        return
    for first in range(0, len(rows), _ROWS_BETWEEN_TSHARKS):
        yield from capture.by_octets(rows[first : first + _ROWS_BETWEEN_TSHARKS])


def takes_tshark(session: Session, dissector: Dissector) -> bool:
    """Whether tshark reads all packets of the session, or counts its segments; it reads unusual packets in any case."""
    return bool(session.tcp_ports or session.sctp_ports) or _Readers(dissector).need_tshark


@dataclass(frozen=True)
class _Capture:
    """The packets of a capture, of which each row of `is_sender` says whether the sender sent it."""

    columns: Columns
    is_sender: NDArray[np.bool_]
    session: Session
    readers: _Readers

    def by_octets(self, rows: Rows) -> Iterator[Dissected]:
        """The packets in these rows: plain ones by their octets, the others by tshark."""
        datagrams = plain_datagrams(self.columns, rows)
        ports = zip(self.columns.source_port[rows].tolist(), self.columns.destination_port[rows].tolist(), strict=True)
        senders = self.is_sender[rows].tolist()
        dissected: list[Dissected | None] = []
        for row, datagram, (source, destination), is_sender in zip(
            rows.tolist(), datagrams, ports, senders, strict=True
        ):
            if datagram is None:
                dissected.append(None)
                continue
            reader = self.readers.of("udp", source, destination)
            payload_bytes = datagram.payload_bytes
            packet = Packet(HOSTS[not is_sender], datagram.payload, payload_bytes, payload_bytes, NO_FIELDS, row + 1)
            dissected.append(Dissected(row, packet, reader, False, datagram.checksums, None, 0))
        others = self.by_tshark(rows[[packet is None for packet in dissected]])
        for each in dissected:
            yield each or next(others)

    def by_segments(self, rows: Rows, segments: Iterable[Segment]) -> Iterator[Dissected]:
        """The packets in these rows, which are TCP segments."""
        ports = zip(self.columns.source_port[rows].tolist(), self.columns.destination_port[rows].tolist(), strict=True)
        senders = self.is_sender[rows].tolist()
        for row, segment, (source, destination), is_sender in zip(rows.tolist(), segments, ports, senders, strict=True):
            length, reader = segment.payload_bytes, self.readers.of("tcp", source, destination)
            packet = Packet(HOSTS[not is_sender], segment.payload, length, length, segment.fields, row + 1)
            yield Dissected(row, packet, reader, False, segment.checksums, None, 0)

    def by_tshark(self, rows: Rows) -> Iterator[Dissected]:
        """The packets in these rows."""
        if not len(rows):
            return
        columns, readers = self.columns, self.readers
        fields = (*_FIELDS, *dict.fromkeys(field for reader in readers.all() for field in reader.FIELDS))
        options = readers.dissector.options(self.session, (*NOT_TSHARKS, *readers.of_octets()), left_alone=("tcp",))
        lines = tshark_fields(columns, rows, [*_NOT_DISSECTED, *options], fields)
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[first : first + _ROWS_AT_ONCE]
            for row, (octets, wire_bytes), values in zip(some.tolist(), ip_packets(columns, some), lines, strict=False):
                host = HOSTS[not self.is_sender[row]]
                field_values = dict(zip(fields, values, strict=True))
                transport = _NAMES[int(columns.protocol[row])]
                if columns.network[row] == 6 and columns.kind[row] == Kind.FRAGMENT:
                    yield _fragment_of_ipv6(row, host, octets, field_values, readers)
                else:
                    payload_bytes = int(columns.payload_bytes[row])
                    yield _dissected(
                        row, _Frame(host, transport, octets, wire_bytes, payload_bytes, field_values), readers
                    )


class _Readers:
    """One reader of each protocol for the whole session."""

    def __init__(self, dissector: Dissector) -> None:
        self.dissector = dissector
        names = dissector.names()
        self._by_name: dict[str, Reader] = {name: make() for name, make in _READERS.items() if name in names}
        if "ltp" in names:
            self._by_name["ltp"] = Ltp(names_bundles="bundle" in names)
        self._tcp = {is_file: Tcp(is_file) for is_file in (True, False)}
        self._sctp = Sctp()
        self._datagrams = Datagrams()
        self._of_ports: dict[tuple[Transport, int, int], Reader] = {}

    @property
    def need_tshark(self) -> bool:
        """Whether one of them cannot do without, or a protocol has none."""
        unread = self.dissector.names() - set(self._by_name) - {LEFT_ALONE}
        return bool(unread) or any(reader.NEEDS_TSHARK for reader in self._by_name.values())

    def of_octets(self) -> list[str]:
        """The names of the protocols that tshark does not have to dissect."""
        return [name for name, reader in self._by_name.items() if not reader.NEEDS_TSHARK]

    def all(self) -> list[Reader]:
        return [*self._by_name.values(), self._tcp[True], self._sctp]

    def of(self, transport: Transport, source_port: int, destination_port: int) -> Reader:
        ports = transport, source_port, destination_port
        if ports not in self._of_ports:
            self._of_ports[ports] = self._of_name(transport, self.dissector.protocol(transport, *ports[:0:-1]))
        return self._of_ports[ports]

    def _of_name(self, transport: Transport, name: str) -> Reader:
        if transport == "udp":
            return self._by_name.get(name, self._datagrams)
        return self._sctp if transport == "sctp" else self._tcp[name == LEFT_ALONE]


@dataclass(frozen=True)
class _Frame:
    """A packet as it was captured, with tshark's fields; `wire_bytes` is the length of the IP packet, `payload_bytes`
    as in the columns."""

    host: Host
    transport: Transport
    octets: bytes
    wire_bytes: int
    payload_bytes: int
    field_values: dict[str, str]

    def number(self, name: str) -> int:
        """The outermost of a field's values, 0 if there is none."""
        return int(self.field_values[name].partition(",")[0] or "0", 0)


def _fragment_of_ipv6(
    row: int, host: Host, octets: bytes, field_values: dict[str, str], readers: _Readers
) -> Dissected:
    """A fragment of IPv6, without the position of its contents."""
    packet = Packet(host, b"", len(octets), len(octets), field_values)
    return Dissected(row, packet, readers.of("udp", 0, 0), False, (None, None), "", 1)


@dataclass(frozen=True)
class _Span:
    """The start and the length of the transport payload in an IP packet; `datagram_bytes` as in Packet."""

    begin: int
    payload_bytes: int
    datagram_bytes: int


def _dissected(row: int, frame: _Frame, readers: _Readers) -> Dissected:
    is_ipv6 = bool(frame.field_values["ipv6.plen"])
    ipv6_bytes = _IPV6_HEADER_BYTES + frame.number("ipv6.plen") if frame.number("ipv6.plen") else 0
    claimed_bytes = ipv6_bytes or frame.number("ip.len")  # 0: a segment that a card will divide, or has put together
    ip_bytes = claimed_bytes or frame.wire_bytes
    offset = b"" if is_ipv6 else frame.octets[_FRAGMENT_OFFSET_AT : _FRAGMENT_OFFSET_AT + 2]
    fragment_at = 8 * (int.from_bytes(offset, "big") & 0x1FFF)
    is_fragment = fragment_at > 0 or frame.number("ip.flags.mf") == 1
    if is_fragment:
        span = _span_of_fragment(frame, ip_bytes, fragment_at)
    elif frame.transport == "udp":
        span = _span_of_udp(frame, ip_bytes, is_ipv6)
    elif frame.transport == "sctp":
        length = frame.payload_bytes
        span = _Span(min(ip_bytes, frame.wire_bytes) - length, length, length)
    else:
        length = min(frame.number("tcp.len"), ip_bytes)
        span = _Span(ip_bytes - length, length, length)
    payload = frame.octets[span.begin : span.begin + span.payload_bytes]
    packet = Packet(frame.host, payload, span.payload_bytes, span.datagram_bytes, frame.field_values, row + 1)
    ports = (frame.number(f"{frame.transport}.{port}") for port in ("srcport", "dstport"))
    reader = readers.of(frame.transport, *ports)
    is_layer_there = not reader.LAYER or reader.LAYER in frame.field_values["frame.protocols"].split(":")
    is_wrong = reader.NEEDS_TSHARK and bool(frame.field_values["_ws.malformed"]) and not packet.cut
    is_cut = len(frame.octets) < min(frame.wire_bytes, ip_bytes)
    is_checked = not (is_cut or is_fragment) and claimed_bytes  # tshark checks a fragment of SCTP as a whole packet
    of_transport = frame.field_values[f"{frame.transport}.checksum.status"] if is_checked else ""
    return Dissected(
        row=row,
        packet=packet,
        reader=reader,
        malformed=not fragment_at and (not is_layer_there or is_wrong),
        checksums=(_CHECKSUMS.get(frame.field_values["ip.checksum.status"]), _CHECKSUMS.get(of_transport)),
        fragment=frame.field_values["ip.id"] if is_fragment else None,
        fragment_at=max(fragment_at - _UDP_HEADER_BYTES, 0),
    )


def _span_of_fragment(frame: _Frame, ip_bytes: int, fragment_at: int) -> _Span:
    header_bytes = SCTP_BYTES if frame.transport == "sctp" else _UDP_HEADER_BYTES
    begin = frame.number("ip.hdr_len") + (0 if fragment_at else header_bytes)
    length = max(ip_bytes - begin, 0)
    whole = length if fragment_at else max(frame.number("udp.length") - _UDP_HEADER_BYTES, length)
    return _Span(begin, length, whole)


def _span_of_udp(frame: _Frame, ip_bytes: int, is_ipv6: bool) -> _Span:
    """The payload by the length in the UDP header, within that of the IP packet; IPv6's extension headers are not
    counted here."""
    wanted = max(frame.number("udp.length") - _UDP_HEADER_BYTES, 0)
    if is_ipv6:
        length = min(wanted, max(ip_bytes - _IPV6_HEADER_BYTES - _UDP_HEADER_BYTES, 0))
        return _Span(ip_bytes - length, length, length)
    begin = frame.number("ip.hdr_len") + _UDP_HEADER_BYTES
    length = min(wanted, max(ip_bytes - begin, 0))
    return _Span(begin, length, length)


@dataclass(frozen=True, slots=True)
class Datagram:
    """The UDP payload: `payload` as far as captured, `payload_bytes` its length on the wire.

    `checksums` say whether that of the IPv4 header is right, and that of UDP: None if there is none, or not all that it
    covers was captured.
    """

    payload: bytes
    payload_bytes: int
    checksums: tuple[bool, bool | None]


def plain_datagrams(columns: Columns, rows: Rows) -> list[Datagram | None]:
    """The datagram of each row; None if it is none of these. Raises OSError."""
    if columns.link_type != ETHERNET:
        return [None] * len(rows)
    frames = read_frames(columns.path, columns.offset[rows], columns.captured_bytes[rows])
    heads = b"".join(frame[: _HEADERS.itemsize].ljust(_HEADERS.itemsize, b"\0") for frame in frames)
    fields = np.frombuffer(heads, _HEADERS)
    ends = _IP_AT + fields["ip"]["total_length"].astype(np.int64)
    captured_bytes = columns.captured_bytes[rows].astype(np.int64)
    is_plain = (
        (columns.kind[rows] == Kind.UDP)
        & (fields["ip"]["ethernet_type"] == IPV4_TYPE)
        & (fields["ip"]["version_and_length"] == WITHOUT_OPTIONS)
        & (captured_bytes >= _HEADERS.itemsize)
        & (ends >= _HEADERS.itemsize)
        & (ends <= columns.wire_bytes[rows])
        & (ends <= _MOST_PACKET_BYTES)
        & (fields["udp_length"] == ends - _UDP_AT)
    )
    octets = np.frombuffer(heads, np.uint8).reshape(-1, _HEADERS.itemsize)
    ip_is_right = header_is_right(octets)
    is_covered = is_plain & (fields["udp_checksum"] != 0) & (captured_bytes >= ends)
    udp_is_right = transport_is_right(frames, octets, ends, np.flatnonzero(is_covered), UDP)
    return [
        Datagram(frame[_HEADERS.itemsize : end], end - _HEADERS.itemsize, (ip_right, udp_right if covered else None))
        if plain
        else None
        for frame, end, ip_right, udp_right, covered, plain in zip(
            frames, ends.tolist(), ip_is_right.tolist(), udp_is_right.tolist(), is_covered.tolist(), is_plain.tolist(),
            strict=True,
        )
    ]  # fmt: skip
