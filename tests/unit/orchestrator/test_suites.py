"""Suites of fault tests: every one that comes with owlt, and the verdict on a case."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from pydantic import ValidationError

from owlt.orchestrator.checks.fault_cases import Place, SentPacket
from owlt.orchestrator.checks.suites import (
    SUITES,
    Suite,
    SuiteCase,
    find_suite,
    finding_of,
    in_case,
    junit,
    missing_in,
    not_suspended,
)
from owlt.orchestrator.errors import NotFound, ProfileError
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.results.record import FaultCount, Faults, Outcome
from tests.unit.orchestrator.making import record as recorded

HIT_EOF = FaultCount(fault="cfdp.eof #1", action="dropped", seen=1, hits=1)
CASE = {"purpose": "to test", "reference": "1", "expected": "delivered"}


def case(**changes: object) -> SuiteCase:
    return SuiteCase.model_validate(CASE | changes)


@pytest.mark.parametrize("path", sorted(SUITES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_suite_that_comes_with_owlt_is_for_its_protocol(path: Path) -> None:
    suite = find_suite(path.stem, "")

    assert find_suite("", suite.protocol).protocol == suite.protocol
    assert path.stem.partition("-")[0] == suite.protocol.lower()
    assert not suite.cases["no-fault"].faults
    others = [each for name, each in suite.cases.items() if name != "no-fault"]
    assert all(each.faults or each.parameters or each.commands for each in others)


def test_a_suite_that_does_not_exist_is_named_with_the_nearest() -> None:
    with pytest.raises(NotFound, match="did you mean cfdp"):
        find_suite("cfpd", "")
    with pytest.raises(NotFound, match="there is no suite for UFTP"):
        find_suite("", "UFTP")


def test_a_suite_of_another_protocol_is_refused_with_its_line() -> None:
    with pytest.raises(ProfileError, match=r"ltp.yaml:\d+: protocol: got 'LTP', expected CFDP"):
        find_suite("ltp", "CFDP")


def test_a_mistake_in_a_suite_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(
        "title: t\nsource: s\nprotocol: CFDP\nfile_size: 2 kB\ncases:\n"
        "  one: {purpose: p, reference: r, expected: delivered, faults: [{direction: up, action: drop}]}\n"
    )
    with pytest.raises(ProfileError, match=r"suite.yaml:6: cases.one.faults") as refused:
        find_suite(str(path), "")
    assert "forward" in str(refused.value)


@pytest.mark.parametrize(
    ("expected", "outcome", "verdict"),
    [
        ("delivered", Outcome.COMPLETED, "passed"),
        ("delivered", Outcome.FAILED, "failed"),
        ("delivered", Outcome.TIMED_OUT, "failed"),
        ("delivered", Outcome.CORRUPT, "failed"),
        ("delivered", Outcome.ABORTED, "inconclusive"),
        ("delivered", Outcome.UNSUPPORTED, "inconclusive"),
        ("ends", Outcome.FAILED, "passed"),
        ("ends", Outcome.COMPLETED, "passed"),
        ("ends", Outcome.TIMED_OUT, "failed"),
        ("ends", Outcome.CORRUPT, "failed"),
        ("cancelled", Outcome.FAILED, "passed"),
        ("cancelled", Outcome.INCOMPLETE, "passed"),
        ("cancelled", Outcome.COMPLETED, "failed"),
        ("cancelled", Outcome.TIMED_OUT, "failed"),
    ],
)
def test_the_verdict_follows_from_the_outcome(expected: str, outcome: Outcome, verdict: str) -> None:
    assert finding_of("one", case(expected=expected), recorded(outcome=outcome), None).verdict == verdict


CANCEL = {"side": "sender", "after": "60 ms", "command": "cancel"}


@pytest.mark.parametrize(
    ("receiver", "observed", "verdict"),
    [
        ({"stopped": True}, "failed; the receiver had not ended", "failed"),
        ({"exit_status": 129}, "failed; the receiver was ended by a signal", "failed"),
        ({"exit_status": 1}, "failed", "passed"),
    ],
)
def test_both_sides_of_a_cancelled_transfer_end_by_themselves(
    receiver: dict[str, object], observed: str, verdict: str
) -> None:
    record = recorded(outcome=Outcome.FAILED, receiver=receiver)
    finding = finding_of("one", case(expected="cancelled", commands=[CANCEL]), record, None)

    assert (finding.observed, finding.verdict) == (observed, verdict)


def test_a_command_to_a_program_that_had_ended_is_no_test() -> None:
    late = recorded(outcome=Outcome.COMPLETED, suspect=["the sender had ended"])
    finding = finding_of("one", case(commands=[CANCEL]), late, None)

    assert (finding.verdict, finding.observed) == ("inconclusive", "completed; the sender had ended")
    assert finding.commands == ("sender: cancel after 60 ms",)


def test_a_case_with_commands_that_a_profile_does_not_have_is_not_applicable() -> None:
    with_command = case(commands=[CANCEL | {"command": "suspend"}])

    assert in_case(find_implementation("cfdp"), with_command) is not None
    assert in_case(find_implementation("cfdp-simplified"), with_command) is None
    assert missing_in(find_implementation("cfdp-simplified"), with_command) == ("the command suspend of the sender",)


def test_a_command_is_given_at_its_time_after_the_first_packet() -> None:
    (command,) = case(commands=[CANCEL]).commands

    assert command.given(first_packet_ns=5_000_000).at == 65_000_000


SUSPEND = [
    {"side": "sender", "after": "100 ms", "command": "suspend"},
    {"side": "sender", "after": "1 s", "command": "resume"},
]
RECEIVER_SUSPENDS = [each | {"side": "receiver"} for each in SUSPEND]
MEANWHILE = "the transfer ended while the receiver was suspended"


@pytest.mark.parametrize(
    ("commands", "sent_ms", "problems"),
    [
        (SUSPEND, [0, 90, 149, 1000], []),
        (SUSPEND, [0, 90, 150, 999, 1000], ["packets that the sender sent while it was suspended: 2"]),
        (SUSPEND[:1], [0, 5000], ["packets that the sender sent while it was suspended: 1"]),
        (RECEIVER_SUSPENDS, [0, 500, 1500], []),
        (RECEIVER_SUSPENDS, [0, 500], [MEANWHILE]),
        (RECEIVER_SUSPENDS, [0, 149], []),
        ([], [0, 500], []),
    ],
)
def test_what_a_side_did_while_it_was_suspended(
    commands: list[object], sent_ms: list[int], problems: list[str]
) -> None:
    sent = [SentPacket(Place("forward", number), 10**6 * at, "data") for number, at in enumerate(sent_ms, start=1)]

    assert not_suspended(case(commands=commands), sent) == problems


def test_a_fault_that_hit_nothing_is_no_test() -> None:
    faults = Faults(faults=[FaultCount(fault="cfdp.eof #9", action="dropped", seen=1, hits=0)], hits=[])
    finding = finding_of("one", case(), recorded(outcome=Outcome.COMPLETED, faults=faults), None)

    assert finding.verdict == "inconclusive"
    assert "cfdp.eof #9" in finding.observed


def test_a_case_with_parameters_that_an_implementation_does_not_have_is_not_applicable() -> None:
    cfdp = find_implementation("cfdp")
    changed = in_case(cfdp, case(parameters={"ack_limit": 3}))

    assert changed is not None
    assert changed.parameters["ack_limit"] == 3
    assert in_case(cfdp, case(parameters={"no_such": 3})) is None
    assert missing_in(cfdp, case(parameters={"no_such": 3, "ack_limit": 3})) == ("the parameter no_such",)


def test_the_parameter_of_a_case_is_given_to_each_side_of_a_pair_that_has_it() -> None:
    changed = in_case(find_implementation("cfdp-to-pycfdp"), case(parameters={"ack_limit": 3}))

    assert changed is not None
    assert {name: value for name, value in changed.parameters.items() if name.endswith("ack_limit")} == {
        "sender.ack_limit": 3,
        "receiver.ack_limit": 3,
    }


def test_junit_has_no_characters_that_xml_cannot_have() -> None:
    suite = Suite(title="t", source="s", protocol="P", file_size="2 kB", cases={"one": case()})  # type: ignore[arg-type]
    finding = finding_of("one", case(), recorded(outcome=Outcome.FAILED, reason="\x1b[31m<&>\x00"), None)
    (test,) = ElementTree.fromstring(junit("x", suite, [finding]))

    assert test[0].get("message") == "failed: ?[31m<&>?"


DROP_EOF = {"direction": "forward", "packet": "cfdp.eof", "occurrence": 1, "action": "drop"}


@pytest.mark.parametrize(
    ("faults", "verdict"),
    [
        (None, "inconclusive"),
        (Faults(faults=[HIT_EOF], hits=[], failure="the tap is gone"), "inconclusive"),
        (Faults(faults=[HIT_EOF], hits=[]), "passed"),
    ],
)
def test_a_run_whose_faults_did_not_begin_or_broke_off_is_no_test(faults: Faults | None, verdict: str) -> None:
    ended = recorded(outcome=Outcome.FAILED, faults=faults)

    assert finding_of("one", case(expected="ends", faults=[DROP_EOF]), ended, None).verdict == verdict


@pytest.mark.parametrize("name", ["a/b", "../a", "a b", "A", "a" * 61])
def test_a_case_whose_name_cannot_be_part_of_a_run_is_refused(name: str) -> None:
    suite = {"title": "t", "source": "s", "protocol": "CFDP", "file_size": "2 kB"}

    assert Suite.model_validate(suite | {"cases": {"first-eof": case()}}).cases
    with pytest.raises(ValidationError):
        Suite.model_validate(suite | {"cases": {name: case()}})
