"""Set the initial slow start threshold of the next connections to a peer.

Linux has no option for this: it takes the threshold only from its metrics of earlier connections (tcp_metrics(8)).
Therefore this program opens and closes a connection to the peer's address that does not leave this host: a temporary
route makes the address local, and has the threshold as a locked metric. The round trip is locked too, so that the
kernel does not remember the round trip within this host. The kernel keeps the metrics if net.ipv4.tcp_no_metrics_save
is 0, and uses them if net.ipv4.tcp_no_ssthresh_metrics_save is 0. Needs CAP_NET_ADMIN.
"""

from __future__ import annotations

import argparse
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from owlt.agents.endpoint.command_line import at_least_one
from owlt.agents.endpoint.exit import Unsupported, exit_status

IP_FREEBIND = 15
"""Linux socket option that allows binding to an address that no interface has."""
LIMIT_S = 10.0


def main(arguments: list[str] | None = None) -> int:
    """Set the threshold. Exit status: 0 set, 2 bad usage, 127 not supported."""
    parser = argparse.ArgumentParser(prog="owlt.agents.tcp.threshold", description="the initial slow start threshold")
    parser.add_argument("segments", type=at_least_one, help="the threshold, in segments")
    parser.add_argument("local", help="this host's address")
    parser.add_argument("peer", help="the address of the peer of the connections")
    options = parser.parse_args(arguments)
    return exit_status(lambda: remember_threshold(**vars(options)))


def remember_threshold(segments: int, local: str, peer: str) -> str:
    """Make the kernel remember the threshold, in segments, and return a line of text.

    Raises Unsupported over IPv6, without the privilege, or if the kernel keeps no metrics.
    """
    if ":" in peer:
        raise Unsupported("an initial slow start threshold over IPv6: the loopback interfaces of hosts have IPv4 only")
    with _local_route(segments, local, peer):
        _connect(local, peer)
    known = _ip("tcp_metrics", "show", peer)
    if not re.search(rf"\bssthresh {segments}\b", known):
        raise Unsupported(f"the kernel keeps no slow start threshold for {peer}; set net.ipv4.tcp_no_metrics_save to 0")
    return f"initial_ssthresh={segments}"


@contextmanager
def _local_route(segments: int, local: str, peer: str) -> Iterator[None]:
    """A temporary route that makes the peer's address local."""
    route = ("local", peer, "dev", "lo", "table", "local")
    metrics = ("ssthresh", "lock", str(segments), "rtt", "lock", "0", "rttvar", "lock", "0")
    _ip("route", "add", *route, "src", local, *metrics)
    try:
        yield
    finally:
        _ip("route", "del", *route)


def _connect(local: str, peer: str) -> None:
    """Open a connection from one address to the other, and close it first at the opening end, which keeps the
    metrics."""
    with socket.socket() as listener, socket.socket() as opening:
        listener.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        for each in (listener, opening):
            each.settimeout(LIMIT_S)
        listener.bind((peer, 0))
        listener.listen(1)
        opening.bind((local, 0))
        opening.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            opening.shutdown(socket.SHUT_WR)
            accepted.settimeout(LIMIT_S)
            accepted.recv(1)
        opening.recv(1)


def _ip(*words: str) -> str:
    """The output of ip(8). Raises Unsupported if it fails."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unsupported(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
