"""One run, phase by phase, as the protocol of an experiment reads; whatever happens, it ends in a record.

stage the file, configure the channel and read it back, start both captures, start the side that the
implementation names first, wait until it is ready, start the other, wait until the session ended or the
deadline passed, let the channel run empty, stop the captures, compare the files, record.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from agents.contract import ROLES, Implementation, Role
from agents.placeholders import RunValues
from emulator.channel import ChannelSpec
from emulator.faults import ChannelRefused, EmulatorError
from orchestrator.binaries import find_programs
from orchestrator.capturing import drain_channel, fetch_captures, start_captures, stop_captures
from orchestrator.certification import Certified
from orchestrator.findings import Ended, Findings
from orchestrator.host import HostError
from orchestrator.launching import complain_of_failures, launch, stop_programs, wait_for_end
from orchestrator.plan import Run, channel_of
from orchestrator.preparing import is_full, make_run_directory, prepare
from orchestrator.program import Program
from orchestrator.record import Outcome, RunRecord, write_record
from orchestrator.rigs.rig import Rig
from orchestrator.seeds import derived_seed
from orchestrator.sweep import Sweep
from orchestrator.told import ToldValues, told_values
from orchestrator.watching import last_change_ns, start_watch

IP_MTU_BYTES = 1500
LATEST_STEP_NS = 5_000_000
"""A step of a channel that comes later makes the run suspect."""

Observe = Callable[[str], None]


@dataclass(frozen=True)
class Setting:
    """What all runs of a batch share."""

    sweep: Sweep
    implementations: dict[str, Implementation]
    channels: dict[str, ChannelSpec]
    certificates: dict[str, Certified]
    rig: Rig
    versions: dict[str, str]
    kernel_hz: int | None
    netem_takes_seeds: bool


def perform(run: Run, setting: Setting, directory: Path, observe: Observe) -> RunRecord:
    """Perform one run and write its record, logs and captures into `directory` (made if need be).

    `observe` is told each phase as it begins. Raises nothing but what ends the process.
    """
    directory.mkdir(parents=True, exist_ok=True)
    findings = Findings()
    try:
        with ExitStack() as undo:
            _phases(run, setting, directory, findings, undo, observe)
        outcome, reason = Outcome.COMPLETED, ""
    except Ended as end:
        outcome, reason = end.outcome, end.reason
    except (HostError, EmulatorError, OSError, EOFError) as problem:
        outcome, reason = Outcome.ABORTED, f"the rig failed: {problem}"
    record = _record(run, setting, findings, outcome, reason)
    write_record(record, directory)
    return record


def _phases(run: Run, setting: Setting, directory: Path, found: Findings, undo: ExitStack, observe: Observe) -> None:
    rig, implementation = setting.rig, setting.implementations[run.permutation.implementation]
    observe("stage")
    _refuse_what_is_beyond(run, implementation)
    paths = _make_run_directories(run, implementation, rig, undo)
    file, content_sha256 = _stage_file(run, setting)
    found.facts["file_sha256"] = content_sha256
    received = implementation.received_at(paths["receiver"], PurePosixPath(file).name)
    rig.receiver.host.check(["mkdir", "-p", str(PurePosixPath(received).parent)])
    builds = _rendered(run, setting, file, received, paths, found)
    prepare("sender", builds["sender"].sender, rig.sender, rig.receiver.address, paths["sender"], undo)
    prepare("receiver", builds["receiver"].receiver, rig.receiver, rig.sender.address, paths["receiver"], undo)
    observe("configure")
    _configure(run, setting, found)
    observe("capture")
    captures = start_captures(rig, paths["emulator"], directory, undo)
    observe("launch")
    awaited_sha256 = content_sha256 if implementation.done == "file_whole" else ""
    watch = start_watch(rig, received, awaited_sha256, directory, found.news, undo)
    found.facts["session"] = session_of(builds["sender"], rig)
    found.facts["started_at_ns"] = time.time_ns()
    try:
        if setting.channels[run.channel_key].timeline is not None:
            rig.channel.timeline_start()
        launch(builds, rig, paths, directory, found, undo)
        observe("transfer")
        wait_for_end(run, implementation, watch, found)
    except Ended as end:
        raise _with_full_directories(end, rig, paths) from end
    finally:
        found.facts["ended_at_ns"] = time.time_ns()
        observe("stop")
        stop_programs(found)
        drain_channel(run, rig)
        _check_channel(run, setting, found)
        _note_timeline(run, setting, found)
        found.facts["emulator_statistics"] = rig.channel.statistics()
        stop_captures(captures, found)
        observe("fetch")
        fetch_captures(rig, paths["emulator"], directory)
    _judge(rig, received, watch, found)


def _refuse_what_is_beyond(run: Run, implementation: Implementation) -> None:
    point = run.permutation
    beyond = implementation.limits.exceeded(point.file_size_bytes, point.rate_bps, point.delay_ns / 1e9)
    if beyond is not None:
        raise Ended(Outcome.UNSUPPORTED, f"not launched: {beyond}")


def _rendered(
    run: Run, setting: Setting, file: str, received: str, paths: dict[str, str], found: Findings
) -> dict[Role, Implementation]:
    """The implementation as each host is to run it."""
    rig, implementation = setting.rig, setting.implementations[run.permutation.implementation]
    told = told_values(run, setting.sweep)
    found.facts["told"] = asdict(told)
    hosts = {"sender": rig.sender.host, "receiver": rig.receiver.host}
    return {
        role: implementation.rendered(
            run_values(run, setting, told, file, received, paths[role]),
            find_programs(implementation, role, hosts[role], rig.builds),
        )
        for role in ROLES
    }


def run_values(
    run: Run, setting: Setting, told: ToldValues, file: str, received_file: str, run_dir: str
) -> dict[str, str]:
    """What the build on one host can be told of its run, by placeholder name."""
    rig, channel, point = setting.rig, setting.channels[run.channel_key], run.permutation
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
        mtu_bytes=min(IP_MTU_BYTES, channel.forward.mtu_bytes or IP_MTU_BYTES),
        packet_error_rate=point.packet_error_rate,
        sender_address=rig.sender.address,
        receiver_address=rig.receiver.address,
        sender_interface=rig.sender.interface,
        receiver_interface=rig.receiver.interface,
        run_dir=run_dir,
        seed=run.seed,
    ).as_text()


def session_of(implementation: Implementation, rig: Rig) -> dict[str, Any]:
    """What belongs to a run of this rendered implementation in a capture: the fields of `captures.session.Session`."""
    addresses = {"sender_address": rig.sender.address, "receiver_address": rig.receiver.address}
    return addresses | implementation.session.model_dump()


def file_content(sweep_seed: int, size_bytes: int) -> bytes:
    """The test file of a size: random bytes that the sweep's seed alone decides."""
    return random.Random(derived_seed(sweep_seed, "file", size_bytes)).randbytes(size_bytes)


