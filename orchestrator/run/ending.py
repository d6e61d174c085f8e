"""How the session of a run ends: its programs have ended, the file is delivered, a program fails, the deadline passes.

The verdict on the transfer belongs to `judging`, which looks at the file alone.
"""

from __future__ import annotations

import re
import time

from owlt.agents.contract.implementation import ROLES, Implementation, Role
from owlt.orchestrator.hosts.confinement import CANNOT_CONFINE, NO_SUCH_PROGRAM, NOT_CONFINED, left_running
from owlt.orchestrator.hosts.exit_status import how_ended
from owlt.orchestrator.hosts.program import OUTPUT_LIMIT_BYTES, Program
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.run.delivery_watch import COMPLETE
from owlt.orchestrator.run.result import Ended, GaveUp
from owlt.orchestrator.run.sides import Sides
from owlt.results.record import Outcome, ReasonCode

LAST_CHANCE_RTTS = 4
LAST_CHANCE_S = 10.0
_BROKEN = re.compile(r"error while loading shared libraries|: not found$")
"""What the dynamic loader and a shell print when they end with NOT_LOADED."""
NOT_LOADED = 127


def wait_for_end(run: Run, implementation: Implementation, watch: Program, sides: Sides) -> None:
    """Return when the session has ended. Raises Ended if the deadline passes first.

    Once a side has ended badly or reported a failure, the other has only a few more round trips.
    """
    limit_s = run.deadline_s(implementation)
    end = time.monotonic() + limit_s
    while True:
        before = _state(sides, watch)
        if _is_done(implementation, watch, sides):
            break
        if any(_has_failed(role, sides) for role in sides.programs):
            chance_s = LAST_CHANCE_RTTS * run.rtt_s + run.file_time_s + LAST_CHANCE_S
            end = min(end, time.monotonic() + chance_s)
        if not _changes(before, sides, watch, end - time.monotonic()):
            break
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
    if implementation.done == "file_delivered" and watch.wrote_line(COMPLETE):
        return True
    return all(sides.has_ended(role) for role in _awaited(implementation))


State = tuple[bool, ...]
"""Whether each side has ended, whether a program flooded its output, whether the file is complete."""


def _state(sides: Sides, watch: Program) -> State:
    ended = (sides.has_ended(role) for role in sides.programs)
    return (*ended, any(program.flooded for program in sides.programs.values()), watch.wrote_line(COMPLETE))


def _changes(before: State, sides: Sides, watch: Program, deadline_s: float) -> bool:
    """Whether the state changes before the deadline."""
    with sides.news:
        return sides.news.wait_for(lambda: _state(sides, watch) != before, deadline_s)


def _has_failed(role: Role, sides: Sides) -> bool:
    return sides.programs[role].wait(0) not in (None, 0) or sides.failure_line(role) is not None


def complain_of_unsupported(implementation: Implementation, sides: Sides) -> None:
    """Raise Ended for a program whose exit status means unsupported, and for one that could not be loaded."""
    for role, program in sides.programs.items():
        status = program.wait(0)
        if status == NOT_CONFINED and program.wrote_line(CANNOT_CONFINE):
            raise Ended(Outcome.ABORTED, ReasonCode.NOT_CONFINED, f"the {role} was not started{program.last_words}")
        if status == NOT_LOADED and _BROKEN.search(program.last_line):
            raise Ended(Outcome.ABORTED, ReasonCode.NOT_LOADED, how_it_ended(role, program))
        if status == implementation.unsupported_exit_status:
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
    if status == NO_SUCH_PROGRAM:
        return f"the {role} was not started{program.last_words}"
    return f"the {role} {'had not ended' if status is None else how_ended(status)}{program.last_words}"


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


def stop_programs(sides: Sides) -> None:
    """Stop the programs that still run as their sides specify; note which, and what the others left running."""
    for role, program in sides.programs.items():
        if program.running:
            stop = sides.specified[role].stop
            if stop.send is not None:
                program.type(stop.send)
                program.end_after(stop.grace_s)
            program.stop(stop.signal, stop.grace_s)
            sides.stopped.add(role)
        left = left_running(program.output("err") + program.output("out"))
        sides.note_left_running(role, left)
