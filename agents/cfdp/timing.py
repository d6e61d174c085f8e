"""Timers, limits and PDU sizes of a CFDP entity, as far as they do not depend on whose engine it is."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from owlt.agents.endpoint.pacing import frame_bytes

LINGER_TIMERS = 4
"""How many of the receiver's timers a sender stays after the last Finished PDU that it received. At PER 0.1 both ways
one receiver in 5,000 then ends without its ACK(Finished)."""

GIVE_UP_TIMERS = 8
"""How many of its timers a receiver repeats Finished without an answer. The file is decided by then, and the sender
stays for half as long after each Finished PDU that it hears."""


@dataclass(frozen=True, kw_only=True)
class Timing(ABC):
    """The pace, timers, limits and entity ids that a user can choose. Both sides need the same values."""

    rate_bps: float
    rtt_s: float
    segment_bytes: int = 1000
    timer_margin_s: float = 0.1
    ack_timer_s: float | None = None
    ack_limit: int = 250
    nak_timer_s: float | None = None
    nak_limit: int = 250
    idle_limit_s: float | None = None
    sender_entity: int = 101
    receiver_entity: int = 102

    @property
    def entities(self) -> tuple[int, int]:
        """The ids of the sender and of the receiver: by default those of the paper's GSFC engines."""
        return self.sender_entity, self.receiver_entity

    @property
    @abstractmethod
    def largest_pdu_bytes(self) -> int:
        """Of any PDU that timers wait for."""

    @property
    def answer_s(self) -> float:
        """How long an answer takes: the light, the longest question and answer on the channel, and the margin."""
        return self.rtt_s + 2 * self._longest_pdu_s + self.timer_margin_s

    @property
    def ack_interval_s(self) -> float:
        """After this long without an acknowledgement EOF or Finished is sent again. In whole ms, as engines count."""
        return _whole_ms(self.answer_s if self.ack_timer_s is None else self.ack_timer_s)

    @property
    def nak_interval_s(self) -> float:
        """After this long missing data are asked for again. In whole ms."""
        return _whole_ms(self.answer_s if self.nak_timer_s is None else self.nak_timer_s)

    @property
    def gap_s(self) -> float:
        """A pause in repeated data that means that the rest of it is lost: five in a row, and the margin."""
        return 6 * self._longest_pdu_s + self.timer_margin_s

    @property
    def silence_limit_s(self) -> float:
        """How long the peer may be silent while it owes something."""
        if self.idle_limit_s is not None:
            return self.idle_limit_s
        return 30 + 10 * max(self.ack_interval_s, self.nak_interval_s)

    @property
    def linger_s(self) -> float:
        """How long a sender stays after a Finished PDU, to acknowledge it again."""
        return LINGER_TIMERS * self.ack_interval_s

    @property
    def give_up_s(self) -> float:
        """How long a receiver that has decided waits for the last acknowledgement."""
        return GIVE_UP_TIMERS * self.ack_interval_s

    @property
    def _longest_pdu_s(self) -> float:
        return 8 * frame_bytes(self.largest_pdu_bytes) / self.rate_bps if self.rate_bps else 0.0


def _whole_ms(seconds: float) -> float:
    return math.ceil(1000 * seconds) / 1000
