"""The settings of a transfer with custody, and the values that follow from them for both nodes."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from owlt.agents.bundle.blocks import Fragment, Timestamp
from owlt.agents.bundle.convergence import (
    LARGEST_SEGMENT_BYTES,
    Carrier,
    Convergence,
    carrier,
    channel_bytes,
    largest_bundle_bytes,
)
from owlt.agents.bundle.custody import LARGEST_CUSTODY_ID, CustodySignal, DtnTime, Extent, Status
from owlt.agents.bundle.nodes import SENDER, Division, data_bundle
from owlt.agents.endpoint.command_line import count, not_negative, option, seconds_or_auto
from owlt.agents.endpoint.exit import Unsupported

LARGEST_FILE_BYTES = 2**31 - 1
"""Fragment offsets beyond this are shown wrongly by Wireshark, and refused here."""

LARGEST_HEADERS_BYTES = len(
    data_bundle(
        b"",
        Fragment(LARGEST_FILE_BYTES, LARGEST_FILE_BYTES),
        Timestamp(2**34, 0),
        LARGEST_CUSTODY_ID,
        checked=True,
    ).encode()
)
"""The longest headers of a bundle of the file, without its payload."""

LARGEST_SIGNAL_BYTES = len(
    CustodySignal(
        status=Status.ACCEPTED,
        source=SENDER,
        created=Timestamp(2**34, 0),
        extent=Extent(LARGEST_FILE_BYTES, LARGEST_FILE_BYTES),
        signalled=DtnTime(2**34, 10**9),
    ).encode()
)
"""The longest record in a custody signal for one bundle."""

SMALLEST_RECORD_BYTES = 32
"""Somewhat more than an aggregate with one fill needs."""

LINGER_TIMERS = 10
"""How long a receiver with the complete file stays. A bundle of 5 segments at PER 0.1 is lost ten times in a row in one
run of 7,000."""

SILENCE_TIMERS = 20

AGGREGATES_AHEAD = 2
"""How many aggregates a custody timer allows for: one that is being sent when the window ends, and its own."""


class Custody(StrEnum):
    """How custody is signalled."""

    SINGLE = "cs"
    AGGREGATE = "acs"


class BundleCheck(StrEnum):
    """The check for damage of a bundle, in addition to UDP's checksum."""

    NONE = "none"
    CRC32C = "crc32c"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that must be equal on both sides, except `pieces_of`. A rate of 0 is no limit.

    With `pieces_of`, the receiver accepts bundles that are not fragments but numbered pieces of a file of so many
    bytes: each begins with 8 digits. So the bundles of another agent can carry a file of any size.
    """

    rate_bps: float = option("pacing rate of the sender in bit/s of layer-2 bytes; 0: no pacing", not_negative)
    rtt_s: float = option("round-trip time, for the custody timers", not_negative)
    reverse_rate_bps: float | None = option(
        "pacing rate of the signals; default: the rate of the sender", not_negative, None
    )
    custody: Custody = option("one signal per bundle, or aggregates", Custody, Custody.AGGREGATE, choices=Custody)
    convergence: Convergence = option("convergence layer", Convergence, Convergence.LTP, choices=Convergence)
    bundle_bytes: int = option("bytes of file data per bundle", count, 5000)
    segment_bytes: int = option("bytes of a bundle per LTP segment", count, 1024)
    acs_window_s: float = option("longest wait of an aggregate for further signals", not_negative, 0.1)
    acs_bytes: int = option("an aggregate with a longer record is sent at once", count, 1000)
    custody_timer_s: float | None = option(
        "time until a bundle is retransmitted; default: auto, computed", seconds_or_auto, None
    )
    timer_margin_s: float = option(
        "margin of a computed timer, in addition to the time of an answer", not_negative, 0.1
    )
    repeat_limit: int = option("most transmissions of a bundle", count, 250)
    bundle_check: BundleCheck = option("a CRC in every bundle", BundleCheck, BundleCheck.NONE, choices=BundleCheck)
    pieces_of: int | None = option(
        "size of a file whose bundles each begin with an 8-digit number", count, None, sides=("receive",)
    )
    idle_limit_s: float | None = option("silence of the peer that ends a run", not_negative, None)

    over_ipv6: bool = False
    """Whether the channel is crossed over IPv6, whose frames are longer."""

    def __post_init__(self) -> None:
        if not 1 <= self.segment_bytes <= LARGEST_SEGMENT_BYTES:
            raise Unsupported(f"segments of {self.segment_bytes} bytes; 1 to {LARGEST_SEGMENT_BYTES} are possible")
        largest = largest_bundle_bytes(self.convergence) - LARGEST_HEADERS_BYTES
        if not 1 <= self.bundle_bytes <= largest:
            raise Unsupported(
                f"bundles of {self.bundle_bytes} bytes; over {self.convergence} 1 to {largest} are possible"
            )
        if not SMALLEST_RECORD_BYTES <= self.acs_bytes <= largest:
            raise Unsupported(
                f"aggregates of {self.acs_bytes} bytes; {SMALLEST_RECORD_BYTES} to {largest} are possible"
            )

    def carrier(self, node: int) -> Carrier:
        """The convergence layer of a node."""
        return carrier(self.convergence, node, self.segment_bytes)

    def division(self, file_bytes: int) -> Division:
        """How a file becomes bundles. Raises Unsupported for one that is too large."""
        if file_bytes > LARGEST_FILE_BYTES:
            raise Unsupported(f"a file of {file_bytes} bytes; fragment offsets reach {LARGEST_FILE_BYTES}")
        return Division(file_bytes, self.bundle_bytes)

    @property
    def signal_rate_bps(self) -> float:
        """Pace of the signals."""
        return self.rate_bps if self.reverse_rate_bps is None else self.reverse_rate_bps

    @cached_property
    def bundle_s(self) -> float:
        """How long a full bundle takes to get onto the forward channel."""
        return self._takes_s(self.bundle_bytes + LARGEST_HEADERS_BYTES, self.rate_bps)

    @cached_property
    def signal_s(self) -> float:
        """How long a signal takes to get onto the reverse channel; a full one where signals are aggregates."""
        record_bytes = self.acs_bytes if self.custody is Custody.AGGREGATE else LARGEST_SIGNAL_BYTES
        return self._takes_s(record_bytes + LARGEST_HEADERS_BYTES, self.signal_rate_bps)

    def _takes_s(self, bundle_bytes: int, rate_bps: float) -> float:
        taken_bytes = channel_bytes(bundle_bytes, self.convergence, self.segment_bytes, self.over_ipv6)
        return 8 * taken_bytes / rate_bps if rate_bps else 0.0

    def longest_timer_s(self, bundles: int) -> float:
        """The longest time until custody of a bundle is accepted if so many are in flight."""
        answer_s = self.rtt_s + self.timer_margin_s
        if self.custody is Custody.AGGREGATE:
            answer_s += self.acs_window_s + AGGREGATES_AHEAD * self.signal_s
        else:
            answer_s += bundles * self.signal_s
        return max(answer_s, self.custody_timer_s or 0.0)

    def linger_s(self, bundles: int) -> float:
        """How long a receiver with the complete file stays after the last bundle that it receives."""
        return self.longest_timer_s(bundles) + LINGER_TIMERS * (self.longest_timer_s(1) + self.bundle_s)

    def silence_limit_s(self, bundles: int) -> float:
        """How long the peer may be silent while it owes something."""
        if self.idle_limit_s is not None:
            return self.idle_limit_s
        return 30 + self.longest_timer_s(bundles) + SILENCE_TIMERS * (self.longest_timer_s(1) + self.bundle_s)
