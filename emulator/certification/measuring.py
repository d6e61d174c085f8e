"""Which probes a link needs so that its quantities show, one measurement after the other.

What is not to queue is sent a little more slowly than the rate, in bursts that the queue has room for. What the channel
would need too long for, or what something else that it does hides, is not measured, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil, log

import numpy as np

from emulator.certification import measures
from emulator.certification.expectations import Expectations
from emulator.certification.judging import RATE_TOLERANCE, Judge, Judges
from emulator.certification.measures import Count, Numbers
from emulator.certification.probing import AT_ONCE, SHORTEST_FRAME_BYTES, Prober, Probes, Seen
from emulator.certification.taps import MeasurementFailed
from emulator.kernel.admission import ETHERNET_HEADER_BYTES
from emulator.link import LinkSpec

LENGTHS_BYTES = (SHORTEST_FRAME_BYTES, 512, 1514, 9014)
USUAL_LENGTH_BYTES = 1514
EVENTS = 10
"""How many errors, losses and the like are waited for."""
FEWEST_PACKETS, MOST_PACKETS = 1_000, 20_000
"""For a share, where it is not said how many."""

_STEADY_PACKETS, _JITTERED_PACKETS, _OUTAGE_PACKETS, _BOUNDARY_PACKETS = 20, 1_000, 100, 20
_MOST_PATTERN_PACKETS = 50_000
_PACE = 1.05
"""How much slower than the rate is sent what shall not queue, and faster what shall."""
_SHORTEST_GAP_NS = 10_000
"""Between probes that shall not queue, on average: a machine must keep up with sending and taking them."""
_MARGIN_NS = 50_000_000
"""Waited for the last probe beyond what it takes, and a tenth of it."""
_TRAIN_PACKETS = 50
_BLUR = 8
"""A line through n arrivals, each off by a quarter of the spread, is off by sqrt(12) / n^1.5 of that; 4.5 times that is
to be half of the tolerance."""
_FOLLOWERS = 20
"""Probes that overtake one that comes later."""
_LARGE_QUEUE_PACKETS, _SMALL_QUEUE_PACKETS = 2_000, 10
_QUEUE_MEMORY_BYTES = 1 << 27
_SKB_BYTES = 768
"""What the kernel takes for the smallest frame."""
_UNSEEN = 1e-6
"""How unlikely it is made that losses hide how deep a queue is."""


class NotMeasured(Exception):
    """A quantity cannot be measured, or not within the budget. The text says why, and what it would take."""


@dataclass(frozen=True)
class Means:
    """What there is to measure with: the longest frame of the ports, the time and the probes for one quantity."""

    longest_bytes: int
    budget_s: float
    packets: int | None


Measurement = Callable[[], Iterator[Judge]]


class Campaign:
    """All measurements of one direction."""

    def __init__(self, prober: Prober, judged: Judges, means: Means) -> None:
        self._prober, self._judged, self._means = prober, judged, means
        self._expected: Expectations = judged.expected
        self._link: LinkSpec = judged.expected.link
        self._pattern_is_over = self._link.pattern is None
        mtu = self._link.mtu_bytes
        self._longest_bytes = min(
            means.longest_bytes, mtu + ETHERNET_HEADER_BYTES if mtu is not None else means.longest_bytes
        )
        self._usual_bytes = min(USUAL_LENGTH_BYTES, self._longest_bytes)

    def judges(self) -> list[Judge]:
        """Measure; what fails to be measured becomes a judge that says so."""
        judges: list[Judge] = []
        for quantity, measurement in self._measurements():
            try:
                judges += measurement()
            except (NotMeasured, MeasurementFailed) as reason:
                judges.append(self._judged.not_measured(quantity, str(reason)))
        return judges

    def _measurements(self) -> Iterator[tuple[str, Measurement]]:
        """Yield them with what they measure. A pattern begins with the first packet; a queue is overrun last."""
        link = self._link
        if not link.up:
            yield "packets delivered while down", self._outage
            return
        if link.pattern is not None:
            yield "what is hit as listed", self._pattern
        for length in sorted({SHORTEST_FRAME_BYTES, self._usual_bytes}):
            yield f"one-way delay of {length}-byte frames, ns", partial(self._delays, length)
        yield "shares of packets", self._shares
        if link.reordering is not None:
            yield "share of packets out of order", self._reordering
        if link.mtu_bytes is not None:
            yield "longest frame that passes, bytes", self._mtu
        if link.rate_bps is not None:
            yield "rate, bit/s", self._rate
            yield "depth of the queue", self._queue

    def _outage(self) -> Iterator[Judge]:
        seen = self._paced(SHORTEST_FRAME_BYTES, _OUTAGE_PACKETS)
        yield self._judged.exactly("packets delivered while down", 0, len(seen.copy_number), _OUTAGE_PACKETS)

    def _pattern(self) -> Iterator[Judge]:
        link, pattern = self._link, self._link.pattern
        assert pattern is not None
        by_bit = bool(pattern.bits)
        length = self._usual_bytes if by_bit else SHORTEST_FRAME_BYTES
        last = pattern.bits[-1] // (8 * length) if by_bit else pattern.packets[-1]
        if last >= _MOST_PATTERN_PACKETS:
            raise NotMeasured(f"its last is in probe {last}, and {_MOST_PATTERN_PACKETS} are sent at most")
        if link.error_effect == "drop" and link.loss is not None:
            raise NotMeasured("what it drops cannot be told from what is lost otherwise")
        seen = self._paced(length, last + 1 + EVENTS)
        self._pattern_is_over = True
        if link.error_effect == "drop":
            packets = {bit // (8 * length) for bit in pattern.bits} | {*pattern.packets}
            lost = measures.lost_packets(seen).tolist()
            yield self._judged.listed("packets dropped as listed", sorted(packets), lost, len(seen.sent_ns))
        elif by_bit:
            arrived = {*seen.copy_number.tolist()}
            wanted = [bit for bit in pattern.bits if bit // (8 * length) in arrived]
            bits = int(seen.lengths_bytes.sum()) * 8
            yield self._judged.listed("bits flipped as listed", wanted, measures.hit_bits(seen).tolist(), bits)
        else:
            arrived = {*seen.copy_number.tolist()}
            wanted = [packet for packet in pattern.packets if packet in arrived]
            hit = measures.hit_packets(seen).tolist()
            yield self._judged.listed("packets damaged as listed", wanted, hit, len(seen.sent_ns))

    def _delays(self, length: int) -> Iterator[Judge]:
        jittered = self._link.jitter is not None
        count = _JITTERED_PACKETS if jittered else _STEADY_PACKETS
        seen = self._apart(length, count, self._expected.spread_ns if jittered else 0)
        delays_ns, asked_ns = measures.one_way_delays_ns(seen), self._expected.delay_ns(length)
        steady = (0,) if self._link.reordering else (0, 0.5, 0.99)
        for quantile in (0, 0.5, 0.9, 0.99) if jittered else steady:
            quantity = f"one-way delay of {length}-byte frames, p{quantile * 100:g}, ns"
            drawn = jittered or quantile == 0.99  # a few may be late, as the sample allows
            judge = self._judged.jittered_delay if drawn else self._judged.steady_delay
            yield judge(quantity, asked_ns, delays_ns, quantile)

    def _shares(self) -> Iterator[Judge]:
        if not self._pattern_is_over:
            raise NotMeasured("the pattern of errors is not over")
        link, expected = self._link, self._expected
        drawn = link.packet_error_rate or link.bit_error_rate
        lengths = LENGTHS_BYTES if drawn else (SHORTEST_FRAME_BYTES,)
        lengths_bytes = sorted({length for length in lengths if length <= self._longest_bytes} | {self._usual_bytes})
        flipped, duplicated, reordered, most_flipped = Count(0, 0), Count(0, 0), Count(0, 0), 0
        for length in lengths_bytes:
            damage, loss = expected.damage_probability(length), expected.loss_probability(length)
            bursts = expected.burst_loss
            try:
                seen = self._paced(length, self._enough(damage, loss / bursts.packets_each, link.duplication_rate))
            except NotMeasured as reason:
                yield self._judged.not_measured(f"shares of {length}-byte frames", str(reason))
                continue
            yield self._judged.share(f"share of {length}-byte frames damaged", damage, measures.damaged(seen))
            yield self._judged.share(
                f"share of {length}-byte frames lost", loss, measures.lost(seen), bursts.packets_each
            )
            if length == lengths_bytes[0] and bursts.burst_packets is not None and loss == bursts.mean_rate:
                yield self._judged.burst_length(bursts.burst_packets, measures.loss_bursts(seen))
            flipped += measures.flipped(seen)
            duplicated += measures.duplicated(seen)
            reordered += measures.reordered(seen)
            most_flipped = max(most_flipped, int(seen.flipped_bits.max(initial=0)))
        if link.error_effect == "flip" and link.bit_error_rate:
            yield self._judged.share("share of bits flipped", link.bit_error_rate, flipped)
        elif flipped.hits and link.packet_error_rate:
            yield self._judged.exactly("most bits flipped in a packet", 1, most_flipped, duplicated.trials)
        yield self._judged.share("share of packets duplicated", expected.duplicate_probability, duplicated)
        if link.keeps_order:
            yield self._judged.share("share of packets out of order", 0.0, reordered)

    def _reordering(self) -> Iterator[Judge]:
        reordering = self._link.reordering
        assert reordering is not None
        share = float(reordering.fraction)
        length = SHORTEST_FRAME_BYTES
        gap_ns = max(self._gap_ns(length), reordering.by_ns // _FOLLOWERS)
        followers = reordering.by_ns // gap_ns
        if share**followers > RATE_TOLERANCE:
            raise NotMeasured(
                f"{followers} packets at the rate fit into the {reordering.by_ns} ns by which some come later, too few "
                "for one of them to overtake"
            )
        count = self._enough(share)
        seen = self._sent(np.full(count + _FOLLOWERS, length), np.arange(count + _FOLLOWERS) * gap_ns, gap_ns)
        yield self._judged.share("share of packets out of order", share, measures.reordered(seen, among=count))
        delays_ns, asked_ns = measures.one_way_delays_ns(seen), self._expected.delay_ns(length)
        late_ns = delays_ns[delays_ns > asked_ns + reordering.by_ns // 2]
        quantity = "one-way delay of packets that come later, p0, ns"
        yield self._judged.steady_delay(quantity, asked_ns + reordering.by_ns, late_ns, 0)

    def _mtu(self) -> Iterator[Judge]:
        asked = ETHERNET_HEADER_BYTES + (self._link.mtu_bytes or 0)
        if asked >= self._means.longest_bytes:  # the ports keep to it themselves
            return
        lengths_bytes = np.tile([asked, asked + 1], _BOUNDARY_PACKETS)
        gap_ns = self._gap_ns(asked + 1)
        seen = self._sent(lengths_bytes, np.arange(len(lengths_bytes)) * gap_ns, gap_ns)
        if not len(seen.copy_number):
            raise NotMeasured("no probe arrived")
        longest = int(seen.copy_length_bytes.max())
        yield self._judged.exactly("longest frame that passes, bytes", asked, longest, len(lengths_bytes))

    def _rate(self) -> Iterator[Judge]:
        """A train that the queue is never without, offered faster than the rate where it is longer than the queue."""
        expected = self._expected
        length = self._usual_bytes
        if _TRAIN_PACKETS * expected.serialization_ns(length) > self._means.budget_s * 1e9:
            length = SHORTEST_FRAME_BYTES
        one_ns, room = max(expected.serialization_ns(length), 1), expected.queue_packets(length)
        if room < 2:
            raise NotMeasured("the queue holds a single packet: the rate shows in the delays of short and long frames")
        count = max(
            _TRAIN_PACKETS,
            ceil(2 * self._judged.tolerance_ns / (RATE_TOLERANCE * one_ns)),
            ceil((_BLUR * expected.spread_ns / (RATE_TOLERANCE * one_ns)) ** (2 / 3)),
        )
        if count > 10 * room:
            raise NotMeasured(f"it would take a train of {count} packets, and the queue holds {room:g}")
        if expected.spread_ns > AT_ONCE * one_ns:
            raise NotMeasured(f"jitter of {expected.spread_ns} ns blurs it")
        depth = count if count <= min(room, AT_ONCE) else min(room // 2, AT_ONCE)
        due_ns = (np.maximum(np.arange(count) - depth, 0) * (one_ns / _PACE)).astype(np.int64)
        seen = self._sent(np.full(count, length), due_ns, one_ns, span_ns=count * one_ns, keeps_gaps=False)
        yield self._judged.rate(measures.rate_bps(seen, self._link.overhead_bytes), len(measures.first_copies(seen)))

    def _queue(self) -> Iterator[Judge]:
        """Bursts that do not fit; more of them where the first or the deepest packet of one may be lost."""
        expected, link = self._expected, self._link
        length = self._queue_length()
        one_ns, room = expected.serialization_ns(length), int(expected.queue_packets(length))
        hidden = 2 * expected.loss_probability(length)
        if hidden >= 1:
            raise NotMeasured("too many packets are lost to see how long others waited")
        if one_ns <= 2 * self._judged.tolerance_ns or (hidden and one_ns <= 2 * expected.spread_ns):
            raise NotMeasured(f"jitter or clock blur the {one_ns} ns that one packet takes to send")
        if room * _SKB_BYTES > _QUEUE_MEMORY_BYTES:
            raise NotMeasured(f"{room} packets would fill it: more than the emulator's memory is to hold")
        bursts = ceil(log(_UNSEEN) / log(hidden)) if hidden else 1
        burst = room + max(EVENTS, room // 50)
        span_ns = bursts * burst * one_ns
        due_ns = np.repeat(np.arange(bursts) * ceil(burst * one_ns * _PACE), burst)
        seen = self._sent(np.full(bursts * burst, length), due_ns, one_ns, span_ns=span_ns)
        packets = (measures.queue_by_wait if hidden else measures.queue_by_count)(seen, bursts, one_ns)
        if packets is None:
            raise NotMeasured("too few probes arrived, or they were sent too slowly to find it full at once")
        frame_bytes = length + link.overhead_bytes
        if link.queue_bytes is not None:
            depth_bytes = packets * frame_bytes
            yield self._judged.roughly("depth of the queue, bytes", link.queue_bytes, depth_bytes, frame_bytes, bursts)
        elif link.queue_ns is not None or link.queue_bdp is not None:
            asked_ns = expected.queue_bytes(length) * 8e9 / (expected.rate_bps or 1)
            yield self._judged.roughly("depth of the queue, ns", asked_ns, packets * one_ns, one_ns, bursts)
        else:
            yield self._judged.exactly("depth of the queue, packets", room, round(packets), bursts)

    def _queue_length(self) -> int:
        """Frames of which the queue holds neither too many nor, if it is not counted in packets, too few."""
        room = self._expected.queue_packets(self._usual_bytes)
        counted = self._link.queue_bytes is None and self._link.queue_ns is None and self._link.queue_bdp is None
        fits = room <= _LARGE_QUEUE_PACKETS and (counted or room >= _SMALL_QUEUE_PACKETS)
        return self._usual_bytes if fits else SHORTEST_FRAME_BYTES

    def _enough(self, *probabilities: float) -> int:
        """Return how many probes show about ten of the rarest events that there are at all."""
        if self._means.packets is not None:
            return self._means.packets
        rarest = min((probability for probability in probabilities if probability), default=1.0)
        return min(max(ceil(EVENTS / rarest), FEWEST_PACKETS), MOST_PACKETS)

    def _gap_ns(self, length: int) -> int:
        """How far apart packets are sent that shall not queue, nor arrive too many at a time when jitter lets go."""
        sending_ns = ceil(self._expected.serialization_ns(length) * _PACE)
        return max(sending_ns, ceil(self._expected.spread_ns / AT_ONCE), _SHORTEST_GAP_NS)

    def _paced(self, length: int, count: int) -> Seen:
        gap_ns = self._gap_ns(length)
        burst = int(max(1, min(self._expected.queue_packets(length) / 2, AT_ONCE)))
        return self._sent(np.full(count, length), np.arange(count) // burst * burst * gap_ns, gap_ns)

    def _apart(self, length: int, count: int, idle_ns: int) -> Seen:
        gap_ns = self._gap_ns(length) + idle_ns
        return self._sent(np.full(count, length), np.arange(count) * gap_ns, gap_ns)

    def _sent(
        self, lengths_bytes: Numbers, due_ns: Numbers, gap_ns: int, span_ns: int | None = None, keeps_gaps: bool = True
    ) -> Seen:
        """Send probes that arrive `gap_ns` apart on average, if sending them takes no longer than there is time for."""
        takes_ns = int(due_ns[-1]) + gap_ns if span_ns is None else span_ns
        if takes_ns > self._means.budget_s * 1e9:
            raise NotMeasured(
                f"its {len(lengths_bytes)} probes take the channel {takes_ns / 1e9:,.1f} s to send, and budget_s is "
                f"{self._means.budget_s:g}: give it more, or fewer packets"
            )
        queued = min(self._expected.queue_packets(int(lengths_bytes[-1])), len(lengths_bytes))
        queued_ns = ceil(queued * self._expected.serialization_ns(int(lengths_bytes.max())))
        settle_ns = (self._expected.longest_delay_ns + queued_ns) * 11 // 10 + _MARGIN_NS
        return self._prober.send(Probes(lengths_bytes, due_ns, settle_ns, AT_ONCE * gap_ns, keeps_gaps))
