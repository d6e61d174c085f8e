"""Trial runs: the plans of a check and of the table, the verdict on an implementation, the rows of the table."""

from __future__ import annotations

import csv
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from owlt.agents.contract.implementation import Implementation
from owlt.agents.contract.limits import Failure, KnownLimit
from owlt.agents.contract.side import Stop
from owlt.captures.accounting.derived_files import CAPTURES
from owlt.captures.accounting.measures import DelaySummary
from owlt.captures.accounting.summary import CaptureSummary
from owlt.orchestrator.checks.fault_cases import Hit, Place, plan_of_cases
from owlt.orchestrator.checks.findings import Finding, findings, is_fit, log_tail
from owlt.orchestrator.checks.proof import Trial
from owlt.orchestrator.checks.trials import (
    CHANNELS,
    CLEAN,
    DEAD,
    LOSSY,
    Row,
    best_clock,
    check_plan,
    table_plans,
    table_rows,
    table_summary,
    write_csv,
)
from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.commands.fault_tests import with_parameters
from owlt.orchestrator.commands.implementations import ADVICE
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.profiles.catalogue import PROFILES, find_implementation
from owlt.results.record import FaultCount, Faults, Outcome, ReasonCode, RunRecord, Side, write_record
from owlt.results.recorded_runs import recorded_runs
from tests.unit.captures.making import SESSION
from tests.unit.orchestrator.runs_with_losses import run_with_losses

NO_DELAYS = DelaySummary.model_construct()


