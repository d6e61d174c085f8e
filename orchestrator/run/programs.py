"""The two programs of a run, from their launch, in the order that the implementation names, to their end.

The session ends when its programs have ended, the file is delivered, a program fails, or the deadline passes. The
verdict on the transfer belongs to `outcome`, which looks at the file alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NoReturn

from owlt.agents.contract.implementation import ROLES, Implementation, Role
from owlt.agents.contract.requirements import ELSEWHERE, EMPTY_IN_RUNS
from owlt.agents.contract.side import Exchange, Ready
from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.service.player import moments
from owlt.inputs.sweep import CommandName, GivenCommand, Restart
from owlt.orchestrator.hosts.confinement import CANNOT_CONFINE, NO_SUCH_PROGRAM, NOT_CONFINED, Confinement, left_running
from owlt.orchestrator.hosts.host import Host
from owlt.orchestrator.hosts.printable import how_ended
from owlt.orchestrator.hosts.program import OUTPUT_LIMIT_BYTES, Program
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.rigs.rig import Rig
from owlt.orchestrator.run.observing import DELIVERED_LINE, sockets_of
from owlt.orchestrator.run.staging import Staged
from owlt.orchestrator.run.state import Ended, GaveUp, Sides
from owlt.results.record import Outcome, ReasonCode

LAST_CHANCE_RTTS = 4
LAST_CHANCE_S = 10.0
_BROKEN = re.compile(r"error while loading shared libraries|: not found$")
"""What the dynamic loader and a shell print when they end with NOT_LOADED."""
NOT_LOADED = 127
_NOT_IN_A_RUN = re.compile(rf"(?<![\w./-])({'|'.join(EMPTY_IN_RUNS)})/.*(no such|not found)", re.IGNORECASE)
"""What a shell, an interpreter or the start of a program prints about a file that a run does not have."""


def launch(
    staged: Staged,
    rig: Rig,
    directory: Path,
    sides: Sides,
    undo: ExitStack,
    living: Living | None = None,
) -> None:
    """Start the side that the implementation names first, wait until it is ready, start the other.

    With `living`, a program that serves several runs is started for the first of them only.
    """
    first = staged.implementations["sender"].starts_first
    for role in sorted(ROLES, key=lambda role: role != first):
        side = staged.implementations[role].side(role)
        staying = living if living is not None and role == living.role else None
        if staying is None:
            _start(role, staged, rig, directory / role, sides, undo)
        elif staying.program is not None and staying.program.running:
            staying.program.forget_output()
            sides.specified[role], sides.programs[role] = side, staying.program
            continue
        else:
            _require_good_end(role, staying)
            staying.program = _start(role, staged, rig, staying.logs / role, sides)
        if role == first and side.ready is not None:
            host = {"sender": rig.sender, "receiver": rig.receiver}[role].host
            _wait_until_ready(role, side.ready, staged.implementations[role], sides, host, staged.paths[role])


def _require_good_end(role: Role, staying: Living) -> None:
    """Raise Ended if a program that serves several runs has ended badly since the last of them."""
    program, staying.program = staying.program, None
    if program is not None and program.wait(0) != 0:
        raise Ended(Outcome.FAILED, ReasonCode.EXITED, f"since the last transfer, {how_it_ended(role, program)}")


def _start(role: Role, staged: Staged, rig: Rig, logs: Path, sides: Sides, undo: ExitStack | None = None) -> Program:
    """Start a side's program, which `undo` stops, and hold its dialogue."""
    implementation = staged.implementations[role]
    side, host = implementation.side(role), {"sender": rig.sender, "receiver": rig.receiver}[role].host
    sides.specified[role] = side
    program = host.start_foreign(
        side.command,
        staged.paths[role],
        logs,
        sides.news,
        Confinement(staged.rooms[role], side.environment, implementation.capabilities),
        terminal=bool(side.dialogue),
    )
    if undo is not None:
        undo.callback(program.stop)
    sides.programs[role] = program
    for exchange in side.dialogue:
        _exchange(role, exchange, implementation, sides)
    return program


