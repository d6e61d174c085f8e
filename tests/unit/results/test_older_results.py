"""Results directories that earlier versions of owlt wrote, kept in tests/unit/older_results, are read as new ones."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from owlt.captures.accounting.summary import SUMMARY_STEPS, load_summary
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.mistake import ResultsConflict
from owlt.orchestrator.planning.plan import Plan, read_plan, read_plan_values
from owlt.orchestrator.planning.stored_plan import require_extension
from owlt.orchestrator.sweep.state_reader import channel_label, read_state
from owlt.reports.results.load import load_results
from owlt.results.certificates import read_certificate
from owlt.results.files import ReportError
from owlt.results.record import ReasonCode, RunRecord, read_record
from owlt.results.recorded_runs import read_recorded, standing
from owlt.results.upgrades import (
    CERTIFICATE_STEPS,
    PLAN_STEPS,
    RECORD_STEPS,
    NewerVersion,
    Steps,
    current_version,
    upgraded,
)

KEPT = Path(__file__).parents[1] / "older_results"
VERSION_1, VERSION_2 = KEPT / "version-1", KEPT / "version-2"
CFDP = "cfdp_100kB_10Mbps_25ms_per0.01_r1"
SOCAT = "socat_100kB_10Mbps_25ms_per0.01_r1"
KEY = "55ead024e2069e64"
STEPS = {"record": RECORD_STEPS, "plan": PLAN_STEPS, "certificate": CERTIFICATE_STEPS, "summary": SUMMARY_STEPS}
FILES = {
    "record": VERSION_2 / "runs" / CFDP / "record.json",
    "record 1": VERSION_1 / "runs" / CFDP / "record.json",
    "plan": VERSION_2 / "plan.json",
    "plan 1": VERSION_1 / "plan.json",
    "certificate": VERSION_2 / "certificates" / f"{KEY}.json",
    "summary": VERSION_2 / "runs" / CFDP / "summary.json",
}


@pytest.fixture
def older(tmp_path: Path) -> Path:
    return Path(shutil.copytree(VERSION_2, tmp_path / "results"))


def written(name: str) -> Any:
    return json.loads(FILES[name].read_text())


def recorded(version: Path = VERSION_2) -> RunRecord:
    return read_record(version / "runs" / CFDP)


def test_the_time_of_delivery_is_read_from_its_older_name() -> None:
    assert recorded().file_delivered_at_ns == written("record")["file_whole_at_ns"]


def test_the_advertised_values_are_read_from_their_older_name() -> None:
    assert recorded().advertised == {"rate_bps": 9e6, "one_way_delay_s": 0.025, "rtt_s": 0.05}


def test_the_machine_delay_is_read_from_its_older_name() -> None:
    delay = recorded().machine_delay

    assert delay is not None
    assert delay.session_ns == written("record")["withheld"]["session_ns"]


def test_the_kernels_tcp_counters_of_an_older_record_are_there() -> None:
    assert read_record(VERSION_2 / "runs" / SOCAT).tcp["sender"].sockets


def test_the_channel_of_a_record_of_version_1_is_converted_to_its_written_form() -> None:
    link = ChannelSpec.from_wire(recorded(VERSION_1).channel).forward

    assert (link.delay_ns, link.rate_bps, link.queue_packets, link.seed) == (25_000_000, 10e6, 1000, 183306224)


def test_a_record_of_version_1_has_its_delivery_time() -> None:
    assert recorded(VERSION_1).file_delivered_at_ns == written("record 1")["file_whole_at_ns"]


def test_a_report_of_results_of_version_1_has_their_recorded_run() -> None:
    assert [run.record.run_id for run in load_results(VERSION_1).runs] == [CFDP]


def test_a_plan_from_before_channel_profiles_gets_the_channel_of_each_run() -> None:
    channels = [ChannelSpec.from_wire(channel) for channel in read_plan_values(VERSION_1)["channels"].values()]

    assert [(channel.forward.delay_ns, channel.reverse.packet_error_rate) for channel in channels] == [
        (25_000_000, 0.0),
        (25_000_000, 0.01),
    ]


def test_an_older_plan_is_a_plan_of_today() -> None:
    plan = Plan.model_validate(read_plan_values(VERSION_2))

    assert (plan.sweep.advertised["cfdp"].rate, plan.sweep.keep_captures) == ({"": 9e6}, "none")


def test_an_older_plan_searches_third_party_programs_in_the_same_place() -> None:
    binary = Plan.model_validate(read_plan_values(VERSION_2)).implementations["socat"].binary["socat"]

    assert (binary.search, binary.fix) == (["socat"], "apt-get install socat")


def test_the_search_path_of_an_older_plan_has_todays_placeholder() -> None:
    plan = written("plan")
    plan["implementations"]["socat"]["binary"]["socat"]["search"] = ["{builds}/socat/bin/socat"]

    searched = upgraded(plan, PLAN_STEPS)["implementations"]["socat"]["binary"]["socat"]["search"]

    assert searched == ["{third_party}/socat/bin/socat"]


@pytest.mark.parametrize(("older", "today"), [("whole", "full"), ("headers", "headers")])
def test_captures_of_an_older_plan_are_kept_as_it_specified(older: str, today: str) -> None:
    plan = written("plan")
    plan["sweep"]["keep_captures"] = older

    assert upgraded(plan, PLAN_STEPS)["sweep"]["keep_captures"] == today


def test_an_older_plan_ends_runs_as_it_specified() -> None:
    plan = written("plan")
    plan["implementations"]["cfdp"]["done"] = "file_whole"

    assert upgraded(plan, PLAN_STEPS)["implementations"]["cfdp"]["done"] == "file_delivered"


def test_an_older_certificate_has_every_specified_value() -> None:
    certificate = read_certificate(VERSION_2, KEY)

    assert certificate is not None
    assert [check.specified for check in certificate.checks] == [
        check.get("asked") for check in written("certificate")["checks"]
    ]


def test_an_older_summary_without_captures_has_its_goodput_to_delivery() -> None:
    summary = load_summary(VERSION_2 / "runs" / CFDP)

    assert summary is not None
    assert summary.goodput_to_delivery_bps == written("summary")["goodput_until_whole_bps"]


def test_a_report_of_older_results_has_every_run_with_its_summary() -> None:
    results = load_results(VERSION_2)

    assert [(run.record.run_id, run.summary is not None, run.view is not None) for run in results.runs] == [
        (CFDP, True, True),
        (SOCAT, True, True),
    ]


def test_a_report_of_older_results_has_no_warnings() -> None:
    assert load_results(VERSION_2).warnings == ()


def test_a_report_of_older_results_has_their_certificate() -> None:
    (channel,) = load_results(VERSION_2).distinct_channels

    assert channel.certificate is not None
    assert channel.certificate.checks[0].specified is not None


def test_a_resumed_sweep_need_not_repeat_older_runs() -> None:
    assert standing(read_recorded(VERSION_2, {CFDP, SOCAT})) == {CFDP, SOCAT}


def make_newer(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 99}))


@pytest.mark.parametrize(
    ("outcome", "code"),
    [("completed", None), ("corrupt", ReasonCode.WRONG_FILE), ("failed", ReasonCode.UNCLASSIFIED)],
)
def test_the_reason_code_of_an_older_record_follows_from_its_outcome(
    older: Path, outcome: str, code: ReasonCode | None
) -> None:
    path = older / "runs" / CFDP / "record.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"outcome": outcome}))

    assert read_record(path.parent).reason_code == code


def test_a_newer_plan_is_refused_by_a_report(older: Path) -> None:
    make_newer(older / "plan.json")

    with pytest.raises(ReportError, match=r"plan\.json: a newer version of owlt wrote it \(schema version 99"):
        load_results(older)


def test_a_newer_plan_is_refused_by_a_run(older: Path) -> None:
    make_newer(older / "plan.json")

    with pytest.raises(ResultsConflict, match=r"plan\.json: a newer version of owlt wrote it \(schema version 99"):
        read_plan_values(older)


def test_a_newer_certificate_is_refused_and_not_measured_again(older: Path) -> None:
    make_newer(older / "certificates" / f"{KEY}.json")

    with pytest.raises(ResultsConflict, match=rf"{KEY}\.json: a newer version of owlt wrote it"):
        read_certificate(older, KEY)


def test_a_newer_summary_is_not_read(older: Path) -> None:
    make_newer(older / "runs" / CFDP / "summary.json")

    assert load_summary(older / "runs" / CFDP) is None


@pytest.mark.parametrize("name", FILES)
def test_an_upgrade_leaves_its_argument_unchanged(name: str) -> None:
    values = written(name)
    before = copy.deepcopy(values)

    upgraded(values, STEPS[name.split()[0]])

    assert values == before


@pytest.mark.parametrize("name", FILES)
def test_an_upgrade_leads_to_the_current_version(name: str) -> None:
    steps = STEPS[name.split()[0]]

    assert upgraded(written(name), steps)["schema_version"] == current_version(steps)


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize(
    "damaged",
    [
        {},
        {"channel": 1, "sweep": [], "implementations": {"a": 1, "b": {"binary": 1, "needs": 1}}, "checks": [1]},
        {"channel": {"forward": {"delay_ns": "x"}}, "implementations": {"a": {"needs": [1]}}, "checks": 1},
        {"batches": [1, {}, {"runs": 1}, {"runs": [1, {}, {"permutation": 1}]}]},
    ],
)
def test_an_upgrade_accepts_damaged_files(steps: Steps, damaged: dict[str, Any]) -> None:
    version = min(steps)

    assert upgraded(damaged | {"schema_version": version}, steps)["schema_version"] == current_version(steps)


def test_a_sweep_whose_plan_has_fewer_keys_than_today_is_another_sweep(tmp_path: Path) -> None:
    shutil.copy(FILES["plan 1"], tmp_path / "plan.json")

    with pytest.raises(ResultsConflict, match="holds the results of another sweep"):
        require_extension(Plan.model_validate(read_plan_values(VERSION_2)), tmp_path)


def test_the_state_of_the_oldest_results_is_shown() -> None:
    state = read_state(VERSION_1)

    assert (state.sweep, state.counts.planned, state.counts.completed) == ("small", 2, 1)
    assert state.channels == {run.channel_key: channel_label(run.permutation) for run in read_plan(VERSION_1).runs}


def test_a_plan_with_assertions_of_before_they_had_a_version_is_read() -> None:
    plan = written("plan") | {"schema_version": 5}
    plan["sweep"]["assertions"] = [{"measure": "delivered", "at_least": 1}]

    assert upgraded(plan, PLAN_STEPS)["sweep"]["assertions"] == plan["sweep"]["assertions"]


def test_an_owlt_without_assertions_refuses_a_plan_that_may_have_them() -> None:
    steps = {version: step for version, step in PLAN_STEPS.items() if version < 5}

    with pytest.raises(NewerVersion):
        upgraded({"schema_version": current_version(PLAN_STEPS)}, steps)


def test_what_tcpdump_lost_is_computed_for_older_records() -> None:
    counters = {"captured": 7, "received_by_filter": 10, "dropped_by_kernel": 2, "dropped_by_interface": 0}
    at_hosts = {"sender": {"counters": counters}, "receiver": {"counters": None}}
    older = {"schema_version": 7, "captures": {"sender": counters}, "host_captures": at_hosts}
    record = upgraded(older, RECORD_STEPS)

    assert record["captures"]["sender"] == counters | {"lost_by_tcpdump": 1}
    assert record["host_captures"]["sender"]["counters"] == counters | {"lost_by_tcpdump": 1}
    assert record["host_captures"]["receiver"]["counters"] is None
