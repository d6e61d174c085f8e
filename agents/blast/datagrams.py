"""The datagrams of a blast: an offset of 8 bytes, big-endian, and the file data from there on.

A datagram without data, whose offset is the size of the file, is an end marker. There is no other check: UDP's checksum
keeps damaged datagrams away.
"""

import struct

from owlt.agents.endpoint.exit import Unsupported
from owlt.agents.endpoint.udp import LARGEST_PAYLOAD_BYTES

HEADER = struct.Struct(">Q")


class Unreadable(Exception):
    """A datagram that is not of this file."""


def encode(offset: int, data: bytes) -> bytes:
    """The datagram with the data from an offset on."""
    return HEADER.pack(offset) + data


def require_segment(segment_bytes: int) -> None:
    """Raise Unsupported if no datagram holds a segment of this size."""
    largest = LARGEST_PAYLOAD_BYTES - HEADER.size
    if not 1 <= segment_bytes <= largest:
        raise Unsupported(f"segments of {segment_bytes} bytes; a UDP datagram holds 1 to {largest}")


class Stream:
    """Data without an end, in pieces of `segment_bytes`. Raises Unsupported as `require_segment` does."""

    def __init__(self, segment_bytes: int) -> None:
        require_segment(segment_bytes)
        self.segment_bytes = segment_bytes

    def number_of(self, datagram: bytes) -> int | None:
        """The number of a piece; None for an end marker, which has no data.

        Raises:
            Unreadable: too short, or not a complete piece.
        """
        if len(datagram) < HEADER.size:
            raise Unreadable("no whole header")
        number, within = divmod(HEADER.unpack_from(datagram)[0], self.segment_bytes)
        data_bytes = len(datagram) - HEADER.size
        if within or data_bytes not in (0, self.segment_bytes):
            raise Unreadable("no whole piece")
        return number if data_bytes else None


class Pieces:
    """A file of `file_bytes` cut into pieces of `segment_bytes`, the last of which may be shorter.

    Raises Unsupported when no datagram holds such a piece.
    """

    def __init__(self, file_bytes: int, segment_bytes: int) -> None:
        require_segment(segment_bytes)
        self.file_bytes = file_bytes
        self.segment_bytes = segment_bytes
        self.count = -(-file_bytes // segment_bytes)

    def decode(self, datagram: bytes) -> tuple[int, memoryview]:
        """The number of the piece and its data; the number after the last, without data, for an end marker.

        Raises:
            Unreadable: too short, or not a complete piece of this file.
        """
        if len(datagram) < HEADER.size:
            raise Unreadable("no whole header")
        (offset,) = HEADER.unpack_from(datagram)
        data = memoryview(datagram)[HEADER.size :]
        if offset == self.file_bytes and not data:
            return self.count, data
        number, within = divmod(offset, self.segment_bytes)
        if within or number >= self.count or len(data) != min(self.segment_bytes, self.file_bytes - offset):
            raise Unreadable("no whole piece of this file")
        return number, data
