"""Samples this host's TCP during a run: `python -m owlt.agents.probes.tcp_samples ADDRESS PEER PORTS PERIOD_S`.

Samples the sockets between the two addresses on one of the ports (PORT[,PORT...]) every PERIOD_S (0: never), until
SIGTERM; then it writes everything at once, so that it only samples during the run: a line of JSON, and the samples as
CSV. The kernel also reports each socket that it destroys, with its last counters: these are a socket's totals.

The JSON has `sockets`, a list of TOTALS of each; `counters`, the increments of this network namespace's (/proc/net/snmp
and /proc/net/netstat, as `nstat -az` names them), if not 0; `others_retransmitted`, the segments that sockets of
anybody else, such as sshd's, sent again meanwhile, which are in the counters too; `dsack`, whether this host reports
duplicate segments (RFC 2883); `period_ns`, between the samples that were kept.

The kernel is asked by netlink (sock_diag(7), linux/inet_diag.h), without pyroute2: its import takes half a second in a
guest, a request takes 0.45 ms instead of 0.03 ms (measured), and it has no field after snd_wnd, such as Linux 6.7's
count of timeouts.
"""

import json
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

from owlt.agents.contract.ports import parse_ports

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
TCP_DESTROY_GROUPS = 1 << 0 | 1 << 2
"""SKNLGRP_INET_TCP_DESTROY and SKNLGRP_INET6_TCP_DESTROY: an IPv6 socket may carry IPv4."""
INET_DIAG_INFO, INET_DIAG_CONG = 2, 4

NETLINK_MESSAGE = struct.Struct("=IHHII")
DIAG_REQUEST = struct.Struct("=BBBxI48x")
DIAG_SOCKET = struct.Struct("=BBxx2s2s16s16s4xQ20x")
NETLINK_ATTRIBUTE = struct.Struct("=HH")
ANSWER_BYTES = 1 << 18

STATES = {
    1: "established",
    2: "syn_sent",
    3: "syn_recv",
    4: "fin_wait1",
    5: "fin_wait2",
    6: "time_wait",
    7: "closed",
    8: "close_wait",
    9: "last_ack",
    11: "closing",
}
LOOKED_AT = sum(1 << number for number, name in STATES.items() if name not in ("syn_recv", "time_wait", "closed"))
"""The states of sockets that have counters."""
CONGESTION_STATES = ("open", "disorder", "cwr", "recovery", "loss")

INFO = {  # struct tcp_info of linux/tcp.h: where a field is, and how it is written there
    "state": (0, "B"),
    "ca_state": (1, "B"),
    "backoff": (4, "B"),
    "options": (5, "B"),
    "rto_us": (8, "I"),
    "mss_bytes": (16, "I"),
    "unacked_segments": (24, "I"),
    "sacked_segments": (28, "I"),
    "lost_segments": (32, "I"),
    "retransmitted_segments": (36, "I"),
    "srtt_us": (68, "I"),
    "rttvar_us": (72, "I"),
    "ssthresh_segments": (76, "I"),
    "cwnd_segments": (80, "I"),
    "total_retrans": (100, "I"),
    "bytes_acked": (120, "Q"),
    "bytes_received": (128, "Q"),
    "segs_out": (136, "I"),
    "segs_in": (140, "I"),
    "min_rtt_us": (148, "I"),
    "data_segs_in": (152, "I"),
    "data_segs_out": (156, "I"),
    "delivery_rate_bytes_per_s": (160, "Q"),
    "delivered": (192, "I"),
    "delivered_ce": (196, "I"),
    "bytes_sent": (200, "Q"),
    "bytes_retrans": (208, "Q"),
    "dsack_dups": (216, "I"),
    "reord_seen": (220, "I"),
    "rcv_ooopack": (224, "I"),
    "send_window_bytes": (228, "I"),
    "total_rto": (240, "H"),
    "total_rto_recoveries": (242, "H"),
    "total_rto_time_ms": (244, "I"),
}
NO_THRESHOLD, NO_RTT = 0x7FFFFFFF, 0xFFFFFFFF
LONGEST_SMOOTHED_US = 1 << 29
"""From this round trip on (537 s), srtt and rttvar are wrong: Linux stores 8 times srtt in 32 bits of µs
(tcp_rtt_estimator in net/ipv4/tcp_input.c), and computes rttvar from it."""

Info = dict[str, int | str | None]


@dataclass(frozen=True)
class SocketState:
    """A TCP socket as the kernel reports it. Addresses are the four bytes of IPv4, or sixteen."""

    cookie: int
    address: bytes
    port: int
    peer: bytes
    peer_port: int
    info: Info
    congestion_control: str


