"""A channel as curves over time and over packet length: plain numbers in seconds, bit/s, bytes and probabilities."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owlt.emulator.certification.expectations import Expectations
from owlt.emulator.channel.link import LinkSpec
from owlt.emulator.channel.spec import DIRECTIONS, ChannelSpec
from owlt.emulator.service.player import moments

Numbers = NDArray[np.float64]

SHORTEST_BYTES, LONGEST_BYTES, LENGTHS = 64, 9000, 120
HOLD_SHARE = 0.12
"""The time that the figure shows after the last step, as a share of the time before it."""
MIDDLE = (0.05, 0.95)
"""The quantiles of the delay that bound its band."""


@dataclass(frozen=True)
class LinkCurves:
    """One direction. The first five have a value for each interval of time; NaN means unlimited or not specified."""

    delay_s: Numbers
    delay_low_s: Numbers
    delay_high_s: Numbers
    rate_bps: Numbers
    """NaN: unlimited."""
    up: NDArray[np.bool_]
    lowest_error_rate: Numbers
    """For each length: the probability that a packet is lost or damaged, in the best interval of time."""
    highest_error_rate: Numbers
    errors_listed: bool
    """Whether a pattern lists errors at some time, which no rate shows."""


@dataclass(frozen=True)
class ChannelCurves:
    """Both directions. `edges_s` has one value more than there are intervals of time; None if nothing changes."""

    edges_s: Numbers | None
    loops: bool
    lengths_bytes: Numbers
    forward: LinkCurves
    reverse: LinkCurves


def curves_of(channel: ChannelSpec) -> ChannelCurves:
    """The curves of a channel over its timeline, or over one turn of it if it loops."""
    edges_s, states = _intervals(channel)
    lengths = np.unique(np.geomspace(SHORTEST_BYTES, LONGEST_BYTES, LENGTHS).round())
    forward, reverse = (_curves([state[name] for state in states], lengths) for name in DIRECTIONS)
    loops = channel.timeline is not None and channel.timeline.loop_after_ns is not None
    return ChannelCurves(edges_s, loops, lengths, forward, reverse)


def _intervals(channel: ChannelSpec) -> tuple[Numbers | None, list[dict[str, LinkSpec]]]:
    before = {name: channel.link(name) for name in DIRECTIONS}
    timeline = channel.timeline
    if timeline is None:
        return None, [before]
    end_ns = timeline.loop_after_ns
    passing = list(itertools.takewhile(lambda each: end_ns is None or each.at_ns < end_ns, moments(channel)))
    states = [(each.at_ns, each.links) for each in passing]
    if states[0][0] > 0:
        states.insert(0, (0, before))
    times_s = [at_ns / 1e9 for at_ns, _ in states]
    last_s = end_ns / 1e9 if end_ns is not None else times_s[-1] * (1 + HOLD_SHARE) or 1.0
    return np.array([*times_s, last_s]), [links for _, links in states]


def _curves(links: list[LinkSpec], lengths: Numbers) -> LinkCurves:
    expectations = {link: Expectations(link, rtt_ns=0) for link in links}
    offsets_ns = {link: tuple(expected.offset_ns(share) for share in MIDDLE) for link, expected in expectations.items()}
    errors = np.array([[_error_rate(each, int(length)) for length in lengths] for each in expectations.values()])
    return LinkCurves(
        delay_s=np.array([link.delay_ns for link in links]) / 1e9,
        delay_low_s=np.array([link.delay_ns + offsets_ns[link][0] for link in links]) / 1e9,
        delay_high_s=np.array([link.delay_ns + offsets_ns[link][1] for link in links]) / 1e9,
        rate_bps=np.array([np.nan if link.rate_bps is None else link.rate_bps for link in links]),
        up=np.array([link.up for link in links]),
        lowest_error_rate=errors.min(axis=0),
        highest_error_rate=errors.max(axis=0),
        errors_listed=any(link.pattern is not None for link in links),
    )


def _error_rate(expected: Expectations, length_bytes: int) -> float:
    """The probability that a packet is lost or arrives damaged."""
    intact = (1 - expected.hit_probability(length_bytes)) * (1 - expected.burst_loss.mean_rate)
    return 1 - intact
