"""Preparing a host for a side before its launch: run directory, files, commands, kernel settings, route.

Everything is undone when the run is over.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import PurePosixPath

from owlt.agents.contract.implementation import Implementation, Role
from owlt.orchestrator.hosts.confinement import NOT_CONFINED, Room, left_running
from owlt.orchestrator.hosts.exit_status import how_ended
from owlt.orchestrator.hosts.host import ANSWER_BYTES, FLOODED, LATE, RUNS, Completed, Host, last_line
from owlt.orchestrator.rigs.rig import CARD_RATE_BPS, TestHost, card_command
from owlt.orchestrator.run.result import Ended
from owlt.orchestrator.run.sides import Sides
from owlt.results.record import Outcome, ReasonCode

PREPARING_S = 600.0


def make_directory(host: Host, run_id: str, undo: ExitStack) -> str:
    """A fresh directory for a run on a host that runs no implementation."""
    path = f"{host.base}/captures/{run_id}"
    host.make_directory(path)
    undo.callback(host.remove, path)
    return path


def make_run_directory(host: Host, run_id: str, undo: ExitStack, size_bytes: int) -> str:
    """A fresh run directory on a host that runs an implementation (`orchestrator.hosts.run_directory`)."""
    path = f"{host.base}/{RUNS}/{run_id}"
    undo.callback(host.remove_run_directory, path)
    host.make_run_directory(path, size_bytes)
    return path


def room_of(host: Host, run_dir: str, size_bytes: int) -> Room:
    """The file systems of a run's programs on a host whose run directory was made with `make_run_directory`."""
    return Room(host.base, f"{run_dir}.mounts", size_bytes)


def is_full(host: Host, path: str) -> bool:
    """Whether a run directory has no room left."""
    done = host.run(["stat", "--file-system", "--format=%a", path])
    return done.exit_status == 0 and int(done.stdout) == 0


def prepare(
    role: Role,
    implementation: Implementation,
    end: TestHost,
    peer: str,
    run_dir: str,
    room: Room,
    sides: Sides,
    undo: ExitStack,
) -> None:
    """Write the side's files, run its commands, set its sysctls, its card and its route.

    Raises Ended if one is refused or does not finish.
    """
    host, side = end.host, implementation.side(role)
    for name, text in side.files.items():
        path = PurePosixPath(run_dir, name)
        host.make_directory(str(path.parent))
        host.write_file(str(path), text.encode())
    for command in side.prepare:
        done = host.run_foreign(command, PREPARING_S, room, implementation.capabilities, run_dir)
        sides.note_left_running(role, left_running(done.stderr.decode(errors="replace")))
        _accept(role, command, done, Outcome.FAILED)
    _set_sysctls(role, host, {name: value for name, value in side.sysctls.items() if value}, undo)
    if side.card_rate_bps:
        undo.callback(host.run, card_command(end.interface, CARD_RATE_BPS))
        host.check(card_command(end.interface, float(side.card_rate_bps)))
    if any(side.route.values()):
        _set_route(role, side.route, end, peer, undo)


def _set_sysctls(role: Role, host: Host, values: dict[str, str], undo: ExitStack) -> None:
    """Set those that have another value, all with one command: each command is a round trip to the host."""
    if not values:
        return
    read = ["sysctl", "-n", *values]
    done = host.run(read)
    _accept(role, read, done, Outcome.UNSUPPORTED)
    before = dict(zip(values, done.stdout.decode().splitlines(), strict=True))
    changed = [name for name, value in values.items() if value.split() != before[name].split()]
    if changed:
        undo.callback(host.run, ["sysctl", "-q", "-w", *(f"{name}={before[name]}" for name in reversed(changed))])
        write = ["sysctl", "-q", "-w", *(f"{name}={values[name]}" for name in changed)]
        _accept(role, write, host.run(write), Outcome.UNSUPPORTED)


def _set_route(role: Role, options: dict[str, str], end: TestHost, peer: str, undo: ExitStack) -> None:
    """A route to the peer alone, beside that of the test network."""
    words = [word for name, value in options.items() if value for word in (name, *value.split())]
    route = [f"{peer}/32", "dev", end.interface, "src", end.address]
    add = ["ip", "route", "add", *route, *words]
    _accept(role, add, end.host.run(add), Outcome.UNSUPPORTED)
    undo.callback(end.host.run, ["ip", "route", "del", *route])


def _accept(role: Role, command: list[str], done: Completed, otherwise: Outcome) -> None:
    if done.exit_status != 0:
        last = last_line(done)
        is_late = done.exit_status == LATE
        ended = f"did not finish within {PREPARING_S:g} s" if is_late else how_ended(done.exit_status)
        if done.exit_status == FLOODED:
            ended = f"wrote more than {ANSWER_BYTES / 1e6:g} MB of output and was killed"
        is_confined = done.exit_status != NOT_CONFINED
        outcome = otherwise if is_confined else Outcome.ABORTED
        code = ReasonCode.PREPARATION if is_confined else ReasonCode.NOT_CONFINED
        raise Ended(outcome, code, f"the {role}'s host: {' '.join(command)} {ended}: {last}")