def read_info(tcp_info: bytes) -> Info:
    """The fields of INFO out of a struct tcp_info; None for those that the kernel that wrote it does not have.

    A threshold that was never set is None. Times are None before the first round trip, and if they are too long for the
    kernel. A round trip of 2^32 µs (4295 s) or more cannot be distinguished from a shorter one.
    """
    info: Info = {}
    for name, (place, code) in INFO.items():
        has_it = place + struct.calcsize(code) <= len(tcp_info)
        info[name] = struct.unpack_from(f"={code}", tcp_info, place)[0] if has_it else None
    info["state"] = STATES.get(tcp_info[0], str(tcp_info[0]))
    info["ca_state"] = CONGESTION_STATES[tcp_info[1]] if tcp_info[1] < len(CONGESTION_STATES) else str(tcp_info[1])
    if info["ssthresh_segments"] == NO_THRESHOLD:
        info["ssthresh_segments"] = None
    if info["min_rtt_us"] == NO_RTT:
        info["min_rtt_us"] = None
    least_us = info["min_rtt_us"]
    is_too_long = isinstance(least_us, int) and least_us >= LONGEST_SMOOTHED_US
    if info["srtt_us"] == 0 or is_too_long:
        info["srtt_us"] = info["rttvar_us"] = None
    return info


def read_messages(answer: bytes) -> Iterator[tuple[int, bytes]]:
    """The messages in data from netlink: type and content of each."""
    place = 0
    while place + NETLINK_MESSAGE.size <= len(answer):
        length, kind, *_ = NETLINK_MESSAGE.unpack_from(answer, place)
        if length < NETLINK_MESSAGE.size:
            return
        yield kind, answer[place + NETLINK_MESSAGE.size : place + length]
        place += _aligned(length)


def read_socket(message: bytes) -> SocketState | None:
    """A socket from a struct inet_diag_msg and its attributes (linux/inet_diag.h); None if it has no tcp_info."""
    family, _, port, peer_port, address, peer, cookie = DIAG_SOCKET.unpack_from(message)
    attributes = dict(_attributes(message[DIAG_SOCKET.size :]))
    tcp_info = attributes.get(INET_DIAG_INFO, b"")
    if len(tcp_info) < INFO["total_retrans"][0] + 4:
        return None
    return SocketState(
        cookie,
        _ipv4(family, address),
        int.from_bytes(port, "big"),
        _ipv4(family, peer),
        int.from_bytes(peer_port, "big"),
        read_info(tcp_info),
        attributes.get(INET_DIAG_CONG, b"").rstrip(b"\0").decode(),
    )


def _attributes(content: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place + NETLINK_ATTRIBUTE.size <= len(content):
        length, kind = NETLINK_ATTRIBUTE.unpack_from(content, place)
        if length < NETLINK_ATTRIBUTE.size:
            return
        yield kind, content[place + NETLINK_ATTRIBUTE.size : place + length]
        place += _aligned(length)


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _ipv4(family: int, address: bytes) -> bytes:
    """The bytes of an address; IPv4 in IPv6 (RFC 4291, 2.5.5.2) is IPv4."""
    if family == socket.AF_INET:
        return address[:4]
    return address[12:] if address[:12] == bytes(10) + b"\xff\xff" else address


class Diagnostics:
    """The kernel's answers to requests, and its notifications: `destroyed` is readable after a socket was destroyed."""

    def __init__(self) -> None:
        self._asked = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
        self.destroyed = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)
        self.destroyed.bind((0, TCP_DESTROY_GROUPS))
        self.destroyed.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._asked.close()
        self.destroyed.close()

    def sockets(self) -> list[SocketState]:
        """The sockets at present."""
        return [*self._dump(socket.AF_INET), *self._dump(socket.AF_INET6)]

    def ended(self) -> list[SocketState]:
        """The sockets that were destroyed since the last call."""
        sockets: list[SocketState] = []
        while True:
            try:
                answer = self.destroyed.recv(ANSWER_BYTES)
            except BlockingIOError:
                return sockets
            sockets += [each for _, message in read_messages(answer) if (each := read_socket(message)) is not None]

    def _dump(self, family: int) -> Iterator[SocketState]:
        extensions = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1)
        request = DIAG_REQUEST.pack(family, socket.IPPROTO_TCP, extensions, LOOKED_AT)
        length = NETLINK_MESSAGE.size + len(request)
        self._asked.send(NETLINK_MESSAGE.pack(length, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 1, 0) + request)
        while True:
            for kind, message in read_messages(self._asked.recv(ANSWER_BYTES)):
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    (number,) = struct.unpack_from("=i", message)
                    raise OSError(-number, f"the kernel's socket diagnostics: {os.strerror(-number)}")
                state = read_socket(message)
                if state is not None:
                    yield state


