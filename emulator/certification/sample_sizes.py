"""The number of probes of each measurement of a certificate, and the gaps between them.

The number of probes for a share is computed from the specified share (`intervals`), and limited to those that the
channel can send in the budget. The gaps limit that number: probes that must not queue are sent slightly below the
link's rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt

from owlt.emulator.certification.expectations import Expectations
from owlt.emulator.certification.intervals import (
    FRACTION,
    detectable_quantile,
    runs_for_length,
    trials_for_share,
    wrong_share,
)
from owlt.emulator.certification.probing import AT_ONCE, SHORTEST_FRAME_BYTES

LENGTHS_BYTES = (SHORTEST_FRAME_BYTES, 512, 1514, 9014)
FEWEST_PACKETS, MOST_PACKETS = 1_000, 400_000
"""The limits for the shares of one frame length: if nothing requires more, and because more would take too long to
compute."""
MOST_JITTERED_PACKETS = 20_000
PACE = 1.05
"""How far below the link's rate probes are sent that must not queue, and how far above it those that must queue."""
SKB_BYTES = 768
"""The memory that the kernel uses for the smallest frame."""

_JITTERED_PACKETS = 1_000
_LEAST_BURSTS = 20
"""The number of lost coded frames that are expected among the shortest probes: fewer than one in 10^8 samples has
none."""
_LEAST_SHARE_PACKETS = 20
"""The least number of probes for a share."""
_OF_THE_BUDGET = 4
"""A frame length that adds no information gets a quarter of the time."""
_BURST_MARGIN = 4
"""The margin of the expected number of bursts over the needed one, in standard deviations."""
_IN_FLIGHT_BYTES = 1 << 26
"""A limit of the kernel's memory: on a long link probes are sent in waves, each after the previous one has arrived."""
_BYTE_NS = 6
"""The time that the machine needs to copy, compare and check a byte of a probe."""
_SHORTEST_GAP_NS = 10_000
"""The mean gap between probes that must not queue: the machine must keep up with sending and capturing them."""


@dataclass(frozen=True)
class Means:
    """The means of a measurement: the longest frame of the ports, the time for one measurement, the probes for a share.
    `alpha` is approximately that of one check, and decides the number of probes if `packets` is None.
    """

    longest_bytes: int
    budget_s: float
    packets: int | None
    alpha: float


@dataclass(frozen=True)
class ShareSize:
    """How many frames of a length are sent, and whether they are enough to show a wrong share of damage, of loss."""

    packets: int
    shows_damage: bool
    shows_loss: bool