def capture(*frames: tuple[int, bytes]) -> bytes:
    """A pcap of Ethernet frames without IP, each with its time in microseconds."""
    records = (struct.pack("<IIII", time // 10**6, time % 10**6, 60, 60) + body.ljust(60) for time, body in frames)
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1) + b"".join(records)


FRAMES = [(0, bytes(12) + b"\x88\xb5one"), (213_000, bytes(12) + b"\x88\xb5two")]
CAPTURE = capture(*FRAMES)


@pytest.fixture
def cfdp() -> Implementation:
    return find_implementation("cfdp")


def summary(**changes: Any) -> CaptureSummary:
    """The summary of the captures of a good run, with changes."""
    numbers = dict.fromkeys(CaptureSummary.model_fields, 0)
    good = {"str_sent": 1000, "str_sent_bytes": 1_042_000, "rts_sent": 2, "goodput_bps": 8.9e6}
    rest = {
        "goodput_to_delivery_bps": 9.1e6,
        "background_packets": {"IGMP": 2},
        "suspect": [],
        "owd_forward": NO_DELAYS,
    }
    return CaptureSummary.model_construct(**(numbers | good | rest | {"owd_reverse": NO_DELAYS} | changes))


def record(run: Run, **changes: Any) -> RunRecord:
    """A completed run, with changes."""
    point = run.permutation.model_dump()
    known = {
        "run_id": run.run_id,
        "sweep": "check",
        "title": "",
        "protocol": "",
        "repetition": 1,
        "order": 1,
        "seed": 1,
    }
    ran = {"clock": "exact", "rig": "virtual", "outcome": "completed", "versions": {"implementation": "cfdp-py 0.7.0"}}
    ran |= {"session": SESSION.model_dump(mode="json")}
    return RunRecord.model_validate(point | known | ran | changes)


def checked(
    implementation: Implementation,
    directory: Path,
    packets: CaptureSummary | None = None,
    second: bytes | None = None,
    **by_channel: dict[str, Any],
) -> dict[str, Finding]:
    """The findings of a check by subject: runs completed, failed on the dead channel, with changes by channel.

    The second run of each channel has the capture of the first, or `second`.
    """
    changes: dict[str, dict[str, Any]] = {DEAD: {"outcome": "failed", "sender": Side(command=["send"], exit_status=1)}}
    changes |= {name.replace("_", "-"): given for name, given in by_channel.items()}
    for plan, results, captured in (
        (check_plan(implementation), directory, CAPTURE),
        (check_plan(implementation, (CLEAN, LOSSY)), directory / "repeated", second or CAPTURE),
    ):
        for run in plan.runs:
            place = results / "runs" / run.run_id
            place.mkdir(parents=True)
            write_record(record(run, **changes.get(run.permutation.channel_name, {})), place)
            (place / "sender.pcap").write_bytes(CAPTURE)
            (place / "receiver.pcap").write_bytes(captured)
    checked = findings(implementation, directory, directory / "repeated", load=lambda _: packets or summary())
    return {finding.subject: finding for finding in checked}


def test_a_check_is_a_clean_a_lossy_and_a_dead_channel(cfdp: Implementation) -> None:
    runs = check_plan(cfdp).runs

    assert {run.permutation.channel_name for run in runs} == {CLEAN, LOSSY, DEAD}
    assert {run.permutation.packet_error_rate for run in runs} == {0, 0.01, 1}


def test_the_table_tries_three_channels(cfdp: Implementation) -> None:
    plan = table_plans({"cfdp": cfdp})["exact"]

    points = {(run.permutation.delay_ns // 10**6, run.permutation.packet_error_rate) for run in plan.runs}
    assert points == {(25, 0), (250, 0.01), (1250, 0.1)}


def test_an_implementation_is_tried_on_its_most_repeatable_clock(cfdp: Implementation) -> None:
    real = cfdp.model_copy(update={"name": "real-only", "clocks": ["real"]})

    assert (best_clock(cfdp), best_clock(real)) == ("exact", "real")
    plans = table_plans({"cfdp": cfdp, "real-only": real})
    assert {clock: list(plan.implementations) for clock, plan in plans.items()} == {
        "exact": ["cfdp"],
        "real": ["real-only"],
    }


def test_an_implementation_without_a_bad_finding_is_fit(cfdp: Implementation, tmp_path: Path) -> None:
    results = checked(cfdp, tmp_path)

    assert is_fit(list(results.values()))
    assert {finding.level for finding in results.values()} == {"ok"}


def test_a_failed_transfer_makes_it_unfit_with_the_reason(cfdp: Implementation, tmp_path: Path) -> None:
    lossy = {"outcome": "timed_out", "reason": "the sender had not ended"}
    results = checked(cfdp, tmp_path, **{LOSSY: lossy})

    assert not is_fit(list(results.values()))
    assert results["PER 0.01, 250 ms"] == Finding("PER 0.01, 250 ms", "bad", "timed_out: the sender had not ended")


LAUNCHED = {"sender": Side(command=["send"], exit_status=1), "receiver": Side(command=["receive"], exit_status=1)}


@pytest.fixture
def forgetful(cfdp: Implementation) -> Implementation:
    """An implementation that is known to deliver a part of a file if packets are lost."""
    limit = KnownLimit(why="it never repeats", packet_error_rate_above=0)
    return cfdp.model_copy(update={"known_limits": [limit]})


def test_a_failure_that_the_profile_explains_is_a_note(forgetful: Implementation, tmp_path: Path) -> None:
    lossy = LAUNCHED | {"outcome": "incomplete", "reason_code": "part_of_file", "reason": "r"}
    results = checked(forgetful, tmp_path, **{LOSSY: lossy})

    assert results["PER 0.01, 250 ms"].level == "note"
    assert "it never repeats" in results["PER 0.01, 250 ms"].text


def test_a_known_limit_explains_no_other_failure(forgetful: Implementation, tmp_path: Path) -> None:
    lossy = LAUNCHED | {"outcome": "failed", "reason_code": "exited", "reason": "the receiver exited with status 1"}
    results = checked(forgetful, tmp_path, **{LOSSY: lossy})

    assert results["PER 0.01, 250 ms"] == Finding(
        "PER 0.01, 250 ms", "bad", "failed: the receiver exited with status 1"
    )


def test_a_known_limit_does_not_explain_a_program_that_ended_before_the_other_was_launched(
    cfdp: Implementation, tmp_path: Path
) -> None:
    limit = KnownLimit(why="it crashes", fails_with=("exited",))
    lossy = {"outcome": "failed", "reason_code": "exited", "reason": "r", "receiver": LAUNCHED["receiver"]}
    results = checked(cfdp.model_copy(update={"known_limits": [limit]}), tmp_path, **{LOSSY: lossy})

    assert results["PER 0.01, 250 ms"].level == "bad"


def test_a_known_limit_names_reasons_that_records_have() -> None:
    assert set(get_args(Failure)) < set(ReasonCode)


def test_a_known_limit_explains_no_failure_below_its_values(forgetful: Implementation, tmp_path: Path) -> None:
    clean = LAUNCHED | {"outcome": "incomplete", "reason_code": "part_of_file", "reason": "r"}
    results = checked(forgetful, tmp_path, **{CLEAN: clean})

    assert results["clean, 25 ms"].level == "bad"


def test_a_sender_that_reports_success_over_a_dead_channel_is_noted(cfdp: Implementation, tmp_path: Path) -> None:
    dead = {"outcome": "failed", "sender": Side(command=["send"], exit_status=0)}
    results = checked(cfdp, tmp_path, **{DEAD: dead})

    assert results["nothing arrives"].level == "note"


def test_a_run_that_does_not_complete_over_a_dead_channel_is_as_expected(cfdp: Implementation, tmp_path: Path) -> None:
    dead = {"outcome": "timed_out", "sender": Side(command=["send"], stopped=True)}
    finding = checked(cfdp, tmp_path, **{DEAD: dead})["nothing arrives"]

    assert (finding.level, finding.text) == (
        "ok",
        "not delivered, as expected: timed_out; its sender had to be killed",
    )


def test_a_part_of_the_file_that_arrives_over_a_dead_channel_makes_it_unfit(
    cfdp: Implementation, tmp_path: Path
) -> None:
    dead = LAUNCHED | {
        "outcome": "timed_out",
        "present_bytes": 1000,
        "reason": "the receiver has the first 1,000 bytes",
    }
    results = checked(cfdp, tmp_path, **{DEAD: dead})

    assert results["nothing arrives"].level == "bad"
    assert "the receiver has the first 1,000 bytes; every packet was damaged" in results["nothing arrives"].text


def test_another_file_over_a_dead_channel_makes_it_unfit_unless_its_profile_says_so(
    cfdp: Implementation, tmp_path: Path
) -> None:
    dead = LAUNCHED | {"outcome": "corrupt", "reason_code": "wrong_file", "present_bytes": 0, "reason": "2,500 bytes"}
    limit = KnownLimit(why="it has no checksum", fails_with=("wrong_file",))
    known = cfdp.model_copy(update={"known_limits": [limit]})

    assert checked(cfdp, tmp_path / "unknown", **{DEAD: dead})["nothing arrives"].level == "bad"
    assert checked(known, tmp_path / "known", **{DEAD: dead})["nothing arrives"].level == "note"


@pytest.mark.parametrize(
    ("damaged_bit", "present_bytes", "level"), [(60, 200, "ok"), (60, 201, "bad"), (20, 1, "bad"), (160, 1, "bad")]
)
def test_what_arrives_in_packets_damaged_in_ethernets_source_address_only_is_rightly_accepted(
    cfdp: Implementation, tmp_path: Path, damaged_bit: int, present_bytes: int, level: str
) -> None:
    """The damaged packet carries 200 bytes. A host refuses a frame for another destination (bit 20)."""
    dead = LAUNCHED | {
        "outcome": "timed_out",
        "present_bytes": present_bytes,
        "reason": "a part",
        "session": SESSION.model_dump(mode="json"),
    }
    checked(cfdp, tmp_path / "check", **{DEAD: dead})
    captured = run_with_losses(tmp_path / "captured", is_cut=False, damaged_bit=damaged_bit)
    (run,) = (each for each in recorded_runs(tmp_path / "check") if each.record.channel_name == DEAD)
    for name in CAPTURES:
        shutil.copy(captured / name, run.directory / name)
    (found,) = (
        finding
        for finding in findings(cfdp, tmp_path / "check", load=lambda _: summary())
        if finding.subject == "nothing arrives"
    )

    assert found.level == level


def test_a_file_that_arrives_over_a_dead_channel_makes_it_unfit(cfdp: Implementation, tmp_path: Path) -> None:
    results = checked(cfdp, tmp_path, **{DEAD: {"outcome": "completed"}})

    assert results["nothing arrives"].level == "bad"


def test_a_sender_that_was_not_launched_shows_nothing_about_a_dead_channel(
    cfdp: Implementation, tmp_path: Path
) -> None:
    dead = {"outcome": "failed", "reason": "the receiver was not ready after 30 s"}
    results = checked(cfdp, tmp_path, **{DEAD: dead})

    assert results["nothing arrives"].level == "note"
    assert (
        "not tried: the sender was not launched; failed: the receiver was not ready" in results["nothing arrives"].text
    )


def test_a_side_that_had_to_be_killed_is_noted_with_its_grace(cfdp: Implementation, tmp_path: Path) -> None:
    clean = {"receiver": Side(command=["receive"], exit_status=-1, stopped=True)}
    results = checked(cfdp, tmp_path, **{CLEAN: clean})

    assert results["end"] == Finding("end", "note", "the receiver did not end within 2 s of TERM and was killed")


def test_a_side_that_fails_although_the_file_was_delivered_is_noted(cfdp: Implementation, tmp_path: Path) -> None:
    results = checked(cfdp, tmp_path, **{CLEAN: {"sender": Side(command=["send"], exit_status=1)}})

    assert results["end"] == Finding("end", "note", "the sender exited with status 1 although the file was delivered")


def test_a_run_beyond_the_profiles_limits_makes_nothing_unfit(cfdp: Implementation, tmp_path: Path) -> None:
    lossy = {"outcome": "unsupported", "reason": "not launched: one-way delay 0.25 s, at most 0.1 s"}
    results = checked(cfdp, tmp_path, **{LOSSY: lossy})

    assert results["PER 0.01, 250 ms"].level == "note"
    assert is_fit(list(results.values()))


def test_an_implementation_that_could_not_be_tried_is_not_fit(cfdp: Implementation, tmp_path: Path) -> None:
    beyond = {"outcome": "unsupported", "reason": "not launched: file of 1000000 bytes, at most 500000"}
    results = checked(cfdp, tmp_path, **dict.fromkeys((CLEAN, LOSSY, DEAD), beyond))

    assert not is_fit(list(results.values()))


def test_a_known_limit_excuses_no_fault_of_the_rig(cfdp: Implementation, tmp_path: Path) -> None:
    implementation = cfdp.model_copy(update={"known_limits": [KnownLimit(why="it crashes")]})
    results = checked(implementation, tmp_path, **{LOSSY: {"outcome": "aborted", "reason": "the rig failed: no SSH"}})

    assert results["PER 0.01, 250 ms"].level == "bad"


def test_a_console_that_had_to_be_killed_is_noted_with_its_stop_command(cfdp: Implementation, tmp_path: Path) -> None:
    console = cfdp.receiver.model_copy(update={"stop": Stop(send="quit", grace_s=1)})
    clean = {"receiver": Side(command=["receive"], exit_status=-1, stopped=True)}
    results = checked(cfdp.model_copy(update={"receiver": console}), tmp_path, **{CLEAN: clean})

    assert results["end"].text == "the receiver did not end within 1 s of 'quit' and was killed"


def test_a_version_command_that_fails_is_noted(cfdp: Implementation, tmp_path: Path) -> None:
    text = "unknown: the version_command exited with status 1: no such option"
    results = checked(cfdp, tmp_path, **{name: {"versions": {"implementation": text}} for name in (CLEAN, LOSSY)})

    assert results["version"] == Finding("version", "note", text)


def test_a_process_that_is_left_running_is_named(cfdp: Implementation, tmp_path: Path) -> None:
    clean = {"receiver": Side(exit_status=0, left_running=["ltpd --daemon"])}
    results = checked(cfdp, tmp_path, **{CLEAN: clean})

    assert results["leftovers"].text == "the receiver left processes running: ltpd --daemon"


@pytest.mark.parametrize(
    ("packets", "text"),
    [
        ({"str_sent": 0}, "none of its packets is on the ports"),
        ({"background_packets": {"UDP": 7}}, "packets on ports that session does not name: 7 of UDP"),
    ],
)
def test_packets_outside_the_session_make_it_unfit(
    cfdp: Implementation, tmp_path: Path, packets: dict[str, Any], text: str
) -> None:
    results = checked(cfdp, tmp_path, summary(**packets))

    assert results["session"].level == "bad"
    assert text in results["session"].text


def test_a_suspect_run_makes_it_unfit(cfdp: Implementation, tmp_path: Path) -> None:
    results = checked(cfdp, tmp_path, **{CLEAN: {"suspect": ["the capture lost packets"]}})

    assert "the capture lost packets" in results["suspect"].text
    assert not is_fit(list(results.values()))


def test_an_implementation_that_is_not_repeatable_is_noted(cfdp: Implementation, tmp_path: Path) -> None:
    implementation = cfdp.model_copy(update={"not_repeatable": "it asks the processor for its numbers"})

    results = checked(implementation, tmp_path)

    assert results["repeats"] == Finding(
        "repeats", "note", "not repeatable on the exact clock: it asks the processor for its numbers"
    )
    assert is_fit(list(results.values()))


def test_the_tail_of_a_log_shows_bytes_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "sender.err").write_bytes(b"one\n\xff\x1b[2J\n")

    assert list(log_tail(tmp_path)) == ["sender.err: 'one'", "sender.err: '\ufffd\\x1b[2J'"]


def test_the_tail_of_a_log_has_no_colours_and_marks_a_line_that_is_cut(tmp_path: Path) -> None:
    (tmp_path / "sender.err").write_bytes(b"\x1b[2mdim\x1b[0m\n" + b"long " * 100 + b"\n")
    dim, long = log_tail(tmp_path)

    assert dim == "sender.err: 'dim'"
    assert long.endswith("long long…'")


@pytest.mark.parametrize(
    ("second", "difference"),
    [
        (capture(FRAMES[0], (214_000, FRAMES[1][1])), "receiver.pcap: frame 2: times "),
        (capture(FRAMES[0], (213_000, b"3" * 60)), "receiver.pcap: frame 2: other octets"),
        (capture(FRAMES[0]), "receiver.pcap: 2 frames and 1"),
        (capture(*FRAMES, (214_000, b"3" * 60)), "receiver.pcap: 2 frames and 3"),
    ],
)
def test_a_second_run_that_differs_makes_it_unfit_and_the_packet_is_named(
    cfdp: Implementation, tmp_path: Path, second: bytes, difference: str
) -> None:
    results = checked(cfdp, tmp_path, second=second)

    assert results["repeats"].level == "bad"
    assert f"differs: clean, 25 ms: {difference}" in results["repeats"].text


def test_a_second_run_with_equal_packets_is_reported(cfdp: Implementation, tmp_path: Path) -> None:
    assert checked(cfdp, tmp_path)["repeats"].text == (
        "a second run with the same seed sent the same packets: clean, 25 ms; PER 0.01, 250 ms"
    )


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("segment_byte=1400", "cfdp has no parameter segment_byte, expected one of its parameters: "),
        ("segment_byte=1400", "; did you mean segment_bytes?"),
        ("segment_bytes", "--parameter: got 'segment_bytes', expected NAME=VALUE, such as segment_bytes=1400"),
    ],
)
def test_a_check_refuses_a_parameter_that_its_profile_does_not_have(assignment: str, message: str) -> None:
    done = CliRunner().invoke(app, ["implementations", "check", "cfdp", "--parameter", assignment])

    assert isinstance(done.exception, OwltError)
    assert message in str(done.exception)


