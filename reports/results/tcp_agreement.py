"""Whether the sender's kernel and the packets at its port agree on retransmissions: two independent counts."""

from __future__ import annotations

from owlt.captures.protocols.tcp_counts import TcpCounts
from owlt.reports.results.records import HostTcp


def tcp_disagreement(sender: HostTcp, counts: TcpCounts) -> str:
    """A sentence if the two counts differ; "" if they agree.

    Also "" if the kernel's count may be incomplete: no numbers, or a connection that continued after the run.
    """
    if not sender.sockets or not all(socket.get("is_final") for socket in sender.sockets):
        return ""
    by_kernel = sum(int(socket.get("total_retrans") or 0) for socket in sender.sockets)
    if by_kernel == counts.sent_again:
        return ""
    return (
        f"the sender's kernel counted {by_kernel} retransmitted segments, but {counts.sent_again} reached the "
        "emulator: check for drops on the sender's host"
    )