@dataclass
class Intervention:
    """Something that is done to a side during the session, at a time of the monotonic clock."""

    at_s: float
    text: str
    act: Callable[[], None]
    is_needed: bool = True
    """Whether a session that ends before it is not the one that was planned."""
    is_done: bool = False

    def perform(self) -> None:
        """Do it."""
        self.is_done = True
        self.act()


def restart(
    planned: Restart, staged: Staged, rig: Rig, directory: Path, sides: Sides, undo: ExitStack
) -> list[Intervention]:
    """A host that restarts, at times that count from now: its program is killed, and started again in the same run
    directory with the same command. The output of the second one is in `ROLE-restarted.out` and `ROLE-restarted.err`.
    """
    role: Role = planned.side
    at_s = time.monotonic() + planned.at / 1e9

    def kill() -> None:
        if sides.programs[role].running:  # a host that restarts later has no transfer to repeat
            sides.restarting.add(role)
            sides.programs[role].stop("KILL")

    def start() -> None:
        if role in sides.restarting:
            _start(role, staged, rig, directory / f"{role}-restarted", sides, undo)
            sides.restarting.discard(role)

    killed = Intervention(at_s, f"the {role} was to be killed", kill)
    started = Intervention(at_s + planned.after / 1e9, f"the {role} was to be started again", start, is_needed=False)
    return [killed, started]


def announce_outages(channel: ChannelSpec, sides: Sides, began_s: float) -> Iterator[Intervention]:
    """Suspend both sides when a link goes down, and resume them when both are up again; without end if outages repeat.
    The end of an outage that began before the launch is not announced: nothing was suspended. `began_s`: when the
    timeline began, by the monotonic clock."""
    were_up = all(link.up for link in channel.states[0].values())
    is_suspended, unchanged = False, 0
    for moment in moments(channel):
        are_up = all(link.up for link in moment.links.values())
        unchanged = unchanged + 1 if are_up == were_up else 0
        if unchanged > len(channel.states):
            return  # a whole turn of the loop without a change
        if are_up != were_up and are_up == is_suspended:
            is_suspended = not is_suspended
            what = "resumed" if are_up else "suspended"
            act = partial(_order_both, "resume" if are_up else "suspend", sides)
            yield Intervention(began_s + moment.at_ns / 1e9, f"the sides were to be {what}", act)
        were_up = are_up


def command(given: GivenCommand, sides: Sides, doubts: list[str]) -> Intervention:
    """Give a side a command of its profile, at a time that counts from now; `doubts` gets a sentence if its program is
    not running then."""
    due = f"the {given.side}'s command {given.command} was due"

    def act() -> None:
        if sides.programs[given.side].running:
            _order(given.side, given.command, sides)
        elif given.side in sides.restarting:
            doubts.append(f"the {given.side}'s host was restarting when {due}")
        else:
            doubts.append(f"the {given.side} had ended before {due}")

    return Intervention(time.monotonic() + given.at / 1e9, due, act)


def _order_both(name: CommandName, sides: Sides) -> None:
    for role, program in sides.programs.items():
        if program.running:
            _order(role, name, sides)


def _order(role: Role, name: CommandName, sides: Sides) -> None:
    order, program = getattr(sides.specified[role], name), sides.programs[role]
    if order is not None:
        program.type(order.send) if order.send is not None else program.signal(order.signal)


def _exchange(role: Role, exchange: Exchange, implementation: Implementation, sides: Sides) -> None:
    program = sides.programs[role]
    within_s = float(exchange.within_s)
    if exchange.expect is not None and not program.expect(exchange.expect, within_s):
        _complain(
            role,
            implementation,
            sides,
            f"the {role} did not print {exchange.expect!r} within {within_s:g} s of its dialogue",
        )
    if exchange.send is not None:
        program.type(exchange.send)


def _wait_until_ready(
    role: Role, ready: Ready, implementation: Implementation, sides: Sides, host: Host, run_dir: str
) -> None:
    program = sides.programs[role]
    within_s = float(ready.within_s)
    if ready.line is not None:
        met, awaited = program.wait_for_line(ready.line, within_s), f"a line that matches {ready.line!r}"
    else:
        is_there, awaited = _sign(ready, run_dir)
        met = _comes_true(lambda: is_there(host), program, within_s)
    if not met:
        _complain(role, implementation, sides, f"the {role} was not ready after {within_s:g} s: waited for {awaited}")


