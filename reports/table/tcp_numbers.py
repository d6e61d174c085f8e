"""What the kernels counted in a run over TCP: timeouts, fast retransmissions and spurious ones, and their shares.

The paper whose tables these follow (Tauran et al. 2017) gives no formulas; these are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from owlt.reports.results.load import Run
from owlt.reports.results.records import HostTcp


@dataclass(frozen=True)
class TcpRun:
    """The kernels' counters of one run. `spurious` is None if the receiver does not report duplicates."""

    packets_sent: int
    goodput_bps: float | None
    sent_again: int
    timeouts: int
    fast_retransmissions: int
    spurious: int | None
    at_most: frozenset[str]
    """The counts that are of all the host's connections, if another one retransmitted too."""

    @property
    def timeout_percent(self) -> float:
        """100 × timeouts / packets sent."""
        return 100 * self.timeouts / self.packets_sent

    @property
    def fast_percent(self) -> float:
        """100 × segments retransmitted in fast recovery / packets sent."""
        return 100 * self.fast_retransmissions / self.packets_sent

    @property
    def spurious_percent(self) -> float | None:
        """100 × segments received twice / packets sent."""
        return None if self.spurious is None else 100 * self.spurious / self.packets_sent


def tcp_of(run: Run) -> TcpRun | None:
    """The numbers of a completed run over TCP that has a summary; None of any other."""
    sender, receiver = run.record.tcp.get("sender"), run.record.tcp.get("receiver")
    if not (sender and receiver and sender.sockets and run.completed and run.summary and run.summary.str_sent):
        return None
    reported = receiver.dsack and all(socket.get("sack") for socket in sender.sockets)
    timeouts = _sum(sender, "total_rto")
    of_the_host = {"fast_retransmissions"} | ({"timeouts"} if timeouts is None else set())
    return TcpRun(
        packets_sent=run.summary.str_sent,
        goodput_bps=run.summary.goodput_bps,
        sent_again=_sum(sender, "total_retrans") or 0,
        timeouts=sender.counters.get("TcpExtTCPTimeouts", 0) if timeouts is None else timeouts,
        fast_retransmissions=sender.counters.get("TcpExtTCPFastRetrans", 0),
        spurious=_sum(sender, "dsack_dups") if reported else None,
        at_most=frozenset(of_the_host if sender.others_retransmitted else ()),
    )


def _sum(host: HostTcp, name: str) -> int | None:
    """The sum over all sockets of the run; None if the kernel does not count it."""
    values = [value for socket in host.sockets if isinstance(value := socket.get(name), int)]
    return sum(values) if len(values) == len(host.sockets) else None
