"""What a user can choose about an LTP transfer, and what follows from it for both engines."""

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from owlt.agents.endpoint.event_loop import frame_bytes
from owlt.agents.endpoint.exit import Unsupported
from owlt.agents.endpoint.udp import LARGEST_PAYLOAD_BYTES
from owlt.agents.ltp.sdnv import LARGEST
from owlt.agents.ltp.segments import LARGEST_DATA_HEADER_BYTES

LARGEST_FILE_BYTES = 2**32
"""The most that a receiver takes if no size is configured: one segment of the format could name byte 2^64."""

LARGEST_SEGMENT_BYTES = LARGEST_PAYLOAD_BYTES - LARGEST_DATA_HEADER_BYTES


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Choices of both sides.

    `None` for `red_bytes` is all, for `reverse_rate_bps` the forward rate; 0 for `block_bytes` is the whole file.
    """

    rate_bps: float
    rtt_s: float
    reverse_rate_bps: float | None = None
    segment_bytes: int = 1000
    red_bytes: int | None = None
    checkpoint_every: int = 0
    block_bytes: int = 0
    sessions: int = 1
    sender_engine: int = 1
    first_session: int = 1
    client_service: int = 4
    timer_margin_s: float = 0.1
    checkpoint_limit: int = 20
    report_limit: int = 20
    cancel_limit: int = 5
    cycle_limit: int = 100
    idle_limit_s: float | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.segment_bytes <= LARGEST_SEGMENT_BYTES:
            raise Unsupported(
                f"segments of {self.segment_bytes} bytes; a UDP datagram holds 1 to {LARGEST_SEGMENT_BYTES}"
            )
        for what in ("sender_engine", "first_session", "client_service"):
            if getattr(self, what) > LARGEST:
                raise Unsupported(f"{what} {getattr(self, what)}; numbers have 64 bits")

    def first_serials(self, *, sends_block: bool) -> Random:
        """What a side draws its first serial numbers from (RFC 5326, section 3.2.1): the two sides draw apart."""
        if self.seed is None:
            return Random()
        return Random(f"{self.seed} {'checkpoints' if sends_block else 'reports'}")

    @property
    def timer_s(self) -> float:
        """How long to wait for an answer before asking again: the light, the longest question and answer on the
        channel, and the margin (RFC 5325, section 3.1.3)."""
        longest_bytes = frame_bytes(self.segment_bytes + LARGEST_DATA_HEADER_BYTES)
        on_the_channel_s = sum(8 * longest_bytes / rate for rate in (self.rate_bps, self.report_rate_bps) if rate)
        return self.rtt_s + on_the_channel_s + self.timer_margin_s

    @property
    def report_rate_bps(self) -> float:
        """The pace of the receiver; 0: none."""
        return self.rate_bps if self.reverse_rate_bps is None else self.reverse_rate_bps

    @property
    def silence_limit_s(self) -> float:
        """How long the peer may be silent while it owes something: longer than it repeats checkpoints and cancels."""
        if self.idle_limit_s is not None:
            return self.idle_limit_s
        return 30 + (self.checkpoint_limit + self.cancel_limit + 2) * self.timer_s


class Stretch(NamedTuple):
    """Where a block lies in the file."""

    start: int
    end: int


@dataclass(frozen=True)
class Layout:
    """A file cut in blocks, one session each. LTP does not say where a block belongs: the sessions' numbers do.

    A file of one block has any number. `file_bytes` is None where it is not known; then there is one block.
    """

    file_bytes: int | None
    block_bytes: int
    first_session: int

    @property
    def count(self) -> int:
        """How many blocks there are."""
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
