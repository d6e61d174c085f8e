"""The channel of a run: a profile's or one made of the sweep's axes, then with the run's own seeds.

What does not differ from run to run is certified once; its key says which channel it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from emulator.channel import DIRECTIONS, ChannelSpec, LinkSpec, Step
from orchestrator.errors import ProfileError
from orchestrator.sweep import Permutation, Sweep


def channel_at(point: Permutation, sweep: Sweep, profile: ChannelSpec | None) -> ChannelSpec:
    """The channel at a point of the grid, without seeds: the profile's with what the sweep gives in its place.

    Raises ProfileError where that contradicts the profile: a value for what changes with time, or a rate for a bypass.
    """
    given: dict[str, Any] = {
        name: value
        for name, axis, value in (
            ("rate_bps", sweep.rate, point.rate_bps),
            ("delay_ns", sweep.delay, point.delay_ns),
            ("packet_error_rate", sweep.packet_error_rate, point.packet_error_rate),
            ("queue_packets", sweep.queue_packets, sweep.queue_packets),
        )
        if axis is not None
    }
    if profile is None:
        link = _made(point, given)
        return ChannelSpec(forward=link, reverse=link)
    if given and (profile.timeline is not None or profile.bypass):
        what = "changes with time" if profile.timeline is not None else "is a bypass"
        raise ProfileError(
            f"channel {point.channel_name!r} {what}, and the sweep gives its own {', '.join(given)}: leave these out, "
            "or write a channel profile that has them"
        )
    return _with_links(profile, lambda direction, link: _with(point, link, given))


def seeded(channel: ChannelSpec, seed_of: Callable[[str], int], netem_takes_seeds: bool) -> ChannelSpec:
    """The channel with a seed for each direction that leaves anything to chance.

    `netem_takes_seeds` is false before Linux 6.7; bit errors and patterns have seeds all the same.
    """

    def with_seed(direction: str, link: LinkSpec) -> LinkSpec:
        fit = link.draws and (netem_takes_seeds or not link.netem_draws)
        return link.model_copy(update={"seed": seed_of(direction) if fit else None})

    return _with_links(channel, with_seed)


def channel_key(channel: ChannelSpec) -> str:
    """A short name for a channel, whatever its seeds: the same channel, the same name."""
    bare = _with_links(channel, lambda direction, link: link.model_copy(update={"seed": None}))
    return hashlib.sha256(json.dumps(bare.to_wire(), sort_keys=True).encode()).hexdigest()[:16]


def longest_rtt_s(channel: ChannelSpec) -> float:
    """The longest round trip of light that the channel ever has."""
    return max(sum(link.delay_ns for link in links.values()) for links in channel.states) / 1e9


def slowest_rate_bps(channel: ChannelSpec) -> float | None:
    """The lowest rate that a direction ever has; None: unlimited."""
    links = [link for state in channel.states for link in state.values()]
    return min((link.rate_bps for link in links if link.rate_bps is not None), default=None)


def time_to_change_s(channel: ChannelSpec) -> float:
    """How long the channel's timeline is; 0 without one."""
    if channel.timeline is None:
        return 0.0
    return (channel.timeline.loop_after_ns or channel.timeline.steps[-1].at_ns) / 1e9


def _with_links(channel: ChannelSpec, change: Callable[[str, LinkSpec], LinkSpec]) -> ChannelSpec:
    def changed(state: ChannelSpec | Step) -> dict[str, LinkSpec]:
        return {direction: change(direction, getattr(state, direction)) for direction in DIRECTIONS}

    timeline = channel.timeline and channel.timeline.model_copy(
        update={"steps": tuple(step.model_copy(update=changed(step)) for step in channel.timeline.steps)}
    )
    return channel.model_copy(update={**changed(channel), "timeline": timeline})


def _with(point: Permutation, link: LinkSpec, given: dict[str, Any]) -> LinkSpec:
    fields = {name: getattr(link, name) for name in LinkSpec.model_fields} | given
    if "packet_error_rate" in given:
        fields |= {"bit_error_rate": 0.0, "pattern": None}
    if "queue_packets" in given:
        fields |= {"queue_bytes": None, "queue_ns": None, "queue_bdp": None}
    return _made(point, fields)


def _made(point: Permutation, fields: dict[str, Any]) -> LinkSpec:
    try:
        return LinkSpec(**fields)
    except ValidationError as problem:
        told = "; ".join(error["msg"].removeprefix("Value error, ") for error in problem.errors())
        raise ProfileError(f"{point.slug}: this makes no channel: wanted {told}; change the sweep's axes") from None
