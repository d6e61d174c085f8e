"""The session's packets as the protocol's own messages: the name of each, and the part of the file that it carries; and
the ICMP errors about them (RFC 792, RFC 4443).

The readers in captures.protocols decode the packets from dissection.py; this module returns the messages of a complete
capture, and counts them. "Port unreachable" means that no program listened on the port; each ICMP error quotes the
packet that caused it.
"""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from owlt.captures.files.blocks import RAW_IP
from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.columns import Columns, read_columns
from owlt.captures.frames.decoding import TRANSPORTS, Kind
from owlt.captures.frames.packets import find_packet
from owlt.captures.frames.session import HOSTS, Host, Session, is_among
from owlt.captures.protocols.dissection import Dissected, dissect
from owlt.captures.protocols.reader import Coverage, FileVerdict, PacketContent, Unreadable, several
from owlt.captures.protocols.tshark import parse_dissector

_MALFORMED, _DAMAGED = "malformed ", "damaged "
_MOST_WRONG = 20
"""The most wrong checksums per correct one. If a network card fills them in, one in 65,536 is correct by chance."""
_MOST_DETAILS = 3
"""The most protocol data units of a datagram that are listed; more are counted."""
_LARGEST_PLACE = (1 << 63) - 1
"""The largest position in a file; data that claims a larger one has no position."""
_LOOKED_AHEAD = 1000
"""The number of packets whose checksums are compared: if a network card fills them in after the capture, none is
correct.
"""


@dataclass(frozen=True, slots=True)
class Message:
    """A packet of the session as its protocol names it.

    `frame` is its number in the capture, from 1; `host` sent it. `payload_bytes` are behind its transport's header.
    `name` is the field's word, `detail` a few words more; a message that is shorter than it states has "cut" in its
    detail. A packet whose checksum is wrong is named "damaged" followed by the name that its content suggests, one that
    cannot be read "malformed" followed by the expected name; neither counts as carrying a part of the file.

    `first_byte` and `byte_count` are the part of the file that it carries. Where it carries none they are None and 0.
    `unplaced`: it carries bytes, or may, whose position in the file is not known; then `byte_count` is how many, or 0
    if that is not known either. `acknowledged_bytes` is how many bytes of the file the message reports as received: in
    total if the protocol's acknowledgements are cumulative (TCP, Saratoga, an ACK of a NORM FLUSH, a CFDP Finished),
    else those that this message claims (an LTP report, a CFDP NAK within its scope, a custody signal). None if it does
    not report this, or if the number is not known.

    A datagram with several protocol data units is one message, with the names of all of them, each once. If it carries
    pieces of the file that are not adjacent, `pieces` are their first bytes and byte counts, `first_byte` is that of
    the first piece, and `byte_count` is their sum; else `pieces` is empty.

    `verdict` is the statement of a message about the whole transfer: "delivered" and "failed" are final (CFDP's
    Finished, and an EOF that cancels); "ended early" means that a host gives up, which matters only if data is missing.
    `file_bytes` is the file size that the message states. `parity_bytes` is the number of bytes of the file that it can
    restore. `is_refused`: its checksum is wrong, so no program receives it.
    """

    frame: int
    time_ns: int
    host: Host
    wire_bytes: int
    payload_bytes: int
    name: str
    detail: str = ""
    first_byte: int | None = None
    byte_count: int = 0
    acknowledged_bytes: int | None = None
    unplaced: bool = False
    pieces: tuple[tuple[int, int], ...] = ()
    verdict: FileVerdict = ""
    file_bytes: int | None = None
    parity_bytes: int = 0
    is_refused: bool = False

    @property
    def placed_pieces(self) -> tuple[tuple[int, int], ...]:
        """First byte and byte count of each piece of the file that it carries and whose position is known."""
        return self.pieces or (() if self.first_byte is None else ((self.first_byte, self.byte_count),))

    @property
    def is_damaged(self) -> bool:
        """Whether the packet was damaged."""
        return self.name.startswith(_DAMAGED)


def messages(
    capture: Path | Columns,
    session: Session,
    dissector: Sequence[str],
    damaged_rows: Collection[int] = (),
    hosts: Sequence[Host] = HOSTS,
) -> list[Message]:
    """Every packet of the session that these hosts sent, in a capture (or in its columns), in the order of time.

    `dissector` are options for tshark, as a profile has them (`captures.protocols.tshark`). `damaged_rows` are rows of
    the columns that are known from the other capture to be damaged (captures.matches.matching): checksums
    are looked at anyway, but in a capture that is cut there is nothing to compare them with. Raises ValueError if the
    options are not known, NotACapture, OSError, NoDissection.
    """
    columns = capture if isinstance(capture, Columns) else read_columns(capture)
    with without_collections():
        return _messages(dissect(columns, session, parse_dissector(dissector), hosts), columns, damaged_rows)


