"""QUIC: RFC 9000, section 17. What a packet carries is encrypted; its header says what it is."""

from __future__ import annotations

from captures.protocols.readers.reader import CUT, Packet, PacketContent, Reader, Unreadable

_LONG = {0: "Initial", 1: "0-RTT", 2: "Handshake", 3: "Retry"}


class Quic(Reader):
    """Reads datagrams. One of several packets is named by all of them, a kind once: Initial, Handshake."""

    LAYER, TITLE = "quic", "QUIC"
    FIELDS = ("quic.header_form", "quic.long.packet_type", "quic.version")

    def read(self, packet: Packet) -> PacketContent:
        """What the packets of a datagram are."""
        forms, kinds = packet.numbers("quic.header_form"), iter(packet.numbers("quic.long.packet_type"))
        if not forms:
            raise Unreadable("no header")
        if packet.number("quic.version") == 0:
            return PacketContent("Version Negotiation")
        names = list(dict.fromkeys(_LONG.get(next(kinds, -1), "long header") if form else "1-RTT" for form in forms))
        carries = names != ["Initial"] and names != ["Retry"]
        return PacketContent(", ".join(names), CUT if packet.cut and forms[0] else "", unplaced=carries)
