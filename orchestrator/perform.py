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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.contract import Implementation
from agents.placeholders import RunValues
from emulator.channel import ChannelSpec
from emulator.faults import ChannelRefused, EmulatorError
from orchestrator.capturing import drain_channel, fetch_captures, start_captures, stop_captures
from orchestrator.certification import Certified
from orchestrator.findings import Ended, Findings
from orchestrator.host import HostError, Program
from orchestrator.launching import complain_of_failures, launch, stop_programs, wait_for_end
from orchestrator.plan import Run, channel_of
from orchestrator.record import Outcome, RunRecord, write_record
from orchestrator.rigs.rig import Rig
from orchestrator.seeds import derived_seed
from orchestrator.sweep import Sweep
from orchestrator.watching import last_change_ns, start_watch

RECEIVED_NAME = "received.bin"
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
    paths = _make_run_directories(run, rig, undo)
    file, content_sha256 = _stage_file(run, setting)
    found.facts["file_sha256"] = content_sha256
    builds = {role: implementation.rendered(run_values(run, rig, file, paths, role)) for role in ("sender", "receiver")}
    observe("configure")
    _configure(run, setting, found)
    observe("capture")
    captures = start_captures(rig, paths["emulator"], directory, undo)
    observe("launch")
    watch = start_watch(rig, paths["receiver"], directory, RECEIVED_NAME, undo)
    found.facts["session"] = session_of(builds["sender"], rig)
    found.facts["started_at_ns"] = time.time_ns()
    try:
        if setting.channels[run.channel_key].timeline is not None:
            rig.channel.timeline_start()
        launch(builds, rig, paths, directory, found, undo)
        observe("transfer")
        wait_for_end(run, implementation, found)
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
    _judge(rig, f"{paths['receiver']}/{RECEIVED_NAME}", watch, found)


def run_values(run: Run, rig: Rig, file: str, paths: dict[str, str], role: str) -> dict[str, str]:
    """What the build on one host can be told of its run, by placeholder name."""
    point = run.permutation
    return RunValues(
        python=rig.python,
        file=file,
        received_file=f"{paths['receiver']}/{RECEIVED_NAME}",
        file_size_bytes=point.file_size_bytes,
        rate_bps=point.rate_bps,
        one_way_delay_s=point.delay_ns / 1e9,
        rtt_s=run.rtt_s,
        packet_error_rate=point.packet_error_rate,
        sender_address=rig.sender.address,
        receiver_address=rig.receiver.address,
        sender_interface=rig.sender.interface,
        receiver_interface=rig.receiver.interface,
        run_dir=paths[role],
        seed=run.seed,
    ).as_text()


def session_of(implementation: Implementation, rig: Rig) -> dict[str, Any]:
    """What belongs to a run of this rendered implementation in a capture: the fields of `captures.session.Session`."""
    addresses = {"sender_address": rig.sender.address, "receiver_address": rig.receiver.address}
    return addresses | implementation.session.model_dump()


def file_content(sweep_seed: int, size_bytes: int) -> bytes:
    """The test file of a size: random bytes that the sweep's seed alone decides."""
    return random.Random(derived_seed(sweep_seed, "file", size_bytes)).randbytes(size_bytes)


def _make_run_directories(run: Run, rig: Rig, undo: ExitStack) -> dict[str, str]:
    paths = {}
    for host in (rig.sender.host, rig.receiver.host, rig.emulator):
        path = f"{host.base}/runs/{run.run_id}"
        host.check(["mkdir", "-p", path])
        undo.callback(host.run, ["rm", "-rf", path])
        paths[host.role] = path
    return paths


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
        raise Ended(Outcome.FAILED, "both programs ended well, but the receiver has no file")
    found.facts["received_sha256"] = sha256.stdout.split()[0].decode()
    if found.facts["received_sha256"] != found.facts["file_sha256"]:
        raise Ended(Outcome.CORRUPT, "the received file is not the one that was sent")
    found.facts["file_whole_at_ns"] = last_change_ns(watch)
    if found.facts["file_whole_at_ns"] is None:
        found.suspect.append("it was not seen when the received file was whole")


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
        sender=found.side("sender"),
        receiver=found.side("receiver"),
        versions=setting.versions | {"implementation": setting.versions.get(implementation.name, "unknown")},
        kernel_hz=setting.kernel_hz,
        **found.facts,
    )
