"""The handshake of a QUIC session in numbers: its packets, which of them were needless repeats, and when the file began
to arrive. tshark decrypts the packets; what a repeat is, is decided here.

A handshake packet is a UDP datagram with at least one packet that has a long header (RFC 9000, section 17.2).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from pydantic import BaseModel, ConfigDict

from owlt.captures.accounting.derived_files import CAPTURES, DerivedFile, load_or_make, load_or_match
from owlt.captures.accounting.ledger import account
from owlt.captures.accounting.measures import DirectionCounters
from owlt.captures.accounting.summary import read_both
from owlt.captures.frames.columns import Columns
from owlt.captures.frames.session import HOSTS, Host, Session
from owlt.captures.matches.delivery import INTACT, Crossing
from owlt.captures.protocols.others import QUIC_LONG_HEADERS
from owlt.captures.protocols.reader import Coverage
from owlt.captures.protocols.tshark import parse_dissector, tshark_pdml

NAME = "quic-handshake.json"
SECRETS_LINE = re.compile(rb"^(?:CLIENT|SERVER|EXPORTER)_[A-Z0-9_]+ [0-9a-f]{64} [0-9a-f]{64,128}\s*$", re.MULTILINE)
"""A line of NSS's key log format, https://www.ietf.org/archive/id/draft-ietf-tls-keylogfile-02.html."""
FIRST_FLIGHT_NS = 100_000_000
"""How far apart the packets of one flight leave at most: the shortest first probe timeout of a stack is 200 ms."""
MOST_DATAGRAMS = 20_000
"""The datagrams of a session that are dissected: the first ones."""
_FILE_STREAMS = (0, 2)
"""The first stream that a client opens in both directions, and in one (RFC 9000, section 2.1): what the file's sender
sends on one of them is the file, as a client that pushes it, or as a server that is asked for it."""
_CRYPTO, _PING = 6, 1
_SHOWN = "quic.header_form == 1 || quic.stream.stream_id"


class HandshakeCounts(BaseModel):
    """The handshake packets that one host sent; bytes are those of Ethernet frames.

    `useless` are those that carry octets of the TLS handshake or a PING, and no octet that the host had not sent before
    in a packet that arrived, or was still under way. `answers` carry neither: acknowledgements, and CONNECTION_CLOSE.
    All others are `needed`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    packets: int = 0
    bytes: int = 0
    useless: int = 0
    useless_bytes: int = 0
    answers: int = 0

    @property
    def needed(self) -> int:
        """Packets that carry octets of the TLS handshake that no earlier one brings."""
        return self.packets - self.useless - self.answers


class QuicHandshake(DerivedFile):
    """The handshake of a run, by who sent its packets.

    `first_byte_s` is when the first byte of the file that arrives reached the receiver's port, after the session's
    first packet; None if none did, or if the packets cannot be decrypted. `unreadable` packets with a long header could
    not be decrypted. Of those, the ones that leave within `FIRST_FLIGHT_NS` of the first of their host, connection and
    type count as needed, the later ones as repeats.
    """

    schema_version: int = 1
    sender: HandshakeCounts
    receiver: HandshakeCounts
    first_byte_s: float | None = None
    unreadable: int = 0


@dataclass(frozen=True)
class QuicPacket:
    """A packet within a datagram: `kind` is Initial, 0-RTT, Handshake or Retry, or 1-RTT for a short header.

    `crypto` are the octets [first, end) of the TLS handshake that it carries.
    """

    kind: str
    is_readable: bool = True
    crypto: tuple[tuple[int, int], ...] = ()
    has_ping: bool = False
    streams: tuple[int, ...] = ()


@dataclass(frozen=True)
class QuicDatagram:
    """A datagram as it was sent. `arrived_at_ns` is None if it did not arrive intact while the channel was captured;
    `is_lost`: the channel dropped or damaged it, so that it was not under way then. `row` is its row in the capture at
    its host's port."""

    host: Host
    sent_at_ns: int
    wire_bytes: int
    packets: tuple[QuicPacket, ...] = ()
    connection: int = 0
    arrived_at_ns: int | None = None
    is_lost: bool = False
    row: int = 0

    @property
    def is_handshake(self) -> bool:
        """Whether one of its packets has a long header."""
        return any(packet.kind != "1-RTT" for packet in self.packets)


