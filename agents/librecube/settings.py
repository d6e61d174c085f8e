"""The settings of a CFDP transfer with LibreCube's engine, and the limits of that engine."""

from dataclasses import dataclass

from owlt.agents.cfdp.settings import Timing
from owlt.agents.endpoint.command_line import option
from owlt.agents.endpoint.exit import Unsupported
from owlt.agents.endpoint.udp import LARGEST_PAYLOAD_BYTES

DATA_HEADER_BYTES = 11
"""The header of a File Data PDU: 4 fixed, 2 x 1 entity ids, 1 sequence number, 4 offset."""

LARGEST_FILE_BYTES = 32_000_000
"""Larger files take minutes of computing. For each PDU that arrives the engine goes through all that it has received: 5
s of computing for 10 MB in segments of 1000 bytes, a minute for 32 MB, ten for 100 MB. If computation takes its time
(clocks real and skip), a receiver with 9000 segments needs as long for a PDU as its transmission at 10 Mbit/s, and then
falls behind."""


@dataclass(frozen=True, kw_only=True)
class Settings(Timing):
    """Settings that must be equal on both sides."""

    gaps: str = option(
        "retransmit missing data in segments, or a whole gap in one PDU as the engine does",
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
        """Whether missing data are sent again in segments.

        The engine itself puts a gap of any length into one PDU, and raises an exception if the gap does not fit.
        """
        return self.gaps == "segments"

    @property
    def largest_pdu_bytes(self) -> int:
        """The size of the largest PDU of a transfer without gaps."""
        return max(64, DATA_HEADER_BYTES + self.segment_bytes)


def refuse_large_file(size_bytes: int) -> None:
    """Raises Unsupported for a file that the engine cannot process in a reasonable time."""
    if size_bytes > LARGEST_FILE_BYTES:
        raise Unsupported(f"a file of {size_bytes} bytes; LibreCube's engine is used up to {LARGEST_FILE_BYTES}")
