"""What a session came to: the receiver's file beside the sender's, and nothing else, decides."""

from __future__ import annotations

from orchestrator.findings import Ended, Findings
from orchestrator.launching import complain_of_failures
from orchestrator.program import Program
from orchestrator.record import Outcome
from orchestrator.rigs.rig import Rig
from orchestrator.watching import last_change_ns


def judge(rig: Rig, received: str, watch: Program, found: Findings) -> None:
    """Compare what arrived with what was sent; raises Ended unless they are the same."""
    if not compare(rig, received, found):
        if "received_sha256" in found.facts:
            raise Ended(Outcome.CORRUPT, "the received file is not the one that was sent")
        complain_of_failures(found)
        raise Ended(Outcome.FAILED, f"the session ended well, but the receiver has no file{_all_words(found)}")
    found.facts["file_whole_at_ns"] = last_change_ns(watch)
    if found.facts["file_whole_at_ns"] is None:
        found.suspect.append("it was not seen when the received file was whole")


def compare(rig: Rig, received: str, found: Findings) -> bool:
    """Whether the receiver's file is the sender's, noting its hash; False where there is none."""
    sha256 = rig.receiver.host.run(["sha256sum", received])
    if sha256.exit_status != 0:
        return False
    found.facts["received_sha256"] = sha256.stdout.split()[0].decode()
    return bool(found.facts["received_sha256"] == found.facts["file_sha256"])


def _all_words(found: Findings) -> str:
    return "".join(f"; the {role}'s last line: {program.last_line!r}" for role, program in found.programs.items())
