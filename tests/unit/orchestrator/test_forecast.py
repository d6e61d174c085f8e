"""The forecast of a sweep: cells, what is recorded, what cannot complete, time, disk and memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from owlt.agents.contract.limits import TimeLimit
from owlt.orchestrator.planning.estimate import infeasible
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.sweep.forecast import Forecast, forecast, texts
from owlt.orchestrator.sweep.machine import missing_memory
from tests.unit.orchestrator.test_plan import planned, planned_over, with_profile


def shown(plan: Plan, recorded: set[str], directory: Path) -> str:
    return "\n".join(texts(forecast(plan, recorded, directory), directory))


def of(plan: Plan, directory: Path, recorded: set[str] | None = None) -> Forecast:
    return forecast(plan, recorded or set(), directory)


def limited(plan: Plan, **seconds: float) -> Plan:
    return with_profile(plan, time_limit=TimeLimit(**({"rtts": 0.0, "file_times": 0.0, "extra_s": 0.0} | seconds)))


def reasons(plan: Plan) -> set[str | None]:
    return {
        infeasible(run, plan.implementations["cfdp"])
        for run in plan.runs
        if run.permutation.implementation == "cfdp" and run.permutation.file_size_bytes == 10**6
    }


def test_a_time_limit_below_the_round_trip_is_infeasible() -> None:
    plan = limited(planned(delay="25 ms"), extra_s=0.04)

    assert reasons(plan) == {"the time limit of 0.04 s is below the round trip of 0.05 s"}


def test_a_time_limit_below_the_transfer_at_the_line_rate_is_infeasible() -> None:
    plan = limited(planned(), extra_s=0.79)

    assert reasons(plan) == {"the time limit is 0.79 s, and 1 MB take 0.8 s at the line rate"}


def test_a_time_limit_of_the_transfer_at_the_line_rate_is_feasible() -> None:
    assert reasons(limited(planned(), extra_s=0.81)) == {None}


def test_the_line_rate_of_a_channel_that_changes_is_not_judged() -> None:
    plan = limited(planned_over("moving"), rtts=1)

    assert reasons(plan) == {None}


def test_a_file_beyond_the_limit_of_an_implementation_is_infeasible_with_both_sizes() -> None:
    plan = planned()
    limits = plan.implementations["cfdp"].limits.model_copy(update={"largest_file_bytes": 500_000})

    assert reasons(with_profile(plan, limits=limits)) == {
        "a file of 1000000 bytes; the profile's largest_file_bytes is 500000"
    }


def test_infeasible_cells_are_counted_and_cost_no_time(tmp_path: Path) -> None:
    plan = limited(planned(), extra_s=0.04)
    seen = of(plan, tmp_path)

    assert {cell.name.partition("_")[0] for cell in seen.infeasible} == {"cfdp"}
    assert seen.times[0].wall_s < of(planned(), tmp_path).times[0].wall_s
    assert "infeasible: 4 of 8 cells, 12 runs; they are recorded as unsupported" in shown(plan, set(), tmp_path)


def test_every_cell_has_its_runs_and_those_that_are_recorded(tmp_path: Path) -> None:
    plan = planned()
    recorded = {run.run_id for run in plan.runs if run.repetition == 1}
    seen = of(plan, tmp_path, recorded)

    assert [(cell.runs, cell.recorded) for cell in seen.cells] == [(3, 1)] * 8
    assert (seen.recorded, seen.left, seen.estimate.runs) == (8, 16, 16)


def test_cells_are_in_the_order_of_the_grid(tmp_path: Path) -> None:
    names = [cell.name for cell in of(planned(), tmp_path).cells]

    assert names[:4] == [
        "cfdp_100kB_10Mbps_25ms_per0",
        "cfdp_100kB_10Mbps_25ms_per0.01",
        "cfdp_1MB_10Mbps_25ms_per0",
        "cfdp_1MB_10Mbps_25ms_per0.01",
    ]


def test_the_version_of_ip_is_before_the_link_in_the_order_of_cells(tmp_path: Path) -> None:
    names = [cell.name for cell in of(planned(ip=[6, 4]), tmp_path).cells]

    assert names[:4] == [
        "cfdp_100kB_10Mbps_25ms_per0",
        "cfdp_100kB_10Mbps_25ms_per0.01",
        "cfdp_100kB_ipv6_10Mbps_25ms_per0",
        "cfdp_100kB_ipv6_10Mbps_25ms_per0.01",
    ]


def test_a_finished_sweep_needs_nothing(tmp_path: Path) -> None:
    plan = planned()

    assert shown(plan, {run.run_id for run in plan.runs}, tmp_path) == f"24 of 24 runs recorded in {tmp_path}, 0 left"


def test_the_time_on_the_real_clock_is_at_least_that_of_the_transfers(tmp_path: Path) -> None:
    plan = planned(delay="10 s")
    transfers_s = sum(run.rtt_s + run.file_time_s for run in plan.runs)

    [exact, real] = of(plan, tmp_path).times
    assert exact.wall_s < transfers_s < real.wall_s


@pytest.mark.parametrize("keep", ["full", "headers", "none"])
def test_what_is_kept_of_captures_decides_the_disk_space(tmp_path: Path, keep: str) -> None:
    needs = of(planned(keep_captures=keep, file_size="10 MB"), tmp_path).resources.disk_bytes
    transferred = 12 * 10 * 10**6

    assert {"full": needs > 2 * transferred, "headers": 0.2 < needs / transferred < 0.4, "none": needs < 5e6}[keep]


def test_a_longer_round_trip_needs_larger_guests(tmp_path: Path) -> None:
    size = "1 GB"
    near, far = (
        of(planned(rate="1 Gbit/s", delay=delay, file_size=size), tmp_path).resources for delay in ("5 ms", "5 s")
    )

    assert far.guest_bytes > near.guest_bytes + 3 * 5 * 10**9 / 8


def test_what_is_not_enough_is_said(tmp_path: Path) -> None:
    plan = planned(file_size="900 GB", keep_captures="full")

    assert "not enough: free some space" in shown(plan, set(), tmp_path)
    assert "not enough: use fewer --guests" in shown(plan, set(), tmp_path)


def test_the_disk_of_results_that_do_not_exist_yet_is_that_of_their_directory(tmp_path: Path) -> None:
    assert forecast(planned(), set(), tmp_path / "not" / "yet").resources.disk_free_bytes > 0


def test_a_guest_that_needs_more_memory_than_the_machine_has_is_named_with_both_sizes() -> None:
    plan = planned(file_size=["1 MB", "2 GB"])

    [mistake] = missing_memory(plan, machine_bytes=8 * 10**9)

    size = r"the guest needs 16\.5 GB of memory, the machine has 8\.0 GB \(and the same for 3 more cells"
    assert re.search(rf"\w+_2GB_\S+: {size}", str(mistake))


def test_a_sweep_of_small_files_fits_into_the_memory() -> None:
    assert list(missing_memory(planned(), machine_bytes=10**9)) == []


def test_a_cell_that_is_infeasible_anyway_needs_no_memory() -> None:
    plan = limited(planned(file_size="2 GB", implementations=["cfdp"]), extra_s=0.04)

    assert list(missing_memory(plan, machine_bytes=10**9)) == []


def test_cells_whose_guests_do_not_fit_are_listed_with_the_reason_and_are_refused(tmp_path: Path) -> None:
    plan = planned(file_size=["1 MB", "2 GB"])

    seen = forecast(plan, set(), tmp_path, machine_bytes=8 * 10**9)

    assert {cell.infeasible for cell in seen.cells if "_2GB_" in cell.name} == {
        "the guest needs 16.5 GB of memory, the machine has 8.0 GB"
    }
    assert {cell.infeasible for cell in seen.cells if "_1MB_" in cell.name} == {""}
    assert (len(seen.refused), seen.infeasible) == (4, ())
    assert "too large for this machine: 4 of 8 cells, 12 runs; 'owlt run' refuses them" in "\n".join(
        texts(seen, tmp_path)
    )


def test_cells_that_do_not_fit_and_are_recorded_are_no_longer_refused(tmp_path: Path) -> None:
    plan = planned(file_size=["1 MB", "2 GB"])
    recorded = {run.run_id for run in plan.runs if run.permutation.file_size_bytes == 2 * 10**9}

    assert forecast(plan, recorded, tmp_path, machine_bytes=8 * 10**9).refused == ()


def test_a_forecast_of_selected_runs_is_about_these_only(tmp_path: Path) -> None:
    plan = planned()
    selected = {run.run_id for run in plan.runs if run.permutation.file_size_bytes == 10**6}
    recorded = {run.run_id for run in plan.runs if run.repetition == 1}

    seen = forecast(plan, recorded, tmp_path, selected=selected)

    assert {cell.name.split("_")[1] for cell in seen.cells} == {"1MB"}
    assert (seen.runs, seen.recorded, seen.left, seen.estimate.runs) == (12, 4, 8, 8)
