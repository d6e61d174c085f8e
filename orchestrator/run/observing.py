"""What is observed during a run: captures, samplers of TCP, and a watch of the received file.

The captures at the emulator's two ports are started before anything is sent, and stopped when all of it has arrived and
been written. On request there is also a capture at each host, with the host's own clock; nothing else reads it. The TCP
state of both kernels is sampled on both hosts by `agents/probes/tcp_samples.py`, from before the launch: counters come
from both hosts, samples of the run's sockets from the sender. Both hosts also report how many packets their kernels
refused to send. The time of delivery, the last change of the receiver's file, is noted by `agents/probes/watch.py`.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath, PurePosixPath

from pydantic import ValidationError

from owlt.agents.contract.implementation import ROLES, Role
from owlt.agents.probes.tcp_samples import read_counters
from owlt.captures.files.tcpdump_command import (
    IN_BLOCKS,
    IN_BLOCKS_RING_BYTES,
    ONE_BY_ONE,
    READY_LINE,
    best_stamps,
    capture_command,
    parse_counters,
    ring_bytes_of,
    snaplen_bytes_of,
    stamps_command,
)
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.hosts.host import Host
from owlt.orchestrator.hosts.printable import how_ended
from owlt.orchestrator.hosts.program import Program
from owlt.orchestrator.planning.estimate import disk_bytes
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.planning.run_channel import fastest_rate_bps
from owlt.orchestrator.rigs.rig import CARD_RATE_BPS, Rig, TestHost
from owlt.orchestrator.run.staging import make_directory
from owlt.orchestrator.run.state import Ended, RunResult, Setting
from owlt.results.files import SAMPLES_NAME
from owlt.results.record import CaptureCounters, HostCapture, HostTcp, Outcome, ReasonCode, Statistics

CAPTURE_START_S = 10.0
CAPTURE_STOP_S = 30.0
LATE_PACKETS_S = 2.5
"""How long to wait for packets that the hosts' kernels send after the programs, if waiting takes no time.

tcpdump has packets one second after they arrived.
"""
LEAVING_S = 0.1
"""A host that leaves a multicast group reports it two ticks of its kernel's clock (of 0.01 s at most) later."""
HOST_CAPTURE_NAME = "host-{role}.pcap"
"""The name of a capture at a host, there and in the run's directory."""
HOST_CAPTURE_BYTES = 128
"""Headers, and enough of what a packet carries to recognise it at the emulator's port."""
FULL_BYTES = 1 << 16
"""With less space, a disk is full: a packet of a capture may need as much."""


def ring_bytes_for(channel: ChannelSpec, clock: str, snaplen_bytes: int) -> int:
    """The size of a capture's ring, from the highest rate of the channel, or of the card if that is unlimited.

    On the exact clock no packet comes while tcpdump has work to do.
    """
    if clock == "exact":
        return IN_BLOCKS_RING_BYTES
    return ring_bytes_of(fastest_rate_bps(channel) or CARD_RATE_BPS, snaplen_bytes)


def start_captures(
    rig: Rig, clock: str, channel: ChannelSpec, path: str, directory: Path, result: RunResult, undo: ExitStack
) -> dict[Role, Program]:
    """Start the captures at the emulator's two ports, and return once every frame is captured. Raises Ended
    if one does not start.

    On the exact clock no packet comes while tcpdump has work to do: it takes them in blocks, which costs less.
    """
    delivery = IN_BLOCKS if clock == "exact" else ONE_BY_ONE
    snaplen_bytes = snaplen_bytes_of(channel.path_mtu_bytes)
    ring_bytes = result.capture_ring_bytes = ring_bytes_for(channel, clock, snaplen_bytes)

    def start(role: Role, port: str) -> Program:
        command = capture_command(port, f"{path}/{role}.pcap", snaplen_bytes, delivery, ring_bytes=ring_bytes)
        capture = rig.emulator.start(command, path, directory / f"capture-{role}")
        undo.callback(capture.stop, "INT")
        return capture

    programs = rig.at_once(lambda: start("sender", rig.sender_port), lambda: start("receiver", rig.receiver_port))
    captures: dict[Role, Program] = dict(zip(ROLES, programs, strict=True))
    for role, capture in captures.items():
        _require_started(capture, f"the capture at the {role}'s port")
    return captures


