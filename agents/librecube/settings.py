"""What a user can choose about a CFDP transfer with LibreCube's engine, and what that engine cannot do."""

from dataclasses import dataclass

from owlt.agents.cfdp.settings import Timing
from owlt.agents.endpoint.command_line import option
from owlt.agents.endpoint.exit import Unsupported
from owlt.agents.endpoint.udp import LARGEST_PAYLOAD_BYTES

DATA_HEADER_BYTES = 11
"""In front of the data of a File Data PDU: 4 fixed, 2 x 1 entity ids, 1 sequence number, 4 offset."""

LARGEST_FILE_BYTES = 32_000_000
"""Beyond, runs take minutes of computing. For each PDU that comes the engine goes through all that it has: 5 s of
computing for 10 MB in segments of 1000 bytes, a minute for 32 MB, ten for 100 MB. Where computing takes its time
(clocks real and skip) a receiver with 9000 segments needs as long for a PDU as 10 Mbit/s do, and then falls behind."""


@dataclass(frozen=True, kw_only=True)
class Settings(Timing):
    """Choices that both sides must be given alike."""

    gaps: str = option(
        "repeat missing data in segments, or a whole gap in one PDU as the engine does",
        default="segments",
        choices=["segments", "whole"],
    )

    def __post_init__(self) -> None:
        if not all(0 <= entity < 256 for entity in self.entities) or self.sender_entity == self.receiver_entity:
            raise Unsupported(f"entity ids {self.entities}: expected two different ids of at most 255")
        largest = LARGEST_PAYLOAD_BYTES - DATA_HEADER_BYTES
        if not 1 <= self.segment_bytes <= largest:
            raise Unsupported(f"segments of {self.segment_bytes} bytes; a UDP datagram holds 1 to {largest}")

    @property
    def split_gaps(self) -> bool:
        """Whether missing data are sent again in segments. The engine itself puts a gap into one PDU, however long,
        and dies of a gap that a PDU does not hold."""
        return self.gaps == "segments"

    @property
    def largest_pdu_bytes(self) -> int:
        """Of the PDUs of a transfer without gaps."""
        return max(64, DATA_HEADER_BYTES + self.segment_bytes)


def refuse_large_file(size_bytes: int) -> None:
    """Raises Unsupported for a file that the engine's computing does not reach the end of in a sensible time."""
    if size_bytes > LARGEST_FILE_BYTES:
        raise Unsupported(f"a file of {size_bytes} bytes; LibreCube's engine is used up to {LARGEST_FILE_BYTES}")
