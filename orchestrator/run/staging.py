"""Staging a run: run directories, the test file, and both sides as their hosts run them.

The profile's placeholders (`agents.contract.placeholders`) are filled in. Each host is prepared for its side: files,
commands, kernel settings, card, route. Everything is undone when the run is over. The channel comes after it.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath

from pydantic import ValidationError

from owlt.agents.contract.implementation import ROLES, Implementation, Role
from owlt.agents.contract.placeholders import RunValues
from owlt.agents.contract.session_ports import SessionPorts
from owlt.agents.contract.side import Side
from owlt.inputs.validation import mistakes_in
from owlt.orchestrator.hosts.binaries import MissingProgram, find_programs, show_files, texts_in
from owlt.orchestrator.hosts.confinement import NOT_CONFINED, Confinement, Room, left_running
from owlt.orchestrator.hosts.host import ANSWER_BYTES, FLOODED, LATE, Completed, Host, last_line
from owlt.orchestrator.hosts.printable import how_ended
from owlt.orchestrator.planning.estimate import infeasible
from owlt.orchestrator.planning.plan import AdvertisedValues, Run, advertised_values
from owlt.orchestrator.planning.run_channel import equivalent_bit_error_rate
from owlt.orchestrator.planning.seeds import file_seed
from owlt.orchestrator.rigs.rig import CARD_RATE_BPS, Rig, TestHost, card_command, ipv6_command, no_ipv6_command
from owlt.orchestrator.run.applying import set_mtu
from owlt.orchestrator.run.state import Ended, RunResult, Setting, Sides
from owlt.results.record import Outcome, ReasonCode, WrittenSession

ETHERNET_HEADER_BYTES = 14
HASHING_S = 600.0
PREPARING_S = 600.0


@dataclass(frozen=True)
class Staged:
    """A run that can be launched. `paths` are the run directories by role of the host; a side's holds `space_bytes`."""

    paths: dict[str, str]
    received: str
    space_bytes: int
    rooms: dict[Role, Room]
    implementations: dict[Role, Implementation]
    """By role, the implementation with the placeholders of its host filled in."""


def stage(run: Run, setting: Setting, result: RunResult, sides: Sides, undo: ExitStack) -> Staged:
    """Put everything in place; `undo` removes it again. Raises Ended if the implementation does not support the run."""
    rig, implementation = setting.rig, setting.implementation_of(run)
    if reason := infeasible(run, implementation):
        rig.killed_programs.take()
        raise Ended(Outcome.UNSUPPORTED, ReasonCode.BEYOND_LIMITS, f"not launched: {reason}")
    space_bytes = implementation.run_directory.bytes_for(run.permutation.file_size_bytes or 0)
    undo_of = _undo_by_host(rig, undo)
    size_bytes = run.permutation.file_size_bytes
    sender, receiver, emulator, file, _ = rig.at_once(
        lambda: make_run_directory(rig.sender.host, run.run_id, undo_of["sender"], space_bytes),
        lambda: make_run_directory(rig.receiver.host, run.run_id, undo_of["receiver"], space_bytes),
        lambda: make_directory(rig.emulator, run.run_id, undo_of["emulator"]),
        lambda: None if size_bytes is None else _stage_file(size_bytes, setting, result),
        rig.killed_programs.take,  # what was killed before the run is not its own
    )
    paths = {"sender": sender, "receiver": receiver, "emulator": emulator}
    received = implementation.received_at(paths["receiver"], PurePosixPath(file or "").name)
    if (parent := str(PurePosixPath(received).parent)) != paths["receiver"]:
        rig.receiver.host.make_directory(parent)
    if setting.sweep.rig != "lab":
        set_mtu(rig, setting.channel_of(run).path_mtu_bytes, undo)
    if run.permutation.ip == 6:
        rig.at_once(*(partial(_set_up_ipv6, rig, role, undo_of[role]) for role in ROLES))
    result.advertised = advertised_values(run, setting.sweep)
    rendered = _rendered(run, setting, result.advertised, file, received, paths)
    result.session = session_of(rendered, rig)
    ends = {"sender": rig.sender, "receiver": rig.receiver}
    rooms: dict[Role, Room] = {role: room_of(ends[role].host, paths[role], space_bytes) for role in ROLES}

    staged = Staged(paths, received, space_bytes, rooms, rendered)
    rig.at_once(*(partial(_prepare, role, staged, rig, sides, undo_of[role]) for role in ROLES))
    return staged


