"""The channel of a run: from a profile or from the axes of the sweep, then with the seeds of the run.

The part that is equal in all runs is certified once; its key identifies the channel. `equivalent_bit_error_rate` gives
a link's errors in the form that most implementations accept.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from owlt.emulator.channel.spec import DIRECTIONS, ChannelSpec, LinkSpec, Step
from owlt.inputs.axes import AXES, BOTH_WAYS, QUEUE
from owlt.inputs.mistake import Mistake
from owlt.inputs.sweep import Sweep
from owlt.inputs.validation import mistakes_in
from owlt.orchestrator.errors import ProfileError
from owlt.results.permutation import Permutation


def channel_at(point: Permutation, sweep: Sweep, profile: ChannelSpec | None) -> ChannelSpec:
    """The channel at a point of the grid, without seeds: the profile with the values that the sweep replaces.

    Raises ProfileError for a contradiction: a value for a channel that changes with time, or a rate for a bypass.
    """
    given = {way: _given(point, sweep, way) for way in DIRECTIONS}
    if profile is None:
        return ChannelSpec(forward=_made(point, given["forward"]), reverse=_made(point, given["reverse"]))
    names = dict.fromkeys(name for values in given.values() for name in values)
    if names and (profile.timeline is not None or profile.bypass):
        what = "changes with time" if profile.timeline is not None else "is a bypass"
        problem = f"channel {point.channel_name!r} {what}, and the sweep gives its own {', '.join(names)}"
        raise ProfileError(Mistake(problem, fix="remove these, or write a channel profile that has them"))
    return with_links(profile, lambda way, link: _with(point, link, given[way]))


def _given(point: Permutation, sweep: Sweep, way: str) -> dict[str, Any]:
    """The values of a link that the sweep gives."""
    queue = {} if (packets := sweep.queue_of(way)) is None else {QUEUE: packets}
    return {
        AXES[key].field: AXES[key if sweep.gives(key) else f"{way}_{key}"].of(point)
        for key in BOTH_WAYS
        if sweep.gives_way(way, key)
    } | queue


def seeded(channel: ChannelSpec, seed_of: Callable[[str], int], netem_takes_seeds: bool) -> ChannelSpec:
    """The channel with a seed for each direction that has random effects.

    `netem_takes_seeds` is false before Linux 6.7; bit errors and patterns have seeds all the same.
    """

    def with_seed(direction: str, link: LinkSpec) -> LinkSpec:
        fit = link.draws and (netem_takes_seeds or not link.netem_draws)
        return link.model_copy(update={"seed": seed_of(direction) if fit else None})

    faults = tuple(
        fault if fault.probability == 1 else fault.model_copy(update={"seed": seed_of(fault.direction)})
        for fault in channel.faults
    )
    return with_links(channel, with_seed).model_copy(update={"faults": faults})


def channel_key(channel: ChannelSpec) -> str:
    """A short name for a channel, independent of its seeds and of aimed faults, which belong to runs: the same channel
    has the same name."""
    bare = with_links(
        channel.model_copy(update={"faults": ()}), lambda direction, link: link.model_copy(update={"seed": None})
    )
    return hashlib.sha256(json.dumps(bare.to_wire(), sort_keys=True).encode()).hexdigest()[:16]


def longest_rtt_s(channel: ChannelSpec) -> float:
    """The longest round trip of the channel: the propagation delays of both directions."""
    return max(sum(link.delay_ns for link in links.values()) for links in channel.states) / 1e9


def slowest_rate_bps(channel: ChannelSpec) -> float | None:
    """The lowest rate of either direction over time; None: unlimited."""
    links = [link for state in channel.states for link in state.values()]
    return min((link.rate_bps for link in links if link.rate_bps is not None), default=None)


def fastest_rate_bps(channel: ChannelSpec) -> float | None:
    """The highest rate of either direction over time; None: unlimited."""
    rates = [link.rate_bps for state in channel.states for link in state.values()]
    limited = [rate_bps for rate_bps in rates if rate_bps is not None]
    return max(limited) if rates and len(limited) == len(rates) else None


def time_to_change_s(channel: ChannelSpec) -> float:
    """The duration of the channel's timeline; 0 without a timeline."""
    if channel.timeline is None:
        return 0.0
    return (channel.timeline.loop_after_ns or channel.timeline.steps[-1].at_ns) / 1e9


def with_links(channel: ChannelSpec, change: Callable[[str, LinkSpec], LinkSpec]) -> ChannelSpec:
    """The channel with its links changed, also in every step of its timeline; `change` gets a direction and a link."""

    def changed(state: ChannelSpec | Step) -> dict[str, LinkSpec]:
        return {direction: change(direction, getattr(state, direction)) for direction in DIRECTIONS}

    timeline = channel.timeline and channel.timeline.model_copy(
        update={"steps": tuple(step.model_copy(update=changed(step)) for step in channel.timeline.steps)}
    )
    return channel.model_copy(update={**changed(channel), "timeline": timeline})


def _with(point: Permutation, link: LinkSpec, given: dict[str, Any]) -> LinkSpec:
    if not given:
        return link
    fields = {name: getattr(link, name) for name in LinkSpec.model_fields} | given
    if "packet_error_rate" in given:
        fields |= {"bit_error_rate": 0.0, "pattern": None, "coding": None}
    if "queue_packets" in given:
        fields |= {"queue_bytes": None, "queue_ns": None, "queue_bdp": None}
    return _made(point, fields)


def _made(point: Permutation, fields: dict[str, Any]) -> LinkSpec:
    try:
        return LinkSpec(**fields)
    except ValidationError as problem:
        mistakes = mistakes_in(problem, LinkSpec)
        raise ProfileError(*(_in_axes(point, mistake) for mistake in mistakes)) from None


def _in_axes(point: Permutation, mistake: Mistake) -> Mistake:
    """A mistake in a link that the axes of a sweep make."""
    problem = f"{point.slug} is not a channel: {mistake.where} {mistake.problem}"
    return Mistake(problem, mistake.expected, "change the axes of the sweep")


def equivalent_bit_error_rate(link: LinkSpec, frame_bytes: int) -> float:
    """The bit error rate at which a frame of `frame_bytes` is damaged or lost as often as on this link.

    It includes the bit error rate, the packet error rate, lost coded frames and the mean rate of burst losses, all
    independent. A link with bit errors alone has its own rate, for any frame size; 1 if no frame arrives. A list of
    errors (`pattern`) has no rate and is not included.
    """
    if not (link.packet_error_rate or link.loss or link.coding):
        return link.bit_error_rate
    hit = [link.packet_error_rate, *_hit_in_bursts(link, frame_bytes)]
    if max(hit) >= 1:
        return 1.0
    intact = sum(math.log1p(-rate) for rate in hit) / (8 * frame_bytes) + math.log1p(-link.bit_error_rate)
    return -math.expm1(intact)


def _hit_in_bursts(link: LinkSpec, frame_bytes: int) -> list[float]:
    """How often lost coded frames and burst losses hit a frame."""
    if not (link.loss or link.coding):
        return []
    # imported here because they load numpy, which would enlarge the memory of every guest
    from owlt.emulator.certification.bursts import BurstLoss
    from owlt.emulator.certification.expectations import Expectations

    coded = Expectations(link, 0).dropped_probability(frame_bytes) if link.coding else 0.0
    return [coded, BurstLoss.of(link.loss).mean_rate]
