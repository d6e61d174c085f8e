"""A channel, its counters and its certificate in words: rows for tables, nothing printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from emulator.channel import DIRECTIONS, ChannelSpec, LinkSpec
from emulator.impairments import GilbertElliott
from emulator.quantities import format_delay, format_rate, format_size

Rows = list[tuple[str, ...]]
NOTHING = "none"
MOST_STEPS = 20
_ALWAYS = ("delay", "rate", "errors")


def link_rows(channel: ChannelSpec) -> Rows:
    """What is asked, forward, reverse: a row for each quantity that either link has, and for the usual ones."""
    rows = [(name, *(told(channel.link(direction)) for direction in DIRECTIONS)) for name, told in _TOLD.items()]
    return [row for row in rows if row[0] in _ALWAYS or row[1:] != (NOTHING, NOTHING)]


def step_rows(channel: ChannelSpec) -> Rows:
    """When, and what changes forward and reverse: the first steps of the timeline, and how it ends."""
    if channel.timeline is None:
        return []
    wire = channel.to_wire()["timeline"]
    steps = wire["steps"]
    rows: Rows = [
        (step["at"], *(_changes(step.get(direction, {})) for direction in DIRECTIONS)) for step in steps[:MOST_STEPS]
    ]
    if len(steps) > MOST_STEPS:
        rows.append(("...", f"{len(steps) - MOST_STEPS} more, the last at {steps[-1]['at']}", ""))
    end = ("and again", "from the beginning") if "loop_after" in wire else ("then", "as the last step left it")
    return [*rows, (wire.get("loop_after", end[0]), f"{end[0]} {end[1]}" if "loop_after" in wire else end[1], "")]


def counter_rows(statistics: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Rows:
    """Stage and counter, forward, reverse; empty where there is none."""
    names = dict.fromkeys(
        (stage, counter) for stages in statistics.values() for stage, counters in stages.items() for counter in counters
    )
    return [
        (f"{stage} {counter.replace('_', ' ')}", *(_counted(statistics, way, stage, counter) for way in DIRECTIONS))
        for stage, counter in names
    ]


def certificate_rows(certificate: Mapping[str, Any]) -> Rows:
    """Direction, quantity, asked, measured, the interval's ends, how many and the verdict, as they are shown."""
    return [
        (
            str(check["direction"]),
            str(check["quantity"]),
            _number(check.get("asked")),
            _number(check.get("measured")),
            _number(check.get("low")),
            _number(check.get("high")),
            f"{check['count']:,}" if check.get("count") else "",
            str(check["verdict"]),
        )
        for check in certificate["checks"]
    ]


def certificate_reasons(certificate: Mapping[str, Any]) -> list[str]:
    """Why what is not ok is not."""
    return [
        f"{check['direction']}: {check['quantity']}: {check['reason']}"
        for check in certificate["checks"]
        if check.get("reason")
    ]


def _number(value: object) -> str:
    if not isinstance(value, int | float):
        return ""
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.6g}"


def _counted(statistics: Mapping[str, Mapping[str, Mapping[str, int]]], way: str, stage: str, counter: str) -> str:
    value = statistics.get(way, {}).get(stage, {}).get(counter)
    return "" if value is None else f"{value:,}"


def _changes(link: Mapping[str, Any]) -> str:
    return ", ".join(_change(key, value) for key, value in link.items()) or "as before"


def _change(key: str, value: Any) -> str:
    if key == "up":
        return "up" if value else "down"
    if key == "while_down":
        return f"packets {'wait' if value == 'hold' else 'are dropped'} while down"
    return f"{key.replace('_', ' ')} {_plain(value)}"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(_plain(each) for each in value.values())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _jitter(link: LinkSpec) -> str:
    if link.jitter is None:
        return NOTHING
    meaning = {"uniform": "at most", "table": "times the table,"}.get(link.jitter.distribution, "standard deviation")
    return f"{link.jitter.distribution}, {meaning} {format_delay(link.jitter.amount_ns)}"


def _rate(link: LinkSpec) -> str:
    return "unlimited" if link.rate_bps is None else format_rate(link.rate_bps)


def _queue(link: LinkSpec) -> str:
    return NOTHING if link.rate_bps is None else str(link.to_wire().get("queue", f"{link.queue_packets} packets"))


def _errors(link: LinkSpec) -> str:
    effect = {"flip": "a bit of each is flipped", "drop": "and dropped"}[link.error_effect]
    if link.bit_error_rate:
        return f"{link.bit_error_rate:g} of the bits hit, {effect if link.error_effect == 'flip' else 'frames dropped'}"
    if link.packet_error_rate:
        return f"{link.packet_error_rate:g} of the frames hit, {effect}"
    if link.pattern is not None:
        kind, numbers = ("bits", link.pattern.bits) if link.pattern.bits else ("frames", link.pattern.packets)
        return f"{len(numbers)} listed {kind} hit, {effect}"
    return NOTHING


def _loss(link: LinkSpec) -> str:
    if isinstance(link.loss, GilbertElliott):
        return f"{link.loss.mean_rate:g} of the packets, in bursts of {link.loss.burst_packets:g} on average"
    if link.loss is not None:
        chances = link.loss.model_dump(exclude={"model"}).items()
        return "four states: " + ", ".join(f"{name} {value:g}" for name, value in chances)
    return NOTHING


def _reordering(link: LinkSpec) -> str:
    late = link.reordering
    return NOTHING if late is None else f"{late.rate:g} of the packets later by {format_delay(late.by_ns)}"


def _order(link: LinkSpec) -> str:
    return NOTHING if link.keeps_order else "packets overtake"


def _outage(link: LinkSpec) -> str:
    return NOTHING if link.up else f"down, packets {'wait' if link.while_down == 'hold' else 'are dropped'}"


_TOLD: dict[str, Callable[[LinkSpec], str]] = {
    "delay": lambda link: format_delay(link.delay_ns),
    "jitter": _jitter,
    "order": _order,
    "reordering": _reordering,
    "rate": _rate,
    "queue": _queue,
    "overhead": lambda link: f"{format_size(link.overhead_bytes)} a frame" if link.overhead_bytes else NOTHING,
    "MTU": lambda link: format_size(link.mtu_bytes) if link.mtu_bytes else NOTHING,
    "errors": _errors,
    "loss": _loss,
    "duplication": lambda link: f"{link.duplication_rate:g} of the packets" if link.duplication_rate else NOTHING,
    "outage": _outage,
    "seed": lambda link: str(link.seed) if link.seed is not None and link.draws else NOTHING,
}