def rendered_again(run: Run, setting: Setting, staged: Staged, result: RunResult) -> Staged:
    """The staged run with the commands of another run of the same file, whose parameters differ. Raises Ended."""
    size_bytes = run.permutation.file_size_bytes
    file = None if size_bytes is None else _file_of_size(setting.rig.sender.host, size_bytes)
    assert result.advertised is not None, "the first run was staged"
    rendered = _rendered(run, setting, result.advertised, file, staged.received, staged.paths)
    return replace(staged, implementations=rendered)


def session_of(rendered: Mapping[Role, Implementation], rig: Rig) -> WrittenSession:
    """The packets in a capture that belong to a run of these rendered sides."""
    addresses: WrittenSession = {"sender_address": rig.sender.address, "receiver_address": rig.receiver.address}
    session = rendered["sender"].session.joined(rendered["receiver"].session)
    return addresses | {name: [*values] for name, values in session.in_captures.items()}


def file_content(sweep_seed: int, size_bytes: int) -> bytes:
    """The test file of a size: random bytes drawn from the sweep's seed alone."""
    return random.Random(file_seed(sweep_seed, size_bytes)).randbytes(size_bytes)


def make_directory(host: Host, run_id: str, undo: ExitStack) -> str:
    """A fresh directory for a run on a host that runs no implementation."""
    path = f"{host.base}/captures/{run_id}"
    host.make_directory(path)
    undo.callback(host.remove, path)
    return path


def make_run_directory(host: Host, run_id: str, undo: ExitStack, size_bytes: int) -> str:
    """A fresh run directory on a host that runs an implementation (`orchestrator.hosts.confinement`)."""
    path = f"{host.base}/runs/{run_id}"
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


def _undo_by_host(rig: Rig, undo: ExitStack) -> dict[str, ExitStack]:
    """The undo actions of each host, by its role; `undo` performs them on all machines at once."""
    roles = [host.role for host in (rig.sender.host, rig.receiver.host, rig.emulator)]
    if not rig.has_machines:
        return dict.fromkeys(roles, undo)
    by_host = {role: ExitStack() for role in roles}
    undo.callback(lambda: rig.at_once(*(of_host.close for of_host in by_host.values())))
    return by_host


def _stage_file(size: int, setting: Setting, result: RunResult) -> str:
    """The test file of a size on the sender, written unless it is already there."""
    host = setting.rig.sender.host
    content = file_content(setting.sweep.seed, size)
    sha256 = hashlib.sha256(content).hexdigest()
    path = _file_of_size(host, size)
    there = host.sha256(path, HASHING_S)
    if there not in (None, sha256):
        result.suspect.append("an earlier run changed the sender's test file; it was written again")
    if there != sha256:
        host.write_file(path, content)
    result.file_sha256 = sha256
    return path


def _file_of_size(host: Host, size_bytes: int) -> str:
    return f"{host.base}/file-{size_bytes}.bin"


def _rendered(
    run: Run, setting: Setting, advertised: AdvertisedValues, file: str | None, received: str, paths: dict[str, str]
) -> dict[Role, Implementation]:
    """The implementation as each host is to run it; of a pair, the implementation whose side it is."""
    rig, whole = setting.rig, setting.implementation_of(run)
    hosts = {"sender": rig.sender.host, "receiver": rig.receiver.host}
    rendered: dict[Role, Implementation] = {}
    for role in ROLES:
        implementation = whole.of(role)
        values = _placeholder_values(run, setting, advertised, file, received, paths[role])
        try:
            programs = find_programs(implementation, role, hosts[role], rig.third_party)
            rendered[role] = implementation.rendered(values, programs)
            show_files(hosts[role], _named_in(rendered[role], role), (*_known(rig), hosts[role].base))
        except MissingProgram as missing:
            raise Ended(Outcome.ABORTED, ReasonCode.NOT_INSTALLED, str(missing)) from missing
        except ValueError as problem:
            mistakes = "; ".join(_explained(problem))
            reason = f"the {role}'s profile cannot be filled for this run: {mistakes}"
            raise Ended(Outcome.ABORTED, ReasonCode.PROFILE, reason) from problem
    return rendered


