"""The host baselines around a sweep on a lab rig, as plans."""

from __future__ import annotations

import pytest

from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.profiles.catalogue import find_implementation, resolve
from owlt.orchestrator.sweep.campaign import file_baseline, iperf3_baseline
from tests.unit.orchestrator.test_lab import DEMO


@pytest.fixture(scope="module")
def plan() -> Plan:
    return resolve(DEMO, in_lab=True)


def test_each_implementation_of_the_sweep_transfers_one_file_without_a_channel(plan: Plan) -> None:
    runs = file_baseline(plan, 100_000_000).runs

    assert sorted(run.permutation.implementation for run in runs) == sorted(plan.implementations)
    assert {(run.permutation.file_size_bytes, run.permutation.rate_bps, run.permutation.delay_ns) for run in runs} == {
        (100_000_000, None, 0)
    }


def test_iperf3_sends_once_without_a_channel(plan: Plan) -> None:
    (run,) = iperf3_baseline(plan, find_implementation("iperf3")).runs

    assert (run.permutation.duration_ns, run.permutation.rate_bps) == (10_000_000_000, None)


def test_a_host_baseline_is_performed_on_the_rig_of_its_sweep(plan: Plan) -> None:
    sweep = file_baseline(plan, 1_000_000).sweep

    assert (sweep.rig, sweep.clock, sweep.certify) == ("lab", "real", False)
