"""Staging a run: run directories, the test file, both sides as their hosts run them. The channel comes after it."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import PurePosixPath

from pydantic import ValidationError

from owlt.agents.contract.implementation import ROLES, Implementation, Role
from owlt.agents.contract.session_ports import SessionPorts
from owlt.agents.contract.side import Side
from owlt.inputs.validation import mistakes_in
from owlt.orchestrator.hosts.binaries import MissingProgram, find_programs
from owlt.orchestrator.hosts.confinement import Room
from owlt.orchestrator.hosts.visible_files import show_files, texts_in
from owlt.orchestrator.planning.estimate import infeasible
from owlt.orchestrator.planning.plan import AdvertisedValues, Run, advertised_values
from owlt.orchestrator.planning.seeds import file_seed
from owlt.orchestrator.rigs.placeholder_values import placeholder_values
from owlt.orchestrator.rigs.rig import Rig
from owlt.orchestrator.run.applying import set_mtu
from owlt.orchestrator.run.preparing import make_directory, make_run_directory, prepare, room_of
from owlt.orchestrator.run.result import Ended, RunResult
from owlt.orchestrator.run.setting import Setting
from owlt.orchestrator.run.sides import Sides
from owlt.results.record import Outcome, ReasonCode, WrittenSession

HASHING_S = 600.0


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
    result.advertised = advertised_values(run, setting.sweep)
    rendered = _rendered(run, setting, result.advertised, file, received, paths)
    result.session = session_of(rendered["sender"], rig)
    ends = {"sender": rig.sender, "receiver": rig.receiver}
    rooms: dict[Role, Room] = {role: room_of(ends[role].host, paths[role], space_bytes) for role in ROLES}

    def prepare_side(role: Role, peer: Role) -> None:
        address = ends[peer].address
        prepare(role, rendered[role], ends[role], address, paths[role], rooms[role], sides, undo_of[role])

    rig.at_once(lambda: prepare_side("sender", "receiver"), lambda: prepare_side("receiver", "sender"))
    return Staged(paths, received, space_bytes, rooms, rendered)


def session_of(implementation: Implementation, rig: Rig) -> WrittenSession:
    """What belongs to a run of this rendered implementation in a capture."""
    addresses: WrittenSession = {"sender_address": rig.sender.address, "receiver_address": rig.receiver.address}
    return addresses | {name: [*values] for name, values in implementation.session.in_captures.items()}


def file_content(sweep_seed: int, size_bytes: int) -> bytes:
    """The test file of a size: random bytes drawn from the sweep's seed alone."""
    return random.Random(file_seed(sweep_seed, size_bytes)).randbytes(size_bytes)


def _undo_by_host(rig: Rig, undo: ExitStack) -> dict[str, ExitStack]:
    """What is to be undone on each host, by its role; `undo` does it on all machines at once."""
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
    path = f"{host.base}/file-{size}.bin"
    there = host.sha256(path, HASHING_S)
    if there not in (None, sha256):
        result.suspect.append("an earlier run changed the sender's test file; it was written again")
    if there != sha256:
        host.write_file(path, content)
    result.file_sha256 = sha256
    return path


def _rendered(
    run: Run, setting: Setting, advertised: AdvertisedValues, file: str | None, received: str, paths: dict[str, str]
) -> dict[Role, Implementation]:
    """The implementation as each host is to run it."""
    rig, implementation = setting.rig, setting.implementation_of(run)
    hosts = {"sender": rig.sender.host, "receiver": rig.receiver.host}
    rendered: dict[Role, Implementation] = {}
    for role in ROLES:
        values = placeholder_values(run, rig, setting.channel_of(run), advertised, file, received, paths[role])
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