def _require_started(capture: Program, what: str) -> None:
    if not capture.wait_for_line(READY_LINE.pattern, CAPTURE_START_S):
        problem = f"{what} did not start: {capture.output('err').strip()}"
        raise Ended(Outcome.ABORTED, ReasonCode.CAPTURE, problem)


@dataclass(frozen=True)
class CapturingHost:
    """A capture at a host that is being taken."""

    end: TestHost
    program: Program
    path: str
    capture: HostCapture


def start_host_captures(
    run: Run, rig: Rig, sweep: Sweep, channel: ChannelSpec, directory: Path, undo: ExitStack
) -> list[CapturingHost]:
    """Start the captures at the hosts if the sweep requests them. Raises Ended if one does not start.

    Frames are complete if captures are kept in full; otherwise the first HOST_CAPTURE_BYTES.
    """
    if not sweep.host_captures:
        return []
    complete_bytes = snaplen_bytes_of(channel.path_mtu_bytes)
    snaplen_bytes = complete_bytes if sweep.keep_captures == "full" else HOST_CAPTURE_BYTES
    ring_bytes = ring_bytes_for(channel, sweep.clock, snaplen_bytes)
    started = []
    for end in (rig.sender, rig.receiver):
        host = end.host
        listed = host.run(stamps_command(end.interface))
        stamps = best_stamps((listed.stdout + listed.stderr).decode(errors="replace"))
        path = f"{make_directory(host, run.run_id, undo)}/{HOST_CAPTURE_NAME.format(role=host.role)}"
        command = capture_command(end.interface, path, snaplen_bytes, ONE_BY_ONE, stamps, ring_bytes)
        program = host.start(command, host.base, directory / f"host-capture-{host.role}")
        undo.callback(program.stop, "INT")
        known = {"stamps": stamps, "snaplen_bytes": snaplen_bytes, "ring_bytes": ring_bytes}
        capture = HostCapture.model_validate({"interface": end.interface, **known})
        started.append(CapturingHost(end, program, path, capture))
    for each in started:
        _require_started(each.program, f"the capture at the {each.end.host.role}")
    return started


def stop_host_captures(capturing: list[CapturingHost], rig: Rig, directory: Path, result: RunResult) -> None:
    """Stop the captures at the hosts, bring them here, and enter what is known of each, the hosts' clocks too."""
    clocks = rig.clocks.clocks() if rig.clocks is not None else {}

    def stop(role: Role, each: CapturingHost) -> None:
        counters, problem = _stopped(each.program)
        sentences = [f"the capture at the {role}{problem}"] if problem else []
        if rig.has_machines and (full := _full_disk(each.end.host, str(PurePosixPath(each.path).parent))):
            sentences.append(
                f"{full}, so the capture at the {role} is not complete: free space in /var/lib of that host"
            )
        each.end.host.fetch_file(each.path, directory / HOST_CAPTURE_NAME.format(role=role))
        known = {"counters": counters, "problem": "; ".join(sentences), "clock": clocks.get(role)}
        result.host_captures[role] = each.capture.model_copy(update=known)

    rig.at_once(*(partial(stop, role, each) for role, each in zip(ROLES, capturing, strict=False)))


AtTheEnd = tuple[ChannelSpec | None, Statistics]
"""The channel and its counters at one moment. None for the channel if it has a timeline: reading a long one would delay
its steps."""


def drain_channel(run: Run, setting: Setting) -> AtTheEnd:
    """Wait until the last packets have crossed the channel: both captures must see every packet that was sent. Returns
    what the channel is then.

    That includes what the hosts' kernels send when the programs have ended, such as that they leave the multicast
    groups of a run that has some: otherwise the captures, or those of the next run, would have packets that the
    counters do not have.
    """
    if setting.sweep.clock != "real":
        time.sleep(LATE_PACKETS_S)
    elif setting.implementation_of(run).session.multicast_groups:
        time.sleep(LEAVING_S)
    pause_s = max(run.rtt_s / 8, 0.005)
    end = time.monotonic() + run.rtt_s + run.file_time_s + 1
    while True:
        now = channel_now(run, setting)
        if not _packets_on_their_way(now[1]) or time.monotonic() >= end:
            return now
        time.sleep(pause_s)


