"""`owlt conform` on our endpoints, sound and with planted defects: the suite of the protocol finds each defect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

from tests.system.conftest import PROJECT
from tests.system.fault_trials import PLANTED, Planted, owlt, with_defect

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


def protocol_of(endpoint: str) -> str:
    """The protocol of an endpoint, in the name of its suite."""
    profile: Any = YAML(typ="safe").load((PROJECT / f"profiles/implementations/{endpoint}.yaml").read_text())
    return str(profile["protocol"]).lower()


def conform(folder: Path, defect: str, endpoint: str, planted: Sequence[Planted]) -> dict[str, str]:
    """The verdict on each case of the suite of the protocol that finds one of the defects."""
    profile = with_defect(defect, folder, endpoint, planted[0].parameters)
    suite: Any = YAML(typ="safe").load((PROJECT / f"profiles/suites/{protocol_of(endpoint)}.yaml").read_text())
    suite["cases"] = {each.case: suite["cases"][each.case] for each in planted}
    (folder / "suite.yaml").write_text(json.dumps(suite))
    _, found = owlt(folder, "conform", str(profile), "--suite", "suite.yaml", "--guests", "1")
    (findings,) = found["findings"].values()
    return {finding["case"]: finding["verdict"] for finding in findings}


@pytest.mark.parametrize("defect", PLANTED)
def test_the_suite_of_the_protocol_finds_a_planted_defect(tmp_path: Path, defect: str) -> None:
    planted = PLANTED[defect]

    assert conform(tmp_path, defect, planted.endpoint, [planted]) == {planted.case: "failed"}


@pytest.mark.parametrize("endpoint", sorted({planted.endpoint for planted in PLANTED.values()}))
def test_a_sound_endpoint_passes_the_tests_that_find_defects(tmp_path: Path, endpoint: str) -> None:
    planted = [each for each in PLANTED.values() if each.endpoint == endpoint]

    assert conform(tmp_path, "none", endpoint, planted) == {each.case: "passed" for each in planted}


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
