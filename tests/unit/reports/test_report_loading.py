"""Results directories read: what is in them, and which are refused."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import pytest

from owlt.emulator.certification.certificate import Check
from owlt.reports.results.load import load_results
from owlt.results.files import ReportError
from owlt.results.record import SCHEMA_VERSION
from tests.unit.reports.conftest import (
    SUSPECT,
    SUSPICION,
    UNSUMMARISED,
    change_record,
    few,
    named,
    sweep,
    write_certificates,
    write_results,
)

A_RUN = "cfdp_1MB_10Mbps_25ms_per0_r1"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Results that a test may spoil."""
    return write_results(tmp_path / "results", few())


def test_every_record_is_a_run(demo: Path) -> None:
    assert len(load_results(demo).runs) == 72


def test_every_permutation_is_planned_once_for_each_repetition(demo: Path) -> None:
    assert list(load_results(demo).planned.values()) == [3] * 24


def test_a_run_without_record_counts_as_planned(tmp_path: Path) -> None:
    results = load_results(write_results(tmp_path, few(), skip=lambda run: run.repetition == 2))

    assert (len(results.runs), sum(results.planned.values())) == (8, 12)


def test_implementations_stand_side_by_side_in_the_order_of_the_sweep(tmp_path: Path) -> None:
    results = load_results(write_results(tmp_path, few(implementations=["norm", "cfdp"])))

    assert [permutation.implementation for permutation in results.planned] == ["norm", "cfdp"] * 2


def test_channels_are_in_ascending_order(demo: Path) -> None:
    channels = [
        (point.delay_ns, point.file_size_bytes, point.packet_error_rate) for point in load_results(demo).planned
    ]

    assert channels == sorted(channels)


def test_a_run_is_suspect_for_the_reasons_of_its_record_and_of_its_captures(results: Path) -> None:
    change_record(results, SUSPECT, suspect=["the clock jumped"])

    (run,) = [run for run in load_results(results).runs if run.suspect]

    assert run.suspect == ("the clock jumped", SUSPICION)


def test_a_run_whose_captures_were_not_summarised_has_no_summary(demo: Path) -> None:
    missing = [run.record.run_id for run in load_results(demo).runs if run.summary is None]

    assert missing == [UNSUMMARISED]


def test_a_sweep_was_performed_from_the_first_to_the_last_event_of_its_journal(results: Path) -> None:
    (results / "journal.jsonl").write_text('{"at_s": 10.5, "event": "boot"}\n{"at_s": 11}\n{"at_s": 90.0}\n')

    assert load_results(results).performed == (10.5, 90.0)


def test_a_directory_without_records_is_refused(tmp_path: Path) -> None:
    write_results(tmp_path, sweep(), skip=lambda run: True)

    with pytest.raises(ReportError, match="no run has a record"):
        load_results(tmp_path)


def test_a_directory_without_a_plan_is_refused(results: Path) -> None:
    (results / "plan.json").unlink()

    with pytest.raises(ReportError, match=f"^{re.escape(str(results))}: is not a results directory"):
        load_results(results)


def test_runs_of_two_clocks_are_refused_naming_one_of_each(results: Path) -> None:
    change_record(results, A_RUN, clock="skip")

    with pytest.raises(ReportError, match=rf"'exact' \(run .*'skip' \(run {A_RUN}\)"):
        load_results(results)


def test_a_record_of_a_newer_schema_version_is_refused_naming_the_file(results: Path) -> None:
    change_record(results, A_RUN, schema_version=SCHEMA_VERSION + 1)

    with pytest.raises(ReportError, match=rf"{A_RUN}/record\.json: a newer version of owlt wrote it"):
        load_results(results)


DAMAGE = {
    "empty": b"",
    "half": b'{"schema_version": 2, "run_id": "cf',
    "binary": bytes(range(256)),
    "a list": b"[]",
}


@pytest.mark.parametrize("content", DAMAGE.values(), ids=DAMAGE)
def test_a_run_with_a_damaged_record_is_omitted_with_a_warning_that_names_it(results: Path, content: bytes) -> None:
    (results / "runs" / A_RUN / "record.json").write_bytes(content)

    loaded = load_results(results)

    assert A_RUN not in {run.record.run_id for run in loaded.runs}
    assert any(f"{A_RUN}/record.json: damaged" in warning for warning in loaded.warnings)


def test_a_record_that_is_a_directory_is_omitted_with_a_warning(results: Path) -> None:
    path = results / "runs" / A_RUN / "record.json"
    path.unlink()
    path.mkdir()

    assert any(f"{A_RUN}/record.json: damaged" in warning for warning in load_results(results).warnings)


def test_the_record_of_another_run_is_omitted_with_a_warning(results: Path) -> None:
    change_record(results, A_RUN, delay_ns=1)

    loaded = load_results(results)

    assert A_RUN not in {run.record.run_id for run in loaded.runs}
    assert any(f"{A_RUN}/record.json: the record of another run" in warning for warning in loaded.warnings)


