"""The tables of the page: medians, with implementations as columns if there are few, else as rows; files in a pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil
from statistics import fmean, median
from typing import Literal, NamedTuple

from owlt.captures.accounting.ledger import Ledger
from owlt.reports.answer.regions import Dimension
from owlt.reports.comparison.cells import Cell, Sample, box_of, implementations_in
from owlt.reports.comparison.estimates import Box, share
from owlt.reports.comparison.grid import Grid
from owlt.reports.comparison.metrics import METRICS, TIME_TO_DELIVERY, Metric, shown_in
from owlt.reports.looks import NAMED
from owlt.reports.results.channels import channel_head
from owlt.reports.results.load import Results, Run
from owlt.reports.results.rows import TcpRun, tcp_of
from owlt.reports.units import axis_text, probability_text, tick_text
from owlt.results.permutation import Permutation
from owlt.results.record import Outcome

PAGE_LETTERS = 150
"""The width of the page."""
NUMBER_LETTERS, NAME_LETTERS = 10, 4
"""The width of a column of numbers, and of a name beside its own letters."""
LEAST_LETTERS, POINT_LETTERS = 9, 20
"""The least width of a column, and the width of the columns that name channel and file."""


@dataclass(frozen=True)
class GlanceRow:
    """One channel and size: the boxes of each metric, the implementations side by side."""

    boxes: tuple[tuple[Box, ...], ...]

    @property
    def point(self) -> Box:
        """Any box of the row, for its channel and file size."""
        return self.boxes[0][0]


@dataclass(frozen=True)
class Head:
    """A dimension above the columns: its values in order, each with the number of columns below it."""

    name: str
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class GlanceTable:
    """A row for each implementation; for each metric a column for each channel and size, below `heads`."""

    metrics: tuple[Metric, ...]
    heads: tuple[Head, ...]
    rows: dict[str, tuple[tuple[Box, ...], ...]]
    """By implementation: the boxes of each metric."""

    @property
    def points(self) -> int:
        """The number of columns of each metric."""
        return len(next(iter(self.rows.values()))[0])


def glance_rows(results: Results) -> list[GlanceRow]:
    """A row for each channel and file size; [] if `glance_tables` has them."""
    names, metrics = list(results.implementations), shown_in(results, METRICS)
    if _is_wide(names, len(metrics)):
        return []
    return [
        GlanceRow(tuple(tuple(box_of(results, _at(point, name), metric) for name in names) for metric in metrics))
        for point in _points(results)
    ]


def glance_tables(results: Results) -> list[GlanceTable]:
    """The tables with a row for each implementation, as many as fit the page; [] if `glance_rows` has them."""
    names, metrics = list(results.implementations), shown_in(results, METRICS)
    if not _is_wide(names, len(metrics)):
        return []
    points = _points(results)
    heads = _heads(Grid.of(results), points)
    room = PAGE_LETTERS - NAME_LETTERS - max(map(len, names))
    tables = ceil(len(metrics) / max(1, room // (NUMBER_LETTERS * len(points))))
    across = ceil(len(metrics) / tables)
    return [
        GlanceTable(
            shown,
            heads,
            {
                name: tuple(tuple(box_of(results, _at(point, name), metric) for point in points) for metric in shown)
                for name in names
            },
        )
        for start in range(0, len(metrics), across)
        for shown in [metrics[start : start + across]]
    ]


def _is_wide(names: list[str], metrics: int) -> bool:
    """Whether the names do not fit side by side for each of so many metrics."""
    letters = metrics * sum(max(len(name) + NAME_LETTERS, LEAST_LETTERS) for name in names)
    return len(names) > NAMED or letters > PAGE_LETTERS - POINT_LETTERS


def _points(results: Results) -> list[Permutation]:
    """Each channel and file size of any implementation, as points of the first, which need not be planned."""
    first = next(iter(results.implementations))
    return list(dict.fromkeys(_at(point, first) for point in results.planned))


def _at(point: Permutation, name: str) -> Permutation:
    return point.model_copy(update={"implementation": name})


def _heads(grid: Grid, points: list[Permutation]) -> tuple[Head, ...]:
    """The dimensions with more than one value; columns of equal value share a head within an outer head."""
    varied = [(axis.head, [axis_text(axis, axis.of(point)) for point in points]) for axis in grid.columns]
    return tuple(
        Head(name, tuple((key[-1], len(list(same))) for key, same in groupby(zip(*outer, strict=True))))
        for depth, (name, _) in enumerate(varied)
        for outer in [[of_points for _, of_points in varied[: depth + 1]]]
    )


OUTCOMES: tuple[str, ...] = tuple(Outcome)
OUTCOME_COLUMNS = {name: name.replace("_", " ") for name in OUTCOMES} | {
    "missing": "not yet run",
    "suspect": "suspect",
    "without_numbers": "no numbers",
}
"""The counts of an implementation's runs, and their names in the table."""


