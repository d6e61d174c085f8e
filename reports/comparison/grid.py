"""The dimensions of a sweep and their values: the axes of figures, and their rows and columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from owlt.inputs import quantities
from owlt.inputs.axes import AXES, OF_THE_LINK, Axis, conditions_of, fields_of
from owlt.reports.results.channels import channel_head, rates_text
from owlt.reports.results.load import Results
from owlt.reports.units import axis_text, delay_text, listed, named_axis_text, rate_text
from owlt.results.permutation import Permutation


@dataclass(frozen=True)
class FigureAxis:
    """An axis of the grid that figures are drawn against, its values as categories."""

    of_grid: Axis = field(compare=False)
    """That of both directions of a link, or of the forward one if they differ in the sweep."""
    slug: str
    several: str = field(compare=False)
    """The words before a list of its values."""

    @property
    def field(self) -> str:
        """The field of a point of the grid."""
        return self.of_grid.field

    @property
    def label(self) -> str:
        """The label beside the axis."""
        return self.of_grid.label

    @property
    def head(self) -> str:
        """The head of its column in a table."""
        return self.of_grid.head

    def text(self, value: float) -> str:
        """A value of the dimension, for a tick."""
        return axis_text(self.of_grid, value)

    def named_text(self, value: float) -> str:
        """A value with the name of its quantity, if it needs one: "100 kB", "PER 0.01"."""
        return named_axis_text(self.of_grid, value)

    def file_text(self, value: float) -> str:
        """The text of a value in a file name."""
        return f"{value:g}" if self == ERROR_RATE else self.text(value)

    def listed(self, values: Sequence[float]) -> str:
        """Values in a caption: "packet error rate 0 and 0.01", "files of 1 MB"."""
        return f"{self.several} {listed([self.text(value) for value in values])}"


ERROR_RATE = FigureAxis(AXES["packet_error_rate"], "error-rate", "packet error rate")
FILE_SIZE = FigureAxis(AXES["file_size"], "file-size", "files of")
DURATION = FigureAxis(AXES["duration"], "duration", "durations of")
DELAY = FigureAxis(AXES["delay"], "delay", "one-way delays of")


Others = tuple[tuple[str, Any], ...]
"""The version of IP and values of the reverse link, by the keys of their axes."""


@dataclass(frozen=True)
class GridPlace:
    """The channel that the boxes of a row of panels share, without error rates that the sweep varies."""

    channel_name: str
    rate_bps: float | None
    delay_ns: int
    own_error_rate: float | None
    """None if the sweep gives the error rates."""
    others: Others
    """Those that the sweep gives, unless they are the forward link's everywhere."""
    text: str
    """The heading of the row."""
    caption: str
    file_text: str

    def point(self, implementation: str, values: Mapping[FigureAxis, float | None]) -> Permutation:
        """The point of the grid with these values; others are those of the place, as is an error rate of None."""
        own = {
            "implementations": implementation,
            "channel": self.channel_name,
            "rate": self.rate_bps,
            "delay": self.delay_ns,
            "packet_error_rate": self.own_error_rate,
        }
        given = {axis.of_grid.both or axis.of_grid.key: value for axis, value in values.items() if value is not None}
        return Permutation.model_validate(fields_of({**own, **given, **dict(self.others)}))


@dataclass(frozen=True)
class Group:
    """The places that share a figure: its rows. `text` describes them in a caption."""

    places: tuple[GridPlace, ...]
    text: str
    rate_text: str
    """The rate; "" of named channels."""
    panels_text: str
    """The caption text if each place is a panel."""
    file_text: str