def test_a_parameter_of_a_check_is_a_number_where_the_profile_has_one() -> None:
    """ION's class of service, 1.1, is no number, though it looks like one."""
    given = with_parameters(find_implementation("ion-acs"), ["bundle_bytes=30000", "class_of_service=0.2", "port=1113"])

    changed = {name: given.parameters[name] for name in ("bundle_bytes", "class_of_service", "port", "custody")}
    assert changed == {"bundle_bytes": 30000, "class_of_service": "0.2", "port": 1113, "custody": "acs"}


def test_the_section_that_a_check_refers_to_exists() -> None:
    path, section = ADVICE.replace('"', "").split(", ")

    assert f"\n## {section}\n" in (PROFILES.parent / path).read_text()


def rows_of(directory: Path, implementation: Implementation, **changes: Any) -> list[Row]:
    """The rows of a table with one implementation, whose runs are equal."""
    plan = table_plans({implementation.name: implementation})["exact"]
    for run in plan.runs:
        place = directory / "runs" / run.run_id
        place.mkdir(parents=True)
        write_record(record(run, **changes), place)
    return table_rows(plan, directory, lambda _: summary())


def test_a_row_has_the_numbers_of_its_run(cfdp: Implementation, tmp_path: Path) -> None:
    row = rows_of(tmp_path, cfdp)[0]

    assert (row.channel, row.outcome, row.goodput_bps, row.str_sent, row.bytes_per_packet) == (
        CLEAN,
        Outcome.COMPLETED,
        9.1e6,
        1000,
        1042,
    )