@contextmanager
def without_collections() -> Iterator[None]:
    """A context without garbage collection: the many objects of a capture have no reference cycles, and it would take a
    fifth of the time."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def _messages(packets: Iterator[Dissected], columns: Columns, damaged_rows: Collection[int]) -> list[Message]:
    times_ns, wire_bytes = columns.time_ns.tolist(), columns.wire_bytes.tolist()
    messages: list[Message] = []
    units: set[object] = set()
    for dissected, contents, is_damaged, is_refused in _read(packets, set(damaged_rows)):
        units.update(
            content.unit
            for content in contents
            if content.unit is not None and (content.unplaced or content.first_byte is not None)
        )
        content, pieces = _joined(contents)
        row = dissected.row
        messages.append(
            Message(
                row + 1,
                times_ns[row],
                dissected.packet.host,
                wire_bytes[row],
                dissected.packet.payload_bytes,
                f"{_DAMAGED}{content.name.removeprefix(_MALFORMED)}" if is_damaged else content.name,
                content.detail,
                content.first_byte,
                content.byte_count,
                content.acknowledged_bytes,
                content.unplaced,
                pieces,
                content.verdict,
                content.file_bytes,
                content.parity_bytes,
                is_refused,
            )
        )
    return [_without_places(message) for message in messages] if len(units) > 1 else messages


def _joined(contents: Sequence[PacketContent]) -> tuple[PacketContent, tuple[tuple[int, int], ...]]:
    """The contents of a packet as one, and the pieces of the file that it carries if they are not adjacent."""
    if len(contents) == 1:
        return contents[0], ()
    pieces: list[tuple[int, int]] = []
    for content in contents:
        if content.first_byte is None:
            continue
        if pieces and sum(pieces[-1]) == content.first_byte:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + content.byte_count)
        else:
            pieces.append((content.first_byte, content.byte_count))
    acknowledged = [content.acknowledged_bytes for content in contents if content.acknowledged_bytes is not None]
    details = [content.detail for content in contents if content.detail]
    verdicts = [content.verdict for content in contents]
    return PacketContent(
        name=", ".join(dict.fromkeys(content.name for content in contents)),
        detail="; ".join(details) if len(details) <= _MOST_DETAILS else several(len(contents), "data unit"),
        first_byte=pieces[0][0] if pieces else None,
        byte_count=sum(content.byte_count for content in contents),
        acknowledged_bytes=sum(acknowledged) if acknowledged else None,
        unplaced=any(content.unplaced for content in contents),
        file_bytes=next((content.file_bytes for content in contents if content.file_bytes is not None), None),
        parity_bytes=sum(content.parity_bytes for content in contents),
        verdict=next(filter(None, verdicts), ""),
    ), tuple(pieces) if len(pieces) > 1 else ()


def _without_places(message: Message) -> Message:
    """The message without positions, for a sender that fills several units: their positions in the file are not
    known."""
    is_placed = message.first_byte is not None
    return replace(
        message,
        first_byte=None,
        pieces=(),
        acknowledged_bytes=None,
        file_bytes=None,
        unplaced=message.unplaced or is_placed,
    )


def _read(
    packets: Iterator[Dissected], damaged_rows: Set[int]
) -> Iterator[tuple[Dissected, list[PacketContent], bool, bool]]:
    """Each packet with its contents that concern the file from sender to receiver, whether it is damaged, and whether
    its checksum shows the damage."""
    start: dict[tuple[Host, str], list[PacketContent]] = {}
    checked: Counter[tuple[Host, int, bool]] = Counter()  # a host, which of its two checksums, whether it is right
    while some := list(islice(packets, _LOOKED_AHEAD)):
        for (host, checksums), count in Counter((each.packet.host, each.checksums) for each in some).items():
            for which, is_right in enumerate(checksums):
                if is_right is not None:
                    checked[host, which, is_right] += count
        filled_in = {
            (host, n) for host, n, _ in checked if _MOST_WRONG * checked[host, n, True] >= checked[host, n, False]
        }
        for dissected in some:
            host = dissected.packet.host
            is_refused = False in dissected.checksums and any(
                is_right is False and (host, n) in filled_in for n, is_right in enumerate(dissected.checksums)
            )
            is_damaged = is_refused or dissected.row in damaged_rows
            contents = _contents(dissected, is_damaged, start)
            yield dissected, [_as_believed(content, host, is_damaged) for content in contents], is_damaged, is_refused


def _as_believed(content: PacketContent, host: Host, is_damaged: bool) -> PacketContent:
    """The content without statements about the file from a damaged packet, or from a host that cannot know them."""
    if (is_damaged or host == "receiver") and (
        content.first_byte is not None or content.byte_count or content.unplaced
    ):
        content = replace(content, first_byte=None, byte_count=0, unplaced=False)
    if is_damaged and (content.verdict or content.file_bytes is not None or content.parity_bytes):
        content = replace(content, verdict="", file_bytes=None, parity_bytes=0)
    if (is_damaged or host == "sender") and content.acknowledged_bytes is not None:
        content = replace(content, acknowledged_bytes=None)
    if content.first_byte is not None and content.first_byte + content.byte_count > _LARGEST_PLACE:
        content = replace(content, first_byte=None, unplaced=True)
    if content.acknowledged_bytes is not None and content.acknowledged_bytes > _LARGEST_PLACE:
        content = replace(content, acknowledged_bytes=None)
    return content


def _contents(
    dissected: Dissected, is_damaged: bool, start: dict[tuple[Host, str], list[PacketContent]]
) -> list[PacketContent]:
    """The contents of a packet. `start` has the contents of the first fragments of datagrams, for the later ones."""
    packet, key = dissected.packet, (dissected.packet.host, dissected.fragment or "")
    if dissected.fragment_at:
        firsts = start.get(key, [PacketContent("IP fragment", unplaced=True)])
        parts = [_part(first, dissected.fragment_at, packet.payload_bytes) for first in firsts]
        names = ", ".join(dict.fromkeys(first.name for first in firsts))
        detail = f"of {names}" if key in start else ""
        return [replace(part, name="IP fragment", detail="" if n else detail) for n, part in enumerate(parts)]
    reader = dissected.reader.ignorant() if is_damaged else dissected.reader
    try:
        if dissected.malformed:
            raise Unreadable("tshark could not read it")
        read = reader.read(packet)
        contents = read if isinstance(read, list) else [read]
    except Unreadable:
        contents = [PacketContent(_MALFORMED + reader.TITLE, unplaced=packet.payload_bytes > 0)]
    if dissected.fragment is None:
        return contents
    if not is_damaged:
        start[key] = contents
    return [_part(content, 0, packet.payload_bytes) for content in contents]


def _part(content: PacketContent, begin: int, octets: int) -> PacketContent:
    """The share of a datagram's content that some of its octets carry."""
    if content.first_byte is None:
        content = replace(content, byte_count=0)
        return (
            replace(content, acknowledged_bytes=None, verdict="", file_bytes=None, parity_bytes=0) if begin else content
        )
    first = max(begin, content.data_at)
    count = min(begin + octets, content.data_at + content.byte_count) - first
    if count <= 0:
        return replace(content, first_byte=None, byte_count=0, acknowledged_bytes=None)
    return replace(content, first_byte=content.first_byte + first - content.data_at, byte_count=count)