def _make_run_directories(run: Run, implementation: Implementation, rig: Rig, undo: ExitStack) -> dict[str, str]:
    """A directory on each host; those of the build hold no more than its profile says."""
    size_bytes = implementation.run_directory.bytes_for(run.permutation.file_size_bytes)
    sizes = {rig.sender.host: size_bytes, rig.receiver.host: size_bytes, rig.emulator: None}
    return {host.role: make_run_directory(host, run.run_id, undo, size) for host, size in sizes.items()}


def _with_full_directories(end: Ended, rig: Rig, paths: dict[str, str]) -> Ended:
    """The same end, naming the run directories that have no room left."""
    full = [host.role for host in (rig.sender.host, rig.receiver.host) if is_full(host, paths[host.role])]
    more = "".join(f"; the {role}'s run directory is full (see run_directory in the profile)" for role in full)
    return Ended(end.outcome, end.reason + more)


def _stage_file(run: Run, setting: Setting) -> tuple[str, str]:
    """The test file on the sender, put there unless it is there already, and its SHA-256."""
    host, size = setting.rig.sender.host, run.permutation.file_size_bytes
    content = file_content(setting.sweep.seed, size)
    path = f"{host.base}/file-{size}.bin"
    try:
        there = host.files.stat(path).st_size == size
    except FileNotFoundError:
        there = False
    if not there:
        with host.files.open(path, "wb") as file:
            file.set_pipelined(True)
            file.write(content)
    return path, hashlib.sha256(content).hexdigest()


