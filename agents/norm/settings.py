"""The settings of a NORM transfer, and the values that follow from them."""

from dataclasses import dataclass
from enum import StrEnum

from owlt.agents.endpoint.command_line import count, not_negative, option
from owlt.agents.endpoint.event_loop import frame_bytes
from owlt.agents.endpoint.exit import Unsupported

SENDER_ID = 8471
RECEIVER_ID = 8472
"""Node ids, those of the paper."""

DATA_HEADER_BYTES = 32
"""The header of a NORM_DATA message: 16 of message and payload id, 16 of FEC object information."""

LARGEST_SEGMENT_BYTES = 65000
LARGEST_CODING_BLOCK = 255
"""Segments of data and parity together, for the 8-bit Reed-Solomon code."""

LARGEST_GRTT_S = 1000.0
"""The largest value of the 8-bit GRTT field of a NORM message (RFC 5401)."""

UNLIMITED_RATE_BPS = 1e9
"""libnorm needs a rate. If the channel is unlimited, it gets the rate of the hosts' own interfaces."""


class End(StrEnum):
    """How a sender knows that it may end."""

    ACKNOWLEDGED = "acknowledged"
    """The receiver acknowledges a watermark at the end of the file."""

    FLUSHED = "flushed"
    """The sender has sent as many flushes as the robust factor specifies without a repair request.

    The receivers are unknown.
    """


class CongestionControl(StrEnum):
    """Whether the sender keeps a fixed rate, or which events NORM-CC (RFC 5740, section 5.5.2) counts as congestion."""

    NONE = "none"
    """A fixed rate."""

    LOSS = "cc"
    """Every loss."""

    ECN = "cce"
    """ECN marks alone: on a channel that marks no packets, the rate only grows."""

    LOSS_TOLERANT = "ccl"
    """Losses, but not single ones."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that must be equal on both sides."""

    rate_bps: float = option("pacing rate in bit/s of layer-2 bytes; 0: 1 Gbit/s", not_negative)
    rtt_s: float = option("first estimate of the greatest round trip (GRTT)", not_negative)
    file_bytes: int = option("size of the file, for the buffers", count, sides=("receive",))
    seed: int = option("seed of the random back-offs", count, 1)
    congestion_control: CongestionControl = option(
        "congestion control instead of pacing", CongestionControl, CongestionControl.NONE, choices=CongestionControl
    )
    least_rate_bps: float = option(
        "lower bound for congestion control; 0: one segment per second or round trip", not_negative, 0.0
    )
    greatest_rate_bps: float = option("upper bound for congestion control; 0: no bound", not_negative, 0.0)
    end: End = option("condition for the end of the sender", End, End.ACKNOWLEDGED, choices=End)
    segment_bytes: int = option("bytes of file data per message", count, 1000)
    block_segments: int = option("data segments in a coding block", count, 64)
    parity_segments: int = option("parity segments kept for the repair of a block", count, 8)
    auto_parity_segments: int = option("of these, sent without request", count, 0)
    backoff_factor: float = option("random wait before a NACK, in GRTT", not_negative, 0.0)
    group_size: int = option("receivers assumed by the random wait", count, 10)
    robust_factor: int = option("unanswered flushes that end the session", count, 20)
    greatest_grtt_s: float = option(
        "upper bound of the measured round trip; 0: four --rtt-s, at least 10", not_negative, 0.0
    )
    probing: str = option("measure the round trip", default="none", choices=["active", "passive", "none"])
    repair_boundary: str = option(
        "boundary at which a receiver requests repairs", default="object", choices=["block", "object"]
    )
    idle_limit_s: float | None = option("time without progress that ends a run", not_negative, None)
    linger_rtts: float | None = option(
        "time that a receiver with the complete file stays, in round trips", not_negative, None
    )

    def __post_init__(self) -> None:
        if not 1 <= self.segment_bytes <= LARGEST_SEGMENT_BYTES:
            raise Unsupported(f"segments of {self.segment_bytes} bytes; 1 to {LARGEST_SEGMENT_BYTES} are possible")
        if not 1 <= self.block_segments <= LARGEST_CODING_BLOCK - self.parity_segments:
            raise Unsupported(
                f"blocks of {self.block_segments} + {self.parity_segments} segments; "
                f"an 8-bit code takes {LARGEST_CODING_BLOCK}"
            )
        if self.rtt_s > LARGEST_GRTT_S:
            raise Unsupported(f"a round trip of {self.rtt_s} s; a NORM message can carry at most {LARGEST_GRTT_S} s")

    @property
    def message_rate_bps(self) -> float:
        """The rate for libnorm, which counts its own messages: frames of a full segment then go at `rate_bps`.

        A shorter message is followed a little too soon: the channel's queue takes the difference.
        """
        return self._of_messages(self.rate_bps or UNLIMITED_RATE_BPS)

    @property
    def message_rate_bounds_bps(self) -> tuple[float, float]:
        """Least and greatest rate under congestion control, counted in the same way. -1 is libnorm's "no bound"."""
        least, greatest = self.least_rate_bps or -1.0, self.greatest_rate_bps or -1.0
        return self._of_messages(least), self._of_messages(greatest)

    def _of_messages(self, rate_bps: float) -> float:
        message_bytes = self.segment_bytes + DATA_HEADER_BYTES
        return rate_bps * message_bytes / frame_bytes(message_bytes)

    @property
    def first_grtt_s(self) -> float:
        """libnorm's own guess of 0.25 s costs needless repairs on a longer path, and waiting on a shorter one."""
        return max(self.rtt_s, 0.001)

    @property
    def grtt_limit_s(self) -> float:
        """Above any round trip that will be measured; libnorm's own limit of 10 s is too short for interplanetary
        distances."""
        return self.greatest_grtt_s or min(LARGEST_GRTT_S, max(10.0, 4 * self.rtt_s))

    @property
    def buffer_bytes(self) -> int:
        """The buffer for blocks under repair.

        All of it is touched at the start, so it is no larger than the file can need.
        """
        return min(max(self.file_bytes, 1 << 20), 64 << 20)

    @property
    def silence_limit_s(self) -> float:
        """How long a side waits without any event before it gives up. A sender gets no event while it sends the file;
        after that two series of flushes, one every 2 GRTT, are enough."""
        if self.idle_limit_s is not None:
            return self.idle_limit_s
        file_s = 8 * self.file_bytes / self._slowest_bps
        return 30 + 2 * file_s + 4 * self.robust_factor * self.rtt_s * (1 + self.backoff_factor / 4)

    @property
    def _slowest_bps(self) -> float:
        """The sending rate, or under congestion control the rate until a receiver has answered: in a group that may
        take a minute, because the first answer is delayed the more, the faster the first messages arrived."""
        if self.congestion_control is CongestionControl.NONE:
            return self.message_rate_bps
        return self._of_messages(self.least_rate_bps) or 8 * self.segment_bytes / max(1.0, self.rtt_s)

    @property
    def linger_s(self) -> float:
        """How long a receiver stays after its file is complete, to answer. A flush comes every 2 GRTT.

        Acknowledged, the sender is gone after the first answer that arrives: at PER 0.1 both ways, six in a row are
        lost in one run of 20,000. Otherwise it sends all its flushes, and probes whoever is there.
        """
        flushes = 6 if self.end is End.ACKNOWLEDGED else self.robust_factor + 2
        return (self.linger_rtts if self.linger_rtts is not None else 2.2 * flushes) * self.first_grtt_s
