"""Probes over a link that is computed instead of made by a kernel: what is drawn is drawn, and nothing is timed.

It stands in for the prober where a certificate's statistics are tried a thousand times: losses, damage, duplicates and
late packets as a link asks for them, of any number of probes, in milliseconds. It has no rate and no queue.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from owlt.emulator.certification.bursts import BurstLoss
from owlt.emulator.certification.certificate import VIRTUAL_TOLERANCE_NS, Check
from owlt.emulator.certification.certify import PLANNED_CHECKS, Campaign
from owlt.emulator.certification.expectations import Expectations
from owlt.emulator.certification.judging import Judges
from owlt.emulator.certification.probing import ProbeResult, Probes
from owlt.emulator.certification.sample_sizes import Means
from owlt.emulator.channel.spec import ChannelSpec, LinkSpec

LONGEST_BYTES = 9014


class SimulatedProber:
    """One way through a link that draws with a generator of its own."""

    def __init__(self, link: LinkSpec, seed: int) -> None:
        if link.rate_bps is not None or link.jitter is not None or link.pattern is not None or not link.up:
            raise ValueError(f"link: got {link.to_wire()}, expected one without rate, jitter, pattern or outage")
        self._link = link
        self._chain = BurstLoss.of(link.loss)
        self._moves = np.cumsum(np.array(self._chain.moves), axis=1)[:, :-1].tolist()
        self._state = 0
        self._random = np.random.default_rng(seed)

    def send(self, probes: Probes) -> ProbeResult:
        """Return what a link that draws each packet's fate as asked does to these probes."""
        link, random, count = self._link, self._random, len(probes.lengths_bytes)
        bits = self._flips(probes.lengths_bytes)
        enters = np.ones(count, bool)
        if link.error_effect == "drop":
            enters = (bits == 0) | (link.packet_error_rate > 0)  # netem loses these, as it loses those of bursts
            bits = np.zeros(count, np.int64)
        copies = np.zeros(count, np.int64)
        copies[enters] = self._copies(random.random(int(enters.sum())) < link.duplication_rate)
        late = np.zeros(count, bool)
        if link.reordering is not None:
            late = random.random(count) < float(link.reordering.fraction)
        by_ns = link.reordering.by_ns if link.reordering is not None else 0
        arrives_ns = probes.due_ns + link.delay_ns + late * by_ns
        number = np.repeat(np.arange(count), copies)
        number = number[np.argsort(arrives_ns[number], kind="stable")]
        nothing = np.zeros(0, np.int64)
        return ProbeResult(
            probes.lengths_bytes,
            probes.due_ns,
            number,
            probes.lengths_bytes[number],
            arrives_ns[number],
            bits[number],
            nothing,
            nothing,
        )

    def _flips(self, lengths_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._link.bit_error_rate:
            return self._random.binomial(8 * lengths_bytes, self._link.bit_error_rate)
        return (self._random.random(len(lengths_bytes)) < self._link.packet_error_rate).astype(np.int64)

    def _copies(self, duplicated: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Packet by packet, how many copies arrive: the copy of a packet that is kept passes the chain again."""
        if self._link.loss is None:
            rate = self._link.packet_error_rate if self._link.error_effect == "drop" else 0.0
            lost, copy_lost = self._random.random((2, len(duplicated))) < rate
            return np.where(lost, duplicated, 1 + (duplicated & ~copy_lost))
        copies, moves, state = [], self._moves, self._state
        loses = [[bool(each) for each in row] for row in self._chain.lost]
        draws = self._random.random((len(duplicated), 2)).tolist()
        for is_duplicated, (first, second) in zip(duplicated.tolist(), draws, strict=True):
            before, state = state, sum(first > bound for bound in moves[state])
            arriving = int(not loses[before][state])
            if is_duplicated and arriving:
                before, state = state, sum(second > bound for bound in moves[state])
                arriving += not loses[before][state]
            copies.append(max(arriving, int(is_duplicated)))
        self._state = state
        return np.array(copies, np.int64)


def certified(asked: ChannelSpec, truth: ChannelSpec, seed: int, alpha: float, budget_s: float) -> list[Check]:
    """The checks of a certificate, forward and reverse, whose probes passed a simulated channel."""
    judges = []
    for number, direction in enumerate(("forward", "reverse")):
        prober = SimulatedProber(truth.link(direction), 2 * seed + number)
        judged = Judges(direction, Expectations.of(asked, direction), VIRTUAL_TOLERANCE_NS)
        means = Means(LONGEST_BYTES, budget_s, None, alpha / PLANNED_CHECKS)
        judges += Campaign(prober, judged, means).judges()  # type: ignore[arg-type]
    return [judge(alpha / max(sum(judge.by_chance for judge in judges), 1)) for judge in judges]
