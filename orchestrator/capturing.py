"""The captures at the emulator's two ports: started before anything is sent, stopped when all of it has arrived and
been written."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path

from captures.files.tcpdump import READY_LINE, CaptureCounters, capture_command, parse_counters
from orchestrator.findings import Ended, Findings
from orchestrator.plan import Run
from orchestrator.program import Program
from orchestrator.record import Outcome
from orchestrator.rigs.rig import Rig

CAPTURE_START_S = 10.0
CAPTURE_STOP_S = 30.0


def start_captures(rig: Rig, path: str, directory: Path, undo: ExitStack) -> dict[str, Program]:
    """Start both, and return once every frame is captured. Raises Ended when one does not start."""
    captures = {}
    for role, port in (("sender", rig.sender_port), ("receiver", rig.receiver_port)):
        command = capture_command(port, f"{path}/{role}.pcap")
        captures[role] = rig.emulator.start(command, path, directory / f"capture-{role}")
        undo.callback(captures[role].stop, "INT")
    for role, capture in captures.items():
        if not capture.wait_for_line(READY_LINE.pattern, CAPTURE_START_S):
            raise Ended(
                Outcome.ABORTED,
                f"the capture at the {role}'s port did not start: {capture.output('err').strip()}",
            )
    return captures


def drain_channel(run: Run, rig: Rig) -> None:
    """Wait until the last packets are across: they were sent, so both captures have to see them."""
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


def stop_captures(captures: dict[str, Program], found: Findings) -> None:
    """Stop both, and note tcpdump's own counters, or what is suspect about them."""
    counters = {}
    for role, capture in captures.items():
        _empty_ring(capture)
        capture.stop("INT", CAPTURE_STOP_S)
        try:
            counted: CaptureCounters = parse_counters(capture.output("err"))
        except ValueError as problem:
            found.suspect.append(f"the capture at the {role}'s port: {problem}")
            continue
        counters[role] = asdict(counted)
        if not counted.complete:
            found.suspect.append(f"the capture at the {role}'s port is not complete: {counted}")
    found.facts["captures"] = counters


def _empty_ring(capture: Program) -> None:
    """Wait until tcpdump has written what the kernel gave it: what is in its ring when SIGINT comes is lost.

    It tells its counters upon SIGUSR1.
    """
    end = time.monotonic() + CAPTURE_STOP_S
    pause_s = 0.01
    while capture.running and time.monotonic() < end:
        told = len(capture.output("err"))
        capture.signal("USR1")
        capture.wait_for_more(told, CAPTURE_STOP_S)
        with suppress(ValueError):
            if parse_counters(capture.output("err")).drained:
                return
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.5)


def fetch_captures(rig: Rig, path: str, directory: Path) -> None:
    """Bring both files into the run's directory."""
    for role in ("sender", "receiver"):
        rig.emulator.files.get(f"{path}/{role}.pcap", str(directory / f"{role}.pcap"))