def test_the_summary_names_what_is_unexplained(cfdp: Implementation, tmp_path: Path) -> None:
    results = rows_of(tmp_path, cfdp, outcome="failed", reason="r")
    text = table_summary(results, {"dtn7": "owlt third-party install dtn7"}, 3)

    assert "1 implementations, 3 of 3 runs: 3 failed" in text
    assert "3 unexplained or suspect (cfdp at clean-25ms" in text
    assert "1 not installed (dtn7)" in text


def test_a_run_without_a_record_has_no_row(cfdp: Implementation, tmp_path: Path) -> None:
    rows_of(tmp_path, cfdp)
    plan = table_plans({"cfdp": cfdp})["exact"]
    (tmp_path / "runs" / plan.runs[0].run_id / "record.json").unlink()

    assert len(table_rows(plan, tmp_path)) == 2


def test_the_table_is_kept_as_a_file_with_every_row(cfdp: Implementation, tmp_path: Path) -> None:
    path = write_csv(rows_of(tmp_path, cfdp), tmp_path)

    with path.open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [(row["implementation"], row["outcome"], row["str_sent"]) for row in read] == [
        ("cfdp", "completed", "1000")
    ] * 3


def test_the_log_files_that_a_profile_keeps_are_in_the_tail(tmp_path: Path) -> None:
    (tmp_path / "sender.out").write_text("one\n")
    log = tmp_path / "kept" / "receiver" / "logs" / "ion.log"
    log.parent.mkdir(parents=True)
    log.write_text("two\n")

    assert list(log_tail(tmp_path)) == ["sender.out: 'one'", "kept/receiver/logs/ion.log: 'two'"]