def _sign(ready: Ready, run_dir: str) -> tuple[Callable[[Host], bool], str]:
    """A check for the sign on a host, and the sign in words."""
    if ready.file is not None:
        path = str(PurePosixPath(run_dir, ready.file))
        return lambda host: host.run(["test", "-e", path]).exit_status == 0, f"{path} to exist"
    if ready.sctp_port is not None:
        listening = f"sctp {ready.sctp_port} LISTEN"
        return lambda host: listening in sockets_of(host), f"SCTP port {ready.sctp_port} to be bound"
    kind, port, state = ("udp", ready.udp_port, "07") if ready.udp_port is not None else ("tcp", ready.tcp_port, "0A")
    bound = re.compile(rf":{int(port or 0):04X} 0+:0000 {state} ")
    return (
        lambda host: bool(bound.search(host.network_tables(kind, f"{kind}6"))),
        f"{kind.upper()} port {port} to be bound",
    )


def _comes_true(condition: Callable[[], bool], program: Program, within_s: float) -> bool:
    end = time.monotonic() + within_s
    pause_s = 0.01
    while time.monotonic() < end and program.running:
        if condition():
            return True
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 1.0)
    return False


def _complain(role: Role, implementation: Implementation, sides: Sides, reason: str) -> NoReturn:
    """Raise Ended for a side that did not become ready, with its last line."""
    complain_of_unsupported(implementation, sides)
    complain_of_failures(sides)
    raise Ended(Outcome.FAILED, ReasonCode.NOT_READY, reason + sides.programs[role].last_words)


def wait_for_end(
    run: Run,
    implementation: Implementation,
    watch: Program,
    sides: Sides,
    interventions: Iterable[Intervention] = (),
) -> None:
    """Return when the session has ended. `interventions` are in the order of their times. Raises Ended if the deadline
    passes first.

    Once a side has ended badly or reported a failure, the other has only a few more round trips.
    """
    limit_s = run.deadline_s(implementation)
    end = time.monotonic() + limit_s
    coming = iter(interventions)
    following = next(coming, None)
    while True:
        before = _state(sides, watch)
        if _is_done(implementation, watch, sides):
            break
        if any(_has_failed(role, sides) for role in sides.programs):
            chance_s = LAST_CHANCE_RTTS * run.rtt_s + run.file_time_s + LAST_CHANCE_S
            end = min(end, time.monotonic() + chance_s)
        until = min(end, following.at_s) if following else end
        if not _changes(before, sides, watch, until - time.monotonic()):
            if following is None or until == end:
                break
            following.perform()
            following = next(coming, None)
        _complain_of_floods(sides)
    complain_of_unsupported(implementation, sides)
    if not _is_done(implementation, watch, sides):
        complain_of_failures(sides)
        late: Role = next((role for role in _awaited(implementation) if not sides.has_ended(role)), "receiver")
        reason = f"the {late} had not ended {limit_s:g} s after the launch, its time limit"
        if stopped := sides.programs[late].stopped_processes:
            reason += f"; stopped by a signal: {', '.join(stopped)}"
        raise Ended(Outcome.TIMED_OUT, ReasonCode.TIME_LIMIT, reason + sides.programs[late].last_words)


def _awaited(implementation: Implementation) -> list[Role]:
    one: dict[str, list[Role]] = {"receiver_exits": ["receiver"], "sender_exits": ["sender"]}
    return one.get(implementation.done, list(ROLES))


def _is_done(implementation: Implementation, watch: Program, sides: Sides) -> bool:
    """Whether the session is over. With `done: file_delivered`, the complete file ends it."""
    if implementation.done == "file_delivered" and watch.wrote_line(DELIVERED_LINE):
        return True
    return all(sides.has_ended(role) for role in _awaited(implementation))


State = tuple[bool, ...]
"""Whether each side has ended, whether a program flooded its output, whether the file is complete."""


def _state(sides: Sides, watch: Program) -> State:
    ended = (sides.has_ended(role) for role in sides.programs)
    return (*ended, any(program.flooded for program in sides.programs.values()), watch.wrote_line(DELIVERED_LINE))


