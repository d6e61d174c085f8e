"""The specification of a channel in words, in full for a table and in a line for a heading; its links as numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from owlt.captures.matches.bottleneck import Link
from owlt.emulator.channel.impairment import Impairment
from owlt.emulator.channel.link import impairments, key_of
from owlt.inputs.quantities import parse_delay_ns, parse_rate_bps, parse_size_bytes
from owlt.reports.units import delay_text, moment_text, probability_text, rate_text
from owlt.results.files import Step, WrittenChannel

MOST_STEPS = 20
MOST_DRAWN_STEPS = 100
"""With more steps, as of fading, a figure shows outages only."""
MOST_OUTAGES = 3
"""The most outages that a sentence names."""
QUEUE = "1000 packets"
"""The default queue of a link with a rate."""

Words = tuple[str, ...]


def channel_head(channel: WrittenChannel) -> str:
    """A channel at the beginning, in a line: "2 Mbit/s → / 8 kbit/s ← · 10 min one way"."""
    if channel.bypass:
        return "a transparent bridge (bypass)"
    delay = _both_ways(channel, _delay)
    return " · ".join((rates_text(channel), f"{delay} one way", *(["changes over time"] if channel.timeline else [])))


def rates_text(channel: WrittenChannel) -> str:
    """The rates at the beginning: "10 Mbit/s", "2 Mbit/s → / 8 kbit/s ←"."""
    return _both_ways(channel, _rate)


def link_words(link: Mapping[str, Any]) -> Words:
    """The specification of a link: a phrase for each of its values."""
    phrases = {name: _PHRASES[name](value) for name, value in link.items() if name in _PHRASES}
    erring = {"packet_error_rate", "bit_error_rate", "pattern"} & set(phrases)
    queue = f"queue {link.get('queue', QUEUE)}"
    first = [f"delay {_delay(link)}", _rate(link), *([queue] if "rate" in link else [])]
    rest = [phrase for name, phrase in phrases.items() if name not in ("delay", "rate", "queue", "error_effect")]
    effect = [_EFFECTS[link.get("error_effect", "flip")]] if erring else []
    nothing = [] if erring or {"loss", "coding"} & set(phrases) else ["no errors, no losses"]
    return tuple(first + rest + effect + nothing)


def timeline_words(channel: WrittenChannel) -> str:
    """How a channel changes, in a sentence; "" if it does not."""
    if channel.timeline is None:
        return ""
    steps, loop = channel.timeline.steps, channel.timeline.loop_after
    number = f"{len(steps)} steps" if len(steps) > 1 else "1 step"
    end = f"and repeats after {_moment(loop)}" if loop else "and keeps the last step’s values"
    return f"Changes over time: {number}, the last at {_moment(steps[-1].at)}, {end}."


def step_rows(channel: WrittenChannel) -> list[Words]:
    """When, and what changes forward and reverse: the first steps, and how many more there are."""
    steps = channel.timeline.steps if channel.timeline else ()
    rows: list[Words] = [
        (_moment(step.at), _changes(step.forward), _changes(step.reverse)) for step in steps[:MOST_STEPS]
    ]
    return [*rows, ("…", f"{len(steps) - MOST_STEPS} more steps", "")] if len(steps) > MOST_STEPS else rows


@dataclass(frozen=True)
class ChannelChanges:
    """When a channel changes during a session, in s from its first packet."""

    outages: tuple[tuple[float, float], ...] = ()
    """When it is down in a direction: begin and end."""
    steps: tuple[float, ...] = ()
    """The other steps of its timeline; () if they are too many to draw."""

    def since(self, start_s: float) -> ChannelChanges:
        """The same in s from another moment of the session."""
        outages = tuple((begin - start_s, end - start_s) for begin, end in self.outages)
        return ChannelChanges(outages, tuple(at - start_s for at in self.steps))


def changes_during(channel: WrittenChannel, timeline_s: float, end_s: float) -> ChannelChanges:
    """The changes of a channel until `end_s`. `timeline_s` is the beginning of its timeline; both count from the first
    packet of the session."""
    if channel.timeline is None:
        return ChannelChanges()
    outages: list[tuple[float, float]] = []
    steps: list[float] = []
    down_from: float | None = None
    for at_s, is_down, was_down in _states(channel, end_s - timeline_s):
        moment_s = timeline_s + at_s
        if is_down and down_from is None:
            down_from = moment_s
        elif down_from is not None and not is_down:
            outages.append((down_from, moment_s))
            down_from = None
        elif is_down == was_down and at_s:
            steps.append(moment_s)
    if down_from is not None:
        outages.append((down_from, end_s))
    return ChannelChanges(tuple(outages), tuple(steps) if len(steps) <= MOST_DRAWN_STEPS else ())


def _states(channel: WrittenChannel, length_s: float) -> Iterator[tuple[float, bool, bool]]:
    """From the start of the timeline on, at each step: its time in s, and whether the channel is down in a direction
    from then on, and before."""
    assert channel.timeline is not None
    loop_s = parse_delay_ns(channel.timeline.loop_after) / 1e9 if channel.timeline.loop_after else inf
    begin_s, was_down = 0.0, False
    while begin_s <= length_s:
        up = {way: bool(link.get("up", True)) for way, link in (("→", channel.forward), ("←", channel.reverse))}
        for step in (Step(at="0 ns"), *channel.timeline.steps):
            at_s = parse_delay_ns(step.at) / 1e9
            if begin_s + at_s > length_s:
                return
            up |= {way: bool(link["up"]) for way, link in (("→", step.forward), ("←", step.reverse)) if "up" in link}
            is_down = not all(up.values())
            yield begin_s + at_s, is_down, was_down
            was_down = is_down
        begin_s += loop_s


def outage_words(channel: WrittenChannel) -> str:
    """The outages of the first turn of a timeline: "down 10 s to 12 s, 1 min to 2 min"; "" if there is none."""
    if channel.timeline is None:
        return ""
    last = channel.timeline.loop_after or channel.timeline.steps[-1].at
    end_s = parse_delay_ns(last) / 1e9 - (1e-9 if channel.timeline.loop_after else 0)
    found = changes_during(channel, 0.0, end_s).outages
    moments = [[moment_text(round(each * 1e6) * 1000) for each in outage] for outage in found[:MOST_OUTAGES]]
    texts = [" to ".join(outage) for outage in moments]
    more = [f"and {len(found) - MOST_OUTAGES} more times"] if len(found) > MOST_OUTAGES else []
    return f"down {', '.join([*texts, *more])}" if texts else ""


def _both_ways(channel: WrittenChannel, text: Callable[[Mapping[str, Any]], str]) -> str:
    forward, reverse = text(channel.forward), text(channel.reverse)
    return forward if forward == reverse else f"{forward} → / {reverse} ←"


def _changes(link: Mapping[str, Any]) -> str:
    return ", ".join(_PHRASES[name](value) for name, value in link.items() if name in _PHRASES) or "unchanged"


def _rate(link: Mapping[str, Any]) -> str:
    written = link.get("rate", "unlimited")
    return rate_text(None if written in ("unlimited", "none") else parse_rate_bps(written))


def _delay(link: Mapping[str, Any]) -> str:
    return _written_delay(link.get("delay", "0 s"))


def _written_delay(text: str) -> str:
    return delay_text(parse_delay_ns(text))


def _moment(text: str) -> str:
    return moment_text(parse_delay_ns(text))


def _pattern(pattern: Mapping[str, Any]) -> str:
    kind = "bits" if pattern.get("bits") else "packets"
    return f"{len(pattern[kind])} listed {kind} with errors"


def _or_none(name: str, phrase: Callable[[Any], str]) -> Callable[[Any], str]:
    """A phrase for a step that turns an impairment off."""
    return lambda value: f"no {name}" if value == "none" else phrase(value)


def _coding(value: Mapping[str, Any]) -> str:
    rate = probability_text(value["frame_error_rate"])
    return f"coded frames of {value['frame_bytes']} B, frame error rate {rate}"


_EFFECTS = {"flip": "an error flips one bit", "drop": "an error drops the frame"}
_OWN_PHRASES: dict[str, Callable[[Any], str]] = {
    "delay": lambda value: f"delay {_written_delay(value)}",
    "keeps_order": lambda keeps: "packets keep their order" if keeps else "packets may be reordered",
    "rate": lambda value: _rate({"rate": value}),
    "packet_error_rate": lambda value: f"packet error rate {probability_text(value)}",
    "bit_error_rate": lambda value: f"bit error rate {probability_text(value)}",
    "coding": _or_none("coded frames", _coding),
    "error_effect": lambda value: _EFFECTS[value],
    "pattern": _or_none("listed errors", _pattern),
    "up": lambda up: "up" if up else "down",
    "while_down": lambda value: f"packets {'wait' if value == 'hold' else 'are dropped'} during outages",
}
"""Phrases, from the written value, of keys that have no label of their own or are shown in other units."""


def _labelled(row: Impairment) -> Callable[[Any], str]:
    return _or_none(row.label, lambda value: f"{row.label} {row.text(value, probability_text)}")


_PHRASES: dict[str, Callable[[Any], str]] = {
    key_of(field): _OWN_PHRASES.get(key_of(field)) or _labelled(row) for field, row in impairments().items()
}
"""A phrase for each key of a link, from its written value."""


_VARYING = {"jitter", "reordering", "up", "while_down"}
"""The keys of a link with which the delay varies without a queue."""


def link_of(channel: WrittenChannel, way: str) -> Link | None:
    """The delay, rate and overhead of a direction; None if it has no rate, if it or its delay changes over time, or if
    aimed faults do more than drop packets."""
    written = channel.forward if way == "forward" else channel.reverse
    rate = written.get("rate", "unlimited")
    if channel.bypass or channel.timeline or rate in ("unlimited", "none") or _VARYING & set(written):
        return None
    if any(fault.get("direction") == way and fault.get("action") != "drop" for fault in channel.faults):
        return None
    return Link(
        parse_delay_ns(written.get("delay", "0 s")),
        parse_rate_bps(rate),
        parse_size_bytes(written.get("overhead", "0 B")),
    )