def _placeholder_values(
    run: Run, setting: Setting, advertised: AdvertisedValues, file: str | None, received_file: str, run_dir: str
) -> dict[str, str]:
    """Return them by name, as text. `file` (None: none is sent), `received_file` and `run_dir` are paths on hosts."""
    rig, channel, point = setting.rig, setting.channel_of(run), run.permutation
    mtu_bytes = min(channel.path_mtu_bytes, channel.forward.mtu_bytes or channel.path_mtu_bytes)
    return RunValues(
        python=rig.python,
        third_party=rig.third_party,
        file=file or "",
        received_file=received_file,
        file_size_bytes=point.file_size_bytes or 0,
        duration_s=run.duration_s,
        outages="announced" if setting.sweep.may_suspend(point.channel_name) else "silent",
        rate_bps=advertised.rate_bps,
        reverse_rate_bps=channel.reverse.rate_bps,
        one_way_delay_s=advertised.one_way_delay_s,
        rtt_s=advertised.rtt_s,
        channel_rate_bps=point.rate_bps,
        channel_one_way_delay_s=point.delay_ns / 1e9,
        mtu_bytes=mtu_bytes,
        packet_error_rate=point.packet_error_rate,
        bit_error_rate=equivalent_bit_error_rate(channel.forward, ETHERNET_HEADER_BYTES + mtu_bytes),
        reverse_bit_error_rate=equivalent_bit_error_rate(channel.reverse, ETHERNET_HEADER_BYTES + mtu_bytes),
        sender_address=rig.sender.address,
        receiver_address=rig.receiver.address,
        sender_interface=rig.sender.interface,
        receiver_interface=rig.receiver.interface,
        run_dir=run_dir,
        seed=run.seed,
    ).as_text()


def _named_in(implementation: Implementation, role: Role) -> Iterator[str]:
    """The texts in which an implementation names files of the machine."""
    yield from texts_in(implementation.side(role).model_dump(include={"command", "environment", "files", "prepare"}))
    yield from (need.file for need in implementation.needs if need.file)


def _known(rig: Rig) -> tuple[str, ...]:
    """The directories of Python and of third-party implementations, which are visible on every host of a rig."""
    return rig.third_party, str(PurePosixPath(rig.python).parents[1])


def _explained(problem: ValueError) -> list[str]:
    if isinstance(problem, ValidationError):
        return [str(each) for each in mistakes_in(problem, Side if problem.title == Side.__name__ else SessionPorts)]
    return [str(problem)]


def _prepare(role: Role, staged: Staged, rig: Rig, sides: Sides, undo: ExitStack) -> None:
    """Write the side's files, run its commands, set its sysctls, its card and its route.

    Raises Ended if one is refused or does not finish.
    """
    end, peer = rig.ends(role)
    host, implementation, run_dir = end.host, staged.implementations[role], staged.paths[role]
    side, confinement = implementation.side(role), Confinement(staged.rooms[role], {}, implementation.capabilities)
    for name, text in side.files.items():
        path = PurePosixPath(run_dir, name)
        host.make_directory(str(path.parent))
        host.write_file(str(path), text.encode())
    for command in side.prepare:
        done = host.run_foreign(command, PREPARING_S, confinement, run_dir)
        sides.note_left_running(role, left_running(done.stderr.decode(errors="replace")))
        _accept(role, command, done, Outcome.FAILED)
    _set_sysctls(role, host, {name: value for name, value in side.sysctls.items() if value}, undo)
    if side.card_rate_bps:
        undo.callback(host.run, card_command(end.interface, CARD_RATE_BPS))
        host.check(card_command(end.interface, float(side.card_rate_bps)))
    if any(side.route.values()):
        _set_route(role, side.route, end, peer.address, undo)


def _set_up_ipv6(rig: Rig, role: Role, undo: ExitStack) -> None:
    """Give a host its address of IPv6. Raises HostError."""
    end, peer = rig.ends(role)
    undo.callback(end.host.run, no_ipv6_command(end.interface))
    end.host.check(ipv6_command(end.interface, end.address, peer.address))


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
    route = [peer, "dev", end.interface, "src", end.address]
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
