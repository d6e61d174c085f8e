"""One run, phase by phase, as the protocol of an experiment reads; every run ends in a record.

stage the file, configure the channel and read it back, start both captures, start the side that the
implementation names first, wait until it is ready, start the other, wait until the session ended or the
deadline passed, let the channel run empty, stop the captures, compare the files, record.

Only the comparison of the received file with the sent file decides the outcome of a session. If data are sent for a
duration instead of a file, both sides have to end without an error after that time, and the receiver reports the number
of bytes that it received.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from heapq import merge
from pathlib import Path, PurePosixPath

from owlt.agents.contract.implementation import ROLES, Implementation, Role
from owlt.emulator.faults import EmulatorError
from owlt.inputs.sweep import SkippedWaits
from owlt.orchestrator.hosts.host import Host, HostError
from owlt.orchestrator.hosts.printable import printable
from owlt.orchestrator.hosts.program import Program
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.rigs.timed_waits import WaitRecorder
from owlt.orchestrator.run.applying import apply_channel, close_channel, start_timeline
from owlt.orchestrator.run.branching import Branching
from owlt.orchestrator.run.left_files import Comparison, ReceivedFile, compare, files_left, inspect_received, keep_files
from owlt.orchestrator.run.life import HostLife
from owlt.orchestrator.run.observing import (
    AtTheEnd,
    CapturingHost,
    Sockets,
    channel_now,
    drain_channel,
    fetch_captures,
    increases,
    last_change_ns,
    opened_since,
    read_refusals,
    read_sockets,
    require_captures,
    require_room,
    require_space,
    start_captures,
    start_host_captures,
    start_sampling,
    start_watch,
    stop_captures,
    stop_host_captures,
    stop_sampling,
)
from owlt.orchestrator.run.programs import (
    Intervention,
    announce_outages,
    command,
    complain_of_failures,
    how_both_ended,
    launch,
    restart,
    stop_programs,
    wait_for_end,
)
from owlt.orchestrator.run.staging import HASHING_S, Staged, file_content, is_full, stage
from owlt.orchestrator.run.state import Ended, GaveUp, RunResult, Setting, Sides
from owlt.orchestrator.steady_clock import ClockStep
from owlt.results.record import Outcome, ReasonCode, RunRecord, Statistics, write_record
from owlt.results.waits import write_waits

Observe = Callable[[str], None]
MOST_FILES_NAMED = 8


@dataclass(frozen=True)
class _RunInProgress:
    """A run while it is performed: its plan and rig, the place of its files, and what is known so far."""

    run: Run
    setting: Setting
    directory: Path
    result: RunResult
    sides: Sides
    undo: ExitStack


def perform(
    run: Run,
    setting: Setting,
    directory: Path,
    observe: Observe,
    life: HostLife | None = None,
    branching: Branching | None = None,
) -> RunRecord:
    """Perform one run and write its record, logs and captures into `directory`, which is made if it does not exist.

    `observe` is called with the name of each phase as it begins. With `life`, the run is one of many in one life of the
    hosts, which examines what is left on them. With `branching`, it becomes another one after the launch, whose
    captures go to that one's directory. Raises only what ends the process.
    """
    directory.mkdir(parents=True, exist_ok=True)
    setting = replace(setting, rig=setting.rig.over(run.permutation.ip))
    code: ReasonCode | None
    result, sides = RunResult(), Sides() if life is None else life.sides()
    try:
        with ExitStack() as undo:
            _phases(_RunInProgress(run, setting, directory, result, sides, undo), observe, life, branching)
        outcome, code, reason = Outcome.COMPLETED, None, ""
        result.suspect += setting.rig.killed_programs.take()
    except Ended as end:
        killed = setting.rig.killed_programs.take()
        outcome = Outcome.FAILED if killed and end.outcome is Outcome.TIMED_OUT else end.outcome
        code = ReasonCode.KILLED if killed and outcome is Outcome.FAILED else end.code
        reason = "; ".join([*killed, end.reason])
    except (HostError, EmulatorError, OSError, EOFError) as problem:
        outcome, code, reason = Outcome.ABORTED, _fault_of_rig(problem), printable(f"the rig failed: {problem}")
        if removed := _removed_interface(run, setting):
            outcome, code, reason = Outcome.FAILED, ReasonCode.HOST_CHANGED, f"{removed}; {reason}"
    if setting.rig.conditions is not None:
        reconnections = setting.rig.conditions.take_reconnections()
        result.reconnections = {role: list(times_ns) for role, times_ns in reconnections.items()}
    if branching is not None:
        run, setting, reason = branching.run, branching.setting or setting, branching.in_own_directory(reason)
    record = result.record(run, setting, sides, outcome, code, reason)
    write_record(record, directory)
    return record


def _fault_of_rig(problem: Exception) -> ReasonCode:
    if isinstance(problem, EmulatorError):
        return ReasonCode.EMULATOR
    return ReasonCode.HOST if isinstance(problem, HostError | EOFError) else ReasonCode.FILES


def _removed_interface(run: Run, setting: Setting) -> str:
    """A sentence if the implementation, with NET_ADMIN, removed its host's test interface, and with it the emulator's
    port; "" if not.
    """
    if "NET_ADMIN" not in setting.implementation_of(run).capabilities:
        return ""
    for end in (setting.rig.sender, setting.rig.receiver):
        with suppress(HostError, OSError, EOFError):
            if end.host.run(["ip", "link", "show", "dev", end.interface]).exit_status == 1:
                return f"the {end.host.role} removed its host's interface {end.interface}"
    return ""


def _phases(in_progress: _RunInProgress, observe: Observe, life: HostLife | None, branching: Branching | None) -> None:
    run, setting, directory = in_progress.run, in_progress.setting, in_progress.directory
    result, sides, undo = in_progress.result, in_progress.sides, in_progress.undo
    rig, implementation = setting.rig, setting.implementation_of(run)
    observe("stage")
    staged = stage(run, setting, result, sides, undo) if life is None else life.stage(run, setting, result, sides)
    try:
        observe("configure")
        apply_channel(run, setting, result)
        observe("capture")
        instruments = _start_instruments(in_progress, staged, life is not None)
        observe("launch")
        recorder = rig.wait_recorder if setting.sweep.clock == "exact" and life is None else None
        if recorder is not None:
            recorder.begin()
        clock = ClockStep()
        result.started_at_ns = time.time_ns()
        _skip_waits(setting.sweep.skipped_waits.get(run.permutation.channel_name, ()), recorder, result.started_at_ns)
        planned = _planned_interventions(in_progress, staged)
        try:
            start_timeline(run, setting)
            interventions: Iterable[Intervention] = merge(
                planned, _announcements(in_progress), key=lambda each: each.at_s
            )
            launch(staged, rig, directory, sides, undo, None if life is None else life.living)
            observe("transfer")
            if branching is not None:
                interventions = branching.interventions(setting, result)
            wait_for_end(run, implementation, instruments.watch, sides, interventions)
        finally:
            result.ended_at_ns = time.time_ns()
            missed = (each for each in planned if each.is_needed and not each.is_done)
            result.suspect += [f"the session ended before {each.text}" for each in missed][:1]
            fetched = directory
            if branching is not None and branching.setting is not None:
                run, setting, fetched = branching.run, branching.setting, branching.directory
                in_progress = replace(in_progress, run=run, setting=setting)
            if not isinstance(sys.exception(), SystemExit):  # this process must end at once: `undo` ends the rest
                observe("stop")
                _stop(in_progress, staged, instruments, clock)
                observe("fetch")
                path = staged.paths["emulator"]
                checks = [lambda: require_space(rig, path)] if rig.has_machines else []
                rig.at_once(*checks, lambda: fetch_captures(rig, path, fetched))
                if recorder is not None:
                    write_waits(recorder.waits(), directory)
                require_captures(result)
        if run.permutation.duration_ns is None:
            _judge(run, setting, staged, instruments.watch, result, sides)
        else:
            _judge_duration(run, implementation, result, sides)
    except Ended as end:
        for host in (rig.sender.host, rig.receiver.host):
            keep_files(implementation.keep, host, staged.paths[host.role], directory)
        raise _explained(end, in_progress, staged) from end


def _skip_waits(skipped: Sequence[SkippedWaits], recorder: WaitRecorder | None, launch_ns: int) -> None:
    """Have waits end at once that begin in these windows. Raises HostError if the guest's kernel cannot."""
    if skipped and recorder is None:
        raise HostError("the kernel of this guest cannot skip waits; build one that can: owlt kernel build")
    for window in skipped:
        assert recorder is not None
        recorder.skip(window.side, launch_ns + window.after, launch_ns + window.before)


