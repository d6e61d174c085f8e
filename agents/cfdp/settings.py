"""The settings of a CFDP transfer, and the values that follow: `Timing` for any engine, `Settings` for cfdp-py."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

from owlt.agents.endpoint.command_line import at_least_one, count, not_negative, option, seconds_or_auto
from owlt.agents.endpoint.event_loop import sending_s
from owlt.agents.endpoint.exit import Unsupported
from owlt.agents.endpoint.udp import LARGEST_PAYLOAD_BYTES

LINGER_TIMERS = 4
"""How many of the peer's timers a side stays after the last PDU that it has acknowledged: a sender after Finished or
the ACK of its EOF (cancel), a receiver after EOF (cancel). At PER 0.1 both ways one receiver in 5,000 then ends without
its ACK(Finished)."""

GIVE_UP_TIMERS = 8
"""For how many of its timers a receiver retransmits Finished without an answer.

The outcome is decided by then, and the sender stays for half as long after each Finished PDU that it receives.
"""


@dataclass(frozen=True, kw_only=True)
class Timing(ABC):
    """The pace, timers, limits and entity ids that a user can choose. Both sides need the same values."""

    rate_bps: float = option("pacing rate in bit/s of layer-2 bytes; 0: no pacing", not_negative)
    rtt_s: float = option("round-trip time, for the timers", not_negative)
    segment_bytes: int = option("bytes of file data per PDU", count, 1000)
    timer_margin_s: float = option("margin of the timers, in addition to the round trip", not_negative, 0.1)
    ack_timer_s: float | None = option(
        "time until EOF or Finished is retransmitted; default: auto, the time of an answer", seconds_or_auto, None
    )
    ack_limit: int = option("limit of such retransmissions", at_least_one, 250)
    nak_timer_s: float | None = option(
        "time until missing data are requested again; default: auto, the time of an answer", seconds_or_auto, None
    )
    nak_limit: int = option("limit of such repetitions", at_least_one, 250)
    idle_limit_s: float | None = option(
        "silence of the peer that ends a run; default: auto, 30 and 10 timers", seconds_or_auto, None
    )
    sender_entity: int = option("entity id of the sender", count, 101)
    receiver_entity: int = option("entity id of the receiver", count, 102)
    outages: str = option(
        "announced: SIGUSR1 suspends this side until SIGUSR2", default="silent", choices=["silent", "announced"]
    )
    over_ipv6: bool = False
    """Whether the channel is crossed over IPv6, whose frames are longer."""

    @property
    def entities(self) -> tuple[int, int]:
        """The ids of the sender and of the receiver: by default those of the paper's GSFC engines."""
        return self.sender_entity, self.receiver_entity

    @property
    @abstractmethod
    def largest_pdu_bytes(self) -> int:
        """The size of the largest PDU that a timer waits for."""

    @property
    def answer_s(self) -> float:
        """How long an answer takes: the propagation delay both ways, the transmission time of two longest PDUs, and the
        margin."""
        return self.rtt_s + 2 * self._longest_pdu_s + self.timer_margin_s

    @cached_property
    def ack_interval_s(self) -> float:
        """EOF or Finished is sent again after this time without an acknowledgement. In whole ms, as engines count."""
        return _whole_ms(self.answer_s if self.ack_timer_s is None else self.ack_timer_s)

    @cached_property
    def nak_interval_s(self) -> float:
        """The time after which missing data are requested again. In whole ms."""
        return _whole_ms(self.answer_s if self.nak_timer_s is None else self.nak_timer_s)

    @property
    def gap_s(self) -> float:
        """If no retransmitted data arrive for this time, the rest of them counts as lost.

        Allows for five consecutive losses and the margin.
        """
        return 6 * self._longest_pdu_s + self.timer_margin_s

    @cached_property
    def silence_limit_s(self) -> float:
        """How long the peer may be silent while it owes something."""
        if self.idle_limit_s is not None:
            return self.idle_limit_s
        return 30 + 10 * max(self.ack_interval_s, self.nak_interval_s)

    @property
    def linger_s(self) -> float:
        """How long a side stays after the last PDU that it has acknowledged, to acknowledge it again."""
        return LINGER_TIMERS * self.ack_interval_s

    @property
    def give_up_s(self) -> float:
        """How long a receiver that has decided waits for the last acknowledgement."""
        return GIVE_UP_TIMERS * self.ack_interval_s

    @cached_property
    def _longest_pdu_s(self) -> float:
        return sending_s(self.largest_pdu_bytes, self.rate_bps, self.over_ipv6)


