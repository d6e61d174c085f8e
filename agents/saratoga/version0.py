"""Version 0 on the wire: a reconstruction, because its layout was never published.

Known facts about SSTL's version 0 and NASA's implementation of it: only `get`; offsets of 32 bits; a session known by
the CRC of the file's name; holes reported in HOLESTOFILL packets, which name the last byte that they answer; packets
that carried 1024 bytes in 1034 (NASA/TM-2012-216047, section 4.4), so 10 bytes of header. This is the first half of
version 1's first word, then what is left of its fields at 32 bits, which gives those 10 bytes:

    bits 0-2 version 0, 3-7 type as in version 1, 8-15 flags, then 32 bits of session, and
    REQUEST      flags: action (1 get); name, zero
    METADATA     32 bits of file size; name, zero
    DATA         flag 15 asks for HOLESTOFILL; 32 bits of offset; data
    HOLESTOFILL  flags 13 metadata missing, 14 list not whole, 15 unasked; progress, in response to, pairs of offsets
    BEACON       name of the endpoint, and no session

It has no checksum, no timestamp, no mark at the file's end and no codes of errors.
"""

from owlt.agents.saratoga.packets import (
    Beacon,
    Code,
    Data,
    Fields,
    Metadata,
    Packet,
    PacketType,
    Request,
    Status,
    Unreadable,
    name_octets,
    name_text,
)

VERSION = 0
DESCRIPTOR_BITS = 32

_METADATA_MISSING, _PARTIAL, _VOLUNTARY, _ASKS = 4, 2, 1, 1


def pack(packet: Request | Metadata | Data | Status) -> bytes:
    """A packet as one UDP payload. Fields that version 0 does not have are omitted."""
    if isinstance(packet, Data):
        return _begin(packet, PacketType.DATA, _ASKS * packet.asks) + packet.offset.to_bytes(4) + packet.payload
    if isinstance(packet, Status):
        return _pack_status(packet)
    name = name_octets(packet.name) + b"\0"
    if isinstance(packet, Metadata):
        return _begin(packet, PacketType.METADATA, 0) + packet.file_bytes.to_bytes(4) + name
    return _begin(packet, PacketType.REQUEST, packet.action) + name


def _begin(packet: Request | Metadata | Data | Status, kind: PacketType, flags: int) -> bytes:
    return bytes([VERSION << 5 | kind, flags]) + packet.session.to_bytes(4)


def _pack_status(status: Status) -> bytes:
    flags = _METADATA_MISSING * status.metadata_missing | _PARTIAL * status.partial | _VOLUNTARY * status.voluntary
    numbers = [status.progress, status.in_response_to, *(offset for hole in status.holes for offset in hole)]
    return _begin(status, PacketType.STATUS, flags) + b"".join(number.to_bytes(4) for number in numbers)


def read(datagram: bytes) -> Packet:
    """The packet of one UDP payload. Raises Unreadable."""
    fields = Fields(datagram)
    first, flags = fields.octets(2)
    if first >> 5 != VERSION:
        raise Unreadable(f"got version {first >> 5}, expected {VERSION}")
    kind = first & 0x1F
    if kind == PacketType.BEACON:
        return Beacon(endpoint=name_text(fields.rest()))
    if kind > PacketType.STATUS:
        raise Unreadable(f"got a packet of type {kind}, expected 0 to 4")
    session = fields.number(4)
    if kind == PacketType.DATA:
        return _read_data(session, flags, fields)
    if kind == PacketType.STATUS:
        return _read_status(session, flags, fields)
    if kind == PacketType.REQUEST:
        return Request(session=session, action=flags, name=fields.name(), descriptor_bits=DESCRIPTOR_BITS)
    return Metadata(
        session=session,
        file_bytes=fields.number(4),
        name=fields.name(),
        checksum="none",
        digest=b"",
        descriptor_bits=DESCRIPTOR_BITS,
    )


def _read_data(session: int, flags: int, fields: Fields) -> Data:
    return Data(
        session=session,
        offset=fields.number(4),
        payload=fields.rest(),
        asks=bool(flags & _ASKS),
        ends=False,
        timestamp=b"",
        descriptor_bits=DESCRIPTOR_BITS,
    )


def _read_status(session: int, flags: int, fields: Fields) -> Status:
    return Status(
        session=session,
        progress=fields.number(4),
        in_response_to=fields.number(4),
        holes=fields.holes(4),
        code=Code.SUCCESS,
        partial=bool(flags & _PARTIAL),
        voluntary=bool(flags & _VOLUNTARY),
        metadata_missing=bool(flags & _METADATA_MISSING),
        timestamp=b"",
        descriptor_bits=DESCRIPTOR_BITS,
    )