def _configure(run: Run, setting: Setting, found: Findings) -> None:
    asked = channel_of(run, setting.channels[run.channel_key], setting.netem_takes_seeds)
    certified = setting.certificates.get(run.channel_key)
    if certified is not None:
        found.facts["certificate"] = certified.verdict
        found.suspect += [f"the channel's certificate: {sentence}" for sentence in certified.suspicion]
    try:
        applied = setting.rig.channel.configure(asked)
    except ChannelRefused as refusal:
        raise Ended(Outcome.ABORTED, f"the emulator refused the channel: {refusal}") from refusal
    found.facts["channel"] = applied.to_wire()


def _note_timeline(run: Run, setting: Setting, found: Findings) -> None:
    """How a channel that changes with time did so; it stays as it is from here on."""
    if setting.channels[run.channel_key].timeline is None:
        return
    status = setting.rig.channel.timeline_stop()
    found.facts["timeline"] = {"steps_applied": status["steps_applied"], "latest_ns": status["latest_ns"]}
    if status["failure"]:
        found.suspect.append(f"the channel's timeline broke off: {status['failure']}")
    if status["latest_ns"] > LATEST_STEP_NS:
        found.suspect.append(f"a step of the channel's timeline came {status['latest_ns'] / 1e6:.1f} ms late")


def _check_channel(run: Run, setting: Setting, found: Findings) -> None:
    """The channel at the end is the one that was applied, if it is not to change with time."""
    if setting.channels[run.channel_key].timeline is not None:
        return
    at_the_end = setting.rig.channel.describe().to_wire()
    if at_the_end != found.facts["channel"]:
        found.suspect.append(f"the channel was another at the end of the run: {at_the_end}")


def _judge(rig: Rig, received: str, watch: Program, found: Findings) -> None:
    """Compare what arrived with what was sent; raises Ended unless they are the same."""
    host = rig.receiver.host
    sha256 = host.run(["sha256sum", received])
    if sha256.exit_status != 0:
        complain_of_failures(found)
        raise Ended(Outcome.FAILED, f"the session ended well, but the receiver has no file{_all_words(found)}")
    found.facts["received_sha256"] = sha256.stdout.split()[0].decode()
    if found.facts["received_sha256"] != found.facts["file_sha256"]:
        raise Ended(Outcome.CORRUPT, "the received file is not the one that was sent")
    found.facts["file_whole_at_ns"] = last_change_ns(watch)
    if found.facts["file_whole_at_ns"] is None:
        found.suspect.append("it was not seen when the received file was whole")


def _all_words(found: Findings) -> str:
    return "".join(f"; the {role}'s last line: {program.last_line!r}" for role, program in found.programs.items())


def _record(run: Run, setting: Setting, found: Findings, outcome: Outcome, reason: str) -> RunRecord:
    implementation = setting.implementations[run.permutation.implementation]
    point = run.permutation
    return RunRecord(
        run_id=run.run_id,
        sweep=setting.sweep.name,
        implementation=implementation.name,
        title=implementation.title,
        protocol=implementation.protocol,
        file_size_bytes=point.file_size_bytes,
        delay_ns=point.delay_ns,
        channel_name=point.channel_name,
        channel_key=run.channel_key,
        rate_bps=point.rate_bps,
        packet_error_rate=point.packet_error_rate,
        repetition=run.repetition,
        order=run.order,
        seed=run.seed,
        clock=setting.sweep.clock,
        rig=setting.sweep.rig,
        outcome=outcome,
        reason=reason,
        suspect=found.suspect,
        parameters=implementation.parameters,
        sender=found.side("sender"),
        receiver=found.side("receiver"),
        versions=setting.versions | {"implementation": setting.versions.get(implementation.name, "unknown")},
        kernel_hz=setting.kernel_hz,
        **found.facts,
    )
