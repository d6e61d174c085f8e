"""A channel as rows of tables and curves of a figure, and its counters and certificate in words; prints nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owlt.emulator.certification.certificate import Check, number_text, power_text
from owlt.emulator.certification.expectations import Expectations
from owlt.emulator.channel.impairment import Impairment
from owlt.emulator.channel.link import impairments, key_of
from owlt.emulator.channel.spec import DIRECTIONS, ChannelSpec, LinkSpec
from owlt.emulator.service.player import moments
from owlt.inputs.quantities import format_delay, format_rate

Rows = list[tuple[str, ...]]
NOTHING = "none"
IN_ORDER = "kept"
_DEFAULTS = {NOTHING, IN_ORDER}
MOST_STEPS = 20
_ALWAYS = ("delay", "rate", "errors")


def link_rows(channel: ChannelSpec) -> Rows:
    """Quantity, forward, reverse: a row for delay, rate and errors, and for each other quantity that a link has."""
    rows = [(name, *(text_of(channel.link(direction)) for direction in DIRECTIONS)) for name, text_of in _TEXTS.items()]
    return [row for row in rows if row[0] in _ALWAYS or not set(row[1:]) <= _DEFAULTS]


def channel_line(channel: ChannelSpec) -> str:
    """What a channel does to packets, in one line; "" if it is clear: without an impairment in either direction."""
    texts = []
    for direction in DIRECTIONS:
        shown = {name: text_of(channel.link(direction)) for name, text_of in _TEXTS.items()}
        if named := [f"{name} {text}" for name, text in shown.items() if text != _TEXTS[name](LinkSpec())]:
            texts.append(f"{direction}: {', '.join(named)}")
    texts += ["changing with a timeline"] if channel.timeline is not None else []
    texts += [_counting(len(channel.faults), "aimed fault")] if channel.faults else []
    return "; ".join(texts)


def step_rows(channel: ChannelSpec) -> Rows:
    """Time, forward changes, reverse changes: the first steps of the timeline, and how it ends."""
    if channel.timeline is None:
        return []
    wire = channel.to_wire()["timeline"]
    steps = wire["steps"]
    rows: Rows = [
        (each["at"], *(_changes(each.get(direction, {}), getattr(step, direction)) for direction in DIRECTIONS))
        for each, step in zip(steps[:MOST_STEPS], channel.timeline.steps, strict=False)
    ]
    if len(steps) > MOST_STEPS:
        rows.append(("...", f"{len(steps) - MOST_STEPS} more, the last at {steps[-1]['at']}", ""))
    if "loop_after" in wire:
        return [*rows, (wire["loop_after"], "repeat from the beginning", "")]
    return [*rows, ("then", "no further changes", "")]


def counter_rows(statistics: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Rows:
    """Stage and counter, forward, reverse; an empty cell if a direction does not have the counter."""
    names = dict.fromkeys(
        (stage, counter) for stages in statistics.values() for stage, counters in stages.items() for counter in counters
    )
    return [
        (f"{stage} {counter.replace('_', ' ')}", *(_counted(statistics, way, stage, counter) for way in DIRECTIONS))
        for stage, counter in names
    ]


def certificate_rows(certificate: Mapping[str, Any]) -> Rows:
    """Direction, quantity, specified, measured, both ends of the interval, sample size and verdict, as text."""
    return [
        (
            str(check["direction"]),
            str(check["quantity"]),
            _number(check.get("specified")),
            _number(check.get("measured")),
            _number(check.get("low")),
            _number(check.get("high")),
            f"{check['count']:,}" if check.get("count") else "",
            str(check["verdict"]),
        )
        for check in certificate["checks"]
    ]


def power_rows(certificate: Mapping[str, Any]) -> Rows:
    """Direction, quantity, sample size, and the errors that a sample of this size finds, for each measured quantity."""
    checks = [Check(**check) for check in certificate["checks"]]
    return [
        (check.direction, check.quantity, f"{check.count:,}", power_text(check))
        for check in checks
        if check.verdict != "not measured"
    ]


def certificate_reasons(certificate: Mapping[str, Any]) -> list[str]:
    """The reason for each quantity that was not measured. Numbers show why a quantity failed."""
    return [
        f"{check['direction']}: {check['quantity']}: {check['reason']}"
        for check in certificate["checks"]
        if check.get("reason") and check["verdict"] != "failed"
    ]


def _number(value: float | None) -> str:
    return "" if value is None else number_text(value)


def _counted(statistics: Mapping[str, Mapping[str, Mapping[str, int]]], way: str, stage: str, counter: str) -> str:
    value = statistics.get(way, {}).get(stage, {}).get(counter)
    return "" if value is None else f"{value:,}"


def _changes(changes: Mapping[str, Any], link: LinkSpec) -> str:
    """The changes of a step; `link` is the link after it."""
    texts = [_change(key, value, link) for key, value in changes.items() if key != "while_down" or "up" not in changes]
    return ", ".join(texts) or "no change"


def _change(key: str, value: Any, link: LinkSpec) -> str:
    if key == "up":
        return "up" if value else _outage(link)
    if key == "while_down":
        return f"packets {_WHILE_DOWN[link.while_down]} while down"
    if key == "keeps_order":
        return f"order {_order(link)}"
    if key == "rate" and value == NOTHING:
        return "rate unlimited"
    label, name = _LABELS[key], key.replace("_", " ")
    name = label if label.lower() == name else name
    if isinstance(value, Mapping):
        return f"{name} {_TEXTS[label](link)}"
    return f"{name} {_short_queue(value) if key == 'queue' else _plain(value)}"


def _plain(value: Any) -> str:
    return (
        f"{value:.10g}"
        if isinstance(value, float) and abs(value) < 1
        else str(int(value) if isinstance(value, float) and value.is_integer() else value)
    )


def _short_queue(written: str) -> str:
    """A queue as in a profile, with the shortest number: "2 BDP", not "2.0 BDP"."""
    number, _, unit = written.partition(" ")
    return f"{float(number):g} BDP" if unit == "BDP" else written


def _rate(link: LinkSpec) -> str:
    return "unlimited" if link.rate_bps is None else format_rate(link.rate_bps)


def _queue(link: LinkSpec) -> str:
    if link.rate_bps is None:
        return NOTHING
    return _short_queue(link.to_wire().get("queue", f"{link.queue_packets} packets"))


def _errors(link: LinkSpec) -> str:
    drops = link.error_effect == "drop"
    if link.coding is not None:
        coding = link.coding
        return f"frame error rate {coding.frame_error_rate:g}, coded frames of {coding.frame_bytes} B dropped"
    if link.bit_error_rate:
        return f"bit error rate {link.bit_error_rate:g}, {'frames dropped' if drops else 'bits flipped'}"
    if link.packet_error_rate:
        effect = "frames dropped" if drops else "one bit of each frame flipped"
        return f"packet error rate {link.packet_error_rate:g}, {effect}"
    if link.pattern is not None and link.pattern.bits:
        return f"{_counting(len(link.pattern.bits), 'listed bit')}, {'frames dropped' if drops else 'flipped'}"
    if link.pattern is not None:
        effect = "dropped" if drops else "one bit of each flipped"
        return f"{_counting(len(link.pattern.packets), 'listed frame')}, {effect}"
    return NOTHING


def _counting(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _order(link: LinkSpec) -> str:
    return IN_ORDER if link.keeps_order else "packets may overtake each other"


def _outage(link: LinkSpec) -> str:
    return NOTHING if link.up else f"down, packets {_WHILE_DOWN[link.while_down]}"


_WHILE_DOWN = {"hold": "held", "drop": "dropped"}
_OWN_TEXTS: dict[str, Callable[[LinkSpec], str]] = {
    "delay": lambda link: format_delay(link.delay_ns),
    "order": _order,
    "rate": _rate,
    "queue": _queue,
    "errors": _errors,
    "outage": _outage,
}
"""Texts of several keys, or of a key whose default value is shown, by label."""


def _text(name: str, row: Impairment) -> Callable[[LinkSpec], str]:
    return lambda link: row.text(link.to_wire()[key_of(name)]) if link.has(name) else NOTHING


_TEXTS: dict[str, Callable[[LinkSpec], str]] = {
    **{row.label: _OWN_TEXTS.get(row.label) or _text(name, row) for name, row in impairments().items()},
    "seed": lambda link: str(link.seed) if link.seed is not None and link.draws else NOTHING,
}
"""The effects of a link, by the label of its keys."""
_LABELS = {key_of(name): row.label for name, row in impairments().items()} | {"seed": "seed"}


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
