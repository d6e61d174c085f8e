"""TCP's retransmissions in the form of Tauran et al. (2017, tables 1 and 2): goodput, and timeouts, fast
retransmissions and spurious ones over the packets sent.

The paper gives no formulas, and its example (212 timeouts of 21,051 packets, given as 0.22 %) fits none; these are
ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from owlt.reports.comparison.metrics import METRICS
from owlt.reports.results.channels import channel_head
from owlt.reports.results.load import Results, Run
from owlt.reports.results.rows import TcpRun, tcp_of
from owlt.reports.style.units import measured_text, probability_text, tick_text
from owlt.results.record import Permutation

GOODPUT = METRICS[0]
HEADS = (
    "implementation",
    "channel",
    "file",
    "packet error rate",
    "runs",
    GOODPUT.label,
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
        UNKNOWN if goodput is None else measured_text(goodput / GOODPUT.per_unit),
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
