"""The settings of an LTP transfer, and the values that follow from them for both engines."""

from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import NamedTuple

from owlt.agents.endpoint.command_line import at_least_one, count, not_negative, option, seconds_or_auto
from owlt.agents.endpoint.event_loop import sending_s
from owlt.agents.endpoint.exit import Unsupported
from owlt.agents.endpoint.udp import LARGEST_PAYLOAD_BYTES
from owlt.agents.ltp.sdnv import LARGEST
from owlt.agents.ltp.segments import LARGEST_DATA_HEADER_BYTES

LARGEST_FILE_BYTES = 2**32
"""The largest file that a receiver accepts if no size is configured: the format has offsets of up to 2^64."""

LARGEST_SEGMENT_BYTES = LARGEST_PAYLOAD_BYTES - LARGEST_DATA_HEADER_BYTES


def _red_bytes(text: str) -> int | None:
    """A number of bytes, or None for `all`."""
    return None if text == "all" else count(text)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of both sides. Special values: `red_bytes` None: all; `reverse_rate_bps` None: the forward rate;
    `block_bytes` 0: the complete file.
    """

    rate_bps: float = option("pacing rate of the sender in bit/s of layer-2 bytes; 0: no pacing", not_negative)
    rtt_s: float = option("round-trip time, for the timers", not_negative)
    reverse_rate_bps: float | None = option(
        "pacing rate of the receiver; 0: no pacing; default: the rate of the sender", not_negative, None
    )
    segment_bytes: int = option("bytes of file data per segment, and largest report", count, 1000)
    red_bytes: int | None = option(
        "red bytes of each block, or all; the others are green; default: all", _red_bytes, None, sides=("send",)
    )
    checkpoint_every: int = option("red segments per checkpoint; 0: only at the end", count, 0, sides=("send",))
    block_bytes: int = option("bytes of file data per session; 0: the whole file", count, 0)
    sessions: int = option("blocks in flight at the same time", at_least_one, 1, sides=("send",))
    sender_engine: int = option("engine id of the sender", count, 1)
    first_session: int = option("session number of the first block; any for a single block", count, 1)
    client_service: int = option("client service id of the data", count, 4)
    timer_margin_s: float = option("margin of the timers, in addition to the round trip", not_negative, 0.1)
    timer_s: float | None = option(
        "time until an unanswered segment is retransmitted; default: auto, the time of an answer", seconds_or_auto, None
    )
    checkpoint_limit: int = option("retransmissions of a checkpoint without a report", count, 20)
    report_limit: int = option("retransmissions of a report without an acknowledgement", count, 20)
    cancel_limit: int = option("retransmissions of a cancellation without an acknowledgement", count, 5)
    cycle_limit: int = option("consecutive reports that repeated data are still missing", count, 100)
    idle_limit_s: float | None = option(
        "silence of the peer that ends a run; default: 30 s plus 27 timer intervals", not_negative, None
    )
    seed: int | None = option("seed of the first serial numbers; default: random", count, None)

    over_ipv6: bool = False
    """Whether the channel is crossed over IPv6, whose frames are longer."""

    def __post_init__(self) -> None:
        if not 1 <= self.segment_bytes <= LARGEST_SEGMENT_BYTES:
            raise Unsupported(
                f"segments of {self.segment_bytes} bytes; a UDP datagram holds 1 to {LARGEST_SEGMENT_BYTES}"
            )
        for what in ("sender_engine", "first_session", "client_service"):
            if getattr(self, what) > LARGEST:
                raise Unsupported(f"{what} {getattr(self, what)}; numbers have 64 bits")

    def first_serials(self, *, sends_block: bool) -> Random:
        """The random generator for a side's first serial numbers (RFC 5326, section 3.2.1); the two sides draw
        independently."""
        if self.seed is None:
            return Random()
        return Random(f"{self.seed} {'checkpoints' if sends_block else 'reports'}")

    @cached_property
    def interval_s(self) -> float:
        """How long to wait for an answer before a segment is sent again: `timer_s`, or else the propagation delay both
        ways, the transmission time of the longest segment on each channel, and the margin (RFC 5325, section 3.1.3)."""
        if self.timer_s is not None:
            return self.timer_s
        longest_bytes = self.segment_bytes + LARGEST_DATA_HEADER_BYTES
        rates = (self.rate_bps, self.report_rate_bps)
        on_the_channel_s = sum(sending_s(longest_bytes, rate, self.over_ipv6) for rate in rates)
        return self.rtt_s + on_the_channel_s + self.timer_margin_s

    @property
    def report_rate_bps(self) -> float:
        """The pace of the receiver; 0: none."""
        return self.rate_bps if self.reverse_rate_bps is None else self.reverse_rate_bps

    @cached_property
    def silence_limit_s(self) -> float:
        """How long the peer may be silent while it owes something: longer than it retransmits checkpoints."""
        if self.idle_limit_s is not None:
            return self.idle_limit_s
        return 30 + (self.checkpoint_limit + self.cancel_limit + 2) * self.interval_s


class Stretch(NamedTuple):
    """The position of a block in the file."""

    start: int
    end: int


@dataclass(frozen=True)
class Layout:
    """A file divided into blocks, one session each. LTP does not carry a block's position in the file; it follows from
    the session number.

    A file of one block has any number. `file_bytes` is None where it is not known; then there is one block.
    """

    file_bytes: int | None
    block_bytes: int
    first_session: int

    @cached_property
    def count(self) -> int:
        """The number of blocks."""
        if self.file_bytes is None or not self.block_bytes:
            return 1
        return -(-self.file_bytes // self.block_bytes)

    def stretch(self, number: int) -> Stretch | None:
        """The block of a session; None where there is none. The block of an unknown size ends at the largest."""
        place = number - self.first_session if self.count > 1 else 0
        if not 0 <= place < self.count:
            return None
        end = LARGEST_FILE_BYTES if self.file_bytes is None else self.file_bytes
        if self.count == 1:
            return Stretch(0, end)
        return Stretch(place * self.block_bytes, min(end, (place + 1) * self.block_bytes))
