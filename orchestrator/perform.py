"""One run, phase by phase, as the protocol of an experiment reads; whatever happens, it ends in a record.

stage the file, configure the channel and read it back, start both captures, start the side that the
implementation names first, wait until it is ready, start the other, wait until the session ended or the
deadline passed, let the channel run empty, stop the captures, compare the files, record.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from emulator.faults import EmulatorError
from orchestrator.applying import apply_channel, begin_counting, close_channel, start_timeline
from orchestrator.capturing import drain_channel, fetch_captures, start_captures, stop_captures
from orchestrator.findings import Ended, Findings, GaveUp
from orchestrator.host import HostError
from orchestrator.judging import end_of_undelivered, fault_of_file, judge, what_came
from orchestrator.keeping import keep_files
from orchestrator.launching import launch, stop_programs, wait_for_end
from orchestrator.plan import Run
from orchestrator.preparing import is_full
from orchestrator.printable import printable
from orchestrator.record import UNKNOWN, Outcome, RunRecord, write_record
from orchestrator.setting import Setting
from orchestrator.staging import Staged, stage
from orchestrator.tcp_sampling import start_sampling, stop_sampling
from orchestrator.watching import start_watch

Observe = Callable[[str], None]


def perform(run: Run, setting: Setting, directory: Path, observe: Observe) -> RunRecord:
    """Perform one run and write its record, logs and captures into `directory` (made if need be).

    `observe` is told each phase as it begins. Raises nothing but what ends the process.
    """
    directory.mkdir(parents=True, exist_ok=True)
    findings = Findings()
    setting.rig.endings.take()
    try:
        with ExitStack() as undo:
            _phases(run, setting, directory, findings, undo, observe)
        outcome, reason = Outcome.COMPLETED, ""
        findings.suspect += setting.rig.endings.take()
    except Ended as end:
        endings = setting.rig.endings.take()
        outcome = Outcome.FAILED if endings and end.outcome is Outcome.TIMED_OUT else end.outcome
        reason = "; ".join([*endings, end.reason])
    except (HostError, EmulatorError, OSError, EOFError) as problem:
        outcome, reason = Outcome.ABORTED, printable(f"the rig failed: {problem}")
    record = _record(run, setting, findings, outcome, reason)
    write_record(record, directory)
    return record


def _phases(run: Run, setting: Setting, directory: Path, found: Findings, undo: ExitStack, observe: Observe) -> None:
    rig, implementation = setting.rig, setting.implementation_of(run)
    observe("stage")
    staged = stage(run, setting, found, undo)
    try:
        observe("configure")
        apply_channel(run, setting, found)
        observe("capture")
        captures = start_captures(rig, staged.paths["emulator"], directory, undo)
        begin_counting(setting, found)
        observe("launch")
        content = (found.facts["file_sha256"], run.permutation.file_size_bytes)
        awaited = content if implementation.done == "file_whole" else None
        watch = start_watch(rig, staged.received, awaited, directory, found.news, undo)
        samplers = start_sampling(run, rig, found, staged.paths, directory, undo)
        found.facts["started_at_ns"] = time.time_ns()
        try:
            start_timeline(run, setting)
            launch(staged, rig, directory, found, undo)
            observe("transfer")
            wait_for_end(run, implementation, watch, found)
        finally:
            found.facts["ended_at_ns"] = time.time_ns()
            if not isinstance(sys.exception(), SystemExit):  # told to end at once: `undo` ends what still runs
                observe("stop")
                stop_programs(found)
                drain_channel(run, rig)
                stop_sampling(samplers, directory, found)
                close_channel(run, setting, found)
                stop_captures(captures, found)
                observe("fetch")
                fetch_captures(rig, staged.paths["emulator"], directory)
        judge(run, setting, staged, watch, found)
    except Ended as end:
        for host in (rig.sender.host, rig.receiver.host):
            keep_files(implementation.keep, host, staged.paths[host.role], directory)
        raise _with_what_is_left(end, run, setting, staged, found) from end


def _with_what_is_left(end: Ended, run: Run, setting: Setting, staged: Staged, found: Findings) -> Ended:
    """The same end, saying which run directories have no room left, and what had come when it was not over in time.

    Where a side gave up, what the receiver then has decides the outcome.
    """
    came = ""
    if isinstance(end, GaveUp) or end.outcome is Outcome.TIMED_OUT:
        received = what_came(run, setting, staged, found)
        judged = end_of_undelivered(received, found) if isinstance(end, GaveUp) else None
        came = f"; {received.text}" if received is not None and judged is None else ""
        end = judged or end
    fault = fault_of_file(setting.rig.receiver.host, staged)
    came += f"; {fault}" if fault and fault not in end.reason else ""
    hosts = (setting.rig.sender.host, setting.rig.receiver.host)
    full = [host.role for host in hosts if is_full(host, staged.paths[host.role])]
    more = "".join(f"; the {role}'s run directory is full (see run_directory in the profile)" for role in full)
    return Ended(end.outcome, end.reason + came + more)


def _record(run: Run, setting: Setting, found: Findings, outcome: Outcome, reason: str) -> RunRecord:
    implementation = setting.implementation_of(run)
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
        not_repeatable=implementation.not_repeatable or "",
        sender=found.side("sender"),
        receiver=found.side("receiver"),
        versions=setting.versions | {"implementation": setting.versions.get(implementation.name, UNKNOWN)},
        kernel_hz=setting.kernel_hz,
        **found.facts,
    )
