"""One run, phase by phase, as the protocol of an experiment reads; whatever happens, it ends in a record.

stage the file, configure the channel and read it back, start both captures, start the side that the
implementation names first, wait until it is ready, start the other, wait until the session ended or the
deadline passed, let the channel run empty, stop the captures, compare the files, record.
"""

from __future__ import annotations

import hashlib
import random
import re
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agents.contract import Implementation, Ready, Side
from agents.placeholders import RunValues
from captures.tcpdump import READY_LINE, CaptureCounters, capture_command, parse_counters
from emulator.faults import ChannelRefused, EmulatorError
from orchestrator.host import Host, HostError, Program
from orchestrator.plan import Run, channel_of, derived_seed
from orchestrator.record import Outcome, RunRecord, write_record
from orchestrator.record import Side as SideRecord
from orchestrator.rigs.rig import Rig, TestHost
from orchestrator.sweep import Sweep

CAPTURE_START_S = 10.0
CAPTURE_STOP_S = 30.0
READY_S = 30.0
LAST_CHANCE_RTTS = 4
LAST_CHANCE_S = 10.0
RECEIVED_NAME = "received.bin"

Observe = Callable[[str], None]


class Ended(Exception):
    """A run that ended early, with the outcome and the reason that its record will give."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


@dataclass(frozen=True)
class Setting:
    """What all runs of a batch share."""

    sweep: Sweep
    implementations: dict[str, Implementation]
    rig: Rig
    versions: dict[str, str]
    kernel_hz: int | None
    channel_takes_seed: bool


@dataclass
class Findings:
    """What a run has come to know so far: the record in the making."""

    facts: dict[str, Any] = field(default_factory=dict)
    suspect: list[str] = field(default_factory=list)
    programs: dict[str, Program] = field(default_factory=dict)
    commands: dict[str, list[str]] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    news: threading.Condition = field(default_factory=threading.Condition)

    def side(self, role: str) -> SideRecord:
        """What is known of the program on one host."""
        program = self.programs.get(role)
        return SideRecord(
            command=self.commands.get(role, []),
            exit_status=program.wait(0) if program else None,
            stopped=role in self.stopped,
        )


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
    captures = _start_captures(rig, paths["emulator"], directory, undo)
    observe("launch")
    watch = _start_watch(rig, paths["receiver"], directory, undo)
    found.facts["session"] = session_of(builds["sender"], rig)
    found.facts["started_at_ns"] = time.time_ns()
    try:
        _launch(builds, rig, paths, directory, found, undo)
        observe("transfer")
        _wait_for_end(run, implementation, found)
    finally:
        found.facts["ended_at_ns"] = time.time_ns()
        observe("stop")
        _stop_programs(found)
        _drain_channel(run, rig)
        found.facts["emulator_statistics"] = rig.channel.statistics()
        _stop_captures(captures, found)
        observe("fetch")
        _fetch_captures(rig, paths["emulator"], directory)
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
    asked = channel_of(run, setting.sweep.queue_packets, setting.channel_takes_seed)
    try:
        applied = setting.rig.channel.configure(asked)
    except ChannelRefused as refusal:
        raise Ended(Outcome.ABORTED, f"the emulator refused the channel: {refusal}") from refusal
    found.facts["channel"] = applied.model_dump()


def _start_captures(rig: Rig, path: str, directory: Path, undo: ExitStack) -> dict[str, Program]:
    captures = {}
    for role, port in (("sender", rig.sender_port), ("receiver", rig.receiver_port)):
        command = capture_command(port, f"{path}/{role}.pcap")
        captures[role] = rig.emulator.start(command, path, directory / f"capture-{role}")
        undo.callback(captures[role].stop, "INT")
    for role, capture in captures.items():
        if not capture.wait_for_line(READY_LINE, CAPTURE_START_S):
            raise Ended(
                Outcome.ABORTED,
                f"the capture at the {role}'s port did not start: {capture.output('err').strip()}",
            )
    return captures


def _start_watch(rig: Rig, path: str, directory: Path, undo: ExitStack) -> Program:
    """Note on the receiver when its file changes last."""
    command = [rig.python, "-I", "-S", rig.watch, path, RECEIVED_NAME]
    watch = rig.receiver.host.start(command, path, directory / "watch")
    undo.callback(watch.stop)
    if not watch.wait_for_line("^watching$", READY_S):
        raise Ended(Outcome.ABORTED, f"the receiver's file cannot be watched{_last_words(watch)}")
    return watch


def _launch(
    builds: dict[str, Implementation],
    rig: Rig,
    paths: dict[str, str],
    directory: Path,
    found: Findings,
    undo: ExitStack,
) -> None:
    """Start the side that the implementation names first, wait until it is ready, start the other."""
    ends = {"sender": rig.sender, "receiver": rig.receiver}
    first = builds["sender"].starts_first
    for role in sorted(ends, key=lambda role: role != first):
        side: Side = getattr(builds[role], role)
        found.commands[role] = side.command
        program = ends[role].host.start(side.command, paths[role], directory / role, side.environment, found.news)
        undo.callback(program.stop)
        found.programs[role] = program
        if role == first and side.ready is not None:
            _wait_until_ready(role, side.ready, builds[role], found, ends[role])


def _wait_until_ready(role: str, ready: Ready, implementation: Implementation, found: Findings, end: TestHost) -> None:
    program = found.programs[role]
    if ready.line is not None:
        met = program.wait_for_line(ready.line, READY_S)
        awaited = f"a line that matches {ready.line!r}"
    else:
        port = int(ready.udp_port or 0)
        met = _udp_port_is_bound(end.host, port, program)
        awaited = f"UDP port {port} to be bound"
    if not met:
        if program.wait(0) == implementation.unsupported_exit_status:
            raise Ended(Outcome.UNSUPPORTED, _how_it_ended(role, program))
        _complain_of_failures(found)
        told = f"the {role} was not ready after {READY_S:g} s: waited for {awaited}"
        raise Ended(Outcome.FAILED, told + _last_words(program))


def _udp_port_is_bound(host: Host, port: int, program: Program) -> bool:
    end = time.monotonic() + READY_S
    pause_s = 0.01
    while time.monotonic() < end and program.running:
        table = host.check(["cat", "/proc/net/udp"]).decode()
        if re.search(rf":{port:04X} 00000000:0000", table):
            return True
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 1.0)
    return False


def _wait_for_end(run: Run, implementation: Implementation, found: Findings) -> None:
    """Return when the session has ended. Raises Ended when the deadline passes first.

    Once a program has ended badly, the other gets a last chance of a few round trips, not the whole limit.
    """
    awaited = ["receiver"] if implementation.done == "receiver_exits" else ["receiver", "sender"]
    limit_s = run.deadline_s(implementation)
    end = time.monotonic() + limit_s
    while any(found.programs[role].running for role in awaited):
        if any(program.wait(0) not in (None, 0) for program in found.programs.values()):
            chance_s = LAST_CHANCE_RTTS * run.rtt_s + run.file_time_s + LAST_CHANCE_S
            end = min(end, time.monotonic() + chance_s)
        if not _another_ended(found, end - time.monotonic()):
            break
    for role, program in found.programs.items():
        if program.wait(0) == implementation.unsupported_exit_status:
            raise Ended(Outcome.UNSUPPORTED, _how_it_ended(role, program))
    late = [role for role in awaited if found.programs[role].running]
    if late:
        _complain_of_failures(found)
        told = f"the {late[0]} had not ended {limit_s:g} s after the launch, its time limit"
        raise Ended(Outcome.TIMED_OUT, told + _last_words(found.programs[late[0]]))


def _another_ended(found: Findings, deadline_s: float) -> bool:
    """Whether one more of the programs that run now has ended before the deadline."""

    def running() -> int:
        return sum(program.running for program in found.programs.values())

    before = running()
    with found.news:
        return found.news.wait_for(lambda: running() < before, deadline_s)


def _how_it_ended(role: str, program: Program) -> str:
    return f"the {role} ended with status {program.wait(0)}{_last_words(program)}"


def _complain_of_failures(found: Findings) -> None:
    for role, program in found.programs.items():
        if program.wait(0) not in (None, 0):
            raise Ended(Outcome.FAILED, _how_it_ended(role, program))


def _last_words(program: Program) -> str:
    lines = (program.output("err").strip() or program.output("out").strip()).splitlines()
    return f"; its last line: {lines[-1].strip()!r}" if lines else "; it wrote nothing"


def _stop_programs(found: Findings) -> None:
    for role, program in found.programs.items():
        if program.running:
            program.stop()
            found.stopped.add(role)


def _drain_channel(run: Run, rig: Rig) -> None:
    """Wait until the last packets are across: they were sent, so both captures have to see them."""
    pause_s = max(run.permutation.delay_ns / 1e9 / 4, 0.005)
    end = time.monotonic() + run.rtt_s + run.file_time_s + 1
    while _packets_on_their_way(rig) and time.monotonic() < end:
        time.sleep(pause_s)


def _packets_on_their_way(rig: Rig) -> int:
    return sum(
        counters["waiting_packets"] for stages in rig.channel.statistics().values() for counters in stages.values()
    )


def _stop_captures(captures: dict[str, Program], found: Findings) -> None:
    counters = {}
    for role, capture in captures.items():
        _empty_ring(capture)
        capture.stop("INT", CAPTURE_STOP_S)
        try:
            counted: CaptureCounters = parse_counters(capture.output("err"))
        except ValueError as problem:
            found.suspect.append(f"the capture at the {role}'s port: {problem}")
            continue
        counters[role] = asdict(counted)
        if not counted.complete:
            found.suspect.append(f"the capture at the {role}'s port is not complete: {counted}")
    found.facts["captures"] = counters


def _empty_ring(capture: Program) -> None:
    """Wait until tcpdump has written what the kernel gave it: what is in its ring when SIGINT comes is lost.

    It tells its counters upon SIGUSR1.
    """
    end = time.monotonic() + CAPTURE_STOP_S
    pause_s = 0.01
    while capture.running and time.monotonic() < end:
        told = len(capture.output("err"))
        capture.signal("USR1")
        capture.wait_for_more(told, CAPTURE_STOP_S)
        with suppress(ValueError):
            if parse_counters(capture.output("err")).drained:
                return
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.5)


def _fetch_captures(rig: Rig, path: str, directory: Path) -> None:
    for role in ("sender", "receiver"):
        rig.emulator.files.get(f"{path}/{role}.pcap", str(directory / f"{role}.pcap"))


def _judge(rig: Rig, received: str, watch: Program, found: Findings) -> None:
    """Compare what arrived with what was sent; raises Ended unless they are the same."""
    host = rig.receiver.host
    sha256 = host.run(["sha256sum", received])
    if sha256.exit_status != 0:
        _complain_of_failures(found)
        raise Ended(Outcome.FAILED, "both programs ended well, but the receiver has no file")
    found.facts["received_sha256"] = sha256.stdout.split()[0].decode()
    if found.facts["received_sha256"] != found.facts["file_sha256"]:
        raise Ended(Outcome.CORRUPT, "the received file is not the one that was sent")
    watch.stop()
    if noted := re.search(r"^last change (\d+)$", watch.output(), re.MULTILINE):
        found.facts["file_whole_at_ns"] = int(noted[1])
    else:
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
