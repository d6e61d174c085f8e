"""TCP's retransmissions in the form of Tauran et al. (2017, tables 1 and 2): goodput, and timeouts, fast
retransmissions and needless ones over the packets sent.

The paper gives no formulas, and its example (212 timeouts of 21,051 packets, called 0.22 %) fits none; these are ours.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from reports.channels import channel_head
from reports.load import Results, Run
from reports.metrics import METRICS
from reports.records import HostTcp, Permutation
from reports.units import measured_text, probability_text, size_text, tick_text

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
"""So many of them stand over words."""
CAPTION = (
    "Means, over the runs that delivered the file, of what the sender's kernel counted, as shares of the packets that "
    "the sender sent (STR): "
    "retransmission timeouts (RTO), with those of a SYN; segments sent again in fast recovery, upon duplicate or "
    "selective acknowledgements; segments that the receiver reported as having come twice (DSACK), so needless, where "
    "it reports them. After ≤ the count may hold segments of another connection of the sender's host."
)
UNKNOWN = "–"
COUNTERS = (
    "TcpRetransSegs",
    "TcpExtTCPTimeouts",
    "TcpExtTCPFastRetrans",
    "TcpExtTCPSlowStartRetrans",
    "TcpExtTCPLossProbes",
    "TcpExtTCPLossProbeRecovery",
    "TcpExtTCPLostRetransmit",
    "TcpExtTCPSynRetrans",
    "TcpExtTCPSpuriousRTOs",
    "TcpExtTCPDSACKRecv",
    "TcpExtTCPDSACKOfoRecv",
    "TcpExtTCPDSACKUndo",
    "TcpExtTCPFullUndo",
    "TcpExtTCPPartialUndo",
    "TcpExtTCPLossUndo",
    "TcpExtTCPSACKReorder",
    "TcpExtTCPTSReorder",
    "TcpExtTCPRenoReorder",
)
"""Of the sender's host."""
RECEIVER_COUNTERS = ("TcpExtDelayedACKs", "TcpExtDelayedACKLost", "TcpExtTCPDSACKOldSent", "TcpExtTCPDSACKOfoSent")
"""Of the receiver's host. DelayedACKs has those of the orchestrator's own connection in it."""
_ROLES: tuple[Literal["sender", "receiver"], ...] = ("sender", "receiver")


@dataclass(frozen=True)
class TcpRun:
    """What the kernels counted in one run. `spurious` is None where the receiver does not report what came twice."""

    packets_sent: int
    goodput: float | None
    """In the unit of GOODPUT."""
    sent_again: int
    timeouts: int
    fast_retransmissions: int
    spurious: int | None
    at_most: frozenset[str]
    """Which counts are of all the host's connections, of which another one sent segments again too."""

    @property
    def timeout_percent(self) -> float:
        """100 × timeouts / packets sent."""
        return 100 * self.timeouts / self.packets_sent

    @property
    def fast_percent(self) -> float:
        """100 × segments sent again in fast recovery / packets sent."""
        return 100 * self.fast_retransmissions / self.packets_sent

    @property
    def spurious_percent(self) -> float | None:
        """100 × segments that came twice / packets sent."""
        return None if self.spurious is None else 100 * self.spurious / self.packets_sent


@dataclass(frozen=True)
class TcpRow:
    """Means over the runs of one permutation; `spurious_percent` is None where a run does not know it."""

    permutation: Permutation
    runs: tuple[TcpRun, ...]
    asked: int

    @property
    def n_text(self) -> str:
        """How many runs, with that asked for where it differs: "3", "2/3"."""
        return str(len(self.runs)) if len(self.runs) == self.asked else f"{len(self.runs)}/{self.asked}"

    @property
    def spurious_percent(self) -> float | None:
        """The mean share of needless segments."""
        return _mean_if_known(run.spurious_percent for run in self.runs) if self.runs else None


def tcp_of(run: Run) -> TcpRun | None:
    """The numbers of a completed run over TCP that was summarised; None of any other."""
    sender, receiver = run.record.tcp.get("sender"), run.record.tcp.get("receiver")
    if not (sender and receiver and sender.sockets and run.completed and run.summary and run.summary.str_sent):
        return None
    reported = receiver.dsack and all(socket.get("sack") for socket in sender.sockets)
    timeouts = _sum(sender, "total_rto")
    of_the_host = {"fast_retransmissions"} | ({"timeouts"} if timeouts is None else set())
    return TcpRun(
        packets_sent=run.summary.str_sent,
        goodput=GOODPUT.of(run),
        sent_again=_sum(sender, "total_retrans") or 0,
        timeouts=sender.counters.get("TcpExtTCPTimeouts", 0) if timeouts is None else timeouts,
        fast_retransmissions=sender.counters.get("TcpExtTCPFastRetrans", 0),
        spurious=_sum(sender, "dsack_dups") if reported else None,
        at_most=frozenset(of_the_host if sender.others_retransmitted else ()),
    )