def after_losses(cfdp: Implementation, tmp_path: Path, *lost: Trial) -> list[Finding]:
    """What a check finds of short transfers: one without a loss, and these."""
    base = Trial((), (), Outcome.COMPLETED, "", (), 1.0, 0.0, 0, tmp_path, ())
    checked(cfdp, tmp_path)
    found = findings(cfdp, tmp_path, losses=[base, *lost], load=lambda _: summary())
    return [finding for finding in found if finding.subject == "one loss"]


def one_loss(outcome: Outcome, run: Path, **changes: Any) -> Trial:
    hits = (Hit(Place("reverse", 3)),)
    return replace(
        Trial(hits, ("reverse #3 (ACK)",), outcome, "the sender hung", (), None, None, None, run, ()), **changes
    )


def run_with_a_hit(directory: Path, outcome: Outcome, code: ReasonCode | None, action: str = "dropped") -> Path:
    """The directory of a run in which an aimed fault hit a packet."""
    faults = Faults(faults=[FaultCount(fault="packet #3", action=action, seen=3, hits=1)], hits=[])
    (run,) = plan_of_cases("check", find_implementation("cfdp"), CHANNELS[CLEAN], 20_000, {"r3": ()}).runs
    place = directory / "run"
    place.mkdir()
    write_record(record(run, outcome=outcome, reason_code=code, faults=faults, **LAUNCHED), place)
    return place


