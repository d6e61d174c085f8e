"""TCP: RFC 9293, with what tshark's analysis says of each segment in its capture."""

from __future__ import annotations

from dataclasses import dataclass, field

from captures.coverage import Coverage
from captures.protocols.reading import Packet, Reader, Said, Unreadable, span

_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10
_WRAP = 1 << 32


@dataclass
class _Stream:
    """A connection in one direction: where its numbers begin and end. Places count from 0, the first byte of data."""

    first_sequence: int | None = None
    end: int | None = None
    seen: Coverage = field(default_factory=Coverage)

    def place(self, sequence: int) -> int:
        """The byte that a sequence number stands for; numbers start again after 2^32, and so near the last one."""
        assert self.first_sequence is not None
        near = (sequence - self.first_sequence - self.seen.furthest + _WRAP // 2) % _WRAP - _WRAP // 2
        return self.seen.furthest + near


class Tcp(Reader):
    """Reads segments. Bytes are placed only if `stream_is_file`: the connection carries the file and nothing else.

    With `stream_is_file` a place is the byte of the stream, counted from the first. Where the capture has no SYN, the
    first byte is not known.
    """

    LAYER, TITLE = "tcp", "TCP"
    FIELDS = (
        "tcp.stream",
        "tcp.flags",
        "tcp.seq_raw",
        "tcp.ack_raw",
        "tcp.len",
        "tcp.analysis.retransmission",
        "tcp.analysis.duplicate_ack",
        "tcp.analysis.keep_alive",
    )

    def __init__(self, stream_is_file: bool = False) -> None:
        self._stream_is_file = stream_is_file
        self._streams: dict[tuple[int, str], _Stream] = {}

    def ignorant(self) -> Tcp:
        """One that knows of no connection."""
        return Tcp(self._stream_is_file)

    def read(self, packet: Packet) -> Said:
        """What a segment says."""
        number, flags, length = (packet.number(f"tcp.{name}") for name in ("stream", "flags", "len"))
        sequence, acknowledgment = packet.number("tcp.seq_raw"), packet.number("tcp.ack_raw")
        if number is None or flags is None or length is None or sequence is None:
            raise Unreadable("a segment without its header")
        other = "receiver" if packet.host == "sender" else "sender"
        ours = self._streams.setdefault((number, packet.host), _Stream())
        theirs = self._streams.setdefault((number, other), _Stream())
        if flags & _SYN:
            ours.first_sequence = (sequence + 1) % _WRAP
        name = _name(packet, flags, length)
        acknowledged = self._acknowledged(theirs, acknowledgment) if flags & _ACK and not flags & _RST else None
        if ours.first_sequence is None or flags & _SYN:
            return Said(name, byte_count=length, acknowledged_bytes=acknowledged, unplaced=length > 0, unit=number)
        first_byte = ours.place(sequence)
        if length and name != "keep alive":
            new_bytes = ours.seen.add(max(first_byte, 0), max(first_byte + length, 0))
            name = name if new_bytes or name == "FIN" else "retransmission"
        if flags & _FIN:
            ours.end = first_byte + length
        detail = span(first_byte, length) if length else f"ack {acknowledged}" if acknowledged is not None else ""
        if not length or name == "keep alive":
            return Said(name, detail, acknowledged_bytes=acknowledged, unit=number)
        if not self._stream_is_file:
            return Said(name, detail, None, length, acknowledged, unplaced=True, unit=number)
        return Said(name, detail, first_byte, length, acknowledged, unit=number)

    def _acknowledged(self, stream: _Stream, acknowledgment: int | None) -> int | None:
        """How much of a stream an acknowledgement covers, without its SYN and FIN."""
        if stream.first_sequence is None or acknowledgment is None or not self._stream_is_file:
            return None
        place = max(stream.place(acknowledgment), 0)
        return place if stream.end is None else min(place, stream.end)


def _name(packet: Packet, flags: int, length: int) -> str:
    if flags & _RST:
        return "RST"
    if flags & _SYN:
        return "SYN-ACK" if flags & _ACK else "SYN"
    if flags & _FIN:
        return "FIN"
    if length and packet.fields["tcp.analysis.keep_alive"]:
        return "keep alive"
    if length:
        return "retransmission" if packet.fields["tcp.analysis.retransmission"] else "data"
    return "dup ACK" if packet.fields["tcp.analysis.duplicate_ack"] else "ACK"
