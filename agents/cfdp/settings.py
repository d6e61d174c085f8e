"""What a user can choose about a CFDP transfer with cfdp-py, and what follows from it for both entities."""

from dataclasses import dataclass

from owlt.agents.cfdp.timing import Timing
from owlt.agents.endpoint.exit import Unsupported
from owlt.agents.endpoint.udp import LARGEST_PAYLOAD_BYTES

_FIXED_BYTES, SEQUENCE_BYTES, _OFFSET_BYTES = 4, 2, 4
"""Lengths in the header before the data of a File Data PDU, in addition to two entity ids."""

PDU_CRC_BYTES = 2

LARGEST_FILE_BYTES = 2**32 - 1
"""What the 32-bit offsets of a normal PDU reach. The large-file flag of the standard is not used here."""

CHECKSUMS = {"modular": 0, "crc32c": 2, "crc32": 3, "null": 15}
"""Of the whole file, by the numbers of the SANA registry (CCSDS 727.0-B-5, section 5.2.5). Proximity-1's CRC-32, which
is number 1, is not in cfdp-py."""


@dataclass(frozen=True, kw_only=True)
class Settings(Timing):
    """Choices that both sides must be given alike, but for the checksum and closure: the Metadata PDU tells those."""

    nak: str = "deferred"
    pdu_crc: str = "off"
    checksum: str = "crc32"
    closure: str = "on"

    def __post_init__(self) -> None:
        if not all(0 <= entity < 1 << 64 for entity in self.entities) or self.sender_entity == self.receiver_entity:
            raise Unsupported(f"entity ids {self.entities}: expected two different ids of at most 8 octets")
        largest = LARGEST_PAYLOAD_BYTES - self.data_header_bytes - PDU_CRC_BYTES
        if not 1 <= self.segment_bytes <= largest:
            raise Unsupported(f"segments of {self.segment_bytes} bytes; a UDP datagram holds 1 to {largest}")

    @property
    def entity_bytes(self) -> int:
        """The length of an entity id in the headers of this side's PDUs."""
        return next(size for size in (2, 4, 8) if max(self.entities) < 256**size)

    @property
    def data_header_bytes(self) -> int:
        """The number of bytes before the data of a File Data PDU."""
        return _FIXED_BYTES + 2 * self.entity_bytes + SEQUENCE_BYTES + _OFFSET_BYTES

    @property
    def immediate_nak(self) -> bool:
        """Whether a gap is asked for when it is seen, or after EOF."""
        return self.nak == "immediate"

    @property
    def with_crc(self) -> bool:
        """Whether every PDU ends in a CRC."""
        return self.pdu_crc == "on"

    @property
    def closure_requested(self) -> bool:
        """What the Metadata PDU asks for. In class 2 a Finished PDU comes either way."""
        return self.closure == "on"

    @property
    def checksum_number(self) -> int:
        """The chosen checksum in a Metadata PDU."""
        return CHECKSUMS[self.checksum]

    @property
    def largest_pdu_bytes(self) -> int:
        """Of any PDU, NAK lists included. Directives have a floor: a NAK with one request needs 39 bytes at most."""
        return max(64, self.data_header_bytes + self.segment_bytes + PDU_CRC_BYTES * self.with_crc)


def refuse_large_file(size_bytes: int) -> None:
    """Raises Unsupported when 32-bit offsets do not reach the end of the file."""
    if size_bytes > LARGEST_FILE_BYTES:
        raise Unsupported(f"a file of {size_bytes} bytes; offsets of 32 bits reach {LARGEST_FILE_BYTES}")
