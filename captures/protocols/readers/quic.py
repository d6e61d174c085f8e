"""QUIC: RFC 9000, section 17, and RFC 9369. What a packet carries is encrypted; its header says what it is."""

from __future__ import annotations

from owlt.captures.protocols.readers.reader import CUT, Packet, PacketContent, Reader, Unreadable

_LONG = {
    "quic.long.packet_type": {0: "Initial", 1: "0-RTT", 2: "Handshake", 3: "Retry"},
    "quic.long.packet_type_v2": {1: "Initial", 2: "0-RTT", 3: "Handshake", 0: "Retry"},
}


class Quic(Reader):
    """Reads datagrams. One of several packets is named by all of them, a kind once: Initial, Handshake."""

    LAYER, TITLE = "quic", "QUIC"
    FIELDS = ("quic.header_form", *_LONG, "quic.version")

    def read(self, packet: Packet) -> PacketContent:
        """What the packets of a datagram are."""
        forms = packet.numbers("quic.header_form")
        kinds = (names.get(kind, "long header") for field, names in _LONG.items() for kind in packet.numbers(field))
        if not forms:
            raise Unreadable("no header")
        if packet.number("quic.version") == 0:
            return PacketContent("Version Negotiation")
        names = list(dict.fromkeys(next(kinds, "long header") if form else "1-RTT" for form in forms))
        carries = names != ["Initial"] and names != ["Retry"]
        return PacketContent(", ".join(names), CUT if packet.cut and forms[0] else "", unplaced=carries)
