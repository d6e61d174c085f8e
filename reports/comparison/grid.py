"""The dimensions of a sweep and their values: the axes of figures, and their rows and columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from owlt.inputs.axes import AXES, Axis
from owlt.reports.results.channels import channel_head, rates_text
from owlt.reports.results.load import Results
from owlt.reports.units import axis_text, delay_text, listed, named_axis_text, rate_text
from owlt.results.record import Permutation


@dataclass(frozen=True)
class FigureAxis:
    """An axis of the grid that figures are drawn against, its values as categories."""

    of_grid: Axis
    slug: str
    several: str
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


@dataclass(frozen=True)
class GridPlace:
    """The channel that the boxes of a row of panels share, without error rates that the sweep varies."""

    channel_name: str
    rate_bps: float | None
    delay_ns: int
    own_error_rate: float | None
    """None if the sweep gives the error rates."""
    text: str
    """The heading of the row."""
    caption: str
    file_text: str

    def point(self, implementation: str, values: Mapping[FigureAxis, float | None]) -> Permutation:
        """The point of the grid with these values; others are those of the place, as is an error rate of None."""
        return Permutation.model_validate(
            {
                "implementation": implementation,
                "channel_name": self.channel_name,
                "rate_bps": self.rate_bps,
                "delay_ns": self.delay_ns,
                "packet_error_rate": self.own_error_rate,
                **{axis.field: value for axis, value in values.items() if value is not None},
            }
        )


@dataclass(frozen=True)
class Group:
    """The places that share a figure: its rows. `text` describes them in a caption."""

    places: tuple[GridPlace, ...]
    text: str
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

    @classmethod
    def of(cls, results: Results) -> Grid:
        """The grid of a sweep."""
        points, sweep = results.planned, results.sweep
        named = bool(sweep.channel_names)
        return cls(
            channels=sweep.channel_names,
            rates=() if named and not sweep.gives("rate") else tuple(dict.fromkeys(point.rate_bps for point in points)),
            delays=() if named and not sweep.gives("delay") else tuple(sorted({point.delay_ns for point in points})),
            load_axis=_load_axis(results),
            loads=tuple(sorted({point.load for point in points})),
            error_rates=()
            if _has_own_errors(results)
            else tuple(sorted({point.packet_error_rate for point in points})),
            groups=(_named_group(results),) if named else _groups_by_rate(results),
        )

    def along(self, axis: FigureAxis) -> tuple[float, ...]:
        """The values of an axis."""
        return {ERROR_RATE: self.error_rates, DELAY: self.delays}.get(axis, self.loads)

    def other(self, axis: FigureAxis) -> FigureAxis:
        """The axis that gives columns or figures if figures are drawn against the given one."""
        return self.load_axis if axis == ERROR_RATE else ERROR_RATE

    @property
    def axes(self) -> list[FigureAxis]:
        """The axes with more than one value, without the delay; if there is none, the first with a value."""
        axes = [axis for axis in (ERROR_RATE, self.load_axis) if self.along(axis)]
        return [axis for axis in axes if len(self.along(axis)) > 1] or axes[:1]


def _load_axis(results: Results) -> FigureAxis:
    return FILE_SIZE if all(point.duration_ns is None for point in results.planned) else DURATION


def _has_own_errors(results: Results) -> bool:
    return bool(results.sweep.channel_names) and not results.sweep.gives("packet_error_rate")


def _groups_by_rate(results: Results) -> tuple[Group, ...]:
    """A figure for each rate, with a row for each delay."""
    rates = dict.fromkeys(point.rate_bps for point in results.planned)
    delays = sorted({point.delay_ns for point in results.planned})

    def place(rate: float | None, delay: int) -> GridPlace:
        text = f"{delay_text(delay)} one way"
        return GridPlace(
            channel_name="",
            rate_bps=rate,
            delay_ns=delay,
            own_error_rate=None,
            text=text,
            caption=f"{text}, {rate_text(rate)} both ways",
            file_text=f"{delay_text(delay)}-{rate_text(rate)}",
        )

    rows = listed([delay_text(delay) for delay in delays])
    return tuple(
        Group(
            places=tuple(place(rate, delay) for delay in delays),
            text=f"{rate_text(rate)} both ways; rows: one-way delay {rows}",
            panels_text=f"{rate_text(rate)} both ways; panels: one-way delay {rows}",
            file_text=rate_text(rate),
        )
        for rate in rates
    )


def _named_group(results: Results) -> Group:
    """A row for each channel, and for each of its rates and delays if the sweep gives several."""
    first_points: dict[tuple[str, float | None, int], Permutation] = {}
    for point in results.planned:
        first_points.setdefault((point.channel_name, point.rate_bps, point.delay_ns), point)
    times = Counter(name for name, _, _ in first_points)
    specified = [results.channels[point].specified for point in first_points.values()]
    rates_differ = len({rates_text(channel) for channel in specified}) > 1

    def text(part: str) -> str:
        differ = f"; rates differ between {part}s" if rates_differ else ""
        return f"one {part} for each channel ({listed(list(times))}){differ}"

    return Group(
        places=tuple(_named_place(results, point, times[point.channel_name]) for point in first_points.values()),
        text=text("row"),
        panels_text=text("panel"),
        file_text="channels",
    )


def _named_place(results: Results, point: Permutation, places_of_channel: int) -> GridPlace:
    """The place of a point on a named channel; a channel with several places has rate and delay in file names."""
    suffix = f"-{delay_text(point.delay_ns)}-{rate_text(point.rate_bps)}" if places_of_channel > 1 else ""
    head = channel_head(results.channels[point].specified)
    return GridPlace(
        channel_name=point.channel_name,
        rate_bps=point.rate_bps,
        delay_ns=point.delay_ns,
        own_error_rate=point.packet_error_rate if _has_own_errors(results) else None,
        text=f"{point.channel_name} · {head}",
        caption=f"channel {point.channel_name}, {head}",
        file_text=point.channel_name + suffix,
    )