def _whole_ms(seconds: float) -> float:
    return math.ceil(1000 * seconds) / 1000


_FIXED_BYTES, SEQUENCE_BYTES, _OFFSET_BYTES = 4, 2, 4
"""Lengths in the header before the data of a File Data PDU, in addition to two entity ids."""

PDU_CRC_BYTES = 2

LARGEST_FILE_BYTES = 2**32 - 1
"""The largest file that the 32-bit offsets of a normal PDU can address.

The large-file flag of the standard is not used here.
"""

CHECKSUMS = {"modular": 0, "crc32c": 2, "crc32": 3, "null": 15}
"""Checksums of the complete file, by their number in the SANA registry (CCSDS 727.0-B-5, section 5.2.5). Proximity-1's
CRC-32, which is number 1, is not in cfdp-py."""


@dataclass(frozen=True, kw_only=True)
class Settings(Timing):
    """Settings that must be equal on both sides, except checksum and closure, which the Metadata PDU carries."""

    nak: str = option(
        "request missing data after EOF, or at each gap", default="deferred", choices=["deferred", "immediate"]
    )
    pdu_crc: str = option("a CRC in every PDU, in addition to the UDP checksum", default="off", choices=["off", "on"])
    checksum: str = option("checksum of the file", default="crc32", choices=sorted(CHECKSUMS))
    closure: str = option("transaction closure in the Metadata PDU", default="on", choices=["on", "off"])
    transaction: int = option("number of the transaction", count, 0, sides=("send",))
    max_gaps: int = option(
        "gaps that the receiver keeps; what follows the last one is requested again; 0: no limit",
        count,
        0,
        sides=("receive",),
    )
    nak_repeat: str = option(
        "request missing data again once retransmitted data pause, or only when the timer expires",
        default="pause",
        choices=["pause", "timer"],
        sides=("receive",),
    )

    def __post_init__(self) -> None:
        if not all(0 <= entity < 1 << 64 for entity in self.entities) or self.sender_entity == self.receiver_entity:
            raise Unsupported(f"entity ids {self.entities}: expected two different ids of at most 8 octets")
        if self.transaction >= 256**SEQUENCE_BYTES:
            raise Unsupported(
                f"transaction {self.transaction}; {SEQUENCE_BYTES} octets hold 0 to {256**SEQUENCE_BYTES - 1}"
            )
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
        """Whether a gap is requested as soon as it is seen; otherwise after EOF."""
        return self.nak == "immediate"

    @property
    def repeats_nak_after_pause(self) -> bool:
        """Whether a pause in retransmitted data ends the wait for the rest of them; otherwise only the timer does."""
        return self.nak_repeat == "pause"

    @property
    def with_crc(self) -> bool:
        """Whether every PDU ends in a CRC."""
        return self.pdu_crc == "on"

    @property
    def closure_requested(self) -> bool:
        """Whether the Metadata PDU requests closure. In class 2 a Finished PDU is sent in any case."""
        return self.closure == "on"

    @property
    def checksum_number(self) -> int:
        """The chosen checksum in a Metadata PDU."""
        return CHECKSUMS[self.checksum]

    @property
    def largest_pdu_bytes(self) -> int:
        """The size of the largest PDU, NAK lists included. At least 39 bytes, which a NAK with one request may need."""
        return max(64, self.data_header_bytes + self.segment_bytes + PDU_CRC_BYTES * self.with_crc)


def refuse_large_file(size_bytes: int) -> None:
    """Raises Unsupported if the file is too large for 32-bit offsets."""
    if size_bytes > LARGEST_FILE_BYTES:
        raise Unsupported(f"a file of {size_bytes} bytes; offsets of 32 bits reach {LARGEST_FILE_BYTES}")
