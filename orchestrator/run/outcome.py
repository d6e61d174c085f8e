"""The outcome of a session: only the comparison of the received file with the sent file decides it.

If data are sent for a duration instead of a file, both sides have to end without an error after that time, and the
receiver reports the number of bytes that it received.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from owlt.agents.contract.implementation import Implementation
from owlt.orchestrator.hosts.host import Host
from owlt.orchestrator.hosts.program import Program
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.run.left_files import Comparison, ReceivedFile, compare, inspect_received
from owlt.orchestrator.run.observing import last_change_ns
from owlt.orchestrator.run.programs import complain_of_failures, how_both_ended
from owlt.orchestrator.run.staging import HASHING_S, Staged, file_content
from owlt.orchestrator.run.state import Ended, RunResult, Setting, Sides
from owlt.results.record import Outcome, ReasonCode

MOST_FILES_NAMED = 8


def judge(run: Run, setting: Setting, staged: Staged, watch: Program, result: RunResult, sides: Sides) -> None:
    """Compare the received file with the sent one; raises Ended unless they are the same."""
    host = setting.rig.receiver.host
    received = compare_received(run, setting, staged, result)
    if received is None or not received.is_complete:
        if fault := fault_of_file(host, staged):
            raise Ended(Outcome.FAILED, ReasonCode.UNUSABLE_FILE, fault)
        if end := end_of_undelivered(received, sides):
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


def judge_duration(run: Run, implementation: Implementation, result: RunResult, sides: Sides) -> None:
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


def end_of_undelivered(received: Comparison | None, sides: Sides) -> Ended | None:
    """The outcome of a run whose receiver has a part of the file or another file; None if it has the whole file or no
    file."""
    if received is None or not (received.is_part or received.first_wrong is not None):
        return None
    reason = f"{received.text}; {how_both_ended(sides)}"
    if received.is_part:
        return Ended(Outcome.INCOMPLETE, ReasonCode.PART_OF_FILE, reason)
    return Ended(Outcome.CORRUPT, ReasonCode.WRONG_FILE, reason)


def compare_received(run: Run, setting: Setting, staged: Staged, result: RunResult) -> Comparison | None:
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


def fault_of_file(host: Host, staged: Staged) -> str:
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
