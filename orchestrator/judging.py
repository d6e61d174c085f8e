"""What a session came to: the receiver's file beside the sender's, and nothing else, decides."""

from __future__ import annotations

from pathlib import PurePosixPath

from orchestrator.findings import Ended, Findings
from orchestrator.host import Host
from orchestrator.launching import complain_of_failures
from orchestrator.plan import Run
from orchestrator.program import Program
from orchestrator.received_file import ReceivedFile, look_at
from orchestrator.record import Outcome
from orchestrator.setting import Setting
from orchestrator.staging import Staged, file_content, sha256_of
from orchestrator.watching import last_change_ns

COMPARED_BYTES = 1 << 20
MOST_FILES_NAMED = 8


def judge(run: Run, setting: Setting, staged: Staged, watch: Program, found: Findings) -> None:
    """Compare what arrived with what was sent; raises Ended unless they are the same."""
    host = setting.rig.receiver.host
    if not compare(host, staged, found):
        if fault := fault_of_file(host, staged):
            raise Ended(Outcome.FAILED, fault)
        if "received_sha256" in found.facts:
            content = file_content(setting.sweep.seed, run.permutation.file_size_bytes)
            raise Ended(Outcome.CORRUPT, _difference(host, staged.received, content))
        complain_of_failures(found)
        there = _files_in(host, staged.paths["receiver"])
        missing = f"wanted {_name_in(staged.paths['receiver'], staged.received)}; in its run directory: {there}"
        raise Ended(
            Outcome.FAILED, f"the session ended well, but the receiver has no file: {missing}{_all_words(found)}"
        )
    found.facts["file_whole_at_ns"] = last_change_ns(watch)
    if found.facts["file_whole_at_ns"] is None:
        found.suspect.append("it was not seen when the received file was whole")


def compare(host: Host, staged: Staged, found: Findings) -> bool:
    """Whether the receiver's file is the sender's, noting its hash; False where there is none that can be read."""
    file = _received(host, staged)
    if file is None or file.fault:
        return False
    sha256 = sha256_of(host, staged.received)
    if sha256 is not None:
        found.facts["received_sha256"] = sha256
    return bool(sha256 == found.facts["file_sha256"])


def fault_of_file(host: Host, staged: Staged) -> str:
    """Why the receiver's file cannot be compared, as a sentence; "" where it can, or where there is none."""
    file = _received(host, staged)
    name = _name_in(staged.paths["receiver"], staged.received)
    return f"the receiver's file {name} {file.fault}" if file and file.fault else ""


def _received(host: Host, staged: Staged) -> ReceivedFile | None:
    return look_at(host, staged.received, staged.paths["receiver"], staged.space_bytes)


def _difference(host: Host, received: str, content: bytes) -> str:
    """How a received file differs from what was sent, in words."""
    place = 0
    with host.files.open(received, "rb") as file:
        size_bytes = file.stat().st_size
        file.prefetch(size_bytes)
        while block := file.read(COMPARED_BYTES):
            wanted = content[place : place + len(block)]
            if block != wanted:
                place += _first_difference(block, wanted)
                break
            place += len(block)
    where = f"it has {size_bytes} bytes of {len(content)}, and the first that differs is at {place}"
    return f"the received file is not the one that was sent: {where}"


def _first_difference(one: bytes, other: bytes) -> int:
    """The place of the first byte that differs; where the shorter ends, if it is the longer one's beginning."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


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
