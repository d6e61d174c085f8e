"""The captures at the emulator's two ports: started before anything is sent, stopped when all of it has arrived and
been written. On request also one at each host, by that host's clock, which nothing else reads."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from owlt.agents.contract.implementation import ROLES, Role
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
from owlt.orchestrator.hosts.program import Program
from owlt.orchestrator.planning.estimate import disk_bytes
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.planning.run_channel import fastest_rate_bps
from owlt.orchestrator.rigs.rig import CARD_RATE_BPS, Rig, TestHost
from owlt.orchestrator.run.staging import make_directory
from owlt.orchestrator.run.state import Ended, RunResult, Setting
from owlt.results.record import CaptureCounters, HostCapture, Outcome, ReasonCode, Statistics

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
    """Start both, and return once every frame is captured. Raises Ended if one does not start.

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
    """Stop both, and enter tcpdump's counters, or why they are suspect; `require_captures` refuses what has none."""
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
    """Bring both files into the run's directory, which is made if it does not exist."""
    directory.mkdir(parents=True, exist_ok=True)
    for role in ROLES:
        rig.emulator.fetch_file(f"{path}/{role}.pcap", directory / f"{role}.pcap")
