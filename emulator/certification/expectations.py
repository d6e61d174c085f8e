"""The values that a link as specified would be measured to have: delays, probabilities, room in its queue."""

from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf

from owlt.emulator.certification.bursts import BurstLoss
from owlt.emulator.certification.intervals import FACTOR, Detectable, wrong_share
from owlt.emulator.certification.probing import SHORTEST_FRAME_BYTES
from owlt.emulator.channel.link import Coding
from owlt.emulator.channel.loss_models import GilbertElliott
from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from owlt.emulator.kernel.netem import jitter_table, offsets_ns


@dataclass(frozen=True)
class Expectations:
    """One direction of a channel."""

    link: LinkSpec
    rtt_ns: int

    @classmethod
    def of(cls, channel: ChannelSpec, direction: str) -> "Expectations":
        """Return the expectations for "forward" or "reverse"."""
        return cls(channel.link(direction), channel.rtt_ns)

    @property
    def rate_bps(self) -> float | None:
        """The rate as the kernel has it, in whole bytes a second."""
        return None if self.link.rate_bps is None else 8.0 * round(self.link.rate_bps / 8)

    def serialization_ns(self, length_bytes: int) -> int:
        """How long a frame takes to send, rounded down as netem does."""
        if self.rate_bps is None:
            return 0
        return (length_bytes + self.link.overhead_bytes) * 10**9 // round(self.rate_bps / 8)

    def delay_ns(self, length_bytes: int) -> int:
        """The delay of a frame on an idle link, without jitter."""
        return self.link.delay_ns + self.serialization_ns(length_bytes)

    @cached_property
    def offsets_ns(self) -> list[int]:
        """The equally likely values that jitter adds to the delay, ascending; [0] without jitter."""
        if self.link.jitter is None:
            return [0]
        table = sorted(offsets_ns(self.link.jitter.amount_ns, jitter_table(self.link.jitter)))
        return [max(offset, -self.link.delay_ns) for offset in table]

    def offset_ns(self, quantile: float) -> int:
        """A quantile of the jitter."""
        return self.offsets_ns[min(int(quantile * len(self.offsets_ns)), len(self.offsets_ns) - 1)]

    @property
    def spread_ns(self) -> int:
        """The largest difference between the delays of two packets of equal length."""
        late = self.link.reordering.by_ns if self.link.reordering else 0
        return self.offsets_ns[-1] - self.offsets_ns[0] + late

    @property
    def longest_delay_ns(self) -> int:
        """The largest delay of a packet, without its transmission."""
        return self.link.delay_ns + max(self.offsets_ns[-1], 0) + self.spread_ns

    def queue_bytes(self, length_bytes: int) -> float:
        """The capacity of the queue for frames of that length, overhead included; infinite without a queue."""
        rate_bps, link = self.rate_bps, self.link
        if rate_bps is None:
            return inf
        if link.queue_bytes is not None:
            return link.queue_bytes
        if link.queue_ns is not None:
            return link.queue_ns * rate_bps / 8e9
        if link.queue_bdp is not None:
            return link.queue_bdp * self.rtt_ns * rate_bps / 8e9
        return link.queue_packets * (length_bytes + link.overhead_bytes)

    def queue_packets(self, length_bytes: int) -> float:
        """The capacity of the queue in complete frames, at least one."""
        held_bytes = self.queue_bytes(length_bytes)
        return max(held_bytes // (length_bytes + self.link.overhead_bytes), 1) if held_bytes != inf else inf

    def apart(self, length_bytes: int) -> int:
        """The distance between consecutive packets that share no coded frame and are hit independently; 1 without coded
        frames."""
        return ceil(self.link.coding.frame_bytes / length_bytes) + 1 if self.link.coding else 1

    @property
    def shortest_burst_packets(self) -> int | None:
        """The least number of consecutive shortest packets that a coded frame hits."""
        return ceil(self.link.coding.frame_bytes / SHORTEST_FRAME_BYTES) if self.link.coding else None

    def hit_probability(self, length_bytes: int) -> float:
        """The probability that the errors hit a frame."""
        if self.link.coding is not None:
            return _hit_with_frames(self.link.coding, 1.0, length_bytes)
        rate = self.link.bit_error_rate
        return _frame_hit(rate, length_bytes) if rate else self.link.packet_error_rate

    def wrong_loss(self, length_bytes: int) -> Detectable:
        """The losses of a link whose bit error rate, loss rate or rate of dropped packets is wrong by FACTOR."""
        if not self.drops_bits or self.burst_loss.mean_rate:
            return wrong_share(self.loss_probability(length_bytes))
        if self.link.coding is not None:
            coding = self.link.coding
            return Detectable(*(_hit_with_frames(coding, times, length_bytes) for times in (1 / FACTOR, FACTOR)))
        fewer, more = (_frame_hit(self.link.bit_error_rate * times, length_bytes) for times in (1 / FACTOR, FACTOR))
        return Detectable(fewer, more)

    def damage_probability(self, length_bytes: int) -> float:
        """The probability that a frame that arrives does so with flipped bits."""
        flips = self.link.error_effect == "flip" and self.link.coding is None
        return self.hit_probability(length_bytes) if flips else 0.0

    def loss_probability(self, length_bytes: int) -> float:
        """The probability that a frame does not arrive."""
        dropped = self.dropped_probability(length_bytes)
        alone = self._dropped_by_netem * (1 - self.link.duplication_rate)
        return dropped + (1 - dropped) * (alone or self.burst_loss.mean_rate)

    def dropped_probability(self, length_bytes: int) -> float:
        """The probability that bit errors drop a frame."""
        return self.hit_probability(length_bytes) if self.drops_bits else 0.0

    @property
    def duplicate_probability(self) -> float:
        """The probability that a frame that arrives does so twice, for single losses: its copy may be lost too."""
        lost, duplicated = self._dropped_by_netem, self.link.duplication_rate
        arrives = 1 - lost * (1 - duplicated)
        return duplicated * (1 - lost) ** 2 / arrives if arrives else 0.0

    def duplicates_in_bursts(self, length_bytes: int, times: float = 1.0) -> BurstLoss:
        """The chain that counts the sent frames that arrive twice; `times` scales the share of duplicated frames."""
        share = self.link.duplication_rate * times
        return BurstLoss.of(self.link.loss).arriving_twice(share, self.dropped_probability(length_bytes))

    @property
    def drops_bits(self) -> bool:
        """Whether bit errors, listed ones, or lost coded frames drop the packets that they hit."""
        return self.link.coding is not None or (self.link.error_effect == "drop" and not self.link.packet_error_rate)

    @property
    def _dropped_by_netem(self) -> float:
        return self.link.packet_error_rate if self.link.error_effect == "drop" else 0.0

    @cached_property
    def burst_loss(self) -> BurstLoss:
        """The losses in bursts, of frames that netem may duplicate."""
        return BurstLoss.of(self.link.loss).duplicated(self.link.duplication_rate)

    @property
    def burst_packets(self) -> float | None:
        """The mean length of a burst of losses, where lengths are geometric and nothing interrupts a burst."""
        link = self.link
        alone = isinstance(link.loss, GilbertElliott) and not link.duplication_rate and not self.drops_bits
        return link.loss.burst_packets if alone and isinstance(link.loss, GilbertElliott) else None


def _hit_with_frames(coding: Coding, times: float, length_bytes: int) -> float:
    """The probability that one of the coded frames of a packet is lost, if their error rate is so many times as high.

    A packet begins at each byte of a frame equally often, and has bytes of `fewest` frames or of one more.
    """
    rate = min(coding.frame_error_rate * times, 1.0)
    fewest, others = divmod(length_bytes - 1, coding.frame_bytes)
    share_of_more = others / coding.frame_bytes
    intact = (1 - rate) ** (fewest + 1)
    return float(1 - (1 - share_of_more) * intact - share_of_more * intact * (1 - rate))


def _frame_hit(bit_error_rate: float, length_bytes: int) -> float:
    return float(1 - (1 - bit_error_rate) ** (8 * length_bytes))