@dataclass(frozen=True)
class _Instruments:
    """The instruments that observe a run from its start to its end."""

    watch: Program
    captures: dict[Role, Program]
    before: Statistics
    """The emulator's counters when the captures had begun."""
    at_hosts: list[CapturingHost]
    samplers: dict[Role, Program]
    refused: dict[Role, dict[str, int]]
    """The counters of refused packets before the run."""
    sockets: Sockets
    """The sockets of the hosts before the run."""


def _start_instruments(in_progress: _RunInProgress, staged: Staged, is_one_of_many: bool) -> _Instruments:
    """Start everything that observes the run, and return when it does. Raises Ended if one does not start.

    For one of many runs, TCP is not sampled, and neither refused packets nor sockets are counted: that costs more than
    a short transfer.
    """
    run, setting, directory = in_progress.run, in_progress.setting, in_progress.directory
    result, undo = in_progress.result, in_progress.undo
    rig, sweep, paths = setting.rig, setting.sweep, staged.paths
    channel = setting.channel_of(run)

    def captures_and_counters() -> tuple[dict[Role, Program], Statistics]:
        captures = start_captures(rig, sweep.clock, channel, paths["emulator"], directory, result, undo)
        return captures, rig.channel.statistics()

    (captures, before), _, at_hosts, watch, samplers, refused, sockets = rig.at_once(
        captures_and_counters,
        lambda: _begin_conditions(run, setting),
        lambda: start_host_captures(run, rig, sweep, channel, directory, undo),
        lambda: _start_watch(in_progress, staged),
        lambda: start_sampling(run, rig, [] if is_one_of_many else result.tcp_ports, paths, directory, undo),
        lambda: {} if is_one_of_many else read_refusals(rig),
        lambda: {} if is_one_of_many else read_sockets(rig),
    )
    if at_hosts and rig.clocks is not None:
        rig.clocks.read()
    return _Instruments(watch, captures, before, at_hosts, samplers, refused, sockets)


