"""The emulator measures its own channel in place: it sends probes through its ports, both ways, and judges the result.

`certify` is the entry; a `Campaign` makes the measurements that the link of one direction needs, one after the other.
How many probes each sends, and how far apart, is decided in `sample_sizes`; packets that must not queue are sent in
bursts that fit into the queue. Quantities that do not fit into the budget, or that another effect hides, are not
measured, and their check states this. Nobody else may send meanwhile. Loading this module takes longer than starting
the service (numpy): load it when a certificate is asked for.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from math import ceil, log

import numpy as np

from owlt.emulator.certification import probe_statistics
from owlt.emulator.certification.certificate import REAL_TOLERANCE_NS, Certificate
from owlt.emulator.certification.expectations import Expectations
from owlt.emulator.certification.injection import LONGEST_FRAME_BYTES
from owlt.emulator.certification.intervals import wrong_share
from owlt.emulator.certification.judging import NOTHING_AIMED, RATE_ERROR, Judge, Judges, NotMeasured
from owlt.emulator.certification.probe_statistics import Count, Numbers
from owlt.emulator.certification.probing import (
    AT_ONCE,
    HEADER,
    SHORTEST_FRAME_BYTES,
    MeasurementFailed,
    Prober,
    ProbeResult,
    Probes,
    prober,
)
from owlt.emulator.certification.sample_sizes import PACE, SKB_BYTES, Means, SampleSizes
from owlt.emulator.channel.link import LinkSpec, impairments
from owlt.emulator.channel.spec import DIRECTIONS, ChannelSpec
from owlt.emulator.faults import PortRefused
from owlt.emulator.kernel.bpf_stages import ETHERNET_HEADER_BYTES
from owlt.emulator.kernel.ports import KernelState, survey
from owlt.emulator.kernel.rtnetlink import open_rtnetlink
from owlt.inputs.mistake import Mistake

USUAL_LENGTH_BYTES = 1514
EXTRA_PACKETS = 10
"""The number of packets sent in addition to those that a queue holds or a pattern lists."""

_STEADY_PACKETS, _OUTAGE_PACKETS, _BOUNDARY_PACKETS = 20, 100, 20
_FEWER_FOLLOWERS = 0.001
"""The largest share of the late packets that are followed by late ones only."""
_MOST_PATTERN_PACKETS = 50_000
_MARGIN_NS = 50_000_000
"""How long to wait for the last probe, in addition to 1.1 times its expected delay."""
_TRAIN_PACKETS = 50
_LEAST_FASTER = 0.01
"""How far above the rate a train is sent at least if it would overflow a short queue."""
_BLUR = 8
"""The slope of a line through n arrivals, each with an error of a quarter of the spread, has an error of sqrt(12) /
n^1.5 of that; 4.5 times this must be at most half of the tolerance."""
_FOLLOWERS = 20
"""The number of probes that overtake a delayed one."""
_LARGE_QUEUE_PACKETS, _SMALL_QUEUE_PACKETS = 2_000, 10
_QUEUE_MEMORY_BYTES = 1 << 27
_UNSEEN = 1e-6
"""The probability that losses hide the depth of a queue."""


Measurement = Callable[[], Iterator[Judge]]


class Campaign:
    """All measurements of one direction.

    A module that measures an impairment (`certified_by` of its row) has a function `judges` that takes a campaign and
    yields judges, or raises NotMeasured.
    """

    def __init__(self, prober: Prober, judged: Judges, means: Means) -> None:
        self._prober, self.judged, self.means = prober, judged, means
        self.expected: Expectations = judged.expected
        self.link: LinkSpec = judged.expected.link
        self.sizes = SampleSizes(judged.expected, means, judged.tolerance_ns)
        self._pattern_is_over = self.link.pattern is None
        mtu = self.link.mtu_bytes
        self._longest_bytes = min(
            means.longest_bytes, mtu + ETHERNET_HEADER_BYTES if mtu is not None else means.longest_bytes
        )
        self._usual_bytes = min(USUAL_LENGTH_BYTES, self._longest_bytes)

    def judges(self) -> list[Judge]:
        """Measure all quantities; one that cannot be measured becomes a judge that states this."""
        judges: list[Judge] = []
        for quantity, measurement in self._measurements():
            try:
                judges += measurement()
            except (NotMeasured, MeasurementFailed) as reason:
                judges.append(self.judged.not_measured(quantity, str(reason)))
        return judges

    def _measurements(self) -> Iterator[tuple[str, Measurement]]:
        """Yield them with what they measure. A pattern begins with the first packet; a queue is overrun last."""
        link = self.link
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
        for name, row in impairments().items():
            if row.certified_by and link.has(name):
                module = import_module(f"owlt.emulator.certification.{row.certified_by}")
                yield row.label, partial(module.judges, self)
        if link.rate_bps is not None:
            yield "depth of the queue", self._queue

    def _outage(self) -> Iterator[Judge]:
        result = self._paced(SHORTEST_FRAME_BYTES, _OUTAGE_PACKETS)
        yield self.judged.none("packets delivered while down", len(result.copy_number), _OUTAGE_PACKETS)

    def _pattern(self) -> Iterator[Judge]:
        link, pattern = self.link, self.link.pattern
        assert pattern is not None
        by_bit = bool(pattern.bits)
        length = self._usual_bytes if by_bit else SHORTEST_FRAME_BYTES
        last = pattern.bits[-1] // (8 * length) if by_bit else pattern.packets[-1]
        if last >= _MOST_PATTERN_PACKETS:
            raise NotMeasured(f"its last error is in probe {last}, and at most {_MOST_PATTERN_PACKETS} probes are sent")
        if link.error_effect == "drop" and link.loss is not None:
            raise NotMeasured("its losses cannot be distinguished from other losses")
        result = self._paced(length, last + 1 + EXTRA_PACKETS)
        self._pattern_is_over = True
        if link.error_effect == "drop":
            packets = {bit // (8 * length) for bit in pattern.bits} | {*pattern.packets}
            lost = probe_statistics.lost_packets(result).tolist()
            yield self.judged.listed("packets dropped as listed", sorted(packets), lost, len(result.sent_ns))
        elif by_bit:
            arrived = {*result.copy_number.tolist()}
            listed = [bit for bit in pattern.bits if bit // (8 * length) in arrived]
            bits = int(result.lengths_bytes.sum()) * 8
            hit = probe_statistics.hit_bits(result).tolist()
            yield self.judged.listed("bits flipped as listed", listed, hit, bits)
        else:
            arrived = {*result.copy_number.tolist()}
            listed = [packet for packet in pattern.packets if packet in arrived]
            hit = probe_statistics.hit_packets(result).tolist()
            yield self.judged.listed("packets damaged as listed", listed, hit, len(result.sent_ns))

    def _delays(self, length: int) -> Iterator[Judge]:
        jittered = self.link.jitter is not None
        count = self.sizes.for_jitter(length) if jittered else _STEADY_PACKETS
        result = self.apart(length, count, self.expected.spread_ns if jittered else 0)
        delays_ns, specified_ns = probe_statistics.one_way_delays_ns(result), self.expected.delay_ns(length)
        steady = (0,) if self.link.reordering else (0, 0.5, 0.99)
        for quantile in (0, 0.5, 0.9, 0.99) if jittered else steady:
            quantity = f"one-way delay of {length}-byte frames, p{quantile * 100:g}, ns"
            if jittered or quantile == 0.99:  # a few may be late, as the sample allows
                aimed = jittered and quantile == 0.5 and length == SHORTEST_FRAME_BYTES
                yield self.judged.jittered_delay(quantity, specified_ns, delays_ns, quantile, aimed=aimed)
            else:
                yield self.judged.steady_delay(quantity, specified_ns, delays_ns, quantile)

    def _shares(self) -> Iterator[Judge]:
        if not self._pattern_is_over:
            raise NotMeasured("the error pattern has not ended")
        link, expected = self.link, self.expected
        flipped, duplicated, reordered, most_flipped = Count(0, 0), Count(0, 0), Count(0, 0), 0
        of_shortest = Count(0, 0)
        sizes = self.sizes.for_shares(self._usual_bytes, self._longest_bytes)
        for length, size in sizes.items():
            damage, loss = expected.damage_probability(length), expected.loss_probability(length)
            try:
                result = self._paced(length, size.packets)
            except NotMeasured as reason:
                yield self.judged.not_measured(f"shares of {length}-byte frames", str(reason))
                continue
            aim = wrong_share(damage) if size.shows_damage and not link.bit_error_rate else NOTHING_AIMED
            damaged = probe_statistics.damaged(result)
            yield self.judged.share(f"share of {length}-byte frames damaged", damage, damaged, aim)
            lost = probe_statistics.lost_apart(result, expected.apart(length))
            quantity = f"share of {length}-byte frames lost"
            aim = expected.wrong_loss(length) if size.shows_loss else NOTHING_AIMED
            if link.loss is not None:
                yield self.judged.share_in_bursts(quantity, length, lost, aim)
            else:
                yield self.judged.share(quantity, loss, lost, aim)
            if size.shows_loss and expected.burst_packets is not None:
                yield self.judged.burst_length(expected.burst_packets, probe_statistics.loss_bursts(result))
            if length == SHORTEST_FRAME_BYTES and expected.shortest_burst_packets is not None:
                bursts = probe_statistics.whole_bursts(result)
                yield self.judged.shortest_burst(expected.shortest_burst_packets, bursts)
            flipped += probe_statistics.flipped(result)
            duplicated += probe_statistics.duplicated(result)
            if length == SHORTEST_FRAME_BYTES:
                of_shortest = Count(probe_statistics.duplicated(result).hits, len(result.sent_ns))
            reordered += probe_statistics.reordered(result)
            most_flipped = max(most_flipped, int(result.flipped_bits.max(initial=0)))
        if link.error_effect == "flip" and link.bit_error_rate:
            rate = link.bit_error_rate
            yield self.judged.share("share of bits flipped", rate, flipped, wrong_share(rate))
        elif flipped.hits and link.packet_error_rate:
            yield self.judged.at_most("most bits flipped in a packet", 1, most_flipped, duplicated.trials)
        quantity, share = "share of packets duplicated", expected.duplicate_probability
        if link.loss is not None and link.duplication_rate:
            yield self.judged.duplicates_in_bursts(quantity, SHORTEST_FRAME_BYTES, of_shortest)
        else:
            yield self.judged.share(quantity, share, duplicated, wrong_share(share))
        if link.keeps_order:
            yield self.judged.share("share of packets out of order", 0.0, reordered, wrong_share(0.0))

    def _reordering(self) -> Iterator[Judge]:
        reordering = self.link.reordering
        assert reordering is not None
        share = float(reordering.fraction)
        length = SHORTEST_FRAME_BYTES
        gap_ns = max(self.sizes.gap_ns(length), reordering.by_ns // _FOLLOWERS)
        followers = reordering.by_ns // gap_ns
        if share**followers > _FEWER_FOLLOWERS:
            raise NotMeasured(
                f"{followers} packets at this rate fit into the {reordering.by_ns} ns by which some are delayed: too "
                "few for one of them to overtake"
            )
        count = self.sizes.for_share(share, gap_ns)
        result = self.sent(np.full(count + _FOLLOWERS, length), np.arange(count + _FOLLOWERS) * gap_ns, gap_ns)
        yield self.judged.share(
            "share of packets out of order", share, probe_statistics.reordered(result, among=count), wrong_share(share)
        )
        delays_ns, specified_ns = probe_statistics.one_way_delays_ns(result), self.expected.delay_ns(length)
        late_ns = delays_ns[delays_ns > specified_ns + reordering.by_ns // 2]
        quantity = "one-way delay of packets that come later, p0, ns"
        yield self.judged.steady_delay(quantity, specified_ns + reordering.by_ns, late_ns, 0)

    def _mtu(self) -> Iterator[Judge]:
        specified = ETHERNET_HEADER_BYTES + (self.link.mtu_bytes or 0)
        if specified >= self.means.longest_bytes:  # the ports enforce it themselves
            return
        lengths_bytes = np.tile([specified, specified + 1], _BOUNDARY_PACKETS)
        gap_ns = self.sizes.gap_ns(specified + 1)
        result = self.sent(lengths_bytes, np.arange(len(lengths_bytes)) * gap_ns, gap_ns)
        if not len(result.copy_number):
            raise NotMeasured("no probe arrived")
        longest = int(result.copy_length_bytes.max())
        yield self.judged.exactly("longest frame that passes, bytes", specified, longest, len(lengths_bytes))

    def _rate(self) -> Iterator[Judge]:
        """A train that keeps the queue filled; sent faster than the rate if it is longer than the queue."""
        expected = self.expected
        length = self._usual_bytes
        if _TRAIN_PACKETS * expected.serialization_ns(length) > self.means.budget_s * 1e9:
            length = SHORTEST_FRAME_BYTES
        one_ns, room = max(expected.serialization_ns(length), 1), expected.queue_packets(length)
        if room < 2:
            raise NotMeasured("the queue holds a single packet: the rate shows in the delays of short and long frames")
        count = max(
            _TRAIN_PACKETS,
            ceil(2 * self.judged.tolerance_ns / (RATE_ERROR * one_ns)),
            ceil((_BLUR * expected.spread_ns / (RATE_ERROR * one_ns)) ** (2 / 3)),
        )
        faster = min(PACE - 1, room / (4 * count))
        if faster < _LEAST_FASTER:
            raise NotMeasured(f"it needs a train of {count} packets, and the queue holds {room:g}")
        if expected.spread_ns > AT_ONCE * one_ns:
            raise NotMeasured(f"jitter of {expected.spread_ns} ns hides it")
        depth = count if count <= min(room, AT_ONCE) else min(room // 2, AT_ONCE)
        due_ns = (np.maximum(np.arange(count) - depth, 0) * (one_ns / (1 + faster))).astype(np.int64)
        result = self.sent(np.full(count, length), due_ns, one_ns, span_ns=count * one_ns, keeps_gaps=False)
        measured = probe_statistics.rate_bps(result, self.link.overhead_bytes)
        arrived = len(probe_statistics.first_copies(result))
        yield self.judged.rate(measured, arrived, one_ns)

    def _queue(self) -> Iterator[Judge]:
        """Bursts that overflow the queue; more of them if the first or the deepest packet of one may be lost."""
        expected, link = self.expected, self.link
        length = self.queue_length()
        one_ns, room = expected.serialization_ns(length), int(expected.queue_packets(length))
        hidden = 2 * expected.loss_probability(length)
        if hidden >= 1:
            raise NotMeasured("too many packets are lost to measure how long others waited")
        if one_ns <= 2 * self.judged.tolerance_ns or (hidden and one_ns <= 2 * expected.spread_ns):
            raise NotMeasured(f"jitter or the clock's resolution hides the {one_ns} ns that one packet takes to send")
        if room * SKB_BYTES > _QUEUE_MEMORY_BYTES:
            raise NotMeasured(f"{room} packets would fill it: more than the emulator may hold in memory")
        bursts = ceil(log(_UNSEEN) / log(hidden)) if hidden else 1
        burst = room + max(EXTRA_PACKETS, room // 50)
        result = self.bursts(length, burst, bursts)
        queue_depth = probe_statistics.queue_by_wait if hidden else probe_statistics.queue_by_count
        packets = queue_depth(result, bursts, one_ns)
        if packets is None:
            raise NotMeasured("too few probes arrived, or they were sent too slowly to fill it at once")
        frame_bytes = length + link.overhead_bytes
        if link.queue_bytes is not None:
            depth_bytes = packets * frame_bytes
            yield self.judged.roughly("depth of the queue, bytes", link.queue_bytes, depth_bytes, frame_bytes, bursts)
        elif link.queue_ns is not None or link.queue_bdp is not None:
            specified_ns = expected.queue_bytes(length) * 8e9 / (expected.rate_bps or 1)
            yield self.judged.roughly("depth of the queue, ns", specified_ns, packets * one_ns, one_ns, bursts)
        else:
            yield self.judged.exactly("depth of the queue, packets", room, round(packets), bursts)

    def queue_length(self) -> int:
        """Return a frame length of which the queue holds not too many and, if it is not counted in packets, not too
        few."""
        room = self.expected.queue_packets(self._usual_bytes)
        counted = self.link.queue_bytes is None and self.link.queue_ns is None and self.link.queue_bdp is None
        fits = room <= _LARGE_QUEUE_PACKETS and (counted or room >= _SMALL_QUEUE_PACKETS)
        return self._usual_bytes if fits else SHORTEST_FRAME_BYTES

    def _paced(self, length: int, count: int) -> ProbeResult:
        gap_ns = self.sizes.gap_ns(length)
        burst = int(max(1, min(self.expected.queue_packets(length) / 2, AT_ONCE)))
        wave, pause_ns = self.sizes.wave(length)
        number = np.arange(count)
        return self.sent(np.full(count, length), number // burst * burst * gap_ns + number // wave * pause_ns, gap_ns)

    def apart(self, length: int, count: int, idle_ns: int, header: bytes = HEADER) -> ProbeResult:
        """Send probes that find the link idle, with `idle_ns` more between them. Raises NotMeasured."""
        gap_ns = self.sizes.gap_ns(length) + idle_ns
        return self.sent(np.full(count, length), np.arange(count) * gap_ns, gap_ns, header=header)

    def bursts(self, length: int, count: int, bursts: int, header: bytes = HEADER) -> ProbeResult:
        """Send bursts of `count` probes, each after the link has sent the previous one. Raises NotMeasured."""
        one_ns = self.expected.serialization_ns(length)
        span_ns = bursts * count * one_ns
        due_ns = np.repeat(np.arange(bursts) * ceil(count * one_ns * PACE), count)
        return self.sent(np.full(bursts * count, length), due_ns, one_ns, span_ns=span_ns, header=header)

    def sent(
        self,
        lengths_bytes: Numbers,
        due_ns: Numbers,
        gap_ns: int,
        span_ns: int | None = None,
        keeps_gaps: bool = True,
        header: bytes = HEADER,
    ) -> ProbeResult:
        """Send probes that arrive `gap_ns` apart on average. Raises NotMeasured if that takes longer than the budget,
        MeasurementFailed if the probes were not captured completely.
        """
        takes_ns = int(due_ns[-1]) + gap_ns if span_ns is None else span_ns
        if takes_ns > self.means.budget_s * 1e9:
            raise NotMeasured(
                f"the channel needs {takes_ns / 1e9:,.1f} s to send {len(lengths_bytes)} probes, more than the "
                f"budget_s of {self.means.budget_s:g}: raise it, or send fewer packets"
            )
        queued = min(self.expected.queue_packets(int(lengths_bytes[-1])), len(lengths_bytes))
        queued_ns = ceil(queued * self.expected.serialization_ns(int(lengths_bytes.max())))
        settle_ns = (self.expected.longest_delay_ns + queued_ns) * 11 // 10 + _MARGIN_NS
        return self._prober.send(Probes(lengths_bytes, due_ns, settle_ns, AT_ONCE * gap_ns, keeps_gaps, header))


PLANNED_CHECKS = 40
"""The number of checks that samples are sized for, each of which a correct channel may fail by chance; few channels
have as many."""


def certify(
    channel: ChannelSpec,
    ports: tuple[str, str],
    *,
    alpha: float = 0.001,
    budget_s: float = 600.0,
    packets: int | None = None,
    tolerance_ns: int = REAL_TOLERANCE_NS,
) -> Certificate:
    """Measure the channel between two ports, towards the sender and the receiver, and say whether it is as specified.

    Apply it just before, and send nothing since: the numbers of a pattern are those of the probes. A channel as
    specified fails with at most the probability `alpha`. `packets` probes are sent for each share (None: enough to
    detect a wrong value with `intervals.POWER`, up to MOST_PACKETS). A sample is cut to what the channel can send in
    `budget_s` seconds; what cannot be cut and takes longer is not measured. Raises PortRefused if a port is not there,
    ChannelRefused if the kernel is missing what injecting needs; leaves no interface, qdisc or filter, however it ends.
    """
    started_at_ns, began_ns = time.time_ns(), time.monotonic_ns()
    judges: list[Judge] = []
    with open_rtnetlink() as netlink:
        state = survey(netlink)
        ways = dict(zip(DIRECTIONS, (ports, ports[::-1]), strict=True))
        longest_bytes = min(*(_longest_frame(state, name) for name in ports), LONGEST_FRAME_BYTES)
        means = Means(longest_bytes, budget_s, packets, alpha / PLANNED_CHECKS)
        for direction, (entrance, exit_) in ways.items():
            judged = Judges(direction, Expectations.of(channel, direction), tolerance_ns)
            with prober(netlink, _index(state, entrance), _index(state, exit_), longest_bytes) as probing:
                judges += Campaign(probing, judged, means).judges()
            if channel.timeline is not None:
                judges.append(
                    judged.not_measured("changes with time", "only the links before the first step are measured")
                )
    alpha_each = alpha / max(sum(judge.by_chance for judge in judges), 1)
    return Certificate(
        channel=channel.to_wire(),
        checks=tuple(judge(alpha_each) for judge in judges),
        started_at_ns=started_at_ns,
        duration_s=(time.monotonic_ns() - began_ns) / 1e9,
        kernel=platform.release(),
        alpha=alpha,
    )


def _index(state: KernelState, port: str) -> int:
    if port not in state.links:
        raise PortRefused(
            Mistake.of(f"port {port}", "got no such interface", f"one of: {', '.join(sorted(state.links))}")
        )
    return int(state.links[port]["index"])


def _longest_frame(state: KernelState, port: str) -> int:
    _index(state, port)
    return int(state.links[port].get_attr("IFLA_MTU")) + ETHERNET_HEADER_BYTES