def outcome_counts(results: Results) -> dict[str, Counter[str]]:
    """By implementation: the number of runs that were planned, and of those in each of OUTCOME_COLUMNS."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in results.implementations}
    for permutation, planned in results.planned.items():
        runs = results.by_permutation[permutation]
        counts[permutation.implementation] += Counter(run.record.outcome for run in runs) + Counter(
            planned=planned,
            missing=planned - len(runs),
            suspect=sum(bool(run.suspect) for run in runs),
            without_numbers=sum(run.completed and run.summary is None for run in runs),
        )
    return counts


def shown_outcomes(counts: dict[str, Counter[str]]) -> dict[str, str]:
    """The columns of OUTCOME_COLUMNS in which any implementation has a run."""
    return {name: text for name, text in OUTCOME_COLUMNS.items() if any(of_one[name] for of_one in counts.values())}


Way = Literal["forward", "reverse"]

LEDGER_COLUMNS = {
    "sent": "sent",
    "delivered": "delivered",
    "corrupted": "corrupted",
    "lost": "lost",
    "queue": "queue",
    "mtu": "too long",
    "in_flight": "in flight",
    "unrecognised": "unrecognised",
    "undetermined": "undetermined",
    "duplicated": "duplicated",
    "reordered": "reordered",
    "ecn_capable": "ECT",
    "ecn_marked": "CE",
    "unexplained": "unexplained",
}
"""The counts of a ledger and their names in the table."""
_ALWAYS = ("sent", "delivered", "unexplained")
_ARROWS: dict[Way, str] = {"forward": "→", "reverse": "←"}


@dataclass(frozen=True)
class LedgerRow:
    """The sums of one direction over the runs of a permutation that have a summary."""

    permutation: Permutation
    arrow: str
    runs: int
    counts: dict[str, int]


@dataclass(frozen=True)
class Unexplained:
    """A run whose ledger does not balance: packets missing without a recorded drop, or never sent."""

    run: Run
    arrow: str
    missing: int
    arrived: int


def ledger_of(run: Run, way: Way) -> Ledger | None:
    """The ledger of one direction; None if there is no summary."""
    if run.summary is None:
        return None
    return run.summary.ledger_forward if way == "forward" else run.summary.ledger_reverse


def ledger_rows(results: Results) -> list[LedgerRow]:
    """A row for each permutation that has a run with a summary, and for each direction, in the order of the grid."""
    return [
        LedgerRow(point, arrow, len(ledgers), _sums(ledgers))
        for point, runs in results.by_permutation.items()
        for way, arrow in _ARROWS.items()
        if (ledgers := [ledger for run in runs if (ledger := ledger_of(run, way)) is not None])
    ]


def _sums(ledgers: Sequence[Ledger]) -> dict[str, int]:
    return {name: sum(getattr(ledger, name) or 0 for ledger in ledgers) for name in LEDGER_COLUMNS}


def shown_ledger_columns(rows: Sequence[LedgerRow]) -> dict[str, str]:
    """The columns of LEDGER_COLUMNS that have a count, and those that are always shown."""
    return {
        name: text for name, text in LEDGER_COLUMNS.items() if name in _ALWAYS or any(row.counts[name] for row in rows)
    }


def unexplained(results: Results) -> list[Unexplained]:
    """Every run and direction whose ledger does not balance."""
    return [
        Unexplained(run, arrow, ledger.unexplained_missing, ledger.unexplained_arrived)
        for run in results.runs
        for way, arrow in _ARROWS.items()
        if (ledger := ledger_of(run, way)) is not None and ledger.unexplained
    ]


def corrupted_unseen(results: Results) -> int:
    """The number of corrupted packets that only the emulator counted, because captures were cut."""
    ledgers = (ledger_of(run, way) for run in results.runs for way in _ARROWS)
    return sum(ledger.corrupted_unseen for ledger in ledgers if ledger is not None)


GOODPUT = METRICS[0]
HEADS = (
    "implementation",
    "channel",
    "file",
    "packet error rate",
    "runs",
    GOODPUT.name,
    "packets sent",
    "RTO (%)",
    "fast retransmit (%)",
    "spurious (%)",
)
TEXT_HEADS = 4
"""The number of columns of text."""
CAPTION = (
    "Means over the runs that delivered the file, from the counters of the sender's kernel, as shares of the packets "
    "that the sender sent (STR). RTO: retransmission timeouts, those of a SYN included. Fast retransmit: segments "
    "retransmitted in fast recovery, after duplicate or selective acknowledgements. Spurious: segments that the "
    "receiver reported as received twice (DSACK), if it reports them. ≤: an upper bound, because another connection "
    "of the sender's host retransmitted too."
)
UNKNOWN = "–"


@dataclass(frozen=True)
class TcpRow:
    """Means over the runs of one permutation; `spurious_percent` is None if it is unknown for a run."""

    permutation: Permutation
    runs: tuple[TcpRun, ...]
    planned: int

    @property
    def n_text(self) -> str:
        """The number of runs, and of planned runs if it differs: "3", "2/3"."""
        return str(len(self.runs)) if len(self.runs) == self.planned else f"{len(self.runs)}/{self.planned}"

    @property
    def spurious_percent(self) -> float | None:
        """The mean share of spurious retransmissions."""
        return _mean_if_known(run.spurious_percent for run in self.runs) if self.runs else None


def tcp_rows(results: Results) -> list[TcpRow]:
    """A row for each permutation with a run over TCP, in the order of the grid.

    A row without runs: no file of the permutation was delivered.
    """
    return [
        TcpRow(point, tuple(numbers for run in runs if (numbers := tcp_of(run)) is not None), results.planned[point])
        for point, runs in results.by_permutation.items()
        if any(host.sockets or host.problem for run in runs for host in run.record.tcp.values())
    ]


def tcp_cells(results: Results) -> list[tuple[str, ...]]:
    """The rows as texts, in the columns of HEADS."""
    return [_cells(results, row) for row in tcp_rows(results)]


def tcp_problems(results: Results) -> list[tuple[Run, str]]:
    """The runs over TCP whose kernel counters are missing, and the reason."""
    problems_by_run = [
        (run, [f"{role}: {host.problem}" for role, host in run.record.tcp.items() if host.problem])
        for run in results.runs
    ]
    return [(run, "; ".join(problems)) for run, problems in problems_by_run if problems]


def _cells(results: Results, row: TcpRow) -> tuple[str, ...]:
    point, runs = row.permutation, row.runs
    name = f"{point.channel_name} · " if point.channel_name else ""
    point_cells = (
        results.implementations[point.implementation],
        name + channel_head(results.channels[point].specified),
        point.load_text,
        probability_text(point.packet_error_rate),
        row.n_text,
    )
    if not runs:
        return (*point_cells, *[UNKNOWN] * (len(HEADS) - len(point_cells)))
    goodput = _mean_if_known(run.goodput_bps for run in runs)
    return (
        *point_cells,
        UNKNOWN if goodput is None else GOODPUT.quantity_text(goodput / GOODPUT.per_unit),
        tick_text(round(fmean(run.packets_sent for run in runs), 1)),
        _at_most("timeouts", runs) + _percent_text(fmean(run.timeout_percent for run in runs)),
        _at_most("fast_retransmissions", runs) + _percent_text(fmean(run.fast_percent for run in runs)),
        UNKNOWN if row.spurious_percent is None else _percent_text(row.spurious_percent),
    )


def _mean_if_known(values: Iterable[float | None]) -> float | None:
    numbers = list(values)
    return None if None in numbers else fmean(value for value in numbers if value is not None)


def _at_most(count: str, runs: Iterable[TcpRun]) -> str:
    return "≤ " if any(count in run.at_most for run in runs) else ""


def _percent_text(value: float) -> str:
    return tick_text(float(f"{value:.3g}"))


@dataclass(frozen=True)
class PassRow:
    """One cell: its values of the dimensions in words, and the times of each implementation."""

    places: tuple[str, ...]
    samples: tuple[PassTimes, ...]


class PassTimes(NamedTuple):
    """The times to delivery in s, and the number of runs that have a result. `is_determined`: every further
    run is the same."""

    times_s: tuple[float, ...] = ()
    tried: int = 0
    is_determined: bool = False


@dataclass(frozen=True)
class Passes:
    """The times of all cells. `length_s` is that of the pass to show first."""

    names: tuple[str, ...]
    rows: tuple[PassRow, ...]
    length_s: float

    def text(self, sample: PassTimes) -> str:
        """The files delivered in the pass to show first: "9 of 10 (60 to 98 %)"; "–": no run has a result."""
        found = share(sum(time_s <= self.length_s for time_s in sample.times_s), sample.tried)
        if found is None:
            return "–"
        if sample.is_determined:
            return f"{found.count} of {found.n} (always)" if found.count else f"0 of {found.n} (never)"
        return f"{found.count} of {found.n} ({100 * found.low:.0f} to {100 * found.high:.0f} %)"


def passes_of(cells: Sequence[Cell], dimensions: Sequence[Dimension]) -> Passes | None:
    """The times of a sweep; None if no file was delivered. The pass to show first has the median time, rounded up."""
    names = tuple(implementations_in(cells))
    rows = tuple(
        PassRow(
            tuple(dimension.text(dimension.of(cell.point)) for dimension in dimensions),
            tuple(_times(cell.samples.get(name)) for name in names),
        )
        for cell in cells
    )
    times_s = [time_s for row in rows for each in row.samples for time_s in each.times_s]
    return Passes(names, rows, float(f"{1.05 * median(times_s):.2g}")) if times_s else None


def _times(sample: Sample | None) -> PassTimes:
    if sample is None:
        return PassTimes()
    times_s = [time_s for row in sample.delivered_rows if (time_s := TIME_TO_DELIVERY.of_row(row)) is not None]
    return PassTimes(tuple(sorted(times_s)), sample.tried, sample.is_determined)
