"""Dissecting the session's packets: each with what tshark tells of it, and with the reader of its protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from captures.frames.columns import TCP, Columns, Kind
from captures.protocols.bundles import Bundles
from captures.protocols.cfdp import Cfdp
from captures.protocols.dissector import LEFT_ALONE, NOT_TSHARKS, Dissector, Transport
from captures.protocols.ltp import Ltp
from captures.protocols.norm import Norm
from captures.protocols.others import Datagrams, Udt, Uftp
from captures.protocols.quic import Quic
from captures.protocols.reading import Packet, Reader
from captures.protocols.saratoga import Saratoga
from captures.protocols.tcp import Tcp
from captures.protocols.tshark import NoDissection, ip_packets, told_fields
from captures.session import Host, Session, sent_by

_HOSTS: tuple[Host, ...] = ("sender", "receiver")

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
"""By the protocol's name in a dissector."""
_NO_BUNDLES = ("--disable-protocol", "bundle", "--disable-protocol", "bpv7")
"""They are read by a layer of ours, and putting them together takes tshark longer than all else."""
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
)
_CHECKSUMS = {"0": False, "1": True}
_UDP_HEADER_BYTES, _IPV6_HEADER_BYTES = 8, 40
_FRAGMENT_OFFSET_AT = 6
"""In IPv4's header; whether tshark tells it in octets or in units of eight depends on its version."""
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Dissected:
    """A packet of the session with what tshark says of it.

    `row` is its row in the columns, `reader` that of its protocol. `malformed` says that tshark could not read it.
    `checksums` say whether that of its IPv4 header is right, and that of UDP or TCP: None where there is none, or not
    all that it covers was captured. `fragment` is a fragment's IPv4 identification, and `fragment_at` where in the
    datagram, its UDP header not counted, its octets begin: 0 in the first.
    """

    row: int
    packet: Packet
    reader: Reader
    malformed: bool
    checksums: tuple[bool | None, bool | None]
    fragment: str | None
    fragment_at: int


def dissect(columns: Columns, session: Session, dissector: Dissector) -> Iterator[Dissected]:
    """The session's packets in the capture's order.

    Raises NoDissection where tshark is missing or fails, or frames of several link types are in one capture; OSError
    where it cannot be read.
    """
    if not columns.link_type and len(columns):
        raise NoDissection(
            f"{columns.path}: has frames of several link types; split it by interface: "
            "tshark -r IN -Y frame.interface_id==0 -w OUT"
        )
    hosts = {host: sent_by(columns, session, host) for host in _HOSTS}
    rows = np.flatnonzero(hosts["sender"] | hosts["receiver"])
    if not len(rows):
        return
    readers = _Readers(dissector)
    fields = (*_FIELDS, *dict.fromkeys(field for reader in readers.all() for field in reader.FIELDS))
    options = dissector.options(session, (*NOT_TSHARKS, "bundle"), left_alone=("tcp",))
    lines = told_fields(columns, rows, [*_NO_BUNDLES, *options], fields)
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[first : first + _ROWS_AT_ONCE]
        for row, (octets, wire_bytes), values in zip(some.tolist(), ip_packets(columns, some), lines, strict=False):
            host: Host = "sender" if hosts["sender"][row] else "receiver"
            told = dict(zip(fields, values, strict=True))
            transport: Transport = "tcp" if columns.protocol[row] == TCP else "udp"
            if columns.network[row] == 6 and columns.kind[row] == Kind.FRAGMENT:
                yield _fragment_of_ipv6(row, host, octets, told, readers)
            else:
                yield _dissected(row, _Frame(host, transport, octets, wire_bytes, told), readers)


class _Readers:
    """One reader of each protocol for the whole session."""

    def __init__(self, dissector: Dissector) -> None:
        self._dissector = dissector
        names = dissector.names()
        self._by_name: dict[str, Reader] = {name: make() for name, make in _READERS.items() if name in names}
        if "ltp" in names:
            self._by_name["ltp"] = Ltp(names_bundles="bundle" in names)
        self._tcp = {is_file: Tcp(is_file) for is_file in (True, False)}
        self._datagrams = Datagrams()

    def all(self) -> list[Reader]:
        return [*self._by_name.values(), self._tcp[True]]

    def of(self, transport: Transport, source_port: int, destination_port: int) -> Reader:
        name = self._dissector.protocol(transport, destination_port, source_port)
        if transport == "tcp":
            return self._tcp[name == LEFT_ALONE]
        return self._by_name.get(name, self._datagrams)