@dataclass(frozen=True)
class Grid:
    """The values of each dimension of a sweep, ascending, channels in the order of the sweep.

    A dimension is empty if each channel has its own value of it.
    """

    channels: tuple[str, ...]
    rates: tuple[float | None, ...]
    delays: tuple[int, ...]
    load_axis: FigureAxis
    """FILE_SIZE or DURATION."""
    loads: tuple[int, ...]
    """The file sizes, or the durations."""
    error_rates: tuple[float, ...]
    groups: tuple[Group, ...]
    link: tuple[tuple[str, str], ...]
    """The axes of the links that the sweep gives, and their values in words."""
    columns: tuple[Axis, ...]
    """The axes with more than one value, for the columns of a table; the error rate changes fastest."""
    error_axis: FigureAxis
    """ERROR_RATE, in words."""

    @classmethod
    def of(cls, results: Results) -> Grid:
        """The grid of a sweep."""
        points, sweep = results.planned, results.sweep
        named = bool(sweep.channel_names)
        given = [AXES[key] for key in conditions_of(points) if key not in OF_THE_LINK or _gives(results, key)]
        axes = sorted(given, key=lambda axis: axis.quantity is quantities.PROBABILITY)
        error = next((axis for axis in axes if axis.field == "packet_error_rate"), ERROR_RATE.of_grid)
        return cls(
            channels=sweep.channel_names,
            rates=tuple(dict.fromkeys(point.rate_bps for point in points)) if _gives(results, "rate") else (),
            delays=tuple(sorted({point.delay_ns for point in points})) if _gives(results, "delay") else (),
            load_axis=_load_axis(results),
            loads=tuple(sorted({point.load for point in points})),
            error_rates=tuple(sorted({point.packet_error_rate for point in points}))
            if _gives(results, "packet_error_rate")
            else (),
            groups=(_named_group(results),) if named else _groups_by_rate(results),
            link=tuple(_link_words(axis, points) for axis in axes if axis.key in OF_THE_LINK),
            columns=tuple(axis for axis in axes if len({axis.of(point) for point in points}) > 1),
            error_axis=FigureAxis(error, ERROR_RATE.slug, error.label) if error.way else ERROR_RATE,
        )

    def along(self, axis: FigureAxis) -> tuple[float, ...]:
        """The values of an axis."""
        return {ERROR_RATE: self.error_rates, DELAY: self.delays}.get(axis, self.loads)

    def other(self, axis: FigureAxis) -> FigureAxis:
        """The axis that gives columns or figures if figures are drawn against the given one."""
        return self.load_axis if axis == ERROR_RATE else self.error_axis

    def worded(self, axis: FigureAxis) -> FigureAxis:
        """An axis in words of this sweep, in which the directions of the links may differ."""
        return self.error_axis if axis == ERROR_RATE else axis

    @property
    def axes(self) -> list[FigureAxis]:
        """The axes with more than one value, without the delay; if there is none, the first with a value."""
        axes = [axis for axis in (self.error_axis, self.load_axis) if self.along(axis)]
        return [axis for axis in axes if len(self.along(axis)) > 1] or axes[:1]


def _load_axis(results: Results) -> FigureAxis:
    return FILE_SIZE if all(point.duration_ns is None for point in results.planned) else DURATION


def _gives(results: Results, key: str) -> bool:
    """Whether the sweep gives the values of an axis of the links; else each channel has its own."""
    axis, sweep = AXES[key], results.sweep
    return not sweep.channel_names or sweep.gives_way(axis.way or "forward", axis.both or key)


def _link_words(axis: Axis, points: Iterable[Permutation]) -> tuple[str, str]:
    """The name of an axis of the links, and its values in words."""
    values = dict.fromkeys(axis.of(point) for point in points)
    texts = ", ".join(axis_text(axis, value) for value in values)
    ways = "" if axis.way else ", each way" if axis.quantity is quantities.DELAY else ", both ways"
    return axis.label[0].upper() + axis.label[1:], texts + ways


def _other_axes(results: Results) -> list[Axis]:
    """The axes whose values `others` of a place has."""
    is_given = results.sweep.gives if results.sweep.channel_names else conditions_of(results.planned).__contains__
    ip = [AXES["ip"]] if results.sweep.gives("ip") else []
    return ip + [axis for axis in AXES.values() if axis.way == "reverse" and is_given(axis.key)]