def test_an_entry_that_is_not_a_run_of_the_sweep_is_ignored_with_a_warning(results: Path) -> None:
    before = load_results(results)
    shutil.copytree(results / "runs" / A_RUN, results / "runs" / "of_another_sweep_r1")
    (results / "runs" / "notes.txt").write_text("?")
    (results / "runs" / "empty").mkdir()

    loaded = load_results(results)

    assert len(loaded.runs) == len(before.runs)
    for name in ("of_another_sweep_r1", "notes.txt", "empty"):
        assert any(f"runs/{name}: not a run of this sweep" in warning for warning in loaded.warnings)


@pytest.mark.parametrize("content", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_plan_is_refused_with_how_to_fix_it(results: Path, content: bytes) -> None:
    (results / "plan.json").write_bytes(content)

    with pytest.raises(ReportError, match=r"plan\.json: damaged .*; remove it, and 'owlt run'"):
        load_results(results)


@pytest.mark.parametrize("content", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_journal_tells_no_time(results: Path, content: bytes) -> None:
    (results / "journal.jsonl").write_bytes(content)

    assert load_results(results).performed is None


def test_damaged_lines_of_a_journal_are_skipped(results: Path) -> None:
    (results / "journal.jsonl").write_bytes(b'\xff\n{"at_s": 10.0}\n[]\n{"at_s": 70.5}\n{"at_s": 7')

    assert load_results(results).performed == (10.0, 70.5)


def test_a_run_whose_analysis_failed_is_suspect_and_says_why(results: Path) -> None:
    (results / "runs" / A_RUN / "analysis-failed.txt").write_text("the capture is no capture\n\nTraceback")

    (run,) = [run for run in load_results(results).runs if run.record.run_id == A_RUN]

    assert "analysis failed: the capture is no capture" in run.suspect


def test_named_channels_are_in_the_order_of_the_sweep(tmp_path: Path) -> None:
    results = load_results(write_results(tmp_path, named(channel=["terrestrial", "deep-space"])))

    assert [channel.name for channel in results.distinct_channels] == ["terrestrial", "deep-space"]


def test_permutations_on_channels_that_differ_in_name_only_are_two(tmp_path: Path) -> None:
    asked = named(rate="10 Mbit/s", delay="25 ms", packet_error_rate=0, implementations="cfdp")

    assert [point.channel_name for point in load_results(write_results(tmp_path, asked)).planned] == [
        "terrestrial",
        "deep-space",
    ]


def test_a_channel_has_its_certificate(tmp_path: Path) -> None:
    write_certificates(write_results(tmp_path, few()), few(), Check("forward", "rate, bit/s", "failed", 1e7, 9e6))

    assert {channel.failed for channel in load_results(tmp_path).distinct_channels} == {True}


def test_a_channel_that_was_not_measured_has_no_certificate(results: Path) -> None:
    assert {channel.certificate for channel in load_results(results).distinct_channels} == {None}


def test_a_rate_that_is_unlimited_is_read_in_a_certificate(tmp_path: Path) -> None:
    write_certificates(write_results(tmp_path, few()), few(), Check("forward", "rate, bit/s", "failed", math.inf, 9e6))

    certificate = load_results(tmp_path).distinct_channels[0].certificate

    assert certificate is not None
    assert certificate.checks[0].specified == math.inf


@pytest.mark.parametrize("content", [*DAMAGE.values(), b"{}", None], ids=[*DAMAGE, "an object", "missing"])
def test_runs_on_a_channel_whose_certificate_is_damaged_or_missing_are_suspect(
    tmp_path: Path, content: bytes | None
) -> None:
    write_certificates(write_results(tmp_path, few()), few(), Check("forward", "rate, bit/s", "ok", 1e7, 1e7))
    for path in tmp_path.glob("runs/*"):
        change_record(tmp_path, path.name, certificate="ok")
    assert not any(run.doubts for run in load_results(tmp_path).runs)
    channel = load_results(tmp_path).distinct_channels[0]
    path = tmp_path / "certificates" / f"{channel.key}.json"
    path.unlink() if content is None else path.write_bytes(content)

    loaded = load_results(tmp_path)

    state = "missing" if content is None else "damaged"
    said = f"the certificate certificates/{channel.key}.json is {state}; 'owlt run' measures the channel again"
    on_it = [run for run in loaded.runs if run.record.channel_key == channel.key]
    assert on_it
    assert all(said in run.suspect for run in on_it)
    assert said in loaded.warnings


def test_a_plan_without_the_channel_of_a_run_is_refused(results: Path) -> None:
    plan = json.loads((results / "plan.json").read_text())
    (results / "plan.json").write_text(json.dumps(plan | {"channels": {}}))

    with pytest.raises(ReportError, match="not among its channels"):
        load_results(results)
