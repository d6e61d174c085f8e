"""TCP: RFC 9293, with tshark's analysis of acknowledgements and keep-alives."""

from __future__ import annotations

from dataclasses import dataclass, field

from owlt.captures.frames.decoding import ACK, FIN, RST, SYN
from owlt.captures.frames.session import Host
from owlt.captures.protocols.reader import Coverage, Packet, PacketContent, Reader, Unreadable, span

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