def _begin_conditions(run: Run, setting: Setting) -> None:
    """Note the conditions on the hosts. Raises Ended if one has too little disk space for the run."""
    conditions = setting.rig.conditions
    if conditions is not None:
        conditions.begin()
        require_room(run, setting.rig, conditions.free_bytes(), setting.sweep.host_captures)


def _stop(in_progress: _RunInProgress, staged: Staged, instruments: _Instruments, clock: ClockStep) -> None:
    """Stop the programs and, once the channel is empty, what observes them, and enter what was observed."""
    run, setting, result = in_progress.run, in_progress.setting, in_progress.result
    rig = setting.rig

    def programs_and_instruments() -> None:
        now_open = read_sockets(rig) if instruments.sockets else {}
        stop_programs(in_progress.sides)
        if now_open:
            _note_what_is_left(in_progress, staged, instruments.sockets, now_open)
        _stop_instruments(in_progress, instruments, drain_channel(run, setting))

    doubts, _ = rig.at_once(
        rig.conditions.doubts if rig.conditions is not None else clock.doubts, programs_and_instruments
    )
    result.suspect += doubts
    if rig.conditions is not None:
        result.port_drops = {role: dict(counters) for role, counters in rig.conditions.port_drops().items()}


def _planned_interventions(in_progress: _RunInProgress, staged: Staged) -> list[Intervention]:
    """What is to be done to the sides during the session, in the order of time."""
    sweep, name, sides = in_progress.setting.sweep, in_progress.run.permutation.channel_name, in_progress.sides
    planned = [command(each, sides, in_progress.result.suspect) for each in sweep.commands.get(name, [])]
    if name in sweep.restarts:
        rig, directory, undo = in_progress.setting.rig, in_progress.directory, in_progress.undo
        planned += restart(sweep.restarts[name], staged, rig, directory, sides, undo)
    return sorted(planned, key=lambda each: each.at_s)


def _announcements(in_progress: _RunInProgress) -> Iterable[Intervention]:
    """The sides are suspended and resumed as links go down and up; computed as long as the session lasts."""
    channel, setting = in_progress.setting.channel_of(in_progress.run), in_progress.setting
    is_announced = setting.sweep.announce_outages and channel.timeline is not None
    return announce_outages(channel, in_progress.sides, time.monotonic()) if is_announced else ()


def _note_what_is_left(in_progress: _RunInProgress, staged: Staged, before: Sockets, now_open: Sockets) -> None:
    """Enter the sockets that the programs had opened before they were stopped, and the files that they left."""
    rig, sides, since_ns = in_progress.setting.rig, in_progress.sides, in_progress.result.started_at_ns or 0
    for role in sides.programs:
        sides.open_sockets[role] = opened_since(before[role], now_open[role])
    hosts: dict[Role, Host] = {"sender": rig.sender.host, "receiver": rig.receiver.host}
    found = rig.at_once(*(lambda role=role: _files_left(role, hosts[role], staged, since_ns) for role in ROLES))
    sides.left_files |= zip(ROLES, found, strict=True)