class SampleSizes:
    """The numbers of probes for one direction, and their gaps."""

    def __init__(self, expected: Expectations, means: Means, tolerance_ns: int) -> None:
        self._expected, self._link, self._means, self._tolerance_ns = expected, expected.link, means, tolerance_ns

    def for_shares(self, usual_bytes: int, longest_bytes: int) -> dict[int, ShareSize]:
        """Return how many frames of each length are sent, and what each length is to show; longer ones show bit errors.

        Frames have the lengths of LENGTHS_BYTES up to the longest if errors are drawn, and the usual length.
        """
        link, expected = self._link, self._expected
        drawn = link.packet_error_rate or link.bit_error_rate or link.coding
        lengths = LENGTHS_BYTES if drawn else (SHORTEST_FRAME_BYTES,)
        lengths_bytes = sorted({length for length in lengths if length <= longest_bytes} | {usual_bytes})
        shortest, longest = lengths_bytes[0], lengths_bytes[-1]
        if self._means.packets is not None:
            return {
                length: ShareSize(self._means.packets, length == shortest, length == shortest)
                for length in lengths_bytes
            }
        loss_at = shortest
        times = dict.fromkeys(lengths_bytes, 1 / _OF_THE_BUDGET)
        counts = dict.fromkeys(lengths_bytes, FEWEST_PACKETS)

        def want(length: int, trials: float, share_of_trials: float = 1.0) -> None:
            counts[length] = max(counts[length], min(ceil(trials / max(share_of_trials, 1e-9)), MOST_PACKETS))
            times[length] = 1.0

        arriving = 1 - expected.loss_probability(shortest)
        want(shortest, self._trials(0.0))
        if link.loss is not None and link.duplication_rate:
            twice = expected.duplicates_in_bursts(shortest)
            want(shortest, self._trials(twice.mean_rate) * twice.packets_each)
        else:
            want(shortest, self._trials(expected.duplicate_probability), arriving)
        if link.bit_error_rate and link.error_effect == "flip":
            arriving_bits = 8 * longest * (1 - expected.loss_probability(longest))
            want(longest, self._trials(link.bit_error_rate, MOST_PACKETS * 8 * longest), arriving_bits)
        elif link.packet_error_rate and link.error_effect == "flip":
            want(shortest, self._trials(link.packet_error_rate), arriving)
        if (link.coding or (link.bit_error_rate and link.error_effect == "drop")) and link.loss is None:
            loss_at = min(lengths_bytes, key=lambda length: self._trials_for_loss(length) * self._cost(length))
        want(loss_at, self._trials_for_loss(loss_at) * expected.burst_loss.packets_each)
        if link.coding is not None:
            want(shortest, _LEAST_BURSTS * expected.apart(shortest) / link.coding.frame_error_rate)
        if expected.burst_packets is not None:
            bursts = runs_for_length(expected.burst_packets, self._means.alpha, MOST_PACKETS)
            bursts += ceil(_BURST_MARGIN * sqrt(bursts))
            want(shortest, bursts * expected.burst_packets, expected.burst_loss.mean_rate)
        return {
            length: ShareSize(
                min(count, self._most_packets(length, times[length])), length == shortest, length == loss_at
            )
            for length, count in counts.items()
        }

    def for_jitter(self, length: int) -> int:
        """Return the number of probes that show, in the median of the shortest frames, a delay that is wrong by
        FRACTION."""
        count, expected = _JITTERED_PACKETS, self._expected
        if length > SHORTEST_FRAME_BYTES:
            return count
        most = min(MOST_JITTERED_PACKETS, int(self._means.budget_s * 1e9) // (self.gap_ns(length) + expected.spread_ns))
        precision_ns = FRACTION * (expected.delay_ns(length) + expected.offset_ns(0.5))
        while count < most:
            off = detectable_quantile(count, 0.5, expected.offsets_ns, self._means.alpha, self._tolerance_ns)
            if off.low is not None and off.high is not None and max(-off.low, off.high) <= precision_ns:
                break
            count = min(count * 5 // 4, most)
        return count

    def for_share(self, share: float, gap_ns: int) -> int:
        """Return the number of probes that show a wrong share of packets, such as delayed ones, sent `gap_ns` apart."""
        in_time = int(self._means.budget_s * 1e9) // gap_ns
        return self._means.packets or min(self._trials(share), max(in_time, FEWEST_PACKETS))

    def gap_ns(self, length: int) -> int:
        """Return the gap between packets that must not queue, nor arrive in too large groups because of jitter."""
        sending_ns = ceil(self._expected.serialization_ns(length) * PACE)
        return max(sending_ns, ceil(self._expected.spread_ns / AT_ONCE), _SHORTEST_GAP_NS)

    def wave(self, length: int) -> tuple[int, int]:
        """Return after how many packets to wait, and for how long, so that no more are in flight than memory is for."""
        wave = _IN_FLIGHT_BYTES // max(SKB_BYTES, 2 * length)
        delay_ns = self._expected.longest_delay_ns
        return wave, delay_ns if delay_ns > wave * self.gap_ns(length) else 0

    def _trials(self, share: float, most: int = MOST_PACKETS) -> int:
        return trials_for_share(share, wrong_share(share), self._means.alpha, most)

    def _trials_for_loss(self, length: int) -> int:
        expected = self._expected
        share = expected.loss_probability(length)
        trials = trials_for_share(share, expected.wrong_loss(length), self._means.alpha, MOST_PACKETS)
        return trials * expected.apart(length)

    def _cost(self, length: int) -> float:
        """The cost of sending a frame of a length: time of the channel and of the machine, in an arbitrary unit."""
        return self.gap_ns(length) + _BYTE_NS * length

    def _most_packets(self, length: int, share: float) -> int:
        """How many packets of a length can be sent in a share of the time for one measurement."""
        (wave, pause_ns), gap_ns, left_ns = self.wave(length), self.gap_ns(length), self._means.budget_s * 1e9 * share
        waves, rest_ns = divmod(left_ns, wave * gap_ns + pause_ns)
        return max(int(waves) * wave + min(int(rest_ns // gap_ns) - 1, wave), _LEAST_SHARE_PACKETS)