def _others(axes: Sequence[Axis], point: Permutation) -> Others:
    return tuple((axis.key, axis.of(point)) for axis in axes)


def _others_text(others: Others) -> str:
    return "".join(f", {named_axis_text(AXES[key], value)}" for key, value in others)


def _others_file_text(others: Others) -> str:
    return _others_text(others).replace(",", "").replace(" ", "-")


def _groups_by_rate(results: Results) -> tuple[Group, ...]:
    """A figure for each rate, with a row for each delay, version of IP and reverse link that differs."""
    rates = dict.fromkeys(point.rate_bps for point in results.planned)
    delays = sorted({point.delay_ns for point in results.planned})
    axes = _other_axes(results)
    alternatives = list(dict.fromkeys(_others(axes, point) for point in results.planned))
    shown = conditions_of(results.planned)
    one_way, both_ways = "one way" if "delay" in shown else "forward", "both ways" if "rate" in shown else "forward"

    def place(rate: float | None, delay: int, others: Others) -> GridPlace:
        text, back = f"{delay_text(delay)} {one_way}", _others_text(others)
        return GridPlace(
            channel_name="",
            rate_bps=rate,
            delay_ns=delay,
            own_error_rate=None,
            others=others,
            text=text + back,
            caption=f"{text}, {rate_text(rate)} {both_ways}{back}",
            file_text=f"{delay_text(delay)}-{rate_text(rate)}{_others_file_text(others)}",
        )

    def group(rate: float | None) -> Group:
        several = len(alternatives) > 1
        rate_words = f"{rate_text(rate)} {both_ways}{'' if several else _others_text(alternatives[0])}"
        rows = f"one-way delay {listed([delay_text(delay) for delay in delays])}"
        what = [AXES[key].label if key == "ip" else "reverse link" for key, _ in alternatives[0]]
        rows += f"; each {listed([*dict.fromkeys(what)])} of the sweep" if several else ""
        return Group(
            places=tuple(place(rate, delay, others) for delay in delays for others in alternatives),
            text=f"{rate_words}; rows: {rows}",
            rate_text=rate_words,
            panels_text=f"{rate_words}; panels: {rows}",
            file_text=rate_text(rate),
        )

    return tuple(map(group, rates))


def _named_group(results: Results) -> Group:
    """A row for each channel, and for each of its rates and delays if the sweep gives several."""
    first_points: dict[tuple[str, float | None, int, Others], Permutation] = {}
    axes = _other_axes(results)
    for point in results.planned:
        place = (point.channel_name, point.rate_bps, point.delay_ns, _others(axes, point))
        first_points.setdefault(place, point)
    times = Counter(name for name, *_ in first_points)
    specified = [results.channels[point].specified for point in first_points.values()]
    rates_differ = len({rates_text(channel) for channel in specified}) > 1

    def text(part: str) -> str:
        differ = f"; rates differ between {part}s" if rates_differ else ""
        return f"one {part} for each channel ({listed(list(times))}){differ}"

    return Group(
        places=tuple(_named_place(results, point, times[point.channel_name]) for point in first_points.values()),
        text=text("row"),
        rate_text="",
        panels_text=text("panel"),
        file_text="channels",
    )


def _named_place(results: Results, point: Permutation, places_of_channel: int) -> GridPlace:
    """The place of a point on a named channel; a channel with several places has rate and delay in file names."""
    others = _others(_other_axes(results), point)
    values = f"-{delay_text(point.delay_ns)}-{rate_text(point.rate_bps)}{_others_file_text(others)}"
    suffix = values if places_of_channel > 1 else ""
    head = channel_head(results.channels[point].specified)
    return GridPlace(
        channel_name=point.channel_name,
        rate_bps=point.rate_bps,
        delay_ns=point.delay_ns,
        own_error_rate=None if _gives(results, "packet_error_rate") else point.packet_error_rate,
        others=others,
        text=f"{point.channel_name} · {head}",
        caption=f"channel {point.channel_name}, {head}",
        file_text=point.channel_name + suffix,
    )
