"""The suites of `owlt conform` on our endpoints, sound and with planted defects: each defect is found by its case."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

from owlt.orchestrator.checks.fault_cases import PLAIN_CHANNEL, plan_of_cases
from owlt.orchestrator.checks.suites import SUITES, SuiteCase, find_suite, finding_of, in_case
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.results.record import read_record
from owlt.results.recorded_runs import run_directory
from tests.conftest import require_command
from tests.system.fault_trials import PLANTED, merged, owlt, perform, with_defect

pytestmark = pytest.mark.usefixtures("guest_kernel")

SUITE = """\
title: two tests
source: of the endpoint
protocol: CFDP
file_size: 2 kB
cases:
  metadata-lost:
    purpose: the metadata are requested
    reference: "4.6.4"
    faults: [{direction: forward, packet: cfdp.metadata, occurrence: 1, action: drop}]
    expected: delivered
  last-ack-lost:
    purpose: the acknowledgement of a Finished is repeated
    reference: "4.7.2"
    faults: [{direction: forward, packet: cfdp.ack-finished, occurrence: 1, action: drop}]
    expected: delivered
  nothing-hit:
    purpose: a fault without effect is no test
    reference: none
    faults: [{direction: forward, packet: cfdp.eof, occurrence: 9, action: drop}]
    expected: delivered
  limit:
    purpose: a parameter that it does not have
    reference: none
    expected: ends
    parameters: {no_such_parameter: 1}
