"""QUIC, UFTP and UDT (of which SRT is the successor), by the names that tshark has for their packets; SCTP, by its
chunks; and datagrams of a protocol that is not known.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator

from owlt.captures.protocols.reader import (
    CUT,
    REPEATED,
    RETRANSMISSION,
    Packet,
    PacketContent,
    Reader,
    Unreadable,
    each_unit,
)

_UFTP = (
    *("ANNOUNCE", "REGISTER", "CLIENT_KEY", "REG_CONF", "KEYINFO", "KEYINFO_ACK", "FILEINFO", "FILEINFO_ACK"),
    *("FILESEG", "DONE", "STATUS", "COMPLETE", "DONE_CONF", "HB_REQ", "HB_RESP", "KEY_REQ", "PROXY_KEY"),
    *("ENCRYPTED", "ABORT", "CONG_CTRL", "CC_ACK"),
)
_FILESEG, _UFTP_VERSION, _UFTP_HEADER_BYTES = "FILESEG", 4, 16
_SEGMENT = struct.Struct(">HHH")
"""File, section and block of a segment, behind its type and the length of its header."""
_UDT = {0: "handshake", 1: "keep alive", 2: "ACK", 3: "NAK", 5: "shutdown", 6: "ACK of ACK", 7: "message drop request"}
_UDT_HEADER_BYTES = 16


class Uftp(Reader):
    """Reads messages of UFTP version 4 (its protocol specification, sections 4.1 and 4.8).

    The block and section of a segment do not determine its position in the file, but show whether it is sent again.
    """

    TITLE = "UFTP"

    def __init__(self) -> None:
        self._segments: set[bytes] = set()

    def read(self, packet: Packet) -> PacketContent:
        """What a message is."""
        octets = packet.payload
        if len(octets) < _UFTP_HEADER_BYTES or octets[0] >> 4 != _UFTP_VERSION or not 1 <= octets[1] <= len(_UFTP):
            raise Unreadable("no header of version 4")
        name = _UFTP[octets[1] - 1]
        if name != _FILESEG:
            return PacketContent(name, verdict="ended early" if name == "ABORT" else "")
        segment = octets[_UFTP_HEADER_BYTES + 2 : _UFTP_HEADER_BYTES + 8]
        if len(segment) < _SEGMENT.size:
            raise Unreadable("a segment without its header")
        _, section, block = _SEGMENT.unpack(segment)
        name = RETRANSMISSION if segment in self._segments else name
        self._segments.add(segment)
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


_QUIC_2 = 0x6B3343CF
"""The version of RFC 9369."""
_INITIAL, _HANDSHAKE, _RETRY = "Initial", "Handshake", "Retry"
_OF_THE_HANDSHAKE = frozenset({_INITIAL, _HANDSHAKE, _RETRY})
"""The packets that carry no STREAM frames: RFC 9000, section 12.4. What shares a datagram with them (section 12.2) is
mostly of the handshake too, such as settings; only 0-RTT packets are sent with them to carry data."""
_LONG_HEADERS = ((_INITIAL, "0-RTT", _HANDSHAKE, _RETRY), (_RETRY, _INITIAL, "0-RTT", _HANDSHAKE))
"""The kinds of packets with a long header by their number: RFC 9000, section 17.2, and RFC 9369, section 3.2."""
QUIC_LONG_HEADERS = {
    "quic.long.packet_type": dict(enumerate(_LONG_HEADERS[0])),
    "quic.long.packet_type_v2": dict(enumerate(_LONG_HEADERS[1])),
}
"""The same by tshark's fields."""


_LONG, _VERSIONS = 0x80, "Version Negotiation"


class Quic(Reader):
    """Reads datagrams: RFC 9000, section 17, and RFC 9369. The content of a packet is encrypted; its header shows its
    type. A datagram of several packets has the names of all types, each once: Initial, Handshake.
    """

    TITLE = "QUIC"

    def read(self, packet: Packet) -> PacketContent:
        """The kinds of the packets of a datagram."""
        if not packet.payload:
            raise Unreadable("no header")
        names = list(dict.fromkeys(_quic_packets(packet.payload)))
        if names == [_VERSIONS]:
            return PacketContent(_VERSIONS)
        carries = "0-RTT" in names or _OF_THE_HANDSHAKE.isdisjoint(names)
        is_long = packet.payload[0] & _LONG
        return PacketContent(", ".join(names), CUT if packet.cut and is_long else "", unplaced=carries)