def count_handshake(datagrams: Sequence[QuicDatagram]) -> QuicHandshake:
    """The handshake in datagrams of both hosts, in the order in which they were sent."""
    of_host: dict[Host, _OfHost] = {host: _OfHost() for host in HOSTS}
    for datagram in datagrams:
        if datagram.is_handshake:
            of_host[datagram.host].add(datagram)
    arrivals = [
        datagram.arrived_at_ns
        for datagram in datagrams
        if datagram.host == "sender" and datagram.arrived_at_ns is not None and _has_file_bytes(datagram)
    ]
    packets = [packet for datagram in datagrams for packet in datagram.packets]
    return QuicHandshake(
        sender=of_host["sender"].counts(),
        receiver=of_host["receiver"].counts(),
        first_byte_s=(min(arrivals) - datagrams[0].sent_at_ns) / 1e9 if arrivals else None,
        unreadable=sum(packet.kind != "1-RTT" and not packet.is_readable for packet in packets),
    )


def _has_file_bytes(datagram: QuicDatagram) -> bool:
    return any(stream in _FILE_STREAMS for packet in datagram.packets for stream in packet.streams)


@dataclass
class _OfHost:
    """What a host has sent of its handshakes, by connection and kind of packet, that was not lost."""

    sent: defaultdict[tuple[int, str], Coverage] = field(default_factory=lambda: defaultdict(Coverage))
    first_unreadable_ns: dict[tuple[int, str], int] = field(default_factory=dict)
    has_lost: bool = False
    all_bytes: list[int] = field(default_factory=list)
    useless_bytes: list[int] = field(default_factory=list)
    answers: int = 0

    def add(self, datagram: QuicDatagram) -> None:
        self.all_bytes.append(datagram.wire_bytes)
        long_headers = [packet for packet in datagram.packets if packet.kind != "1-RTT"]
        is_new = [self._is_new(packet, datagram) for packet in long_headers]
        if not any(is_new):
            if any(not packet.is_readable or packet.crypto or packet.has_ping for packet in long_headers):
                self.useless_bytes.append(datagram.wire_bytes)
            else:
                self.answers += 1
        self.has_lost |= datagram.is_lost

    def _is_new(self, packet: QuicPacket, datagram: QuicDatagram) -> bool:
        """Whether the packet carries something that none carried before that was not lost. A PING does if something was
        lost: it asks for an acknowledgement that shows the loss."""
        key = datagram.connection, packet.kind
        if not packet.is_readable:
            first_ns = self.first_unreadable_ns.setdefault(key, datagram.sent_at_ns)
            return self.has_lost or datagram.sent_at_ns - first_ns <= FIRST_FLIGHT_NS
        known = deepcopy(self.sent[key]) if datagram.is_lost else self.sent[key]
        new_octets = [known.add(first, end) for first, end in packet.crypto]
        return any(new_octets) or (packet.has_ping and not packet.crypto and self.has_lost)

    def counts(self) -> HandshakeCounts:
        return HandshakeCounts(
            packets=len(self.all_bytes),
            bytes=sum(self.all_bytes),
            useless=len(self.useless_bytes),
            useless_bytes=sum(self.useless_bytes),
            answers=self.answers,
        )


def load_or_count(
    run_dir: Path,
    session: Session,
    dissector: Sequence[str],
    counters: Mapping[str, DirectionCounters],
    outputs: Iterable[bytes],
) -> QuicHandshake:
    """The handshake of the run in `run_dir`: the stored one if captures, arguments and code are those it was made from,
    else a new one, which is then stored.

    `outputs` are what the programs printed: lines in NSS's key log format decrypt the packets. `counters` are the
    emulator's, by `forward` and `reverse`. Raises NotACapture, NoDissection, OSError, ValueError.
    """
    secrets = [line for output in outputs for line in SECRETS_LINE.findall(output)]

    def make() -> QuicHandshake:
        both = read_both(*(run_dir / name for name in CAPTURES))
        crossing = load_or_match(run_dir, *both, session)
        return count_handshake(read_datagrams(crossing, session, dissector, counters, secrets))

    arguments = [session.model_dump(mode="json"), list(dissector), [line.decode() for line in secrets]]
    return load_or_make(run_dir / NAME, QuicHandshake, arguments, make)