@dataclass(frozen=True)
class _Frame:
    """A packet as it was captured, and as tshark tells of it; `wire_bytes` is the length of the IP packet."""

    host: Host
    transport: Transport
    octets: bytes
    wire_bytes: int
    told: dict[str, str]

    def number(self, name: str) -> int:
        """The outermost of a field's values, 0 where there is none."""
        return int(self.told[name].partition(",")[0] or "0", 0)


def _fragment_of_ipv6(row: int, host: Host, octets: bytes, told: dict[str, str], readers: _Readers) -> Dissected:
    """Only that it is one: the place of anything in it is not looked for."""
    packet = Packet(host, b"", len(octets), len(octets), told)
    return Dissected(row, packet, readers.of("udp", 0, 0), False, (None, None), "", 1)


@dataclass(frozen=True)
class _Span:
    """Where in an IP packet what its transport carries begins, and how long it is; `datagram_bytes` as in Packet."""

    begin: int
    payload_bytes: int
    datagram_bytes: int


def _dissected(row: int, frame: _Frame, readers: _Readers) -> Dissected:
    is_ipv6 = bool(frame.told["ipv6.plen"])
    ip_bytes = _IPV6_HEADER_BYTES + frame.number("ipv6.plen") if is_ipv6 else frame.number("ip.len") or frame.wire_bytes
    offset = b"" if is_ipv6 else frame.octets[_FRAGMENT_OFFSET_AT : _FRAGMENT_OFFSET_AT + 2]
    fragment_at = 8 * (int.from_bytes(offset, "big") & 0x1FFF)
    is_fragment = fragment_at > 0 or frame.number("ip.flags.mf") == 1
    if is_fragment:
        span = _span_of_fragment(frame, ip_bytes, fragment_at)
    elif frame.transport == "udp":
        span = _span_of_udp(frame, ip_bytes, is_ipv6)
    else:
        length = min(frame.number("tcp.len"), ip_bytes)
        span = _Span(ip_bytes - length, length, length)
    payload = frame.octets[span.begin : span.begin + span.payload_bytes]
    packet = Packet(frame.host, payload, span.payload_bytes, span.datagram_bytes, frame.told)
    ports = (frame.number(f"{frame.transport}.{port}") for port in ("srcport", "dstport"))
    reader = readers.of(frame.transport, *ports)
    is_layer_there = not reader.LAYER or reader.LAYER in frame.told["frame.protocols"].split(":")
    is_wrong = bool(frame.told["_ws.malformed"]) and not packet.cut
    is_cut = len(frame.octets) < min(frame.wire_bytes, ip_bytes)
    of_transport = "" if is_cut else frame.told[f"{frame.transport}.checksum.status"]
    return Dissected(
        row=row,
        packet=packet,
        reader=reader,
        malformed=not fragment_at and (not is_layer_there or is_wrong),
        checksums=(_CHECKSUMS.get(frame.told["ip.checksum.status"]), _CHECKSUMS.get(of_transport)),
        fragment=frame.told["ip.id"] if is_fragment else None,
        fragment_at=max(fragment_at - _UDP_HEADER_BYTES, 0),
    )


def _span_of_fragment(frame: _Frame, ip_bytes: int, fragment_at: int) -> _Span:
    begin = frame.number("ip.hdr_len") + (0 if fragment_at else _UDP_HEADER_BYTES)
    length = max(ip_bytes - begin, 0)
    whole = length if fragment_at else max(frame.number("udp.length") - _UDP_HEADER_BYTES, length)
    return _Span(begin, length, whole)


def _span_of_udp(frame: _Frame, ip_bytes: int, is_ipv6: bool) -> _Span:
    """By the length in its header, within that of the IP packet; IPv6's extension headers are not counted here."""
    wanted = max(frame.number("udp.length") - _UDP_HEADER_BYTES, 0)
    if is_ipv6:
        length = min(wanted, max(ip_bytes - _IPV6_HEADER_BYTES - _UDP_HEADER_BYTES, 0))
        return _Span(ip_bytes - length, length, length)
    begin = frame.number("ip.hdr_len") + _UDP_HEADER_BYTES
    length = min(wanted, max(ip_bytes - begin, 0))
    return _Span(begin, length, length)