def _changes(before: State, sides: Sides, watch: Program, deadline_s: float) -> bool:
    """Whether the state changes before the deadline."""
    with sides.news:
        return sides.news.wait_for(lambda: _state(sides, watch) != before, deadline_s)


def _has_failed(role: Role, sides: Sides) -> bool:
    if role in sides.restarting:
        return False
    return sides.programs[role].wait(0) not in (None, 0) or sides.failure_line(role) is not None


def complain_of_unsupported(implementation: Implementation, sides: Sides) -> None:
    """Raise Ended for a program whose exit status means unsupported, and for one that could not be loaded."""
    for role, program in sides.programs.items():
        status = program.wait(0)
        if status == NOT_CONFINED and program.wrote_line(CANNOT_CONFINE):
            raise Ended(Outcome.ABORTED, ReasonCode.NOT_CONFINED, f"the {role} was not started{program.last_words}")
        if status == NOT_LOADED and _BROKEN.search(program.last_line):
            raise Ended(Outcome.ABORTED, ReasonCode.NOT_LOADED, how_it_ended(role, program))
        if status == implementation.of(role).unsupported_exit_status:
            raise Ended(Outcome.UNSUPPORTED, ReasonCode.UNSUPPORTED, how_it_ended(role, program))


def _complain_of_floods(sides: Sides) -> None:
    for role, program in sides.programs.items():
        if program.flooded:
            raise Ended(
                Outcome.FAILED,
                ReasonCode.FLOODED,
                f"the {role} wrote more than {OUTPUT_LIMIT_BYTES / 1e6:g} MB of output and was killed"
                f"{program.last_words}",
            )


def how_it_ended(role: Role, program: Program) -> str:
    """The end of a program in words, with its last line."""
    status = program.wait(0)
    end = "had not ended" if status is None else how_ended(status)
    if status == NO_SUCH_PROGRAM:
        end = "was not started"
    place = _NOT_IN_A_RUN.search(program.last_line)
    advice = f"; {place[1]} is empty in a run: move the file, {ELSEWHERE} in the profile" if place else ""
    return f"the {role} {end}{program.last_words}{advice}"


def how_both_ended(sides: Sides) -> str:
    """The sender's end, and the receiver's if it was a bad one."""
    ends = []
    for role, program in sides.programs.items():
        status, line = program.wait(0), sides.failure_line(role)
        if line is not None:
            ends.append(f"the {role} says that it failed: {line!r}")
        elif role in sides.stopped:
            ends += [f"the {role} had not ended"] if role == "sender" else []
        elif status not in (None, 0):
            ends.append(how_it_ended(role, program))
        elif role == "sender":
            ends.append("the sender exited with status 0")
    return "; ".join(ends)


def complain_of_failures(sides: Sides) -> None:
    """Raise GaveUp for a program that reports a failure, or has exited on its own with a status other than 0."""
    _complain_of_floods(sides)
    for role, program in sides.programs.items():
        line = sides.failure_line(role)
        if line is not None:
            raise GaveUp(ReasonCode.REPORTED_FAILURE, f"the {role} says that it failed: {line!r}")
        if role not in sides.stopped and program.wait(0) not in (None, 0):
            raise GaveUp(ReasonCode.EXITED, how_it_ended(role, program))


@dataclass
class Living:
    """The program that serves several runs, if the implementation has one: its side, and where its output goes."""

    role: Role | None
    logs: Path
    program: Program | None = None


def serving_side(implementation: Implementation) -> Role | None:
    """The side that can serve several runs: it starts first, and the end of a run does not need its own end."""
    first = implementation.of("sender").starts_first
    awaited = [] if implementation.done == "file_delivered" else _awaited(implementation)
    return None if first in awaited else first


def stop_programs(sides: Sides) -> None:
    """Stop the programs that still run as their sides specify, except that of the side that stays; note which, and what
    the others left running."""
    for role, program in sides.programs.items():
        if program.running and role == sides.staying:
            continue
        if program.running:
            stop = sides.specified[role].stop
            if stop.send is not None:
                program.type(stop.send)
                program.end_after(stop.grace_s)
            program.stop(stop.signal, stop.grace_s)
            sides.stopped.add(role)
        left = left_running(program.output("err") + program.output("out"))
        sides.note_left_running(role, left)
