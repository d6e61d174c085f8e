"""The suites of `owlt conform` on our endpoints, sound and with planted defects: each defect is found by its case."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from owlt.orchestrator.checks.fault_cases import PLAIN_CHANNEL, plan_of_cases
from owlt.orchestrator.checks.suites import SuiteCase, find_suite, finding_of, in_case
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.results.record import read_record
from owlt.results.recorded_runs import run_directory
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
