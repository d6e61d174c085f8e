"""The two programs of a run: started in the order that the implementation names, talked to, awaited, ended by handle.

Whether what they did was right is judged elsewhere, by the file alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import NoReturn

from agents.contract import ROLES, Implementation, Role
from agents.side import Exchange, Ready
from orchestrator.confinement import CANNOT_CONFINE, NO_SUCH_PROGRAM, NOT_CONFINED, confined, left_running
from orchestrator.exit_status import how_ended
from orchestrator.findings import Ended, Findings, GaveUp
from orchestrator.host import Host
from orchestrator.plan import Run
from orchestrator.program import OUTPUT_LIMIT_BYTES, Program
from orchestrator.record import Outcome
from orchestrator.rigs.rig import Rig
from orchestrator.staging import Staged
from orchestrator.watching import WHOLE

LAST_CHANCE_RTTS = 4
LAST_CHANCE_S = 10.0
_BROKEN = re.compile(r"error while loading shared libraries|: not found$")
"""What the dynamic loader and a shell say when they end with NOT_LOADED."""
NOT_LOADED = 127


def launch(
    staged: Staged,
    rig: Rig,
    directory: Path,
    found: Findings,
    undo: ExitStack,
) -> None:
    """Start the side that the implementation names first, wait until it is ready, start the other."""
    hosts = {"sender": rig.sender.host, "receiver": rig.receiver.host}
    builds, paths = staged.builds, staged.paths
    first = builds["sender"].starts_first
    for role in sorted(ROLES, key=lambda role: role != first):
        side, host = builds[role].side(role), hosts[role]
        found.sides[role] = side
        program = host.start(
            confined(side.command, staged.rooms[role], side.environment, builds[role].capabilities),
            paths[role],
            directory / role,
            found.news,
            terminal=bool(side.dialogue),
        )
        undo.callback(program.stop)
        found.programs[role] = program
        for exchange in side.dialogue:
            _exchange(role, exchange, builds[role], found)
        if role == first and side.ready is not None:
            _wait_until_ready(role, side.ready, builds[role], found, host, paths[role])


def _exchange(role: Role, exchange: Exchange, implementation: Implementation, found: Findings) -> None:
    program = found.programs[role]
    within_s = float(exchange.within_s)
    if exchange.expect is not None and not program.expect(exchange.expect, within_s):
        _complain(
            role,
            implementation,
            found,
            f"the {role} did not print {exchange.expect!r} within {within_s:g} s of its dialogue",
        )
    if exchange.send is not None:
        program.type(exchange.send)


def _wait_until_ready(
    role: Role, ready: Ready, implementation: Implementation, found: Findings, host: Host, run_dir: str
) -> None:
    program = found.programs[role]
    within_s = float(ready.within_s)
    if ready.line is not None:
        met, awaited = program.wait_for_line(ready.line, within_s), f"a line that matches {ready.line!r}"
    else:
        there, awaited = _sign(ready, run_dir)
        met = _comes_true(lambda: there(host), program, within_s)
    if not met:
        _complain(role, implementation, found, f"the {role} was not ready after {within_s:g} s: waited for {awaited}")


def _sign(ready: Ready, run_dir: str) -> tuple[Callable[[Host], bool], str]:
    """How a host is asked whether it is there, and its name."""
    if ready.file is not None:
        path = str(PurePosixPath(run_dir, ready.file))
        return lambda host: host.run(["test", "-e", path]).exit_status == 0, f"{path} to exist"
    kind, port, state = ("udp", ready.udp_port, "07") if ready.udp_port is not None else ("tcp", ready.tcp_port, "0A")
    bound = re.compile(rf":{int(port or 0):04X} 0+:0000 {state} ")
    tables = [f"/proc/net/{kind}", f"/proc/net/{kind}6"]
    return (
        lambda host: bool(bound.search(host.run(["cat", *tables]).stdout.decode())),
        f"{kind.upper()} port {port} to be bound",
    )


def _comes_true(there: Callable[[], bool], program: Program, within_s: float) -> bool:
    end = time.monotonic() + within_s
    pause_s = 0.01
    while time.monotonic() < end and program.running:
        if there():
            return True
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 1.0)
    return False


def _complain(role: Role, implementation: Implementation, found: Findings, told: str) -> NoReturn:
    """Raise Ended for a side that did not come up, with what it said."""
    _complain_of_what_is_unsupported(implementation, found)
    complain_of_failures(found)
    raise Ended(Outcome.FAILED, told + found.programs[role].last_words)


def wait_for_end(run: Run, implementation: Implementation, watch: Program, found: Findings) -> None:
    """Return when the session has ended. Raises Ended when the deadline passes first.

    Once a side has ended badly, or said that it failed, the other has a last chance of a few round trips and no more.
    """
    limit_s = run.deadline_s(implementation)
    end = time.monotonic() + limit_s
    while True:
        before = _state(found, watch)
        if _is_done(implementation, watch, found):
            break
        if any(_has_failed(role, found) for role in found.programs):
            chance_s = LAST_CHANCE_RTTS * run.rtt_s + run.file_time_s + LAST_CHANCE_S
            end = min(end, time.monotonic() + chance_s)
        if not _changes(before, found, watch, end - time.monotonic()):
            break
        _complain_of_floods(found)
    _complain_of_what_is_unsupported(implementation, found)
    if not _is_done(implementation, watch, found):
        complain_of_failures(found)
        late: Role = next((role for role in _awaited(implementation) if not found.has_ended(role)), "receiver")
        told = f"the {late} had not ended {limit_s:g} s after the launch, its time limit"
        if stopped := found.programs[late].stopped_processes:
            told += f"; stopped by a signal: {', '.join(stopped)}"
        raise Ended(Outcome.TIMED_OUT, told + found.programs[late].last_words)


def _awaited(implementation: Implementation) -> list[Role]:
    one: dict[str, list[Role]] = {"receiver_exits": ["receiver"], "sender_exits": ["sender"]}
    return one.get(implementation.done, list(ROLES))


def _is_done(implementation: Implementation, watch: Program, found: Findings) -> bool:
    """Whether the session is over. A file that comes whole ends it where the implementation says so."""
    if implementation.done == "file_whole" and watch.wrote_line(WHOLE):
        return True
    return all(found.has_ended(role) for role in _awaited(implementation))


State = tuple[bool, ...]
"""Whether each side has ended, a program flooded its output, the file became whole."""


def _state(found: Findings, watch: Program) -> State:
    ended = (found.has_ended(role) for role in found.programs)
    return (*ended, any(program.flooded for program in found.programs.values()), watch.wrote_line(WHOLE))


def _changes(before: State, found: Findings, watch: Program, deadline_s: float) -> bool:
    """Whether the state is or becomes another before the deadline."""
    with found.news:
        return found.news.wait_for(lambda: _state(found, watch) != before, deadline_s)


def _has_failed(role: Role, found: Findings) -> bool:
    return found.programs[role].wait(0) not in (None, 0) or found.failure_line(role) is not None


def _complain_of_what_is_unsupported(implementation: Implementation, found: Findings) -> None:
    """Raise Ended for a program that says so by its exit status, and for one that could not be loaded."""
    for role, program in found.programs.items():
        status = program.wait(0)
        if status == NOT_CONFINED and program.wrote_line(CANNOT_CONFINE):
            raise Ended(Outcome.ABORTED, f"the {role} was not started{program.last_words}")
        if status == NOT_LOADED and _BROKEN.search(program.last_line):
            raise Ended(Outcome.ABORTED, how_it_ended(role, program))
        if status == implementation.unsupported_exit_status:
            raise Ended(Outcome.UNSUPPORTED, how_it_ended(role, program))


def _complain_of_floods(found: Findings) -> None:
    for role, program in found.programs.items():
        if program.flooded:
            raise Ended(
                Outcome.FAILED,
                f"the {role} wrote more than {OUTPUT_LIMIT_BYTES / 1e6:g} MB to its output, and was ended"
                f"{program.last_words}",
            )


def how_it_ended(role: Role, program: Program) -> str:
    """The end of a program in words, with its last line."""
    status = program.wait(0)
    if status == NO_SUCH_PROGRAM:
        return f"the {role} was not started{program.last_words}"
    return f"the {role} {'had not ended' if status is None else how_ended(status)}{program.last_words}"


def how_both_ended(found: Findings) -> str:
    """The sender's end, and the receiver's where it was not a good one."""
    ends = []
    for role, program in found.programs.items():
        status, line = program.wait(0), found.failure_line(role)
        if line is not None:
            ends.append(f"the {role} says that it failed: {line!r}")
        elif role in found.stopped:
            ends += [f"the {role} had not ended"] if role == "sender" else []
        elif status not in (None, 0):
            ends.append(how_it_ended(role, program))
        elif role == "sender":
            ends.append("the sender ended with status 0")
    return "; ".join(ends)


def complain_of_failures(found: Findings) -> None:
    """Raise GaveUp for a program that says that it failed, or has ended of itself with another status than 0."""
    _complain_of_floods(found)
    for role, program in found.programs.items():
        line = found.failure_line(role)
        if line is not None:
            raise GaveUp(f"the {role} says that it failed: {line!r}")
        if role not in found.stopped and program.wait(0) not in (None, 0):
            raise GaveUp(how_it_ended(role, program))


def stop_programs(found: Findings) -> None:
    """End those that still run in the way that their side names, and note which, and what the others left running."""
    for role, program in found.programs.items():
        if program.running:
            stop = found.sides[role].stop
            if stop.send is not None:
                program.type(stop.send)
                program.end_after(stop.grace_s)
            program.stop(stop.signal, stop.grace_s)
            found.stopped.add(role)
        left = left_running(program.output("err") + program.output("out"))
        found.left_running.setdefault(role, []).extend(left)