def _files_left(role: Role, host: Host, staged: Staged, since_ns: int) -> list[str]:
    run_dir, received = staged.paths[role], PurePosixPath(staged.received)
    known = [*staged.implementations[role].side(role).files]
    known += [str(received.relative_to(run_dir))] if role == "receiver" else []
    return files_left(host, run_dir, since_ns, known)


def _stop_instruments(in_progress: _RunInProgress, instruments: _Instruments, drained: AtTheEnd) -> None:
    """Stop them, and enter what they observed. The captures stop after the counters were read: those of the empty
    channel (`drained`), unless time passes while a program computes."""
    run, setting, directory, result = in_progress.run, in_progress.setting, in_progress.directory, in_progress.result
    rig = setting.rig
    if instruments.at_hosts and rig.clocks is not None:
        rig.clocks.read()

    def sampling() -> None:
        result.tcp = stop_sampling(instruments.samplers, directory)
        if instruments.refused:
            result.host_refusals = increases(instruments.refused, read_refusals(rig))

    def channel_and_captures() -> None:
        at_the_end = drained if setting.sweep.clock == "exact" else channel_now(run, setting)
        close_channel(run, setting, instruments.before, at_the_end, result)
        stop_captures(instruments.captures, result)
        stop_host_captures(instruments.at_hosts, rig, directory, result)

    def watch() -> None:
        instruments.watch.stop()

    rig.at_once(sampling, channel_and_captures, watch)


def _start_watch(in_progress: _RunInProgress, staged: Staged) -> Program:
    """Watch the received file; for its content too if that ends the run."""
    run, setting, sha256 = in_progress.run, in_progress.setting, in_progress.result.file_sha256
    size_bytes = run.permutation.file_size_bytes
    is_end = setting.implementation_of(run).done == "file_delivered"
    content = (sha256, size_bytes) if is_end and sha256 and size_bytes else None
    return start_watch(
        setting.rig, staged.received, content, in_progress.directory, in_progress.sides.news, in_progress.undo
    )


def _judge(run: Run, setting: Setting, staged: Staged, watch: Program, result: RunResult, sides: Sides) -> None:
    """Compare the received file with the sent one; raises Ended unless they are the same."""
    host = setting.rig.receiver.host
    received = _compare_received(run, setting, staged, result)
    if received is None or not received.is_complete:
        if fault := _fault_of_file(host, staged):
            raise Ended(Outcome.FAILED, ReasonCode.UNUSABLE_FILE, fault)
        if end := _end_of_undelivered(received, sides):
            raise end
        complain_of_failures(sides)
        raise Ended(Outcome.FAILED, ReasonCode.NO_FILE, _no_file(host, staged, received) + _last_lines(sides))
    offset_ns = setting.rig.receiver.clock_offset_ns
    result.file_delivered_at_ns = last_change_ns(watch, offset_ns)
    if offset_ns:
        ahead = "ahead of" if offset_ns > 0 else "behind"
        result.suspect.append(
            f"the receiver's clock is {abs(offset_ns) / 1e6:.0f} ms {ahead} the emulator's; "
            "the time of delivery was corrected by that, to a few ms"
        )
    if result.file_delivered_at_ns is None:
        result.suspect.append("the time of delivery of the received file was not noted")


def _judge_duration(run: Run, implementation: Implementation, result: RunResult, sides: Sides) -> None:
    """Record the number of bytes that the receiver reports; raises Ended if a side failed, ended early, or reports no
    data."""
    complain_of_failures(sides)
    lasted_s = ((result.ended_at_ns or 0) - (result.started_at_ns or 0)) / 1e9
    if lasted_s < run.duration_s:
        reason = f"the session ended after {lasted_s:.3f} s, and the sender was to send for {run.duration_s:g} s"
        raise Ended(Outcome.FAILED, ReasonCode.ENDED_EARLY, reason + _last_lines(sides))
    result.received_bytes = _reported_bytes(implementation, sides.programs["receiver"])
    if not result.received_bytes:
        pattern = implementation.duration.received_bytes if implementation.duration else ""
        problem = "reports 0 bytes" if result.received_bytes == 0 else f"printed nothing that matches {pattern!r}"
        raise Ended(Outcome.FAILED, ReasonCode.NOTHING_REPORTED, f"the receiver {problem}" + _last_lines(sides))


def _reported_bytes(implementation: Implementation, receiver: Program) -> int | None:
    """The bytes that the receiver reports on either stream; None if it reports none."""
    if implementation.duration is None:
        return None
    outputs = (implementation.duration.reported_bytes(receiver.output(name)) for name in ("out", "err"))
    return next((count for count in outputs if count is not None), None)


