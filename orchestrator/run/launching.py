"""The two programs of a run are launched in the order that the implementation names, with their dialogue.

Waiting for their end belongs to `ending`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import NoReturn

from owlt.agents.contract.implementation import ROLES, Implementation, Role
from owlt.agents.contract.side import Exchange, Ready
from owlt.orchestrator.hosts.host import Host
from owlt.orchestrator.hosts.program import Program
from owlt.orchestrator.rigs.rig import Rig
from owlt.orchestrator.run.ending import complain_of_failures, complain_of_unsupported
from owlt.orchestrator.run.result import Ended
from owlt.orchestrator.run.sides import Sides
from owlt.orchestrator.run.staging import Staged
from owlt.results.record import Outcome, ReasonCode


def launch(
    staged: Staged,
    rig: Rig,
    directory: Path,
    sides: Sides,
    undo: ExitStack,
) -> None:
    """Start the side that the implementation names first, wait until it is ready, start the other."""
    hosts = {"sender": rig.sender.host, "receiver": rig.receiver.host}
    implementations, paths = staged.implementations, staged.paths
    first = implementations["sender"].starts_first
    for role in sorted(ROLES, key=lambda role: role != first):
        side, host = implementations[role].side(role), hosts[role]
        sides.specified[role] = side
        program = host.start_foreign(
            side.command,
            paths[role],
            directory / role,
            sides.news,
            staged.rooms[role],
            environment=side.environment,
            capabilities=implementations[role].capabilities,
            terminal=bool(side.dialogue),
        )
        undo.callback(program.stop)
        sides.programs[role] = program
        for exchange in side.dialogue:
            _exchange(role, exchange, implementations[role], sides)
        if role == first and side.ready is not None:
            _wait_until_ready(role, side.ready, implementations[role], sides, host, paths[role])


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
    kind, port, state = ("udp", ready.udp_port, "07") if ready.udp_port is not None else ("tcp", ready.tcp_port, "0A")
    bound = re.compile(rf":{int(port or 0):04X} 0+:0000 {state} ")
    tables = [f"/proc/net/{kind}", f"/proc/net/{kind}6"]
    return (
        lambda host: bool(bound.search(host.run(["cat", *tables]).stdout.decode())),
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
