"""Observes the hosts during a run, beside the captures: samplers of TCP, and a watch of the received file.

The TCP state of both kernels is sampled on both hosts by `agents/probes/tcp_samples.py`, from before the launch:
counters come from both hosts, samples of the run's sockets from the sender. So do the packets that the kernels refused
to send. The time of delivery, the last change of the receiver's file, is noted by `agents/probes/watch.py`.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path, PurePath

from pydantic import ValidationError

from owlt.agents.contract.implementation import ROLES, Role
from owlt.agents.probes.tcp_samples import read_counters
from owlt.orchestrator.hosts.host import Host
from owlt.orchestrator.hosts.printable import how_ended
from owlt.orchestrator.hosts.program import Program
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.rigs.rig import Rig
from owlt.orchestrator.run.state import Ended
from owlt.results.files import SAMPLES_NAME
from owlt.results.record import HostTcp, Outcome, ReasonCode

SAMPLES_PER_RTT = 4
SHORTEST_PERIOD_S = 0.010
STARTING_S = 30.0
STOPPING_S = 30.0
REFUSAL_COUNTERS = {
    "udp_refused": ("UdpSndbufErrors", "Udp6SndbufErrors"),
    "ip_discarded": ("IpOutDiscards", "Ip6OutDiscards"),
}
"""By name in the record, the kernel's counters (RFC 1213, RFC 4113, snmp_counter.rst). udp_refused: datagrams that a
program gave to a full socket or interface; without waiting, a send call then fails with EAGAIN or ENOBUFS.
ip_discarded: packets that IP did not send for such a reason, those datagrams among them."""
SNMP = ("snmp", "snmp6")


def start_sampling(
    run: Run, rig: Rig, ports: Sequence[object], paths: dict[str, str], directory: Path, undo: ExitStack
) -> dict[Role, Program]:
    """Start a sampler of these TCP ports on each host, unless there are none, and return once they sample."""
    if not ports:
        return {}
    hosts = {"sender": rig.sender, "receiver": rig.receiver}

    def start(role: Role, other: Role) -> Program:
        period_s = max(run.rtt_s / SAMPLES_PER_RTT, SHORTEST_PERIOD_S) if role == "sender" else 0
        between = [hosts[role].address, hosts[other].address]
        command = [
            rig.python,
            "-m",
            "owlt.agents.probes.tcp_samples",
            *between,
            ",".join(map(str, ports)),
            f"{period_s:f}",
        ]
        sampler = hosts[role].host.start(command, paths[role], directory / f"tcp-{role}")
        undo.callback(sampler.stop)
        return sampler

    started = rig.at_once(lambda: start("sender", "receiver"), lambda: start("receiver", "sender"))
    samplers: dict[Role, Program] = dict(zip(ROLES, started, strict=True))
    for sampler in samplers.values():
        sampler.wait_for_line("^sampling$", STARTING_S)
    return samplers


def stop_sampling(samplers: dict[Role, Program], directory: Path) -> dict[Role, HostTcp]:
    """Stop the samplers, keep the sender's samples as SAMPLES_NAME beside the record, and return what each counted."""
    if not samplers:
        return {}
    with ThreadPoolExecutor(len(samplers)) as at_once:
        logs = [directory / f"tcp-{role}" for role in samplers]
        results = at_once.map(_result, samplers.values(), logs, [directory] * len(logs))
        return dict(zip(samplers, results, strict=True))


def read_refusals(rig: Rig) -> dict[Role, dict[str, int]]:
    """The counters of packets that each host refused to send since it started; {} for a host without counters."""
    hosts = (rig.sender.host, rig.receiver.host)
    counted = rig.at_once(*(lambda host=host: _refusals(host) for host in hosts))
    return dict(zip(ROLES, counted, strict=True))


def _refusals(host: Host) -> dict[str, int]:
    text = host.network_tables(*SNMP)
    pairs = [line for line in text.splitlines() if ":" in line]
    single = (line.split() for line in text.splitlines() if line and ":" not in line)
    counters = read_counters("\n".join(pairs)) | {name: int(value) for name, value in single}
    return {
        name: sum(counters.get(counter, 0) for counter in summed)
        for name, summed in REFUSAL_COUNTERS.items()
        if counters
    }


