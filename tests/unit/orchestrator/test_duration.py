"""Sweeps that send data for a duration instead of a file: their plans, and runs on a rig in memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from owlt.inputs.sweep import Sweep
from owlt.orchestrator.errors import ProfileError, SweepMistake
from owlt.orchestrator.planning.estimate import infeasible
from owlt.orchestrator.planning.plan import Plan, plan_sweep
from owlt.orchestrator.planning.selection import runs_named
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.orchestrator.profiles.load import load_sweep
from owlt.orchestrator.rigs.rig import RECEIVER_ADDRESS
from owlt.orchestrator.run.analysis import delivered_bytes
from owlt.orchestrator.sweep.forecast import forecast
from owlt.results.record import Outcome, ReasonCode, RunRecord
from tests.memory.process import Process, Script
from tests.unit.orchestrator.performing import PORT, Stage

TIMED = """\
name: timed
seed: 7
implementations: [tcp, cfdp]
duration: [2 s, 600 s]
rate: 10 Mbit/s
delay: 25 ms
packet_error_rate: 0
"""
DURATION = {
    "sender": ["{send}", "{duration_s}"],
    "receiver": ["{take}", "{duration_s}"],
    "received_bytes": "^received=([0-9]+)$",
}


def load(directory: Path, text: str) -> Sweep:
    path = directory / "sweep.yaml"
    path.write_text(text)
    return load_sweep(path)


def planned(directory: Path, text: str = TIMED) -> Plan:
    sweep = load(directory, text)
    return plan_sweep(sweep, {name: find_implementation(name) for name in sweep.implementations})


def test_a_duration_is_an_axis_whose_values_are_in_the_names_of_runs(tmp_path: Path) -> None:
    assert {run.run_id for run in planned(tmp_path).runs if run.permutation.implementation == "tcp"} == {
        "tcp_2s_10Mbps_25ms_per0_r1",
        "tcp_600s_10Mbps_25ms_per0_r1",
    }


def test_the_time_limit_of_a_run_has_the_duration_in_place_of_the_file(tmp_path: Path) -> None:
    [run] = [run for run in planned(tmp_path).runs if run.run_id.startswith("tcp_600s")]
    limit = find_implementation("tcp").time_limit

    assert run.deadline_s(find_implementation("tcp")) == pytest.approx(limit.rtts * 0.05 + limit.extra_s + 600)


def test_an_implementation_that_sends_files_only_is_infeasible_with_the_missing_key(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    reasons = {
        run.permutation.implementation: infeasible(run, plan.implementations[run.permutation.implementation])
        for run in plan.runs
    }

    assert reasons == {"tcp": None, "cfdp": "sends files only: the profile of cfdp has no 'duration'"}


def test_the_forecast_counts_what_the_channel_carries_in_that_time(tmp_path: Path) -> None:
    short, long = (
        forecast(planned(tmp_path, TIMED.replace("[2 s, 600 s]", duration)), (), tmp_path)
        for duration in ("2 s", "600 s")
    )

    assert long.estimate.rig_s - short.estimate.rig_s == pytest.approx(2 * 598)
    assert long.resources.disk_bytes - short.resources.disk_bytes == pytest.approx(0.27 * 1.25e6 * 598, rel=1e-6)


def test_runs_are_selected_by_their_duration(tmp_path: Path) -> None:
    assert [run.run_id for run in runs_named(planned(tmp_path), ["duration=2s,implementation=tcp"])] == [
        "tcp_2s_10Mbps_25ms_per0_r1"
    ]


def test_a_sweep_has_files_or_durations_not_both(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="duration: a sweep with both, expected either 'file_size' or 'duration'"):
        load(tmp_path, TIMED + "file_size: 1 MB\n")


def test_a_duration_without_a_unit_or_out_of_bounds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="write the unit"):
        load(tmp_path, TIMED.replace("[2 s, 600 s]", "600"))
    with pytest.raises(ProfileError, match="a duration from 10 ms to 24 h"):
        load(tmp_path, TIMED.replace("[2 s, 600 s]", "25 h"))


@pytest.mark.parametrize("rule", ["exclude: {file_size: 1 MB}", "include: {file_size: 1 MB}"])
def test_a_rule_about_files_in_a_sweep_with_durations_is_refused(tmp_path: Path, rule: str) -> None:
    with pytest.raises(SweepMistake, match="this sweep has 'duration', expected a sweep with 'file_size'"):
        planned(tmp_path, TIMED + rule + "\n")


def test_durations_are_excluded_by_value_and_by_interval(tmp_path: Path) -> None:
    plan = planned(tmp_path, TIMED + "exclude: {duration: {from: 10 s}}\n")

    assert {run.permutation.duration_ns for run in plan.runs} == {2 * 10**9}


def sending(process: Process) -> int:
    """A sender that sends for as long as it is to, and then closes."""
    end_s = time.monotonic() + float(process.arguments[0])
    while time.monotonic() < end_s:
        time.sleep(0.001)
    process.send(RECEIVER_ADDRESS, PORT, bytes(1000))
    return 0


def counting(process: Process) -> int:
    """A receiver that counts what comes."""
    process.print("ready")
    process.print(f"received={len(process.receive(RECEIVER_ADDRESS, PORT))}")
    return 0


def timed(directory: Path, sender: Script = sending, receiver: Script = counting, **changes: Any) -> RunRecord:
    """The record of a run for 50 ms."""
    stage = Stage(directory / "run", sender, receiver, {"duration": DURATION} | changes)
    stage.sweep = {"duration": "50 ms", "file_size": None}
    return stage.perform().record


def test_a_run_that_lasts_its_duration_is_completed_with_what_the_receiver_reports(tmp_path: Path) -> None:
    record = timed(tmp_path)

    assert (record.outcome, record.reason, record.received_bytes) == (Outcome.COMPLETED, "", 1000)
    assert (record.duration_ns, record.file_size_bytes, record.file_sha256) == (50_000_000, None, None)
    assert delivered_bytes(record) == 1000


def test_a_run_that_ends_before_its_duration_has_failed(tmp_path: Path) -> None:
    def hasty(process: Process) -> int:
        process.send(RECEIVER_ADDRESS, PORT, bytes(1000))
        return 0

    record = timed(tmp_path, sender=hasty)

    assert (record.outcome, record.reason_code) == (Outcome.FAILED, ReasonCode.ENDED_EARLY)
    assert "and the sender was to send for 0.05 s" in record.reason
    assert delivered_bytes(record) is None


def test_a_receiver_that_reports_nothing_has_failed_and_the_reason_has_the_pattern(tmp_path: Path) -> None:
    def silent(process: Process) -> int:
        process.print("ready")
        process.receive(RECEIVER_ADDRESS, PORT)
        return 0

    record = timed(tmp_path, receiver=silent)

    assert (record.outcome, record.reason_code) == (Outcome.FAILED, ReasonCode.NOTHING_REPORTED)
    assert record.reason.startswith("the receiver printed nothing that matches '^received=([0-9]+)$'")


def test_a_side_that_exits_with_an_error_has_failed_although_the_receiver_reports_data(tmp_path: Path) -> None:
    def failing(process: Process) -> int:
        sending(process)
        return 3

    record = timed(tmp_path, sender=failing)

    assert (record.outcome, record.reason_code) == (Outcome.FAILED, ReasonCode.EXITED)


def test_a_run_for_a_duration_of_an_implementation_without_one_is_not_launched(tmp_path: Path) -> None:
    record = timed(tmp_path, duration=None)

    assert (record.outcome, record.reason_code) == (Outcome.UNSUPPORTED, ReasonCode.BEYOND_LIMITS)
    assert record.sender.command == []