def _sum(host: HostTcp, name: str) -> int | None:
    """Over all sockets of the run; None where the kernel does not count it."""
    values = [value for socket in host.sockets if isinstance(value := socket.get(name), int)]
    return sum(values) if len(values) == len(host.sockets) else None


def tcp_rows(results: Results) -> list[TcpRow]:
    """A row for each permutation with a run over TCP, in the order of the grid; none where the sweep has no TCP.

    A row without runs is of a permutation of which no file was delivered.
    """
    return [
        TcpRow(point, tuple(numbers for run in runs if (numbers := tcp_of(run)) is not None), results.asked[point])
        for point, runs in results.by_permutation.items()
        if any(host.sockets or host.problem for run in runs for host in run.record.tcp.values())
    ]


def tcp_cells(results: Results) -> list[tuple[str, ...]]:
    """The same rows as texts under HEADS."""
    return [_cells(results, row) for row in tcp_rows(results)]


def tcp_problems(results: Results) -> list[tuple[Run, str]]:
    """The runs over TCP of which a kernel's numbers are missing, and why."""
    found = [
        (run, [f"{role}: {host.problem}" for role, host in run.record.tcp.items() if host.problem])
        for run in results.runs
    ]
    return [(run, "; ".join(problems)) for run, problems in found if problems]


def _cells(results: Results, row: TcpRow) -> tuple[str, ...]:
    point, runs = row.permutation, row.runs
    name = f"{point.channel_name} · " if point.channel_name else ""
    point_cells = (
        results.implementations[point.implementation],
        name + channel_head(results.channels[point].asked),
        size_text(point.file_size_bytes),
        probability_text(point.packet_error_rate),
        row.n_text,
    )
    if not runs:
        return (*point_cells, *[UNKNOWN] * (len(HEADS) - len(point_cells)))
    goodput = _mean_if_known(run.goodput for run in runs)
    return (
        *point_cells,
        UNKNOWN if goodput is None else measured_text(goodput),
        tick_text(round(fmean(run.packets_sent for run in runs), 1)),
        _at_most("timeouts", runs) + _percent_text(fmean(run.timeout_percent for run in runs)),
        _at_most("fast_retransmissions", runs) + _percent_text(fmean(run.fast_percent for run in runs)),
        UNKNOWN if row.spurious_percent is None else _percent_text(row.spurious_percent),
    )


def _mean_if_known(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if None in known else fmean(value for value in known if value is not None)


def _at_most(count: str, runs: Iterable[TcpRun]) -> str:
    return "≤ " if any(count in run.at_most for run in runs) else ""


def _percent_text(value: float) -> str:
    return tick_text(float(f"{value:.3g}"))


def tcp_csv(results: Results) -> str:
    """One row a run over TCP, completed or not: counts and shares, then the kernels' counters by their names."""
    counts = ("packets_sent", "sent_again", "timeouts", "fast_retransmissions", "spurious")
    shares = ("timeout_percent", "fast_percent", "spurious_percent")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        (
            *("run_id", *Permutation.model_fields, "repetition", "outcome", "goodput_bps"),
            *(*counts, *shares, "others_retransmitted"),
            *(*COUNTERS, *(f"receiver_{name}" for name in RECEIVER_COUNTERS), "problem"),
        )
    )
    for run in results.runs:
        if not run.record.tcp:
            continue
        sender, receiver = (run.record.tcp.get(role, HostTcp(problem="nothing is known")) for role in _ROLES)
        numbers = tcp_of(run)
        writer.writerow(
            (
                *(run.record.run_id, *run.record.permutation.model_dump().values(), run.record.repetition),
                *(run.record.outcome, run.summary.goodput_bps if run.summary and run.completed else None),
                *(getattr(numbers, name, None) for name in (*counts, *shares)),
                sender.others_retransmitted + receiver.others_retransmitted,
                *(None if sender.problem else sender.counters.get(name, 0) for name in COUNTERS),
                *(None if receiver.problem else receiver.counters.get(name, 0) for name in RECEIVER_COUNTERS),
                "; ".join(filter(None, (sender.problem, receiver.problem))),
            )
        )
    return text.getvalue()
