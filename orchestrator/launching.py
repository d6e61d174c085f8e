"""The two programs of a run: started in the order that the implementation names, awaited, ended by handle.

Whether what they did was right is judged elsewhere, by the file alone.
"""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from pathlib import Path

from agents.contract import Implementation, Ready, Side
from orchestrator.findings import Ended, Findings
from orchestrator.host import Host, Program
from orchestrator.plan import Run
from orchestrator.record import Outcome
from orchestrator.rigs.rig import Rig, TestHost

READY_S = 30.0
LAST_CHANCE_RTTS = 4
LAST_CHANCE_S = 10.0


def launch(
    builds: dict[str, Implementation],
    rig: Rig,
    paths: dict[str, str],
    directory: Path,
    found: Findings,
    undo: ExitStack,
) -> None:
    """Start the side that the implementation names first, wait until it is ready, start the other."""
    ends = {"sender": rig.sender, "receiver": rig.receiver}
    first = builds["sender"].starts_first
    for role in sorted(ends, key=lambda role: role != first):
        side: Side = getattr(builds[role], role)
        found.commands[role] = side.command
        program = ends[role].host.start(side.command, paths[role], directory / role, side.environment, found.news)
        undo.callback(program.stop)
        found.programs[role] = program
        if role == first and side.ready is not None:
            _wait_until_ready(role, side.ready, builds[role], found, ends[role])


def _wait_until_ready(role: str, ready: Ready, implementation: Implementation, found: Findings, end: TestHost) -> None:
    program = found.programs[role]
    if ready.line is not None:
        met = program.wait_for_line(ready.line, READY_S)
        awaited = f"a line that matches {ready.line!r}"
    else:
        port = int(ready.udp_port or 0)
        met = _udp_port_is_bound(end.host, port, program)
        awaited = f"UDP port {port} to be bound"
    if not met:
        if program.wait(0) == implementation.unsupported_exit_status:
            raise Ended(Outcome.UNSUPPORTED, _how_it_ended(role, program))
        complain_of_failures(found)
        told = f"the {role} was not ready after {READY_S:g} s: waited for {awaited}"
        raise Ended(Outcome.FAILED, told + last_words(program))


def _udp_port_is_bound(host: Host, port: int, program: Program) -> bool:
    end = time.monotonic() + READY_S
    pause_s = 0.01
    while time.monotonic() < end and program.running:
        table = host.check(["cat", "/proc/net/udp"]).decode()
        if re.search(rf":{port:04X} 00000000:0000", table):
            return True
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 1.0)
    return False


def wait_for_end(run: Run, implementation: Implementation, found: Findings) -> None:
    """Return when the session has ended. Raises Ended when the deadline passes first.

    Once a program has ended badly, the other gets a last chance of a few round trips, not the whole limit.
    """
    awaited = ["receiver"] if implementation.done == "receiver_exits" else ["receiver", "sender"]
    limit_s = run.deadline_s(implementation)
    end = time.monotonic() + limit_s
    while any(found.programs[role].running for role in awaited):
        if any(program.wait(0) not in (None, 0) for program in found.programs.values()):
            chance_s = LAST_CHANCE_RTTS * run.rtt_s + run.file_time_s + LAST_CHANCE_S
            end = min(end, time.monotonic() + chance_s)
        if not _another_ended(found, end - time.monotonic()):
            break
    for role, program in found.programs.items():
        if program.wait(0) == implementation.unsupported_exit_status:
            raise Ended(Outcome.UNSUPPORTED, _how_it_ended(role, program))
    late = [role for role in awaited if found.programs[role].running]
    if late:
        complain_of_failures(found)
        told = f"the {late[0]} had not ended {limit_s:g} s after the launch, its time limit"
        raise Ended(Outcome.TIMED_OUT, told + last_words(found.programs[late[0]]))


def _another_ended(found: Findings, deadline_s: float) -> bool:
    """Whether one more of the programs that run now has ended before the deadline."""

    def running() -> int:
        return sum(program.running for program in found.programs.values())

    before = running()
    with found.news:
        return found.news.wait_for(lambda: running() < before, deadline_s)


def _how_it_ended(role: str, program: Program) -> str:
    return f"the {role} ended with status {program.wait(0)}{last_words(program)}"


def complain_of_failures(found: Findings) -> None:
    """Raise Ended for a program that has ended with another status than 0."""
    for role, program in found.programs.items():
        if program.wait(0) not in (None, 0):
            raise Ended(Outcome.FAILED, _how_it_ended(role, program))


def last_words(program: Program) -> str:
    """What a program wrote last, for a reason; begins with a semicolon."""
    lines = (program.output("err").strip() or program.output("out").strip()).splitlines()
    return f"; its last line: {lines[-1].strip()!r}" if lines else "; it wrote nothing"


def stop_programs(found: Findings) -> None:
    """End those that still run, and note which."""
    for role, program in found.programs.items():
        if program.running:
            program.stop()
            found.stopped.add(role)
