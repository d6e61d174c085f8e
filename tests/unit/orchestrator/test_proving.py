"""Checks and the table of builds: which runs they make, and what is said of what came of them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from agents.contract import Implementation, KnownLimit
from agents.side import Stop
from captures.accounting.delays import DelaySummary
from captures.summary import CaptureSummary
from orchestrator import builds_table, verdict
from orchestrator.builds_table import Row
from orchestrator.catalogue import find_implementation
from orchestrator.plan import Run
from orchestrator.proving import CLEAN, DEAD, LOSSY, best_clock, check_plan, table_plans
from orchestrator.record import Outcome, RunRecord, Side, write_record
from orchestrator.verdict import Finding, findings, is_fit, log_tail
from tests.unit.captures.making import SESSION

NO_DELAYS = DelaySummary.model_construct()


@pytest.fixture
def cfdp() -> Implementation:
    return find_implementation("cfdp")


def summary(**changes: Any) -> CaptureSummary:
    """What packets say of a good run, with changes."""
    numbers = dict.fromkeys(CaptureSummary.model_fields, 0)
    good = {"str_sent": 1000, "str_sent_bytes": 1_042_000, "rts_sent": 2, "goodput_bps": 8.9e6}
    rest = {
        "goodput_until_whole_bps": 9.1e6,
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
    build: Implementation,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    packets: CaptureSummary | None = None,
    **by_channel: dict[str, Any],
) -> dict[str, Finding]:
    """The findings of a check of runs that went well but for what is given by channel; a dead one fails."""
    changes: dict[str, dict[str, Any]] = {DEAD: {"outcome": "failed", "sender": Side(command=["send"], exit_status=1)}}
    changes |= {name.replace("_", "-"): given for name, given in by_channel.items()}
    for run in check_plan(build).runs:
        place = directory / "runs" / run.run_id
        place.mkdir(parents=True)
        write_record(record(run, **changes.get(run.permutation.channel_name, {})), place)
    monkeypatch.setattr(verdict, "load_summary", lambda _: packets or summary())
    return {finding.what: finding for finding in findings(build, directory)}


def test_a_check_is_a_clean_a_lossy_and_a_dead_channel(cfdp: Implementation) -> None:
    runs = check_plan(cfdp).runs

    assert {run.permutation.channel_name for run in runs} == {CLEAN, LOSSY, DEAD}
    assert {run.permutation.packet_error_rate for run in runs} == {0, 0.01, 1}


def test_every_build_of_the_table_meets_three_channels(cfdp: Implementation) -> None:
    plan = table_plans({"cfdp": cfdp})["exact"]

    points = {(run.permutation.delay_ns // 10**6, run.permutation.packet_error_rate) for run in plan.runs}
    assert points == {(25, 0), (250, 0.01), (1250, 0.1)}


def test_a_build_is_tried_on_the_best_clock_that_it_can(cfdp: Implementation) -> None:
    real = cfdp.model_copy(update={"name": "real-only", "clocks": ["real"]})

    assert (best_clock(cfdp), best_clock(real)) == ("exact", "real")
    plans = table_plans({"cfdp": cfdp, "real-only": real})
    assert {clock: list(plan.implementations) for clock, plan in plans.items()} == {
        "exact": ["cfdp"],
        "real": ["real-only"],
    }


def test_a_build_that_does_all_is_fit(cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(cfdp, tmp_path, monkeypatch)

    assert is_fit(list(found.values()))
    assert {finding.weight for finding in found.values()} == {"ok"}


def test_a_failed_transfer_makes_it_unfit_with_the_reason(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lossy = {"outcome": "timed_out", "reason": "the sender had not ended"}
    found = checked(cfdp, tmp_path, monkeypatch, **{LOSSY: lossy})

    assert not is_fit(list(found.values()))
    assert found["PER 0.01, 250 ms"] == Finding("PER 0.01, 250 ms", "bad", "timed_out: the sender had not ended")


def test_a_failure_that_the_profile_explains_is_a_note(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = cfdp.model_copy(update={"known_limits": [KnownLimit(why="it never repeats", packet_error_rate_above=0)]})
    found = checked(build, tmp_path, monkeypatch, **{LOSSY: {"outcome": "failed", "reason": "r"}})

    assert found["PER 0.01, 250 ms"].weight == "note"
    assert "it never repeats" in found["PER 0.01, 250 ms"].seen


def test_a_known_limit_excuses_nothing_below_it(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = cfdp.model_copy(update={"known_limits": [KnownLimit(why="it never repeats", packet_error_rate_above=0)]})
    found = checked(build, tmp_path, monkeypatch, **{CLEAN: {"outcome": "failed", "reason": "r"}})

    assert found["clean, 25 ms"].weight == "bad"


def test_a_sender_that_claims_success_over_a_dead_channel_is_noted(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = {"outcome": "failed", "sender": Side(command=["send"], exit_status=0)}
    found = checked(cfdp, tmp_path, monkeypatch, **{DEAD: dead})

    assert found["nothing arrives"].weight == "note"


def test_a_file_that_comes_over_a_dead_channel_came_another_way(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = checked(cfdp, tmp_path, monkeypatch, **{DEAD: {"outcome": "completed"}})

    assert found["nothing arrives"].weight == "bad"


def test_a_sender_that_was_not_launched_says_nothing_about_a_dead_channel(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = {"outcome": "failed", "reason": "the receiver was not ready after 30 s"}
    found = checked(cfdp, tmp_path, monkeypatch, **{DEAD: dead})

    assert found["nothing arrives"].weight == "note"
    assert "not tried: the sender was not launched; failed: the receiver was not ready" in found["nothing arrives"].seen


def test_a_side_that_had_to_be_killed_is_noted_with_its_grace(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = {"receiver": Side(command=["receive"], exit_status=-1, stopped=True)}
    found = checked(cfdp, tmp_path, monkeypatch, **{CLEAN: clean})

    assert found["end"] == Finding("end", "note", "the receiver did not end within 2 s of TERM, and was killed")


def test_a_side_that_ends_badly_though_the_file_came_is_noted(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = checked(cfdp, tmp_path, monkeypatch, **{CLEAN: {"sender": Side(command=["send"], exit_status=1)}})

    assert found["end"] == Finding("end", "note", "the sender ended with status 1 although the file was delivered")


def test_a_run_beyond_the_profiles_limits_makes_nothing_unfit(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lossy = {"outcome": "unsupported", "reason": "not launched: one-way delay 0.25 s, at most 0.1 s"}
    found = checked(cfdp, tmp_path, monkeypatch, **{LOSSY: lossy})

    assert found["PER 0.01, 250 ms"].weight == "note"
    assert is_fit(list(found.values()))


def test_a_build_that_could_not_be_tried_is_not_fit(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beyond = {"outcome": "unsupported", "reason": "not launched: file of 1000000 bytes, at most 500000"}
    found = checked(cfdp, tmp_path, monkeypatch, **dict.fromkeys((CLEAN, LOSSY, DEAD), beyond))

    assert not is_fit(list(found.values()))


def test_a_known_limit_excuses_no_fault_of_the_rig(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = cfdp.model_copy(update={"known_limits": [KnownLimit(why="it crashes")]})
    found = checked(build, tmp_path, monkeypatch, **{LOSSY: {"outcome": "aborted", "reason": "the rig failed: no SSH"}})

    assert found["PER 0.01, 250 ms"].weight == "bad"


def test_a_side_that_is_stopped_by_typing_is_noted_with_what_was_typed(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = cfdp.receiver.model_copy(update={"stop": Stop(send="quit", grace_s=1)})
    clean = {"receiver": Side(command=["receive"], exit_status=-1, stopped=True)}
    found = checked(cfdp.model_copy(update={"receiver": console}), tmp_path, monkeypatch, **{CLEAN: clean})

    assert found["end"].seen == "the receiver did not end within 1 s of 'quit', and was killed"


def test_a_version_command_that_fails_is_told(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "unknown: the version_command ended with status 1: no such option"
    found = checked(
        cfdp, tmp_path, monkeypatch, **{name: {"versions": {"implementation": told}} for name in (CLEAN, LOSSY)}
    )

    assert found["version"] == Finding("version", "note", told)


def test_what_a_build_leaves_behind_is_named(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = {"receiver": Side(exit_status=0, left_running=["ltpd --daemon"])}
    found = checked(cfdp, tmp_path, monkeypatch, **{CLEAN: clean})

    assert "'ltpd --daemon'" in found["leftovers"].seen


@pytest.mark.parametrize(
    ("packets", "said"),
    [
        ({"str_sent": 0}, "none of its packets is on the ports"),
        ({"background_packets": {"UDP": 7}}, "packets on ports that session does not name: 7 of UDP"),
    ],
)
def test_packets_outside_the_session_make_it_unfit(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packets: dict[str, Any], said: str
) -> None:
    found = checked(cfdp, tmp_path, monkeypatch, summary(**packets))

    assert found["session"].weight == "bad"
    assert said in found["session"].seen


def test_a_suspect_run_makes_it_unfit(cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(cfdp, tmp_path, monkeypatch, **{CLEAN: {"suspect": ["the capture lost packets"]}})

    assert "the capture lost packets" in found["suspect"].seen
    assert not is_fit(list(found.values()))


def test_a_build_that_is_not_repeatable_is_told_so(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = cfdp.model_copy(update={"not_repeatable": "it asks the processor for its numbers"})

    found = checked(build, tmp_path, monkeypatch)

    assert found["repeats"] == Finding(
        "repeats", "note", "not on the clock exact: it asks the processor for its numbers"
    )
    assert is_fit(list(found.values()))


def test_the_tail_of_a_log_shows_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "sender.err").write_bytes(b"one\n\xff\x1b[31m\n")

    assert list(log_tail(tmp_path)) == ["sender.err: 'one'", "sender.err: '\ufffd\\x1b[31m'"]


def rows_of(directory: Path, build: Implementation, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> list[Row]:
    """The rows of a table with one build, all its runs alike."""
    plan = table_plans({build.name: build})["exact"]
    for run in plan.runs:
        place = directory / "runs" / run.run_id
        place.mkdir(parents=True)
        write_record(record(run, **changes), place)
    monkeypatch.setattr(builds_table, "load_summary", lambda _: summary())
    return builds_table.rows(plan, directory)


def test_a_row_has_the_numbers_of_its_run(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = rows_of(tmp_path, cfdp, monkeypatch)[0]

    assert (row.channel, row.outcome, row.goodput_bps, row.str_sent, row.bytes_a_packet) == (
        CLEAN,
        Outcome.COMPLETED,
        9.1e6,
        1000,
        1042,
    )


def test_the_summary_names_what_is_unexplained(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = rows_of(tmp_path, cfdp, monkeypatch, outcome="failed", reason="r")
    told = builds_table.summary(found, {"dtn7": "make builds BUILD=dtn7"}, 3)

    assert "1 builds, 3 of 3 runs: 3 failed" in told
    assert "3 unexplained or suspect (cfdp at clean-25ms" in told
    assert "1 builds not installed (dtn7)" in told


def test_a_run_without_record_is_no_row(cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows_of(tmp_path, cfdp, monkeypatch)
    plan = table_plans({"cfdp": cfdp})["exact"]
    (tmp_path / "runs" / plan.runs[0].run_id / "record.json").unlink()

    assert len(builds_table.rows(plan, tmp_path)) == 2


def test_the_table_is_kept_as_a_file_with_every_row(
    cfdp: Implementation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = builds_table.write_csv(rows_of(tmp_path, cfdp, monkeypatch), tmp_path)

    with path.open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [(row["implementation"], row["outcome"], row["str_sent"]) for row in read] == [
        ("cfdp", "completed", "1000")
    ] * 3


def test_the_files_that_a_profile_keeps_are_among_the_last_words(tmp_path: Path) -> None:
    (tmp_path / "sender.out").write_text("one\n")
    log = tmp_path / "kept" / "receiver" / "logs" / "ion.log"
    log.parent.mkdir(parents=True)
    log.write_text("two\n")

    assert list(log_tail(tmp_path)) == ["sender.out: 'one'", "kept/receiver/logs/ion.log: 'two'"]