def channel_now(run: Run, setting: Setting) -> AtTheEnd:
    """What the channel is now."""
    emulator = setting.rig.channel
    return emulator.snapshot() if setting.channel_of(run).timeline is None else (None, emulator.statistics())


def _packets_on_their_way(counted: Statistics) -> int:
    return sum(counters.get("waiting_packets", 0) for stages in counted.values() for counters in stages.values())


def stop_captures(captures: dict[Role, Program], result: RunResult) -> None:
    """Stop the captures at both ports, and enter tcpdump's counters, or why they are suspect; `require_captures`
    refuses what has none."""
    counters: dict[Role, CaptureCounters] = {}
    with ThreadPoolExecutor(len(captures)) as at_once:
        stopped = list(at_once.map(_stopped, captures.values()))
    for role, (counted, problem) in zip(captures, stopped, strict=True):
        if counted is not None:
            counters[role] = counted
        if problem:
            sentences = result.failed_captures if counted is None else result.suspect
            sentences.append(f"the capture at the {role}'s port{problem}")
    result.captures = counters


def require_captures(result: RunResult) -> None:
    """Raise Ended if a capture ended before it was stopped (a killed tcpdump, for example), so it is incomplete."""
    if result.failed_captures:
        raise Ended(Outcome.ABORTED, ReasonCode.CAPTURE, "; ".join(result.failed_captures))


def _stopped(capture: Program) -> tuple[CaptureCounters | None, str]:
    """Stop a capture. Returns tcpdump's counters, and the rest of a sentence if something is wrong with them."""
    _empty_ring(capture)
    capture.stop("INT", CAPTURE_STOP_S)
    try:
        counted = parse_counters(capture.output("err"))
    except ValueError as problem:
        return None, f": {problem}"
    return counted, "" if counted.complete else f" is not complete: {counted}"


def require_room(run: Run, rig: Rig, free_bytes: Mapping[str, int], host_captures: bool) -> None:
    """Raise Ended before the launch if the disk of a host has too little space for what the run may write there."""
    bases = {host.role: host.base for host in (rig.sender.host, rig.emulator, rig.receiver.host)}
    for role, free in free_bytes.items():
        needed = disk_bytes(run, role, host_captures) + FULL_BYTES
        if free < needed:
            problem = f"the {role} has {free / 1e6:.1f} MB free at {bases[role]}, and this run may need"
            fix = "free space in /var/lib of that host, or leave out such cells with 'exclude' in the sweep"
            raise Ended(Outcome.ABORTED, ReasonCode.CAPTURE, f"not launched: {problem} {needed / 1e6:.1f} MB: {fix}")


def require_space(rig: Rig, path: str) -> None:
    """Raise Ended if the emulator's disk is full: tcpdump ignores that a packet could not be written, with status 0."""
    if full := _full_disk(rig.emulator, path):
        problem = f"{full}, so the captures are not complete: free space in /var/lib of that host"
        raise Ended(Outcome.ABORTED, ReasonCode.CAPTURE, problem)


def _full_disk(host: Host, path: str) -> str:
    """The beginning of a sentence if a host's disk is full."""
    free_bytes = int(host.check(["df", "--output=avail", "-B1", path]).split()[-1])
    return f"the disk of the {host.role} is full ({free_bytes} bytes free at {path})" if free_bytes < FULL_BYTES else ""


def _empty_ring(capture: Program) -> None:
    """Wait until tcpdump has written what the kernel gave it: packets in its ring are lost upon SIGINT.

    tcpdump writes its counters upon SIGUSR1.
    """
    end = time.monotonic() + CAPTURE_STOP_S
    pause_s = 0.002
    while capture.running and time.monotonic() < end:
        written = len(capture.output("err"))
        capture.signal("USR1")
        capture.wait_for_more(written, CAPTURE_STOP_S)
        with suppress(ValueError):
            if parse_counters(capture.output("err")).drained:
                return
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.5)


def fetch_captures(rig: Rig, path: str, directory: Path) -> None:
    """Bring the captures of both ports into the run's directory, which is made if it does not exist."""
    directory.mkdir(parents=True, exist_ok=True)
    for role in ROLES:
        rig.emulator.fetch_file(f"{path}/{role}.pcap", directory / f"{role}.pcap")


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