def test_a_check_that_delivers_after_every_loss_says_after_how_many(cfdp: Implementation, tmp_path: Path) -> None:
    (finding,) = after_losses(cfdp, tmp_path, one_loss(Outcome.COMPLETED, tmp_path))

    assert (finding.level, finding.text[:34]) == ("ok", "delivered after 1 of 1 losses: the")


def test_a_transfer_that_stalls_after_one_loss_makes_an_implementation_unfit(
    cfdp: Implementation, tmp_path: Path
) -> None:
    run = run_with_a_hit(tmp_path, Outcome.TIMED_OUT, ReasonCode.TIME_LIMIT)
    stalled, summed = after_losses(cfdp, tmp_path, one_loss(Outcome.TIMED_OUT, run))

    assert (stalled.level, stalled.text) == (
        "bad",
        f"if reverse #3 (ACK) is lost: timed_out: the sender hung; {run}",
    )
    assert summed.text.startswith("delivered after 0 of 1 losses")


def test_a_known_limit_explains_a_stall_after_an_aimed_loss(forgetful: Implementation, tmp_path: Path) -> None:
    run = run_with_a_hit(tmp_path, Outcome.TIMED_OUT, ReasonCode.TIME_LIMIT)
    stalled, _ = after_losses(forgetful, tmp_path, one_loss(Outcome.TIMED_OUT, run))

    assert (stalled.level, "it never repeats" in stalled.text) == ("note", True)


def test_a_known_limit_on_losses_does_not_explain_a_stall_after_an_aimed_delay(
    forgetful: Implementation, tmp_path: Path
) -> None:
    run = run_with_a_hit(tmp_path, Outcome.TIMED_OUT, ReasonCode.TIME_LIMIT, action="delayed by 5 s")
    stalled, _ = after_losses(forgetful, tmp_path, one_loss(Outcome.TIMED_OUT, run))

    assert stalled.level == "bad"


def test_a_suspect_run_with_a_loss_is_no_verdict(cfdp: Implementation, tmp_path: Path) -> None:
    suspect = one_loss(Outcome.TIMED_OUT, tmp_path, suspect=("a fault hit nothing",))
    summed, undecided = after_losses(cfdp, tmp_path, suspect)

    assert (summed.level, undecided.level) == ("ok", "note")
    assert "a fault hit nothing" in undecided.text
