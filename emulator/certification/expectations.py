"""What a link would be measured to be if it were as asked: delays, probabilities, room in its queue."""

from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from emulator.channel import ChannelSpec, LinkSpec
from emulator.impairments import FourState, GilbertElliott
from emulator.kernel.delay_tables import jitter_table, offsets_ns


@dataclass(frozen=True)
class Expectations:
    """One direction of a channel."""

    link: LinkSpec
    rtt_ns: int

    @classmethod
    def of(cls, channel: ChannelSpec, direction: str) -> "Expectations":
        """Return those of "forward" or "reverse"."""
        return cls(channel.link(direction), channel.rtt_ns)

    @property
    def rate_bps(self) -> float | None:
        """The rate that the kernel has: in whole bytes a second."""
        return None if self.link.rate_bps is None else 8.0 * round(self.link.rate_bps / 8)

    def serialization_ns(self, length_bytes: int) -> int:
        """How long a frame takes to send, rounded down as netem does."""
        if self.rate_bps is None:
            return 0
        return (length_bytes + self.link.overhead_bytes) * 10**9 // round(self.rate_bps / 8)

    def delay_ns(self, length_bytes: int) -> int:
        """How long a frame takes that finds the link idle, but for jitter."""
        return self.link.delay_ns + self.serialization_ns(length_bytes)

    @cached_property
    def offsets_ns(self) -> list[int]:
        """What jitter adds to the delay, each value as likely as the next, in rising order; [0] without jitter."""
        if self.link.jitter is None:
            return [0]
        table = sorted(offsets_ns(self.link.jitter.amount_ns, jitter_table(self.link.jitter)))
        return [max(offset, -self.link.delay_ns) for offset in table]

    def offset_ns(self, quantile: float) -> int:
        """A quantile of what jitter adds."""
        return self.offsets_ns[min(int(quantile * len(self.offsets_ns)), len(self.offsets_ns) - 1)]

    @property
    def spread_ns(self) -> int:
        """By how much the delays of two packets of a length may differ."""
        late = self.link.reordering.by_ns if self.link.reordering else 0
        return self.offsets_ns[-1] - self.offsets_ns[0] + late

    @property
    def longest_delay_ns(self) -> int:
        """The delay of the last of all packets that are not sent, but under way."""
        return self.link.delay_ns + max(self.offsets_ns[-1], 0) + self.spread_ns

    def queue_bytes(self, length_bytes: int) -> float:
        """What the queue holds of frames of that length, overhead included; infinite if nothing queues."""
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
        """The same in whole frames, at least one."""
        held_bytes = self.queue_bytes(length_bytes)
        return max(held_bytes // (length_bytes + self.link.overhead_bytes), 1) if held_bytes != inf else inf

    def hit_probability(self, length_bytes: int) -> float:
        """The probability that the errors hit a frame."""
        if self.link.bit_error_rate:
            return float(1 - (1 - self.link.bit_error_rate) ** (8 * length_bytes))
        return self.link.packet_error_rate

    def damage_probability(self, length_bytes: int) -> float:
        """The probability that a frame that arrives does so with flipped bits."""
        return self.hit_probability(length_bytes) if self.link.error_effect == "flip" else 0.0

    def loss_probability(self, length_bytes: int) -> float:
        """The probability that a frame does not arrive."""
        dropped = self.hit_probability(length_bytes) if self._drops_bits else 0.0
        return dropped + (1 - dropped) * self._netem_loss * (1 - self.link.duplication_rate)

    @property
    def duplicate_probability(self) -> float:
        """The probability that a frame that arrives does so twice."""
        lost, duplicated = self._netem_loss, self.link.duplication_rate
        arrives = 1 - lost * (1 - duplicated)
        return duplicated * (1 - lost) / arrives if arrives else 0.0

    @property
    def _drops_bits(self) -> bool:
        return self.link.error_effect == "drop" and not self.link.packet_error_rate

    @property
    def _netem_loss(self) -> float:
        """What netem loses of its own. It draws duplicates apart: a frame of which it keeps a second copy arrives."""
        drops = self.link.packet_error_rate if self.link.error_effect == "drop" else 0.0
        return drops or self.burst_loss.mean_rate

    @cached_property
    def burst_loss(self) -> "BurstLoss":
        """The losses in bursts."""
        return BurstLoss.of(self.link.loss)


@dataclass(frozen=True)
class BurstLoss:
    """Losses of which one makes the next more likely.

    `packets_each` is how many packets say as much of the mean rate as one would if each were drawn alone: the sum
    of the autocorrelations of "lost". `burst_packets` is None where the bursts' lengths are not geometric.
    """

    mean_rate: float = 0.0
    packets_each: float = 1.0
    burst_packets: float | None = None

    @classmethod
    def of(cls, loss: GilbertElliott | FourState | None) -> "BurstLoss":
        """Return what a loss model comes to."""
        if loss is None:
            return cls()
        if isinstance(loss, GilbertElliott):
            memory = 1 - loss.to_bad - loss.to_good
            return cls(loss.mean_rate, (1 + memory) / (1 - memory), loss.burst_packets)
        return cls(*_four_state(loss))


def _four_state(loss: FourState) -> tuple[float, float]:
    """The mean rate and the sum of autocorrelations, by the chain's fundamental matrix (Kemeny and Snell, 1960).

    The states are 1 (kept), 2 (kept, in a burst), 3 (lost, in a burst), 4 (lost alone, and then kept).
    """
    moves = np.array(
        [
            [1 - loss.p13 - loss.p14, 0, loss.p13, loss.p14],
            [0, 1 - loss.p23, loss.p23, 0],
            [loss.p31, loss.p32, 1 - loss.p31 - loss.p32, 0],
            [1, 0, 0, 0],
        ]
    )
    balance = np.vstack([moves.T - np.eye(4), np.ones(4)])
    stationary = np.linalg.lstsq(balance, np.array([0, 0, 0, 0, 1]))[0]
    lost = np.array([0, 0, 1, 1])
    mean_rate = float(stationary @ lost)
    deviation = lost - mean_rate
    fundamental = np.linalg.inv(np.eye(4) - moves + stationary)
    variance = float(stationary @ deviation**2)
    return mean_rate, float(2 * stationary * deviation @ fundamental @ deviation) / variance - 1
