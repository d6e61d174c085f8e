"""What a session came to: the receiver's file beside the sender's, and nothing else, decides."""

from __future__ import annotations

from pathlib import PurePosixPath

from orchestrator.comparing import Comparison, compare
from orchestrator.findings import Ended, Findings
from orchestrator.host import Host
from orchestrator.launching import complain_of_failures, how_both_ended
from orchestrator.plan import Run
from orchestrator.program import Program
from orchestrator.received_file import ReceivedFile, look_at
from orchestrator.record import Outcome
from orchestrator.setting import Setting
from orchestrator.staging import Staged, file_content, sha256_of
from orchestrator.watching import last_change_ns

MOST_FILES_NAMED = 8


def judge(run: Run, setting: Setting, staged: Staged, watch: Program, found: Findings) -> None:
    """Compare what arrived with what was sent; raises Ended unless they are the same."""
    host = setting.rig.receiver.host
    received = what_came(run, setting, staged, found)
    if received is None or not received.is_complete:
        if fault := fault_of_file(host, staged):
            raise Ended(Outcome.FAILED, fault)
        if end := end_of_undelivered(received, found):
            raise end
        complain_of_failures(found)
        raise Ended(Outcome.FAILED, _nothing_came(host, staged, received) + _all_words(found))
    found.facts["file_whole_at_ns"] = last_change_ns(watch)
    if found.facts["file_whole_at_ns"] is None:
        found.suspect.append("it was not seen when the received file was whole")


def end_of_undelivered(received: Comparison | None, found: Findings) -> Ended | None:
    """The end of a run whose receiver has a part of the file, or another one; None where it has all or nothing."""
    if received is None or not (received.is_part or received.first_wrong is not None):
        return None
    outcome = Outcome.INCOMPLETE if received.is_part else Outcome.CORRUPT
    return Ended(outcome, f"{received.text}; {how_both_ended(found)}")


def what_came(run: Run, setting: Setting, staged: Staged, found: Findings) -> Comparison | None:
    """The receiver's file beside the one that was sent, noting its hash; None where there is none that can be read."""
    host, sent_bytes = setting.rig.receiver.host, run.permutation.file_size_bytes
    there = _received(host, staged)
    if there is None or there.fault:
        return None
    sha256 = sha256_of(host, staged.received)
    if sha256 is None:
        return None
    found.facts["received_sha256"] = sha256
    if sha256 == found.facts["file_sha256"]:
        return Comparison(sent_bytes, sent_bytes, sent_bytes, last_present=sent_bytes - 1)
    with host.files.open(staged.received, "rb") as file:
        size_bytes = file.stat().st_size or 0
        file.prefetch(min(size_bytes, sent_bytes))
        content = file.read(sent_bytes)
    return compare(content, file_content(setting.sweep.seed, sent_bytes), size_bytes)


def fault_of_file(host: Host, staged: Staged) -> str:
    """Why the receiver's file cannot be compared, as a sentence; "" where it can, or where there is none."""
    file = _received(host, staged)
    name = _name_in(staged.paths["receiver"], staged.received)
    return f"the receiver's file {name} {file.fault}" if file and file.fault else ""


def _received(host: Host, staged: Staged) -> ReceivedFile | None:
    return look_at(host, staged.received, staged.paths["receiver"], staged.space_bytes)


def _nothing_came(host: Host, staged: Staged, received: Comparison | None) -> str:
    if received is not None:
        return f"the session ended well, but {received.text}"
    there = _files_in(host, staged.paths["receiver"])
    missing = f"wanted {_name_in(staged.paths['receiver'], staged.received)}; in its run directory: {there}"
    return f"the session ended well, but the receiver has no file: {missing}"


def _files_in(host: Host, directory: str) -> str:
    """The files below a directory with their sizes, as many as can be read."""
    told = host.run(["find", directory, "-type", "f", "-printf", "%P (%s bytes)\n"]).stdout.decode(errors="replace")
    names = told.splitlines()
    more = [f"{len(names) - MOST_FILES_NAMED} more"] if len(names) > MOST_FILES_NAMED else []
    return ", ".join([*sorted(names)[:MOST_FILES_NAMED], *more]) or "nothing"


def _name_in(directory: str, path: str) -> str:
    place = PurePosixPath(path)
    return str(place.relative_to(directory)) if place.is_relative_to(directory) else path


def _all_words(found: Findings) -> str:
    return "".join(f"; the {role}'s last line: {program.last_line!r}" for role, program in found.programs.items())
