"""QUIC, UFTP and UDT (of which SRT is the successor), by the fields and names that tshark has for their packets."""

from __future__ import annotations

from owlt.captures.protocols.reader import CUT, REPEATED, Packet, PacketContent, Reader, Unreadable

_UFTP = (
    *("ANNOUNCE", "REGISTER", "CLIENT_KEY", "REG_CONF", "KEYINFO", "KEYINFO_ACK", "FILEINFO", "FILEINFO_ACK"),
    *("FILESEG", "DONE", "STATUS", "COMPLETE", "DONE_CONF", "HB_REQ", "HB_RESP", "KEY_REQ", "PROXY_KEY"),
    *("ENCRYPTED", "ABORT", "CONG_CTRL", "CC_ACK"),
)
_FILESEG = "FILESEG"
_UDT = {0: "handshake", 1: "keep alive", 2: "ACK", 3: "NAK", 5: "shutdown", 6: "ACK of ACK", 7: "message drop request"}
_UDT_HEADER_BYTES = 16


class Uftp(Reader):
    """Reads messages of UFTP version 4.

    The block and section of a segment do not determine its position in the file.
    """

    LAYER, TITLE = "uftp4", "UFTP"
    NEEDS_TSHARK = True
    FIELDS = ("uftp4.func", "uftp4.fileseg.section", "uftp4.fileseg.sec_block")

    def read(self, packet: Packet) -> PacketContent:
        """What a message is."""
        functions = packet.numbers("uftp4.func")
        if not functions or not 1 <= functions[0] <= len(_UFTP):
            raise Unreadable(f"function {functions[:1]}")
        name = _UFTP[functions[0] - 1]
        if name != _FILESEG:
            return PacketContent(name, verdict="ended early" if name == "ABORT" else "")
        section, block = packet.text("uftp4.fileseg.section"), packet.text("uftp4.fileseg.sec_block")
        return PacketContent(name, f"section {section} block {block}", unplaced=True)


class Udt(Reader):
    """Reads messages of UDT and SRT: data are counted from a number that the handshake chose."""

    LAYER, TITLE = "udt", "UDT"
    NEEDS_TSHARK = True
    FIELDS = ("udt.iscontrol", "udt.type", "udt.seqno")

    def read(self, packet: Packet) -> PacketContent:
        """What a message is."""
        if packet.number("udt.iscontrol"):
            kind = packet.number("udt.type")
            return PacketContent(_UDT.get(kind if kind is not None else -1, f"control {kind}"))
        count = max(packet.datagram_bytes - _UDT_HEADER_BYTES, 0)
        return PacketContent("data", f"packet {packet.text('udt.seqno')}", byte_count=count, unplaced=True)


QUIC_LONG_HEADERS = {
    "quic.long.packet_type": {0: "Initial", 1: "0-RTT", 2: "Handshake", 3: "Retry"},
    "quic.long.packet_type_v2": {1: "Initial", 2: "0-RTT", 3: "Handshake", 0: "Retry"},
}
"""The kinds of packets with a long header by tshark's fields: RFC 9000, section 17.2, and RFC 9369, section 3.2."""


_WITHOUT_STREAMS = frozenset(("Initial", "Handshake", "Retry"))
"""Packets of these types carry no frames of a stream: RFC 9000, section 12.4, table 3."""


class Quic(Reader):
    """Reads datagrams: RFC 9000, section 17, and RFC 9369. The content of a packet is encrypted; its header shows its
    type. A datagram of several packets has the names of all types, each once: Initial, Handshake.
    """

    LAYER, TITLE = "quic", "QUIC"
    NEEDS_TSHARK = True
    FIELDS = ("quic.header_form", *QUIC_LONG_HEADERS, "quic.version")

    def read(self, packet: Packet) -> PacketContent:
        """The kinds of the packets of a datagram."""
        forms = packet.numbers("quic.header_form")
        kinds = (
            names.get(kind, "long header")
            for field, names in QUIC_LONG_HEADERS.items()
            for kind in packet.numbers(field)
        )
        if not forms:
            raise Unreadable("no header")
        if packet.number("quic.version") == 0:
            return PacketContent("Version Negotiation")
        names = list(dict.fromkeys(next(kinds, "long header") if form else "1-RTT" for form in forms))
        carries = not _WITHOUT_STREAMS.issuperset(names)
        return PacketContent(", ".join(names), CUT if packet.cut and forms[0] else "", unplaced=carries)


class Datagrams(Reader):
    """Datagrams of a protocol that is not known: their size, and which are equal to an earlier one of the same host.

    Of cut packets, only the beginning can be compared.
    """

    TITLE = "UDP"
    NEEDS_TSHARK = True

    def __init__(self) -> None:
        self._frames: dict[tuple[str, int, bytes], int] = {}

    def read(self, packet: Packet) -> PacketContent:
        """A content that states what is known without the protocol."""
        key = packet.host, packet.datagram_bytes, packet.payload
        earlier = self._frames.setdefault(key, packet.frame)
        is_equal = earlier != packet.frame and packet.payload_bytes > 0
        name = REPEATED if is_equal and not packet.cut else "UDP datagram"
        same = f"{'begins like' if packet.cut else 'of'} packet {earlier}, " if is_equal else ""
        return PacketContent(name, f"{same}{packet.payload_bytes} B", unplaced=packet.host == "sender")
