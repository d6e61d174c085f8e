"""What a user can choose about a CFDP transfer, and what follows from it for both entities."""

import math
from dataclasses import dataclass

from agents.ending import Unsupported
from agents.pacing import frame_bytes
from agents.udp import LARGEST_PAYLOAD_BYTES

DATA_HEADER_BYTES = 14
"""In front of the data of a File Data PDU: 4 fixed, 2 x 2 entity ids, 2 sequence number, 4 offset."""

PDU_CRC_BYTES = 2

LARGEST_FILE_BYTES = 2**32 - 1
"""What the 32-bit offsets of a normal PDU reach. The large-file flag of the standard is not used here."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Choices that both sides must be given alike."""

    rate_bps: float
    rtt_s: float
    segment_bytes: int = 1000
    nak: str = "deferred"
    pdu_crc: str = "off"
    timer_margin_s: float = 0.1
    repeat_limit: int = 250
    idle_limit_s: float | None = None

    def __post_init__(self) -> None:
        largest = LARGEST_PAYLOAD_BYTES - DATA_HEADER_BYTES - PDU_CRC_BYTES
        if not 1 <= self.segment_bytes <= largest:
            raise Unsupported(f"segments of {self.segment_bytes} bytes; a UDP datagram holds 1 to {largest}")

    @property
    def immediate_nak(self) -> bool:
        """Whether a gap is asked for when it is seen, or after EOF."""
        return self.nak == "immediate"

    @property
    def with_crc(self) -> bool:
        """Whether every PDU ends in a CRC."""
        return self.pdu_crc == "on"

    @property
    def timer_s(self) -> float:
        """How long to wait for an answer before asking again: the light, the longest question and answer on the
        channel, and the margin. In whole ms, as the engine counts."""
        return math.ceil(1000 * (self.rtt_s + 2 * self._longest_pdu_s + self.timer_margin_s)) / 1000

    @property
    def gap_s(self) -> float:
        """A pause in repeated data that means that the rest of it is lost: five in a row, and the margin."""
        return 6 * self._longest_pdu_s + self.timer_margin_s

    @property
    def _longest_pdu_s(self) -> float:
        return 8 * frame_bytes(self.largest_pdu_bytes) / self.rate_bps if self.rate_bps else 0.0

    @property
    def silence_limit_s(self) -> float:
        """How long the peer may be silent while it owes something. The engine itself would wait for ever."""
        return self.idle_limit_s if self.idle_limit_s is not None else 30 + 10 * self.timer_s

    @property
    def largest_pdu_bytes(self) -> int:
        """Of any PDU, NAK lists included. Directives have a floor: a NAK with one request needs 27 bytes."""
        return max(64, DATA_HEADER_BYTES + self.segment_bytes + PDU_CRC_BYTES * self.with_crc)


def refuse_large_file(size_bytes: int) -> None:
    """Raises Unsupported when 32-bit offsets do not reach the end of the file."""
    if size_bytes > LARGEST_FILE_BYTES:
        raise Unsupported(f"a file of {size_bytes} bytes; offsets of 32 bits reach {LARGEST_FILE_BYTES}")