def message_counts(messages: Iterable[Message]) -> dict[Host, dict[str, int]]:
    """How many messages of each name each host sent, the most frequent first."""
    counts: dict[Host, Counter[str]] = {"sender": Counter(), "receiver": Counter()}
    for message in messages:
        counts[message.host][message.name] += 1
    return {host: dict(of_host.most_common()) for host, of_host in counts.items()}


def message_bytes(messages: Iterable[Message]) -> dict[Host, dict[str, int]]:
    """How many bytes of frames the messages of each name were, by host."""
    sums: dict[Host, defaultdict[str, int]] = {"sender": defaultdict(int), "receiver": defaultdict(int)}
    for message in messages:
        sums[message.host][message.name] += message.wire_bytes
    return {host: dict(of_host) for host, of_host in sums.items()}


def carried_file_bytes(messages: Iterable[Message]) -> int | None:
    """How many different bytes of the file the messages carry; None if some are not placed."""
    carried = _carried_and_repeated(messages)
    return carried[0] if carried else None


def repeated_file_bytes(messages: Iterable[Message]) -> int | None:
    """How many bytes of the file the messages carry beyond the first time of each; None if some are not placed."""
    carried = _carried_and_repeated(messages)
    return carried[1] if carried else None


def _carried_and_repeated(messages: Iterable[Message]) -> tuple[int, int] | None:
    """The bytes of the union of all pieces, and the bytes that are repeated."""
    coverage, union, total = Coverage(), 0, 0
    for message in messages:
        if message.unplaced:
            return None
        union += coverage.add_all(message.placed_pieces)
        total += sum(byte_count for _, byte_count in message.placed_pieces)
    return union, total - union


