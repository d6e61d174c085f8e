"""Version 1 on the wire, as draft-wood-tsvwg-saratoga-20 has it. Bits are numbered from the left, the first is bit 0.

The first word of each packet: bits 0-2 version, 3-7 type, 8-9 the length of offsets and sizes (the descriptor: 16, 32,
64, 128 bits), then flags of the type. Holes are half-open, as in the public implementations of NASA and Vallona. The
times of the file are left zero, so that the same file gives the same packets at any time.
"""

from owlt.agents.saratoga.packets import (
    CODES,
    DIGEST_BYTES,
    TIMESTAMP_BYTES,
    Action,
    Beacon,
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

VERSION = 1

_DESCRIPTORS = {16: 0, 32: 1, 64: 2, 128: 3}
_DESCRIPTOR_BITS = {code: bits for bits, code in _DESCRIPTORS.items()}
_CHECKSUM_KINDS = {code: kind for kind, code in CODES.items()}


def _bit(number: int) -> int:
    return 1 << 31 - number


_TRANSFER_KIND = _bit(10) | _bit(11)  # 0 is a file; 1 a directory, 2 a bundle, 3 a stream
_STAMPED = _bit(12)
_METADATA_MISSING = _bit(13)
_PARTIAL = _bit(14)
_ASKS = _VOLUNTARY = _bit(15)
_ENDS = _bit(16)
_FREE_SPACE = _bit(17)

_WILLING: dict[int, int] = {Action.PUT: _bit(12) | _bit(13), Action.GET: _bit(14) | _bit(15)}
"""Flags of a REQUEST, as of a BEACON: bits 12-13 state whether its author sends, 14-15 whether it receives; 3 is
capable and willing, 0 not capable. An implementation of one of the draft's authors (charlesetsmith/saratoga, May 2024)
refuses a get that is not willing to receive and a put that is not willing to send. Here they are ignored in received
packets, since the request itself states what its author will do, and an older implementation may leave them zero."""

_ENTRY = 1 << 15
"""The flag of a directory entry that is always set: bit 0 of 16. Bits 6-7: 0 is a file.

Bits 8-9: descriptor of its size.
"""

_FILE_TIMES = bytes(8)


def pack(packet: Request | Metadata | Data | Status) -> bytes:
    """A packet as one UDP payload. Numbers have to fit the packet's own descriptor."""
    if isinstance(packet, Data):
        return _pack_data(packet)
    if isinstance(packet, Status):
        return _pack_status(packet)
    if isinstance(packet, Metadata):
        return _pack_metadata(packet)
    flags = _WILLING.get(packet.action, 0) | packet.action
    return _begin(packet, PacketType.REQUEST, flags) + name_octets(packet.name) + b"\0"


def _begin(packet: Request | Metadata | Data | Status, kind: PacketType, flags: int) -> bytes:
    word = VERSION << 29 | kind << 24 | _DESCRIPTORS[packet.descriptor_bits] << 22 | flags
    return word.to_bytes(4) + packet.session.to_bytes(4)


def _pack_data(data: Data) -> bytes:
    flags = _ASKS * data.asks | _ENDS * data.ends | _STAMPED * bool(data.timestamp)
    head = _begin(data, PacketType.DATA, flags) + data.timestamp
    return head + data.offset.to_bytes(data.descriptor_bits // 8) + data.payload


def _pack_status(status: Status) -> bytes:
    flags = (
        _STAMPED * bool(status.timestamp)
        | _METADATA_MISSING * status.metadata_missing
        | _PARTIAL * status.partial
        | _VOLUNTARY * status.voluntary
        | status.code
    )
    numbers = [status.progress, status.in_response_to, *(offset for hole in status.holes for offset in hole)]
    offsets = b"".join(number.to_bytes(status.descriptor_bits // 8) for number in numbers)
    return _begin(status, PacketType.STATUS, flags) + status.timestamp + offsets


def _pack_metadata(metadata: Metadata) -> bytes:
    flags = DIGEST_BYTES[metadata.checksum] // 4 << 4 | CODES[metadata.checksum]
    entry = _ENTRY | _DESCRIPTORS[metadata.descriptor_bits] << 6
    return (
        _begin(metadata, PacketType.METADATA, flags)
        + metadata.digest
        + entry.to_bytes(2)
        + metadata.file_bytes.to_bytes(metadata.descriptor_bits // 8)
        + _FILE_TIMES
        + name_octets(metadata.name)
        + b"\0"
    )


def read(datagram: bytes) -> Packet:
    """The packet of one UDP payload. Raises Unreadable."""
    fields = Fields(datagram)
    word = fields.number(4)
    if word >> 29 != VERSION:
        raise Unreadable(f"got version {word >> 29}, expected {VERSION}")
    kind = word >> 24 & 0x1F
    if kind == PacketType.DATA:
        return _read_data(word, fields)
    if kind == PacketType.STATUS:
        return _read_status(word, fields)
    if kind == PacketType.METADATA:
        return _read_metadata(word, fields)
    if kind == PacketType.REQUEST:
        return _read_request(word, fields)
    if kind == PacketType.BEACON:
        return _read_beacon(word, fields)
    raise Unreadable(f"got a packet of type {kind}, expected 0 to 4")


def _descriptor_bits(word: int) -> int:
    return _DESCRIPTOR_BITS[word >> 22 & 3]


def _timestamp(word: int, fields: Fields) -> bytes:
    return fields.octets(TIMESTAMP_BYTES) if word & _STAMPED else b""


def _read_data(word: int, fields: Fields) -> Data:
    if word & _TRANSFER_KIND:
        raise Unreadable("got data of a directory, bundle or stream, expected a file")
    return Data(
        session=fields.number(4),
        timestamp=_timestamp(word, fields),
        offset=fields.number(_descriptor_bits(word) // 8),
        payload=fields.rest(),
        asks=bool(word & _ASKS),
        ends=bool(word & _ENDS),
        descriptor_bits=_descriptor_bits(word),
    )


def _read_status(word: int, fields: Fields) -> Status:
    offset_bytes = _descriptor_bits(word) // 8
    return Status(
        session=fields.number(4),
        timestamp=_timestamp(word, fields),
        progress=fields.number(offset_bytes),
        in_response_to=fields.number(offset_bytes),
        holes=fields.holes(offset_bytes),
        code=word & 0xFF,
        partial=bool(word & _PARTIAL),
        voluntary=bool(word & _VOLUNTARY),
        metadata_missing=bool(word & _METADATA_MISSING),
        descriptor_bits=_descriptor_bits(word),
    )


def _read_metadata(word: int, fields: Fields) -> Metadata:
    if word & _TRANSFER_KIND:
        raise Unreadable("got metadata of a directory, bundle or stream, expected a file")
    session = fields.number(4)
    checksum = _CHECKSUM_KINDS.get(word & 0xF)
    digest = fields.octets(4 * (word >> 4 & 0xF))
    if checksum is None or len(digest) != DIGEST_BYTES[checksum]:
        raise Unreadable(f"got a checksum of type {word & 0xF} and {len(digest)} bytes, expected one of {DIGEST_BYTES}")
    entry = fields.number(2)
    file_bytes = fields.number(_DESCRIPTOR_BITS[entry >> 6 & 3] // 8)
    fields.octets(len(_FILE_TIMES))
    return Metadata(
        session=session,
        file_bytes=file_bytes,
        name=fields.name(),
        checksum=checksum,
        digest=digest,
        descriptor_bits=_descriptor_bits(word),
    )


def _read_request(word: int, fields: Fields) -> Request:
    return Request(
        session=fields.number(4), action=word & 0xFF, name=fields.name(), descriptor_bits=_descriptor_bits(word)
    )


def _read_beacon(word: int, fields: Fields) -> Beacon:
    if word & _FREE_SPACE:
        fields.octets(_DESCRIPTOR_BITS[word >> 12 & 3] // 8)
    return Beacon(endpoint=name_text(fields.rest()))