def read_datagrams(
    crossing: Crossing,
    session: Session,
    dissector: Sequence[str],
    counters: Mapping[str, DirectionCounters],
    secrets: Sequence[bytes] = (),
) -> list[QuicDatagram]:
    """The datagrams of both hosts as sent, in order, of which those are dissected that have a long header or carry a
    stream. Raises NoDissection, OSError, ValueError."""
    sent = sorted(_sent(crossing, counters), key=lambda each: each.sent_at_ns)[:MOST_DATAGRAMS]
    with TemporaryDirectory() as folder:
        keys = Path(folder, "secrets")
        keys.write_bytes(b"\n".join([*secrets, b""]))
        options = [*parse_dissector(dissector).options(session, ()), "-o", f"tls.keylog_file:{keys}"]
        pdml = tshark_pdml([(_columns(crossing, each.host), each.row) for each in sent], options, _SHOWN, "quic")
    return [
        replace(sent[number - 1], connection=connection, packets=packets)
        for number, connection, packets in parse_pdml(pdml)
    ]


def _columns(crossing: Crossing, host: Host) -> Columns:
    return crossing.at_sender if host == "sender" else crossing.at_receiver


def _sent(crossing: Crossing, counters: Mapping[str, DirectionCounters]) -> Iterator[QuicDatagram]:
    """The datagrams that each host sent, not dissected."""
    for way, name in zip(crossing.ways, ("forward", "reverse"), strict=True):
        delivery = way.delivery
        intact = delivery.first_copies[delivery.flipped_bit[delivery.first_copies] == INTACT]
        times_ns = way.far.time_ns[delivery.delivered[intact]].tolist()
        arrived = dict(zip(delivery.sent[intact].tolist(), times_ns, strict=True))
        missing = account(way, counters.get(name)).missing
        under_way = set(missing["in_flight"].tolist())
        for row in delivery.near.tolist():
            yield QuicDatagram(
                host=way.host,
                row=row,
                sent_at_ns=int(way.near.time_ns[row]),
                wire_bytes=int(way.near.wire_bytes[row]),
                arrived_at_ns=arrived.get(row),
                is_lost=row not in arrived and row not in under_way,
            )


def parse_pdml(pdml: bytes) -> Iterator[tuple[int, int, tuple[QuicPacket, ...]]]:
    """The QUIC packets of each datagram in tshark's PDML: the number of the datagram, from 1, of its connection, and
    the packets in it."""
    for _, element in ElementTree.iterparse(BytesIO(pdml)):
        if element.tag == "packet":
            number = element.find("proto[@name='geninfo']/field[@name='num']")
            protocols = element.findall("proto[@name='quic']")
            if number is not None and protocols:
                connection = _first(protocols[0], "quic.connection.number")
                yield int(number.get("show", "0")), connection or 0, tuple(map(_packet, protocols))
            element.clear()


def _packet(protocol: ElementTree.Element) -> QuicPacket:
    frames = protocol.findall("field[@name='quic.frame']")
    types = [_first(frame, "quic.frame_type") for frame in frames]
    streams = (_first(frame, "quic.stream.stream_id") for frame in frames)
    return QuicPacket(
        kind=_kind(protocol),
        is_readable=bool(frames),
        crypto=tuple(_crypto(frame) for frame, kind in zip(frames, types, strict=True) if kind == _CRYPTO),
        has_ping=_PING in types,
        streams=tuple(stream for stream in streams if stream is not None),
    )


def _kind(protocol: ElementTree.Element) -> str:
    for name, kinds in QUIC_LONG_HEADERS.items():
        if (value := _first(protocol, name)) is not None:
            return kinds[value]
    return "1-RTT"


def _crypto(frame: ElementTree.Element) -> tuple[int, int]:
    first, count = _first(frame, "quic.crypto.offset") or 0, _first(frame, "quic.crypto.length") or 0
    return first, first + count


def _first(element: ElementTree.Element, name: str) -> int | None:
    """The value of the first field of that name, at any depth; None if there is none."""
    found = next((each for each in element.iter("field") if each.get("name") == name), None)
    return None if found is None else int(found.get("show", "0"), 0)