SOCKET_TABLES = ("udp", "udp6", "tcp", "tcp6", "sctp/eps", "sctp/assocs")
TCP_STATES = {
    "01": "ESTABLISHED",
    "02": "SYN_SENT",
    "03": "SYN_RECV",
    "04": "FIN_WAIT1",
    "05": "FIN_WAIT2",
    "07": "CLOSE",
    "08": "CLOSE_WAIT",
    "09": "LAST_ACK",
    "0A": "LISTEN",
    "0B": "CLOSING",
}
"""By their numbers in proc_net_tcp.rst (net/tcp_states.h). TIME_WAIT is none: it is no state of a program."""
_SOCKET = re.compile(r" *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} ([0-9A-F]{2}) ")
_OF_SCTP = (["ENDPT"], ["ASSOC"])
"""The first words of the tables of SCTP: sockets that listen, and associations."""
SCTP_STATES = (
    *("CLOSED", "COOKIE_WAIT", "COOKIE_ECHOED", "ESTABLISHED"),
    *("SHUTDOWN_PENDING", "SHUTDOWN_SENT", "SHUTDOWN_RECEIVED", "SHUTDOWN_ACK_SENT"),
)
"""Of an association, by their numbers (enum sctp_state in net/sctp/constants.h)."""
Sockets = dict[Role, list[str]]


def read_sockets(rig: Rig) -> Sockets:
    """The sockets of each host."""
    hosts = (rig.sender.host, rig.receiver.host)
    read = rig.at_once(*(lambda host=host: sockets_of(host) for host in hosts))
    return dict(zip(ROLES, read, strict=True))


def sockets_of(host: Host) -> list[str]:
    """The UDP, TCP and SCTP sockets of a host by kind and port, such as "udp 4556", "tcp 5001 LISTEN" and
    "sctp 5003 ESTABLISHED"."""
    found, kind, columns = [], "", list[str]()
    for line in host.network_tables(*SOCKET_TABLES).splitlines():
        if line.split()[:1] in _OF_SCTP:
            kind, columns = "sctp", line.split()
        elif "local_address" in line:  # the first line of a table; only that of UDP ends with drops
            kind = "udp" if line.split()[-1] == "drops" else "tcp"
        elif kind == "sctp":
            values = dict(zip(columns, line.split(), strict=False))
            found.append(f"sctp {values['LPORT']} {SCTP_STATES[int(values['ST'])] if 'ST' in values else 'LISTEN'}")
        elif (socket := _SOCKET.match(line)) and (kind == "udp" or socket[2] in TCP_STATES):
            found.append(f"{kind} {int(socket[1], 16)}" + (f" {TCP_STATES[socket[2]]}" if kind == "tcp" else ""))
    return sorted(found)


def opened_since(before: Sequence[str], now: Sequence[str]) -> list[str]:
    """The sockets that a host has opened between two readings, without connections to a port that was listened on
    before, such as that of SSH: these belong to other services of the host."""
    served = {socket.removesuffix("LISTEN") for socket in before if socket.endswith(" LISTEN")}
    opened = Counter(socket for socket in now if not socket.startswith(tuple(served))) - Counter(before)
    return sorted(opened.elements())


def increases(before: dict[Role, dict[str, int]], after: dict[Role, dict[str, int]]) -> dict[Role, dict[str, int]]:
    """The increases between two readings; a host without counters is omitted."""
    return {
        role: {name: value - before.get(role, {}).get(name, 0) for name, value in counters.items()}
        for role, counters in after.items()
        if counters
    }


def _result(sampler: Program, logs: Path, directory: Path) -> HostTcp:
    status = sampler.stop("TERM", STOPPING_S)
    counted, _, samples = sampler.output().partition("\n")
    try:
        result = HostTcp.model_validate_json(counted)
    except ValidationError:
        ended = "did not end" if status is None else how_ended(status)
        return HostTcp(problem=f"the sampler {ended}{sampler.last_words}")
    if result.period_ns:
        (directory / SAMPLES_NAME).write_text(samples)
    for suffix in (".out", ".err"):
        logs.with_suffix(suffix).unlink()
    return result


WATCHING_S = 30.0
DELIVERED_LINE = "^delivered$"
"""The line that the watch prints once the file has the expected size and hash."""


def start_watch(
    rig: Rig,
    received: str,
    content: tuple[str, int] | None,
    directory: Path,
    news: threading.Condition,
    undo: ExitStack,
) -> Program:
    """Start to watch the receiver's file; the watch prints once it has `content`: a SHA-256 and a size in bytes."""
    place = PurePath(received)
    awaited = [str(each) for each in content or ()]
    command = [rig.python, "-I", "-S", rig.watch, str(place.parent), place.name, *awaited]
    watch = rig.receiver.host.start(command, str(place.parent), directory / "watch", news=news)
    undo.callback(watch.stop)
    if not watch.wait_for_line("^watching$", WATCHING_S):
        raise Ended(Outcome.ABORTED, ReasonCode.HOST, f"the receiver's file cannot be watched{watch.last_words}")
    return watch


def last_change_ns(watch: Program, clock_offset_ns: int = 0) -> int | None:
    """The time of the file's last change, in ns since 1970; None if no change was noted.

    `clock_offset_ns`: how far the receiver's clock is ahead of the emulator's, whose clock the captures have.

    Ends the watch.
    """
    watch.stop()
    match = re.search(r"^last change (\d+)$", watch.output(), re.MULTILINE)
    return int(match[1]) - clock_offset_ns if match else None