MOST_ROWS = 500
"""The most samples that are kept. If there are more, every second one is dropped and the period doubled."""
REST, MOST_SKIPPED = 50, 4
"""After each sample, a rest of REST times its computing time keeps the load small on any machine; but at most
MOST_SKIPPED samples are skipped, because some kernels measure computing time only in ticks."""
SETTLING_S, QUIET_S = 0.1, 0.01
"""At the end, reports of destroyed sockets are awaited for SETTLING_S; once all sockets have been reported, only until
none comes for QUIET_S."""

SAMPLED = (
    "state",
    "ca_state",
    "cwnd_segments",
    "ssthresh_segments",
    "srtt_us",
    "rttvar_us",
    "rto_us",
    "backoff",
    "unacked_segments",
    "sacked_segments",
    "lost_segments",
    "retransmitted_segments",
    "total_retrans",
    "delivered",
    "bytes_acked",
    "delivery_rate_bytes_per_s",
    "send_window_bytes",
)
COUNTED = (
    "mss_bytes",
    "segs_out",
    "segs_in",
    "data_segs_out",
    "data_segs_in",
    "bytes_sent",
    "bytes_retrans",
    "bytes_acked",
    "bytes_received",
    "delivered",
    "delivered_ce",
    "total_retrans",
    "total_rto",
    "total_rto_recoveries",
    "total_rto_time_ms",
    "dsack_dups",
    "reord_seen",
    "rcv_ooopack",
    "min_rtt_us",
)
TOTALS = ("port", "peer_port", "congestion_control", "sack", "timestamps", "time_ns", "is_final", *COUNTED)
"""The totals of a socket; None if this kernel does not count it. `time_ns`: when the kernel reported them;
`is_final`: it reported them on destroying the socket, so that they are complete."""
SAMPLE_COLUMNS = ("time_ns", "socket", *SAMPLED)
"""`socket` is the index in the list of totals."""

OPTION_TIMESTAMPS, OPTION_SACK = 1, 2
"""Bits of tcpi_options (linux/tcp.h)."""


def read_ports(text: str) -> tuple[range, ...]:
    """Ports and ranges of ports, "5000,6000-6999"."""
    return tuple(map(parse_ports, text.split(",")))


@dataclass(frozen=True)
class Ours:
    """The sockets of the run: on this host, between the two addresses, on one of the ports."""

    address: bytes
    peer: bytes
    ports: tuple[range, ...]

    def __contains__(self, seen: SocketState) -> bool:
        between = (seen.address, seen.peer) == (self.address, self.peer)
        return between and any(seen.port in ports or seen.peer_port in ports for ports in self.ports)