"""


Verdicts = dict[tuple[str, str], str]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """On the case that finds each defect: of the endpoint with it, and of the sound one ("none"). One plan has all."""
    folder = tmp_path_factory.mktemp("suites")
    performed: dict[tuple[str, str], tuple[Plan, SuiteCase]] = {}
    for planted in PLANTED.values():
        for defect in (planted.defect, "none"):
            endpoint = find_implementation(str(with_defect(defect, folder, planted.endpoint, planted.parameters)))
            suite = find_suite("", endpoint.protocol)
            case = suite.cases[planted.case]
            variant = in_case(endpoint, case)
            assert variant is not None
            variant = variant.model_copy(update={"name": f"{planted.defect}-{defect}"})
            faults = {planted.case: case.faults}
            plan = plan_of_cases("suites", variant, PLAIN_CHANNEL, suite.file_size, faults)
            performed[planted.defect, defect] = plan, case
    perform(merged([plan for plan, _ in performed.values()]), folder / "results")
    found = {}
    for key, (plan, case) in performed.items():
        (run,) = plan.runs
        directory = run_directory(folder / "results", run.run_id)
        found[key] = finding_of(run.permutation.channel_name, case, read_record(directory), directory).verdict
    return found


@pytest.mark.parametrize("defect", PLANTED)
def test_the_suite_of_the_protocol_finds_a_planted_defect(verdicts: Verdicts, defect: str) -> None:
    assert verdicts[defect, defect] == "failed"


@pytest.mark.parametrize("defect", PLANTED)
def test_a_sound_endpoint_passes_the_test_that_finds_a_defect(verdicts: Verdicts, defect: str) -> None:
    assert verdicts[defect, "none"] == "passed"


def test_a_suite_names_what_is_passed_failed_inconclusive_and_not_applicable(tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE)
    profile = with_defect("metadata-not-requested", tmp_path)
    status, found = owlt(tmp_path, "conform", str(profile), "--suite", str(suite))
    (findings,) = found["findings"].values()
    page = tmp_path / "results/conformance/cfdp-metadata-not-requested"
    junit = ElementTree.parse(page / "junit.xml").getroot()

    assert status == 1
    assert {each["case"]: each["verdict"] for each in findings} == {
        "metadata-lost": "failed",
        "last-ack-lost": "passed",
        "nothing-hit": "inconclusive",
        "limit": "not applicable",
    }
    assert [junit.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "1"]
    assert "after the launch: cfdp.metadata #1: #1 dropped" in (page / "index.html").read_text()


COMMANDED = {
    "suspend-ignored": "sender-suspends",
    "not-resumed": "receiver-suspends",
    "cancel-unacknowledged": "sender-cancels",
    "finished-cancel-sent-once": "receiver-cancels-finished-lost",
}
"""The test with commands that finds each defect."""


@pytest.fixture(scope="module")
def commanded(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """The verdicts of the tests with commands, on the endpoint with each defect and on the sound one ("none")."""
    folder = tmp_path_factory.mktemp("commanded")
    suite: Any = YAML().load(SUITES / "cfdp.yaml")
    suite["cases"] = {name: suite["cases"][name] for name in COMMANDED.values()}
    with (folder / "suite.yaml").open("w") as file:
        YAML().dump(suite, file)
    found = {}
    for defect in (*COMMANDED, "none"):
        _, told = owlt(folder, "conform", str(with_defect(defect, folder)), "--suite", str(folder / "suite.yaml"))
        (findings,) = told["findings"].values()
        found |= {(defect, each["case"]): each["verdict"] for each in findings}
    return found


@pytest.mark.parametrize("defect", COMMANDED)
def test_a_test_with_commands_finds_a_planted_defect(commanded: Verdicts, defect: str) -> None:
    assert commanded[defect, COMMANDED[defect]] == "failed"


@pytest.mark.parametrize("case", COMMANDED.values())
def test_a_sound_endpoint_passes_the_tests_with_commands(commanded: Verdicts, case: str) -> None:
    assert commanded["none", case] == "passed"


def key_phases(run: Path, host: str) -> list[tuple[str, int, int]]:
    """The short-header packets in a host's capture, decrypted by tshark: source, packet number and key phase."""
    keys = f"tls.keylog_file:{run / 'receiver.out'}"
    fields = [word for name in ("ip.src", "quic.packet_number", "quic.key_phase") for word in ("-e", name)]
    command = [require_command("tshark"), "-r", str(run / f"{host}.pcap"), "-o", keys, "-Y", "quic.short"]
    done = subprocess.run([*command, "-T", "fields", *fields], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return [(source, int(number), int(phase)) for source, number, phase in rows if number.isdecimal()]


def test_the_tests_of_a_key_update_hit_the_packets_that_they_name(tmp_path: Path) -> None:
    require_command("gtlsclient")
    suite, ngtcp2 = find_suite("", "QUIC"), find_implementation("ngtcp2")
    cases = {name: case for name, case in suite.cases.items() if name.startswith("key-update")} | {
        "no-fault": suite.cases["no-fault"]
    }
    plans = {}
    for name, case in cases.items():
        variant = in_case(ngtcp2, case)
        assert variant is not None
        renamed = variant.model_copy(update={"name": name})
        plans[name] = plan_of_cases("keys", renamed, PLAIN_CHANNEL, suite.file_size, {name: case.faults})
    perform(merged(list(plans.values())), tmp_path / "results")
    runs = {name: run_directory(tmp_path / "results", plan.runs[0].run_id) for name, plan in plans.items()}
    assert {name: finding_of(name, cases[name], read_record(run), run).verdict for name, run in runs.items()} == (
        dict.fromkeys(cases, "passed")
    )

    def lost(name: str, source: str, target: str) -> set[tuple[int, int]]:
        sent, arrived = key_phases(runs[name], source), key_phases(runs[name], target)
        return {each[1:] for each in set(sent) - set(arrived)}

    def arrived_phases(name: str, target: str, source: str) -> list[int]:
        return [phase for address, _, phase in key_phases(runs[name], target) if address == source]

    sender, receiver = "10.77.0.1", "10.77.0.2"
    assert {phase for _, _, phase in key_phases(runs["no-fault"], "receiver")} == {0}
    assert {phase for _, phase in lost("key-update-reverse-lost", "receiver", "sender")} == {1}
    assert {phase for _, phase in lost("key-update-forward-lost", "sender", "receiver")} == {1}
    assert arrived_phases("key-update", "receiver", sender) == sorted(arrived_phases("key-update", "receiver", sender))
    late = arrived_phases("key-update-overtaken", "receiver", sender)
    assert late != sorted(late)
    assert 1 in arrived_phases("key-update", "sender", receiver)
