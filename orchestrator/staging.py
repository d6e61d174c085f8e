"""What a run needs in place before its channel: run directories, the test file, both sides as their hosts run them."""

from __future__ import annotations

import hashlib
import random
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from agents.contract import ROLES, Implementation, Role, SessionPorts
from agents.explaining import explained
from agents.placeholders import RunValues
from agents.side import Side
from orchestrator.binaries import find_programs
from orchestrator.confinement import Room
from orchestrator.error_rates import equivalent_bit_error_rate
from orchestrator.findings import Ended, Findings
from orchestrator.host import Host
from orchestrator.plan import Run
from orchestrator.preparing import make_directory, make_run_directory, prepare, room_of
from orchestrator.record import Outcome
from orchestrator.rigs.rig import Rig
from orchestrator.seeds import derived_seed
from orchestrator.setting import Setting
from orchestrator.told import ToldValues, told_values

IP_MTU_BYTES = 1500
ETHERNET_HEADER_BYTES = 14
HASHING_S = 600.0


@dataclass(frozen=True)
class Staged:
    """A run that can be launched. `paths` are the run directories by role of the host; a side's holds `space_bytes`."""

    paths: dict[str, str]
    received: str
    space_bytes: int
    rooms: dict[Role, Room]
    builds: dict[Role, Implementation]


def stage(run: Run, setting: Setting, found: Findings, undo: ExitStack) -> Staged:
    """Put everything in place; `undo` takes it away again. Raises Ended where the build cannot do this run."""
    rig, implementation = setting.rig, setting.implementation_of(run)
    _refuse_what_is_beyond(run, implementation)
    space_bytes = implementation.run_directory.bytes_for(run.permutation.file_size_bytes)
    paths = _make_run_directories(run, rig, space_bytes, undo)
    file, found.facts["file_sha256"] = _stage_file(run, setting, found)
    received = implementation.received_at(paths["receiver"], PurePosixPath(file).name)
    rig.receiver.host.check(["mkdir", "-p", str(PurePosixPath(received).parent)])
    builds = _rendered(run, setting, file, received, paths, found)
    found.facts["session"] = session_of(builds["sender"], rig)
    rooms: dict[Role, Room] = {}
    ends = (rig.sender, rig.receiver)
    for role, end, peer in zip(ROLES, ends, reversed(ends), strict=True):
        rooms[role] = room_of(end.host, paths[role], space_bytes)
        prepare(role, builds[role], end, peer.address, paths[role], rooms[role], found, undo)
    return Staged(paths, received, space_bytes, rooms, builds)


def session_of(implementation: Implementation, rig: Rig) -> dict[str, Any]:
    """What belongs to a run of this rendered implementation in a capture: the fields of `captures.session.Session`."""
    addresses = {"sender_address": rig.sender.address, "receiver_address": rig.receiver.address}
    return addresses | implementation.session.in_captures


def file_content(sweep_seed: int, size_bytes: int) -> bytes:
    """The test file of a size: random bytes that the sweep's seed alone decides."""
    return random.Random(derived_seed(sweep_seed, "file", size_bytes)).randbytes(size_bytes)


def _refuse_what_is_beyond(run: Run, implementation: Implementation) -> None:
    point = run.permutation
    beyond = implementation.limits.exceeded(point.file_size_bytes, point.rate_bps, point.delay_ns / 1e9)
    if beyond is not None:
        raise Ended(Outcome.UNSUPPORTED, f"not launched: {beyond}")


def _make_run_directories(run: Run, rig: Rig, space_bytes: int, undo: ExitStack) -> dict[str, str]:
    """A directory on each host; those of the build hold no more than its profile says."""
    hosts = (rig.sender.host, rig.receiver.host)
    paths = {host.role: make_run_directory(host, run.run_id, undo, space_bytes) for host in hosts}
    return paths | {rig.emulator.role: make_directory(rig.emulator, run.run_id, undo)}


def _stage_file(run: Run, setting: Setting, found: Findings) -> tuple[str, str]:
    """The test file on the sender, put there unless it is there already, and its SHA-256."""
    host, size = setting.rig.sender.host, run.permutation.file_size_bytes
    content = file_content(setting.sweep.seed, size)
    sha256 = hashlib.sha256(content).hexdigest()
    path = f"{host.base}/file-{size}.bin"
    there = sha256_of(host, path)
    if there not in (None, sha256):
        found.suspect.append("a run before this one changed the sender's test file; it was put there anew")
    if there != sha256:
        with host.files.open(path, "wb") as file:
            file.set_pipelined(True)
            file.write(content)
    return path, sha256


def sha256_of(host: Host, path: str) -> str | None:
    """The hash of a file on a host; None where there is none."""
    done = host.run(["sha256sum", path], HASHING_S)
    return done.stdout.split()[0].decode() if done.exit_status == 0 else None


def _rendered(
    run: Run, setting: Setting, file: str, received: str, paths: dict[str, str], found: Findings
) -> dict[Role, Implementation]:
    """The implementation as each host is to run it."""
    rig, implementation = setting.rig, setting.implementation_of(run)
    told = told_values(run, setting.sweep)
    found.facts["told"] = asdict(told)
    hosts = {"sender": rig.sender.host, "receiver": rig.receiver.host}
    builds: dict[Role, Implementation] = {}
    for role in ROLES:
        programs = find_programs(implementation, role, hosts[role], rig.builds)
        values = _run_values(run, setting, told, file, received, paths[role])
        try:
            builds[role] = implementation.rendered(values, programs)
        except ValueError as problem:
            told_of = "; ".join(_explained(problem))
            raise Ended(Outcome.ABORTED, f"the {role}'s profile cannot be filled for this run: {told_of}") from problem
    return builds


def _explained(problem: ValueError) -> list[str]:
    if isinstance(problem, ValidationError):
        return explained(problem, Side if problem.title == Side.__name__ else SessionPorts)
    return [str(problem)]


def _run_values(
    run: Run, setting: Setting, told: ToldValues, file: str, received_file: str, run_dir: str
) -> dict[str, str]:
    """What the build on one host can be told of its run, by placeholder name."""
    rig, channel, point = setting.rig, setting.channel_of(run), run.permutation
    mtu_bytes = min(IP_MTU_BYTES, channel.forward.mtu_bytes or IP_MTU_BYTES)
    return RunValues(
        python=rig.python,
        builds=rig.builds,
        file=file,
        received_file=received_file,
        file_size_bytes=point.file_size_bytes,
        rate_bps=told.rate_bps,
        reverse_rate_bps=channel.reverse.rate_bps,
        one_way_delay_s=told.one_way_delay_s,
        rtt_s=told.rtt_s,
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
