"""What `owlt replay` says about an implementation that is repeatable in its clone only."""

from __future__ import annotations

import pytest

from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.replay import Replay, note_on, print_replay
from owlt.results.record import Outcome
from tests.unit.orchestrator.small_sweep import small_plan

SAME = {"sender.pcap": "", "receiver.pcap": ""}
OTHER = {"sender.pcap": "frame 1: other octets", "receiver.pcap": ""}


@pytest.mark.parametrize(
    ("implementation", "differences", "has_note"),
    [("quic-aioquic", OTHER, True), ("quic-aioquic", SAME, False), ("cfdp", OTHER, False)],
)
def test_only_differences_of_an_implementation_with_keys_of_its_clone_have_the_reason(
    implementation: str, differences: dict[str, str], has_note: bool
) -> None:
    [run, *_] = small_plan("exact", implementations=[implementation]).runs

    assert ("in another clone" in note_on(run, differences)) == has_note


def test_a_note_is_printed_below_the_captures(capsys: pytest.CaptureFixture[str]) -> None:
    print_replay("run", Replay(Outcome.COMPLETED, Outcome.COMPLETED, OTHER, "keys"), Printer(as_json=False))

    assert capsys.readouterr().out.endswith("  receiver.pcap: same frames\n  note: keys\n")
