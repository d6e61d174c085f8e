"""The dimensions of a sweep and their values: what figures are drawn against, what rows and columns stand for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from reports.channels import channel_head, rates_text
from reports.load import Results
from reports.records import Permutation
from reports.units import delay_text, listed, probability_text, rate_text, size_text


@dataclass(frozen=True)
class Axis:
    """A dimension of the grid that figures are drawn against, its values as categories."""

    field: Literal["packet_error_rate", "file_size_bytes"]
    slug: str
    label: str

    def text(self, value: float) -> str:
        """A value of the dimension, for a tick."""
        return probability_text(value) if self == ERROR_RATE else size_text(int(value))

    def file_text(self, value: float) -> str:
        """The same for a file name."""
        return f"{value:g}" if self == ERROR_RATE else size_text(int(value))


ERROR_RATE = Axis("packet_error_rate", "error-rate", "packet error rate")
FILE_SIZE = Axis("file_size_bytes", "file-size", "file size")
OTHER = {ERROR_RATE: FILE_SIZE, FILE_SIZE: ERROR_RATE}


@dataclass(frozen=True)
class Place:
    """What the boxes of a row of panels have in common: the channel, but for errors that the sweep varies."""

    channel_name: str
    rate_bps: float | None
    delay_ns: int
    own_error_rate: float | None
    """None: the sweep says which there are."""
    text: str
    """What stands over the row."""
    caption: str
    file_text: str

    def point(self, implementation: str, error_rate: float | None, size_bytes: float | None) -> Permutation:
        """A point of the grid that is here; an error rate of None is the channel's own."""
        return Permutation.model_validate(
            {
                "implementation": implementation,
                "channel_name": self.channel_name,
                "rate_bps": self.rate_bps,
                "delay_ns": self.delay_ns,
                "packet_error_rate": self.own_error_rate if error_rate is None else error_rate,
                "file_size_bytes": size_bytes,
            }
        )


@dataclass(frozen=True)
class Group:
    """The places that share a figure, its rows. `text` is what a caption says of them."""

    places: tuple[Place, ...]
    text: str
    panels_text: str
    """The same where each place is a panel."""
    file_text: str


@dataclass(frozen=True)
class Grid:
    """The values of each dimension of a sweep, ascending, channels in the order of the sweep.

    A dimension that each channel has its own value of has none here.
    """

    channels: tuple[str, ...]
    rates: tuple[float | None, ...]
    delays: tuple[int, ...]
    sizes: tuple[int, ...]
    error_rates: tuple[float, ...]
    groups: tuple[Group, ...]

    @classmethod
    def of(cls, results: Results) -> Grid:
        """The grid that the sweep asked for."""
        points, sweep = results.asked, results.sweep
        named = bool(sweep.channel_names)
        return cls(
            channels=sweep.channel_names,
            rates=() if named and sweep.rate is None else tuple(dict.fromkeys(point.rate_bps for point in points)),
            delays=() if named and sweep.delay is None else tuple(sorted({point.delay_ns for point in points})),
            sizes=tuple(sorted({point.file_size_bytes for point in points})),
            error_rates=()
            if _has_own_errors(results)
            else tuple(sorted({point.packet_error_rate for point in points})),
            groups=(_named_group(results),) if named else _groups_by_rate(results),
        )

    def along(self, axis: Axis) -> tuple[float, ...]:
        """The values of the dimension that an axis stands for."""
        return self.error_rates if axis == ERROR_RATE else self.sizes

    @property
    def axes(self) -> list[Axis]:
        """The axes with more than one value, or the first that has any where none has more."""
        axes = [axis for axis in (ERROR_RATE, FILE_SIZE) if self.along(axis)]
        return [axis for axis in axes if len(self.along(axis)) > 1] or axes[:1]


def _has_own_errors(results: Results) -> bool:
    return bool(results.sweep.channel_names) and results.sweep.packet_error_rate is None


def _groups_by_rate(results: Results) -> tuple[Group, ...]:
    """A figure for each rate, with a row for each delay."""
    rates = dict.fromkeys(point.rate_bps for point in results.asked)
    delays = sorted({point.delay_ns for point in results.asked})

    def place(rate: float | None, delay: int) -> Place:
        text = f"{delay_text(delay)} one way"
        return Place(
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
            text=f"{rate_text(rate)} both ways; rows one-way delay {rows}",
            panels_text=f"{rate_text(rate)} both ways; panels one-way delay {rows}",
            file_text=rate_text(rate),
        )
        for rate in rates
    )


def _named_group(results: Results) -> Group:
    """A row for each channel; for each of its rates and delays where the sweep gives several."""
    own = _has_own_errors(results)
    found: dict[tuple[str, float | None, int], Permutation] = {}
    for point in results.asked:
        found.setdefault((point.channel_name, point.rate_bps, point.delay_ns), point)
    times = Counter(name for name, _, _ in found)

    def place(point: Permutation) -> Place:
        several = f"-{delay_text(point.delay_ns)}-{rate_text(point.rate_bps)}" if times[point.channel_name] > 1 else ""
        head = channel_head(results.channels[point].asked)
        return Place(
            channel_name=point.channel_name,
            rate_bps=point.rate_bps,
            delay_ns=point.delay_ns,
            own_error_rate=point.packet_error_rate if own else None,
            text=f"{point.channel_name} · {head}",
            caption=f"channel {point.channel_name}, {head}",
            file_text=point.channel_name + several,
        )

    names = listed(list(dict.fromkeys(name for name, _, _ in found)))
    asked = [results.channels[point].asked for point in found.values()]
    rates_differ = len({rates_text(channel) for channel in asked}) > 1

    def text(part: str) -> str:
        differ = f"; rates differ between {part}s" if rates_differ else ""
        return f"a {part} for each channel, {names}, its rate and delay over it{differ}"

    return Group(
        places=tuple(map(place, found.values())),
        text=text("row"),
        panels_text=text("panel"),
        file_text="channels",
    )