class StatedFailure(NamedTuple):
    """The statement of a host that the transfer failed, "" if there is none; `is_final`: it holds even if all bytes
    arrived."""

    text: str = ""
    is_final: bool = False


def stated_failure(messages: Iterable[Message]) -> StatedFailure:
    """The first final statement of a host that the transfer failed, else the first statement that a host gives up;
    empty if the receiver states that it has the file."""
    ended_early = StatedFailure()
    heard = list(messages)
    if any(message.verdict == "delivered" for message in heard):
        return ended_early
    for message in heard:
        text = f"the {message.host}'s {message.name} states: {message.detail}"
        if message.verdict == "failed":
            return StatedFailure(text, is_final=True)
        if message.verdict == "ended early" and not ended_early.text:
            ended_early = StatedFailure(text)
    return ended_early


def stated_file_bytes(messages: Iterable[Message]) -> int | None:
    """The file size that the sender's messages state; None if they state none or several."""
    sizes = {message.file_bytes for message in messages if message.host == "sender"} - {None}
    return sizes.pop() if len(sizes) == 1 else None


ICMP, ICMPV6 = 1, 58
_ICMP_HEADER_BYTES = 8
_ICMP_PREFIX_BYTES = 256
PORT_CLOSED = "ICMP port unreachable"
_UNREACHABLE = {0: "network unreachable", 1: "host unreachable", 2: "protocol unreachable", 3: "port unreachable"}
_UNREACHABLE |= {4: "fragmentation needed", 9: "prohibited", 10: "prohibited", 13: "prohibited"}
_UNREACHABLE_IPV6 = {0: "no route", 1: "prohibited", 3: "host unreachable", 4: "port unreachable"}
_OTHER_ICMP = {(ICMP, 11): "time exceeded", (ICMPV6, 2): "packet too big", (ICMPV6, 3): "time exceeded"}


def icmp_errors(columns: Columns, session: Session) -> Iterator[Message]:
    """The ICMP errors that a host of the session sent about its packets; `detail` is the destination port of the
    packet.

    Raises OSError.
    """
    is_icmp = (columns.kind == Kind.ICMP) | ((columns.kind == Kind.IPV6) & (columns.protocol == ICMPV6))
    rows = np.flatnonzero(is_icmp)
    lengths = np.minimum(columns.captured_bytes[rows], np.uint32(_ICMP_PREFIX_BYTES))
    hosts: dict[str, Host] = {str(session.address(host)): host for host in HOSTS}
    for row, frame in zip(rows.tolist(), read_frames(columns.path, columns.offset[rows], lengths), strict=True):
        wire_bytes = int(columns.wire_bytes[row])
        packet = find_packet(frame, wire_bytes, columns.link_type)
        if isinstance(packet, int) or packet.source not in hosts or len(frame) < packet.body + _ICMP_HEADER_BYTES:
            continue
        name = _icmp_name(packet.protocol, *frame[packet.body : packet.body + 2])
        port = _quoted_port(frame[packet.body + _ICMP_HEADER_BYTES :], session) if name else ""
        if port:
            at_ns, payload_bytes = int(columns.time_ns[row]), packet.end - packet.body
            yield Message(row + 1, at_ns, hosts[packet.source], wire_bytes, payload_bytes, name, port)


def _icmp_name(protocol: int, kind: int, code: int) -> str:
    """The name of an ICMP error; "" for other ICMP messages."""
    if (protocol, kind) == (ICMP, 3):
        return f"ICMP {_UNREACHABLE.get(code, 'unreachable')}"
    if (protocol, kind) == (ICMPV6, 1):
        return f"ICMP {_UNREACHABLE_IPV6.get(code, 'unreachable')}"
    return f"ICMP {text}" if (text := _OTHER_ICMP.get((protocol, kind))) else ""


def _quoted_port(quoted: bytes, session: Session) -> str:
    """The port to which the quoted packet went, "udp/7777"; "" if it is not of the session."""
    packet = find_packet(quoted, len(quoted), RAW_IP)
    if isinstance(packet, int) or len(quoted) < packet.body + 4:
        return ""
    source, destination = (int.from_bytes(quoted[at : at + 2]) for at in (packet.body, packet.body + 2))
    ends = {str(session.address(host)) for host in HOSTS}
    return next(
        (
            f"{transport}/{destination}"
            for transport, ports in session.ports.items()
            if packet.protocol == TRANSPORTS[transport] and packet.source in ends
            if is_among(source, ports) or is_among(destination, ports)
        ),
        "",
    )
