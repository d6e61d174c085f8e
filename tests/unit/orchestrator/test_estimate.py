"""The line about a plan's duration, and the disk space of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.agents.contract.implementation import Clock
from owlt.orchestrator.planning.estimate import FIRST_GUEST_WALL_S, Estimate, certificate_wall_s, disk_bytes, estimate
from owlt.orchestrator.planning.plan import Plan, Run
from owlt.orchestrator.planning.selection import Selection
from owlt.orchestrator.profiles.catalogue import PROFILES, resolve
from tests.unit.orchestrator.performing import Stage
from tests.unit.orchestrator.small_sweep import small_plan


@pytest.mark.parametrize(("runs", "text"), [(1, "1 run, about"), (2, "2 runs, about")])
def test_one_run_is_not_called_runs(runs: int, text: str) -> None:
    assert Estimate(runs, rig_s=2, wall_s=4, side_by_side=1).text.startswith(text)


def test_the_sweep_of_the_main_paper_is_estimated_within_a_factor_of_one_and_a_half_of_what_it_took() -> None:
    """5,760 runs took 42 min 37 s on two cores."""
    expected = estimate(resolve(PROFILES / "sweeps" / "grc-nack-2012.yaml"))

    assert 1 / 1.5 < expected.wall_s * expected.side_by_side / 2 / (42 * 60 + 37) < 1.5


@pytest.mark.parametrize("clock", ["exact", "real"])
def test_only_the_channels_of_runs_that_are_left_are_certified(clock: Clock) -> None:
    plan = small_plan(clock, certify=True, runs_per_guest=1)
    first_s = FIRST_GUEST_WALL_S if clock == "exact" else 0.0
    [first, *_] = plan.runs
    on_its_channel = [run for run in plan.runs if run.channel_key == first.channel_key]

    def work_s(left: int) -> float:
        expected = estimate(plan, left=on_its_channel[:left])
        return (expected.wall_s - first_s) * expected.side_by_side

    assert len(on_its_channel) == 2
    assert work_s(2) - 2 * work_s(1) == pytest.approx(certificate_wall_s(clock), rel=0.01)


def test_guests_are_booted_for_the_selected_runs_only() -> None:
    plan = small_plan("skip", repetitions=20, runs_per_guest=1)
    alone = Selection(frozenset({plan.runs[0].run_id})).alone(plan)

    def wall_s(of: Plan) -> float:
        return estimate(of, guests=1).wall_s - FIRST_GUEST_WALL_S

    assert wall_s(alone) == pytest.approx(wall_s(plan) / len(plan.runs))


def run_of(directory: Path, **point: object) -> Run:
    """A run with other values of its point of the grid."""
    (run,) = Stage(directory).plan.runs
    return run.model_copy(update={"permutation": run.permutation.model_copy(update=point)})


def test_a_file_takes_space_on_every_host(tmp_path: Path) -> None:
    run = run_of(tmp_path, file_size_bytes=100_000)

    assert {disk_bytes(run, role, False) for role in ("sender", "emulator", "receiver")} == {400_000}


@pytest.mark.parametrize(("rate_bps", "sent_bytes"), [(8e6, 600_000_000), (None, 75_000_000_000)])
def test_data_sent_for_a_duration_are_captured_twice_at_the_emulator(
    rate_bps: float | None, sent_bytes: int, tmp_path: Path
) -> None:
    run = run_of(tmp_path, file_size_bytes=None, duration_ns=600 * 10**9, rate_bps=rate_bps)

    assert disk_bytes(run, "emulator", False) == 2 * sent_bytes
    assert (disk_bytes(run, "sender", False), disk_bytes(run, "sender", True)) == (0, sent_bytes)
