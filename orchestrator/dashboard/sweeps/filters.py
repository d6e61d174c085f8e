"""The filters of the matrix: what the query of an address selects, and which values can be selected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from owlt.orchestrator.dashboard.sweeps.cells import STATES, Cell, Condition, PlannedCell
from owlt.reports.results.records import Permutation
from owlt.reports.style.units import delay_text, duration_text, probability_text, rate_text, size_text


@dataclass(frozen=True)
class Dimension:
    """A dimension of the grid: its name in addresses and in the head of the matrix, and its values as text."""

    name: str
    head: str
    text: Callable[[Permutation], str]


DIMENSIONS = (
    Dimension("channel", "channel", lambda point: point.channel_name),
    Dimension("rate", "rate", lambda point: rate_text(point.rate_bps)),
    Dimension("delay", "delay", lambda point: delay_text(point.delay_ns)),
    Dimension("file", "file", lambda point: "" if point.file_size_bytes is None else size_text(point.file_size_bytes)),
    Dimension(
        "duration", "duration", lambda point: "" if point.duration_ns is None else duration_text(point.duration_ns)
    ),
    Dimension("per", "PER", lambda point: probability_text(point.packet_error_rate)),
)


LOADS = ("file", "duration")
"""What is sent, or for how long: a sweep has one of them."""


@dataclass(frozen=True)
class Choice:
    """What a form offers for one name: its values in the order of the grid."""

    name: str
    label: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Filter:
    """The selected values by name; a name without values selects everything."""

    selected: Mapping[str, frozenset[str]]

    @classmethod
    def of_query(cls, query: Mapping[str, Sequence[str]]) -> Filter:
        """The filter of an address; names that are none of a filter are ignored, and empty values are no values."""
        names = ("implementation", *(each.name for each in DIMENSIONS), "state")
        given = {name: frozenset(filter(None, query.get(name, ()))) for name in names}
        return cls({name: values for name, values in given.items() if values})

    @property
    def query(self) -> str:
        """The filter as the query of an address, without the question mark; "" if it selects everything."""
        return urlencode([(name, value) for name, values in self.selected.items() for value in sorted(values)])

    def shows_column(self, implementation: str) -> bool:
        """Whether an implementation is selected."""
        return self._selects("implementation", implementation)

    def shows(self, planned: PlannedCell, cell: Cell) -> bool:
        """Whether a cell is selected."""
        states = self.selected.get("state")
        return (
            self.shows_column(planned.implementation)
            and all(self._selects(each.name, each.text(planned.condition.point)) for each in DIMENSIONS)
            and (states is None or bool(states & cell.states))
        )

    def is_selected(self, name: str, value: str) -> bool:
        """Whether a form shows a value as selected."""
        return value in self.selected.get(name, ())

    def _selects(self, name: str, value: str) -> bool:
        return name not in self.selected or value in self.selected[name]


def varying(planned: Sequence[PlannedCell]) -> list[Dimension]:
    """The dimensions with more than one value; the file's size or the duration if there is none."""
    points = list(dict.fromkeys(each.condition.point for each in planned))
    several = [each for each in DIMENSIONS if len({each.text(point) for point in points}) > 1]
    return several or [each for each in DIMENSIONS if each.name in LOADS and points and each.text(points[0])]


def choices(planned: Sequence[PlannedCell]) -> list[Choice]:
    """What can be selected."""
    implementations = tuple(dict.fromkeys(each.implementation for each in planned))
    points = list(dict.fromkeys(each.condition.point for each in planned))
    several = [
        Choice(each.name, each.head, tuple(dict.fromkeys(each.text(point) for point in points)))
        for each in varying(planned)
    ]
    return [
        Choice("implementation", "implementation", implementations),
        *(each for each in several if len(each.values) > 1),
        Choice("state", "state", STATES),
    ]


def condition_title(planned: Sequence[PlannedCell], condition: Condition) -> str:
    """A condition in words: what differs between the conditions of the sweep."""
    return " · ".join(f"{each.head} {each.text(condition.point)}" for each in varying(planned))
