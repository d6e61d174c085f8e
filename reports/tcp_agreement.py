"""Whether the sender's kernel and the packets at its port agree on what was sent again: two who count apart."""

from __future__ import annotations

from captures.protocols.tcp_counts import TcpCounts
from reports.records import HostTcp


def tcp_disagreement(sender: HostTcp, counts: TcpCounts) -> str:
    """Why the one or the other is not to be trusted, as a sentence; "" where they agree.

    Also "" where the kernel's count may not be whole: no numbers, or a connection that went on after the run.
    """
    if not sender.sockets or not all(socket.get("is_final") for socket in sender.sockets):
        return ""
    by_kernel = sum(int(socket.get("total_retrans") or 0) for socket in sender.sockets)
    if by_kernel == counts.sent_again:
        return ""
    return (
        f"the sender's kernel sent {by_kernel} segments again, and {counts.sent_again} came to the emulator so: "
        "was anything dropped on the sender's host?"
    )