@dataclass
class Samples:
    """The samples, in bounded memory: the latest counters of every socket, and rows at regular intervals.

    `period_ns` doubles when every second sample is dropped.
    """

    ours: Ours
    period_ns: int
    _looks: list[list[tuple[Any, ...]]] = field(default_factory=list)
    _ends: list[tuple[Any, ...]] = field(default_factory=list)
    _totals: dict[int, dict[str, Any]] = field(default_factory=dict)
    _places: dict[int, int] = field(default_factory=dict)
    _others: dict[int, int] = field(default_factory=dict)
    _others_before: dict[int, int] = field(default_factory=dict)

    def begin(self, there: list[SocketState]) -> None:
        """Sockets that exist before the run do not belong to it, nor do their retransmissions so far."""
        self._others_before = {seen.cookie: _sent_again(seen) for seen in there}

    def look(self, there: list[SocketState], time_ns: int) -> None:
        """Take a sample of all sockets."""
        self._looks.append(self._note(there, time_ns, is_final=False))
        if sum(max(1, len(rows)) for rows in self._looks) > MOST_ROWS:
            self._looks = self._looks[::2]
            self.period_ns *= 2

    def end(self, ended: list[SocketState], time_ns: int, *, is_final: bool = True) -> None:
        """Take the last counters of sockets."""
        self._ends += self._note(ended, time_ns, is_final=is_final)

    def _note(self, there: list[SocketState], time_ns: int, *, is_final: bool) -> list[tuple[Any, ...]]:
        rows = []
        for seen in there:
            if seen not in self.ours or seen.cookie in self._others_before:
                self._others[seen.cookie] = _sent_again(seen) - self._others_before.get(seen.cookie, 0)
                continue
            self._totals[seen.cookie] = self._totals.get(seen.cookie, {}) | _totals(seen, time_ns, is_final)
            place = self._places.setdefault(seen.cookie, len(self._places))
            rows.append((time_ns, place, *(seen.info[name] for name in SAMPLED)))
        return rows

    @property
    def sockets(self) -> list[dict[str, Any]]:
        """The totals of each socket, in the order of their first samples."""
        return list(self._totals.values())

    @property
    def is_complete(self) -> bool:
        """Whether the kernel has reported the end of every socket."""
        return all(totals["is_final"] for totals in self._totals.values())

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The samples by time, with SAMPLE_COLUMNS; the last row of each socket has its last counters."""
        return sorted((row for rows in (*self._looks, self._ends) for row in rows), key=lambda row: row[:2])

    @property
    def others_retransmitted(self) -> int:
        """The segments that sockets outside of the run have retransmitted since the start."""
        return sum(self._others.values())


def _sent_again(seen: SocketState) -> int:
    return int(seen.info["total_retrans"] or 0)


def _totals(seen: SocketState, time_ns: int, is_final: bool) -> dict[str, Any]:
    options = int(seen.info["options"] or 0)
    named = {"congestion_control": seen.congestion_control} if seen.congestion_control else {}
    return {
        "port": seen.port,
        "peer_port": seen.peer_port,
        **named,
        "sack": bool(options & OPTION_SACK),
        "timestamps": bool(options & OPTION_TIMESTAMPS),
        "time_ns": time_ns,
        "is_final": is_final,
    } | {name: seen.info[name] for name in COUNTED}


def read_counters(*tables: str) -> dict[str, int]:
    """The counters in /proc/net/snmp and /proc/net/netstat: a line of names and one of values for each protocol.

    Names are nstat's: "TcpRetransSegs", "TcpExtTCPTimeouts".
    """
    counters: dict[str, int] = {}
    for table in tables:
        lines = table.splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            protocol, *columns = names.split()
            numbers = values.split()[1:]
            counters |= {protocol.rstrip(":") + name: int(value) for name, value in zip(columns, numbers, strict=True)}
    return counters


def _counters() -> dict[str, int]:
    tables = (Path("/proc/net", name).read_text() for name in ("snmp", "netstat"))
    return {name: value for name, value in read_counters(*tables).items() if name.startswith("Tcp")}


def main(address: str, peer: str, ports: str, period_s: str) -> int:
    """Print "sampling" on standard error at the start; sample until SIGTERM; then write the results."""
    ours = Ours(ip_address(address).packed, ip_address(peer).packed, read_ports(ports))
    stop, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGTERM, lambda *_: None)
    samples = Samples(ours, round(float(period_s) * 1e9))
    with Diagnostics() as diagnostics:
        before = _counters()
        samples.begin(diagnostics.sockets())
        print("sampling", file=sys.stderr, flush=True)
        _sample(samples, diagnostics, stop)
        after = _counters()
    _tell(samples, {name: value - before.get(name, 0) for name, value in after.items()})
    return 0


def _sample(samples: Samples, diagnostics: Diagnostics, stop: int) -> None:
    """Sample the sockets until `stop` is readable."""
    begin_ns = due_ns = time.monotonic_ns()
    while True:
        pause_s = max(0, due_ns - time.monotonic_ns()) / 1e9 if samples.period_ns else None
        ready, _, _ = select.select([diagnostics.destroyed.fileno(), stop], [], [], pause_s)
        now_ns, clock_ns = time.monotonic_ns(), time.time_ns()
        if diagnostics.destroyed.fileno() in ready:
            samples.end(diagnostics.ended(), clock_ns)
        if stop in ready:
            samples.end(diagnostics.sockets(), clock_ns, is_final=False)
            _settle(samples, diagnostics)
            return
        if samples.period_ns and now_ns >= due_ns:
            computed_ns = -time.process_time_ns()
            samples.look(diagnostics.sockets(), clock_ns)
            computed_ns += time.process_time_ns()
            rested_ns = time.monotonic_ns() + min(REST * computed_ns, MOST_SKIPPED * samples.period_ns)
            due_ns = begin_ns + ((rested_ns - begin_ns) // samples.period_ns + 1) * samples.period_ns


def _settle(samples: Samples, diagnostics: Diagnostics) -> None:
    """Receive outstanding reports of destroyed sockets, which a kernel thread sends."""
    end_s = time.monotonic() + SETTLING_S
    while (left_s := end_s - time.monotonic()) > 0:
        pause_s = min(left_s, QUIET_S) if samples.is_complete else left_s
        if select.select([diagnostics.destroyed.fileno()], [], [], pause_s)[0]:
            samples.end(diagnostics.ended(), time.time_ns())
        elif samples.is_complete:
            return


def _tell(samples: Samples, grown: dict[str, int]) -> None:
    print(
        json.dumps(
            {
                "sockets": samples.sockets,
                "counters": {name: value for name, value in grown.items() if value},
                "others_retransmitted": samples.others_retransmitted,
                "dsack": Path("/proc/sys/net/ipv4/tcp_dsack").read_text().strip() != "0",
                "period_ns": samples.period_ns,
            }
        )
    )
    print(*SAMPLE_COLUMNS, sep=",")
    for row in samples.rows:
        print(*("" if value is None else value for value in row), sep=",")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