def _end_of_undelivered(received: Comparison | None, sides: Sides) -> Ended | None:
    """The outcome of a run whose receiver has a part of the file or another file; None if it has the whole file or no
    file."""
    if received is None or not (received.is_part or received.first_wrong is not None):
        return None
    reason = f"{received.text}; {how_both_ended(sides)}"
    if received.is_part:
        return Ended(Outcome.INCOMPLETE, ReasonCode.PART_OF_FILE, reason)
    return Ended(Outcome.CORRUPT, ReasonCode.WRONG_FILE, reason)


def _compare_received(run: Run, setting: Setting, staged: Staged, result: RunResult) -> Comparison | None:
    """Compare the received file with the sent one, and record its hash and `present_bytes`; None without a file."""
    host, sent_bytes = setting.rig.receiver.host, run.permutation.file_size_bytes
    file = _received(host, staged)
    if sent_bytes is None or file is None or file.fault:
        return None
    sha256 = host.sha256(staged.received, HASHING_S)
    if sha256 is None:
        return None
    result.received_sha256 = sha256
    if sha256 == result.file_sha256:
        comparison = Comparison(sent_bytes, sent_bytes, sent_bytes, last_present=sent_bytes - 1)
    else:
        content = host.read_file(staged.received, sent_bytes)
        comparison = compare(content, file_content(setting.sweep.seed, sent_bytes), file.size_bytes)
    result.present_bytes = comparison.present_bytes
    return comparison


def _fault_of_file(host: Host, staged: Staged) -> str:
    """Why the received file cannot be compared, as a sentence; "" if it can, or if there is none."""
    file = _received(host, staged)
    name = _name_in(staged.paths["receiver"], staged.received)
    return f"the receiver's file {name} {file.fault}" if file and file.fault else ""


def _received(host: Host, staged: Staged) -> ReceivedFile | None:
    return inspect_received(host, staged.received, staged.paths["receiver"], staged.space_bytes)


def _no_file(host: Host, staged: Staged, received: Comparison | None) -> str:
    if received is not None:
        return f"the session ended without an error, but {received.text}"
    files = _files_in(host, staged.paths["receiver"])
    missing = f"expected {_name_in(staged.paths['receiver'], staged.received)}; in its run directory: {files}"
    return f"the session ended without an error, but the receiver has no file: {missing}"


def _files_in(host: Host, directory: str) -> str:
    """The files below a directory with their sizes, at most MOST_FILES_NAMED."""
    listing = host.run(["find", directory, "-type", "f", "-printf", "%P (%s bytes)\n"])
    names = listing.stdout.decode(errors="replace").splitlines()
    more = [f"{len(names) - MOST_FILES_NAMED} more"] if len(names) > MOST_FILES_NAMED else []
    return ", ".join([*sorted(names)[:MOST_FILES_NAMED], *more]) or "nothing"


def _name_in(directory: str, path: str) -> str:
    place = PurePosixPath(path)
    return str(place.relative_to(directory)) if place.is_relative_to(directory) else path


def _last_lines(sides: Sides) -> str:
    return "".join(f"; the {role}'s last line: {program.last_line!r}" for role, program in sides.programs.items())


_REFUSED = re.compile(r"no program listens|connection refused", re.IGNORECASE)
"""What senders print if the receiver's host has no socket at the port to which they connect."""


def _explained(end: Ended, in_progress: _RunInProgress, staged: Staged) -> Ended:
    """The end with further reasons: what the receiver had if the run was not over in time, which run directories are
    full, and of a pair whose sides do not meet, where their port is stated.

    If a side gave up, the outcome depends on what the receiver has.
    """
    rig, more = in_progress.setting.rig, ""
    if isinstance(end, GaveUp) or end.outcome is Outcome.TIMED_OUT:
        received = _compare_received(in_progress.run, in_progress.setting, staged, in_progress.result)
        judged = _end_of_undelivered(received, in_progress.sides) if isinstance(end, GaveUp) else None
        more = f"; {received.text}" if received is not None and judged is None else ""
        end = judged or end
    fault = _fault_of_file(rig.receiver.host, staged)
    more += f"; {fault}" if fault and fault not in end.reason else ""
    hosts = (rig.sender.host, rig.receiver.host)
    full = [host.role for host in hosts if is_full(host, staged.paths[host.role])]
    more += "".join(f"; the {role}'s run directory is full (see run_directory in the profile)" for role in full)
    if in_progress.setting.implementation_of(in_progress.run).pair and _REFUSED.search(end.reason):
        more += "; state the port of both sides under 'pairing' in their profiles, so that they agree on it"
    return Ended(end.outcome, end.code, end.reason + more)
