"""Which probes a link needs so that its quantities show, one measurement after the other.

What is not to queue is sent a little more slowly than the rate, in bursts that the queue has room for. How many probes
show a share is computed from the share asked for (`power`), and cut to what the channel can send in the time there is.
What cannot be cut and takes longer, or what something else that the channel does hides, is not measured, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil, log, sqrt

import numpy as np

from emulator.certification import measures
from emulator.certification.expectations import Expectations
from emulator.certification.judging import NOTHING_AIMED, RATE_ERROR, Judge, Judges
from emulator.certification.measures import Count, Numbers
from emulator.certification.power import (
    FRACTION,
    detectable_quantile,
    runs_for_length,
    trials_for_share,
    wrong_share,
)
from emulator.certification.probing import AT_ONCE, SHORTEST_FRAME_BYTES, Prober, Probes, Seen
from emulator.certification.taps import MeasurementFailed
from emulator.kernel.admission import ETHERNET_HEADER_BYTES
from emulator.link import LinkSpec

LENGTHS_BYTES = (SHORTEST_FRAME_BYTES, 512, 1514, 9014)
USUAL_LENGTH_BYTES = 1514
EXTRA_PACKETS = 10
"""Sent beyond what a queue holds and a pattern lists."""
FEWEST_PACKETS, MOST_PACKETS = 1_000, 400_000
"""For the shares of one length of frame: where nothing asks for more, and where more would take too long to compute."""
MOST_JITTERED_PACKETS = 20_000

_STEADY_PACKETS, _JITTERED_PACKETS, _OUTAGE_PACKETS, _BOUNDARY_PACKETS = 20, 1_000, 100, 20
_LEAST_SHARE_PACKETS = 20
"""Fewer say nothing of a share."""
_OF_THE_BUDGET = 4
"""A length that shows nothing which another does not show has a quarter of the time."""
_BURST_MARGIN = 4
"""Standard deviations of the number of bursts: as many more are expected as are needed."""
_IN_FLIGHT_BYTES = 1 << 26
"""Of the kernel's memory: on a long link probes are sent in waves, one after the other has arrived."""
_FEWER_FOLLOWERS = 0.001
"""The share of the late packets that may have nothing but late ones behind them."""
_MOST_PATTERN_PACKETS = 50_000
_PACE = 1.05
"""How much slower than the rate is sent what shall not queue, and faster what shall."""
_BYTE_NS = 6
"""What a byte of a probe costs the machine: to be copied, compared and checked."""
_SHORTEST_GAP_NS = 10_000
"""Between probes that shall not queue, on average: a machine must keep up with sending and taking them."""
_MARGIN_NS = 50_000_000
"""Waited for the last probe beyond what it takes, and a tenth of it."""
_TRAIN_PACKETS = 50
_LEAST_FASTER = 0.01
"""How much faster than the rate a train is sent at least, where the queue is so short that it would overflow."""
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
    """What there is to measure with: the longest frame of the ports, the time for one measurement, probes for a share.

    `alpha` is about that of one check. It decides how many probes are enough where `packets` is None.
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
        yield self._judged.none("packets delivered while down", len(seen.copy_number), _OUTAGE_PACKETS)

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
        seen = self._paced(length, last + 1 + EXTRA_PACKETS)
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
        count = self._jittered_packets(length) if jittered else _STEADY_PACKETS
        seen = self._apart(length, count, self._expected.spread_ns if jittered else 0)
        delays_ns, asked_ns = measures.one_way_delays_ns(seen), self._expected.delay_ns(length)
        steady = (0,) if self._link.reordering else (0, 0.5, 0.99)
        for quantile in (0, 0.5, 0.9, 0.99) if jittered else steady:
            quantity = f"one-way delay of {length}-byte frames, p{quantile * 100:g}, ns"
            if jittered or quantile == 0.99:  # a few may be late, as the sample allows
                aimed = jittered and quantile == 0.5 and length == SHORTEST_FRAME_BYTES
                yield self._judged.jittered_delay(quantity, asked_ns, delays_ns, quantile, aimed=aimed)
            else:
                yield self._judged.steady_delay(quantity, asked_ns, delays_ns, quantile)

    def _jittered_packets(self, length: int) -> int:
        """As many as show, in the median of the shortest frames, a delay that is wrong by FRACTION."""
        count, expected = _JITTERED_PACKETS, self._expected
        if length > SHORTEST_FRAME_BYTES:
            return count
        most = min(
            MOST_JITTERED_PACKETS, int(self._means.budget_s * 1e9) // (self._gap_ns(length) + expected.spread_ns)
        )
        wanted_ns = FRACTION * (expected.delay_ns(length) + expected.offset_ns(0.5))
        while count < most:
            off = detectable_quantile(count, 0.5, expected.offsets_ns, self._means.alpha, self._judged.tolerance_ns)
            if off.low is not None and off.high is not None and max(-off.low, off.high) <= wanted_ns:
                break
            count = min(count * 5 // 4, most)
        return count

    def _shares(self) -> Iterator[Judge]:
        if not self._pattern_is_over:
            raise NotMeasured("the pattern of errors is not over")
        link, expected = self._link, self._expected
        flipped, duplicated, reordered, most_flipped = Count(0, 0), Count(0, 0), Count(0, 0), 0
        sizes = self._share_sizes()
        for length, size in sizes.items():
            damage, loss = expected.damage_probability(length), expected.loss_probability(length)
            try:
                seen = self._paced(length, size.packets)
            except NotMeasured as reason:
                yield self._judged.not_measured(f"shares of {length}-byte frames", str(reason))
                continue
            aim = wrong_share(damage) if size.shows_damage and not link.bit_error_rate else NOTHING_AIMED
            yield self._judged.share(f"share of {length}-byte frames damaged", damage, measures.damaged(seen), aim)
            quantity, lost = f"share of {length}-byte frames lost", measures.lost(seen)
            aim = expected.wrong_loss(length) if size.shows_loss else NOTHING_AIMED
            if link.loss is not None:
                yield self._judged.share_in_bursts(quantity, length, lost, aim)
            else:
                yield self._judged.share(quantity, loss, lost, aim)
            if size.shows_loss and expected.burst_packets is not None:
                yield self._judged.burst_length(expected.burst_packets, measures.loss_bursts(seen))
            flipped += measures.flipped(seen)
            duplicated += measures.duplicated(seen)
            reordered += measures.reordered(seen)
            most_flipped = max(most_flipped, int(seen.flipped_bits.max(initial=0)))
        if link.error_effect == "flip" and link.bit_error_rate:
            rate = link.bit_error_rate
            yield self._judged.share("share of bits flipped", rate, flipped, wrong_share(rate))
        elif flipped.hits and link.packet_error_rate:
            yield self._judged.at_most("most bits flipped in a packet", 1, most_flipped, duplicated.trials)
        share = expected.duplicate_probability
        yield self._judged.share("share of packets duplicated", share, duplicated, wrong_share(share))
        if link.keeps_order:
            yield self._judged.share("share of packets out of order", 0.0, reordered, wrong_share(0.0))

    def _share_sizes(self) -> dict[int, ShareSize]:
        """How many frames of each length are sent, and what each length is to show; longer ones show bit errors."""
        link, expected = self._link, self._expected
        drawn = link.packet_error_rate or link.bit_error_rate
        lengths = LENGTHS_BYTES if drawn else (SHORTEST_FRAME_BYTES,)
        lengths_bytes = sorted({length for length in lengths if length <= self._longest_bytes} | {self._usual_bytes})
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
        want(shortest, self._trials(expected.duplicate_probability), arriving)
        if link.bit_error_rate and link.error_effect == "flip":
            arriving_bits = 8 * longest * (1 - expected.loss_probability(longest))
            want(longest, self._trials(link.bit_error_rate, MOST_PACKETS * 8 * longest), arriving_bits)
        elif link.packet_error_rate and link.error_effect == "flip":
            want(shortest, self._trials(link.packet_error_rate), arriving)
        if link.bit_error_rate and link.error_effect == "drop" and link.loss is None:
            loss_at = min(lengths_bytes, key=lambda length: self._trials_for_loss(length) * self._cost(length))
        want(loss_at, self._trials_for_loss(loss_at) * expected.burst_loss.packets_each)
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

    def _trials(self, share: float, most: int = MOST_PACKETS) -> int:
        return trials_for_share(share, wrong_share(share), self._means.alpha, most)

    def _trials_for_loss(self, length: int) -> int:
        expected = self._expected
        share = expected.loss_probability(length)
        return trials_for_share(share, expected.wrong_loss(length), self._means.alpha, MOST_PACKETS)

    def _cost(self, length: int) -> float:
        """What sending a frame of a length takes, of the channel's time and of the machine's, in any unit."""
        return self._gap_ns(length) + _BYTE_NS * length

    def _reordering(self) -> Iterator[Judge]:
        reordering = self._link.reordering
        assert reordering is not None
        share = float(reordering.fraction)
        length = SHORTEST_FRAME_BYTES
        gap_ns = max(self._gap_ns(length), reordering.by_ns // _FOLLOWERS)
        followers = reordering.by_ns // gap_ns
        if share**followers > _FEWER_FOLLOWERS:
            raise NotMeasured(
                f"{followers} packets at the rate fit into the {reordering.by_ns} ns by which some come later, too few "
                "for one of them to overtake"
            )
        count = self._means.packets or min(
            self._trials(share), max(int(self._means.budget_s * 1e9) // gap_ns, FEWEST_PACKETS)
        )
        seen = self._sent(np.full(count + _FOLLOWERS, length), np.arange(count + _FOLLOWERS) * gap_ns, gap_ns)
        yield self._judged.share(
            "share of packets out of order", share, measures.reordered(seen, among=count), wrong_share(share)
        )
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
            ceil(2 * self._judged.tolerance_ns / (RATE_ERROR * one_ns)),
            ceil((_BLUR * expected.spread_ns / (RATE_ERROR * one_ns)) ** (2 / 3)),
        )
        faster = min(_PACE - 1, room / (4 * count))
        if faster < _LEAST_FASTER:
            raise NotMeasured(f"it would take a train of {count} packets, and the queue holds {room:g}")
        if expected.spread_ns > AT_ONCE * one_ns:
            raise NotMeasured(f"jitter of {expected.spread_ns} ns blurs it")
        depth = count if count <= min(room, AT_ONCE) else min(room // 2, AT_ONCE)
        due_ns = (np.maximum(np.arange(count) - depth, 0) * (one_ns / (1 + faster))).astype(np.int64)
        seen = self._sent(np.full(count, length), due_ns, one_ns, span_ns=count * one_ns, keeps_gaps=False)
        measured, arrived = measures.rate_bps(seen, self._link.overhead_bytes), len(measures.first_copies(seen))
        yield self._judged.rate(measured, arrived, one_ns)

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
        burst = room + max(EXTRA_PACKETS, room // 50)
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

    def _gap_ns(self, length: int) -> int:
        """How far apart packets are sent that shall not queue, nor arrive too many at a time when jitter lets go."""
        sending_ns = ceil(self._expected.serialization_ns(length) * _PACE)
        return max(sending_ns, ceil(self._expected.spread_ns / AT_ONCE), _SHORTEST_GAP_NS)

    def _paced(self, length: int, count: int) -> Seen:
        gap_ns = self._gap_ns(length)
        burst = int(max(1, min(self._expected.queue_packets(length) / 2, AT_ONCE)))
        wave, pause_ns = self._wave(length)
        number = np.arange(count)
        return self._sent(np.full(count, length), number // burst * burst * gap_ns + number // wave * pause_ns, gap_ns)

    def _wave(self, length: int) -> tuple[int, int]:
        """After how many packets to wait, and for how long, so that no more are in flight than memory is for."""
        wave = _IN_FLIGHT_BYTES // max(_SKB_BYTES, 2 * length)
        delay_ns = self._expected.longest_delay_ns
        return wave, delay_ns if delay_ns > wave * self._gap_ns(length) else 0

    def _most_packets(self, length: int, share: float) -> int:
        """How many packets of a length can be sent in a share of the time for one measurement."""
        (wave, pause_ns), gap_ns, left_ns = self._wave(length), self._gap_ns(length), self._means.budget_s * 1e9 * share
        waves, rest_ns = divmod(left_ns, wave * gap_ns + pause_ns)
        return max(int(waves) * wave + min(int(rest_ns // gap_ns) - 1, wave), _LEAST_SHARE_PACKETS)

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
