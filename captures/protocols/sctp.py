"""SCTP: RFC 9260. A packet is its common header and chunks; DATA chunks are numbered (TSN)."""

from __future__ import annotations

from collections import defaultdict

from owlt.captures.protocols.reader import CUT, RETRANSMISSION, Packet, PacketContent, Reader, Unreadable, each_unit

_CHUNKS = {  # IANA's registry of chunk types
    **dict(enumerate(("DATA", "INIT", "INIT ACK", "SACK", "HEARTBEAT", "HEARTBEAT ACK", "ABORT", "SHUTDOWN"))),
    **dict(enumerate(("SHUTDOWN ACK", "ERROR", "COOKIE ECHO", "COOKIE ACK", "ECNE", "CWR", "SHUTDOWN COMPLETE"), 8)),
    15: "AUTH",
    64: "I-DATA",
    128: "ASCONF ACK",
    130: "RE-CONFIG",
    132: "PAD",
    192: "FORWARD TSN",
    193: "ASCONF",
    194: "I-FORWARD TSN",
}
_DATA, _I_DATA, _SACK, _ABORT = "DATA", "I-DATA", "SACK", "ABORT"
_HEADER_BYTES, _NUMBER_BYTES, _ALIGNMENT = 4, 4, 4
_FIXED_BYTES = {_DATA: 16, _I_DATA: 20, _SACK: 16}
"""The header and fixed fields of the chunks of which a field is read: RFC 9260, sections 3.3.1 and 3.3.4, and RFC 8260,
section 2.1."""


class Sctp(Reader):
    """Reads packets chunk by chunk. The position of data in the file does not follow from a TSN, but whether it is sent
    again does."""

    TITLE, LAYER = "SCTP", "sctp"
    FIELDS = ("sctp.verification_tag",)

    def __init__(self) -> None:
        self._sent: defaultdict[tuple[str, str], set[bytes]] = defaultdict(set)
        """The TSNs that each host has sent, by the verification tag, which tells the associations apart."""

    def read(self, packet: Packet) -> list[PacketContent]:
        """The content of each chunk."""
        return each_unit(packet, lambda place: self._chunk(packet, place))

    def _chunk(self, packet: Packet, place: int) -> tuple[PacketContent, int]:
        octets = packet.payload
        if place + _HEADER_BYTES > len(octets):
            if packet.cut:
                return PacketContent("chunk", CUT, unplaced=True), packet.datagram_bytes
            raise Unreadable("a chunk without its header")
        kind, length = octets[place], int.from_bytes(octets[place + 2 : place + 4])
        name = _CHUNKS.get(kind, f"chunk {kind}")
        is_in_packet = place + length <= packet.datagram_bytes or packet.number("ip.flags.mf") == 1
        if length < _FIXED_BYTES.get(name, _HEADER_BYTES) or not is_in_packet:
            raise Unreadable(f"{name} of {length} octets in a packet of {packet.datagram_bytes}")
        end = min(place + -(-length // _ALIGNMENT) * _ALIGNMENT, packet.datagram_bytes)
        number = octets[place + 4 : place + 8]
        if name in (_DATA, _I_DATA):
            return self._data(packet, name, number, length - _FIXED_BYTES[name]), end
        if name == _SACK and len(number) == _NUMBER_BYTES:
            return PacketContent(name, f"up to TSN {int.from_bytes(number)}"), end
        return PacketContent(name, verdict="ended early" if name == _ABORT else ""), end

    def _data(self, packet: Packet, name: str, number: bytes, count: int) -> PacketContent:
        if len(number) < _NUMBER_BYTES:
            return PacketContent(name, CUT, byte_count=count, unplaced=True)
        sent = self._sent[packet.host, packet.text("sctp.verification_tag")]
        is_sent_again = number in sent
        sent.add(number)
        detail = f"TSN {int.from_bytes(number)}, {count} B"
        return PacketContent(RETRANSMISSION if is_sent_again else name, detail, byte_count=count, unplaced=True)
