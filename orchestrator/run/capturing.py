"""The captures at the emulator's two ports: started before anything is sent, stopped when all of it has arrived and
been written."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from pathlib import Path

from agents.contract.implementation import ROLES, Role
from captures.files.tcpdump_command import (
    IN_BLOCKS,
    ONE_BY_ONE,
    READY_LINE,
    CaptureCounters,
    capture_command,
    parse_counters,
    snaplen_bytes_of,
)
from orchestrator.hosts.program import Program
from orchestrator.planning.plan import Run
from orchestrator.results.reason_codes import ReasonCode
from orchestrator.results.record import Outcome
from orchestrator.rigs.rig import Rig
from orchestrator.run.result import Ended, RunResult

CAPTURE_START_S = 10.0
CAPTURE_STOP_S = 30.0
LATE_REPORTS_S = 2.5
"""A host that leaves a multicast group reports it twice, each time within a second: RFC 3376, section 8.11. tcpdump has
packets a second after they came."""
FULL_BYTES = 1 << 16
"""With less space, a disk is full: a packet of a capture may need as much."""


def start_captures(
    rig: Rig, clock: str, mtu_bytes: int, path: str, directory: Path, undo: ExitStack
) -> dict[Role, Program]:
    """Start both, and return once every frame is captured. Raises Ended if one does not start.

    On the exact clock no packet comes while tcpdump has work to do: it takes them in blocks, which costs less.
    """
    delivery = IN_BLOCKS if clock == "exact" else ONE_BY_ONE
    captures: dict[Role, Program] = {}
    for role, port in zip(ROLES, (rig.sender_port, rig.receiver_port), strict=True):
        command = capture_command(port, f"{path}/{role}.pcap", snaplen_bytes_of(mtu_bytes), delivery)
        captures[role] = rig.emulator.start(command, path, directory / f"capture-{role}")
        undo.callback(captures[role].stop, "INT")
    for role, capture in captures.items():
        if not capture.wait_for_line(READY_LINE.pattern, CAPTURE_START_S):
            raise Ended(
                Outcome.ABORTED,
                ReasonCode.CAPTURE,
                f"the capture at the {role}'s port did not start: {capture.output('err').strip()}",
            )
    return captures


def drain_channel(run: Run, rig: Rig, clock: str) -> None:
    """Wait until the last packets have crossed the channel: both captures must see every packet that was sent.

    On the exact clock, where waiting takes no time, also for what the hosts' kernels send after the programs: the
    emulator's counters are read next, and the captures would have what comes between that and their end.
    """
    if clock == "exact":
        time.sleep(LATE_REPORTS_S)
    pause_s = max(run.rtt_s / 8, 0.005)
    end = time.monotonic() + run.rtt_s + run.file_time_s + 1
    while _packets_on_their_way(rig) and time.monotonic() < end:
        time.sleep(pause_s)


def _packets_on_their_way(rig: Rig) -> int:
    return sum(
        counters.get("waiting_packets", 0)
        for stages in rig.channel.statistics().values()
        for counters in stages.values()
    )


def stop_captures(captures: dict[Role, Program], result: RunResult) -> None:
    """Stop both, and enter tcpdump's counters, or why they are suspect."""
    counters: dict[Role, CaptureCounters] = {}
    for role, capture in captures.items():
        _empty_ring(capture)
        capture.stop("INT", CAPTURE_STOP_S)
        try:
            counted = parse_counters(capture.output("err"))
        except ValueError as problem:
            result.suspect.append(f"the capture at the {role}'s port: {problem}")
            continue
        counters[role] = counted
        if not counted.complete:
            result.suspect.append(f"the capture at the {role}'s port is not complete: {counted}")
    result.captures = counters


def require_space(rig: Rig, path: str) -> None:
    """Raise Ended if the emulator's disk is full: tcpdump ignores that a packet could not be written, with status 0."""
    free_bytes = int(rig.emulator.check(["df", "--output=avail", "-B1", path]).split()[-1])
    if free_bytes < FULL_BYTES:
        problem = (
            f"the disk of the emulator is full ({free_bytes} bytes free at {path}), so the captures are not complete"
        )
        raise Ended(Outcome.ABORTED, ReasonCode.CAPTURE, f"{problem}: free space there")


def _empty_ring(capture: Program) -> None:
    """Wait until tcpdump has written what the kernel gave it: packets in its ring are lost upon SIGINT.

    tcpdump writes its counters upon SIGUSR1.
    """
    end = time.monotonic() + CAPTURE_STOP_S
    pause_s = 0.01
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
    """Bring both files into the run's directory."""
    for role in ROLES:
        rig.emulator.fetch_file(f"{path}/{role}.pcap", directory / f"{role}.pcap")