def _quic_packets(octets: bytes) -> Iterator[str]:
    """The kinds of the packets in a datagram, as far as it was captured. Raises Unreadable."""
    place = 0
    while place < len(octets):
        if not octets[place] & _LONG:
            yield "1-RTT"
            return
        version = int.from_bytes(octets[place + 1 : place + 5], "big")
        if version == 0:
            yield _VERSIONS
            return
        name = _LONG_HEADERS[version == _QUIC_2][octets[place] >> 4 & 3]
        yield name
        if name == _RETRY:
            return
        place = _end_of_quic_packet(octets, place, name)
        if not any(octets[place:]):  # padding of the datagram, behind its packets
            return


def _end_of_quic_packet(octets: bytes, place: int, name: str) -> int:
    """Where a packet with a long header ends; the end of the datagram if its length was not captured."""
    try:
        place += 5
        for _ in ("destination", "source"):
            place += 1 + octets[place]
        if name == _INITIAL:
            token_bytes, place = _quic_number(octets, place)
            place += token_bytes
        length, place = _quic_number(octets, place)
    except IndexError:
        return len(octets)
    return place + length


def _quic_number(octets: bytes, place: int) -> tuple[int, int]:
    """A number of variable length, and the place behind it: RFC 9000, section 16. Raises IndexError."""
    end = place + (1 << (octets[place] >> 6))
    if end > len(octets):
        raise IndexError(end)
    return int.from_bytes(octets[place:end], "big") & ((1 << 8 * (end - place) - 2) - 1), end


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
_CHUNK_HEADER_BYTES, _TSN_BYTES, _CHUNK_ALIGNMENT = 4, 4, 4
_CHUNK_FIXED_BYTES = {_DATA: 16, _I_DATA: 20, _SACK: 16}
"""The header and fixed fields of the chunks of which a field is read: RFC 9260, sections 3.3.1 and 3.3.4, and RFC 8260,
section 2.1."""


class Sctp(Reader):
    """Reads packets chunk by chunk: RFC 9260. A packet is its common header and chunks; DATA chunks are numbered (TSN).

    The position of data in the file does not follow from a TSN, but whether it is sent again does.
    """

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
        if place + _CHUNK_HEADER_BYTES > len(octets):
            if packet.cut:
                return PacketContent("chunk", CUT, unplaced=True), packet.datagram_bytes
            raise Unreadable("a chunk without its header")
        kind, length = octets[place], int.from_bytes(octets[place + 2 : place + 4])
        name = _CHUNKS.get(kind, f"chunk {kind}")
        is_in_packet = place + length <= packet.datagram_bytes or packet.number("ip.flags.mf") == 1
        if length < _CHUNK_FIXED_BYTES.get(name, _CHUNK_HEADER_BYTES) or not is_in_packet:
            raise Unreadable(f"{name} of {length} octets in a packet of {packet.datagram_bytes}")
        end = min(place + -(-length // _CHUNK_ALIGNMENT) * _CHUNK_ALIGNMENT, packet.datagram_bytes)
        number = octets[place + 4 : place + 8]
        if name in (_DATA, _I_DATA):
            return self._data(packet, name, number, length - _CHUNK_FIXED_BYTES[name]), end
        if name == _SACK and len(number) == _TSN_BYTES:
            return PacketContent(name, f"up to TSN {int.from_bytes(number)}"), end
        return PacketContent(name, verdict="ended early" if name == _ABORT else ""), end

    def _data(self, packet: Packet, name: str, number: bytes, count: int) -> PacketContent:
        if len(number) < _TSN_BYTES:
            return PacketContent(name, CUT, byte_count=count, unplaced=True)
        sent = self._sent[packet.host, packet.text("sctp.verification_tag")]
        is_sent_again = number in sent
        sent.add(number)
        detail = f"TSN {int.from_bytes(number)}, {count} B"
        return PacketContent(RETRANSMISSION if is_sent_again else name, detail, byte_count=count, unplaced=True)


class Datagrams(Reader):
    """Datagrams of a protocol that is not known: their size, and which are equal to an earlier one of the same host.

    Of cut packets, only the beginning can be compared.
    """

    TITLE = "UDP"

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
