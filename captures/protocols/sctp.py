"""SCTP: RFC 9260. A packet is its common header and chunks; DATA chunks are numbered (TSN)."""

from __future__ import annotations

from owlt.captures.protocols.reader import RETRANSMISSION, Packet, PacketContent, Reader, Unreadable, each_unit

_CHUNKS = {  # IANA's registry of chunk types
    **dict(enumerate(("DATA", "INIT", "INIT ACK", "SACK", "HEARTBEAT", "HEARTBEAT ACK", "ABORT", "SHUTDOWN"))),
    **dict(enumerate(("SHUTDOWN ACK", "ERROR", "COOKIE ECHO", "COOKIE ACK", "ECNE", "CWR", "SHUTDOWN COMPLETE"), 8)),
    64: "I-DATA",
    130: "RE-CONFIG",
    192: "FORWARD TSN",
}
_DATA, _I_DATA, _SACK, _ABORT = "DATA", "I-DATA", "SACK", "ABORT"
_HEADER_BYTES, _ALIGNMENT = 4, 4
_DATA_HEADER_BYTES = {_DATA: 16, _I_DATA: 20}
"""The fields before the user data: RFC 9260, section 3.3.1, and RFC 8260, section 2.1."""


class Sctp(Reader):
    """Reads packets chunk by chunk. The position of data in the file does not follow from a TSN, but whether it is sent
    again does."""

    TITLE, LAYER = "SCTP", "sctp"

    def __init__(self) -> None:
        self._sent: set[tuple[str, bytes]] = set()

    def read(self, packet: Packet) -> list[PacketContent]:
        """The content of each chunk."""
        return each_unit(packet, lambda place: self._chunk(packet, place))

    def _chunk(self, packet: Packet, place: int) -> tuple[PacketContent, int]:
        octets = packet.payload
        if place + _HEADER_BYTES > len(octets):
            raise Unreadable("a chunk without its header")
        kind, length = octets[place], int.from_bytes(octets[place + 2 : place + 4])
        if length < _HEADER_BYTES:
            raise Unreadable(f"a chunk of {length} octets")
        end = min(place + -(-length // _ALIGNMENT) * _ALIGNMENT, packet.datagram_bytes)
        name = _CHUNKS.get(kind, f"chunk {kind}")
        number = octets[place + 4 : place + 8]
        if name in _DATA_HEADER_BYTES:
            return self._data(packet, name, number, max(length - _DATA_HEADER_BYTES[name], 0)), end
        if name == _SACK and len(number) == _HEADER_BYTES:
            return PacketContent(name, f"up to TSN {int.from_bytes(number)}"), end
        return PacketContent(name, verdict="ended early" if name == _ABORT else ""), end

    def _data(self, packet: Packet, name: str, number: bytes, count: int) -> PacketContent:
        is_sent_again = (packet.host, number) in self._sent
        self._sent.add((packet.host, number))
        detail = f"TSN {int.from_bytes(number)}, {count} B"
        return PacketContent(RETRANSMISSION if is_sent_again else name, detail, byte_count=count, unplaced=True)
