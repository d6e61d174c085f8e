"""Conditions, cells, colours, filters and box plots, from values alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.orchestrator.dashboard.index import (
    GOODPUT,
    LEVELS,
    NO_MEASURES,
    Condition,
    Measures,
    RunRow,
    SweepIndex,
    cell_of,
    planned_cells,
)
from owlt.orchestrator.dashboard.sweep_content import (
    Filter,
    box_plot,
    changed_cells,
    choices,
    condition_title,
    matrix_of,
    varying,
)
from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.orchestrator.sweep.state import RunState
from owlt.results.permutation import Permutation
from owlt.results.plan import WrittenPlan, read_written_plan
from owlt.results.record import Outcome
from tests.unit.reports.conftest import plan_of, sweep

POINT = Permutation(
    implementation="", file_size_bytes=1_000_000, rate_bps=8e6, delay_ns=500_000_000, packet_error_rate=0
)
CONDITION = Condition("1MB", POINT)


def row(
    number: int, goodput: float | None = None, outcome: Outcome | None = Outcome.COMPLETED, **changes: object
) -> RunRow:
    state = RunState(f"r{number}", "cfdp", "1MB", number, number, outcome, **changes)  # type: ignore[arg-type]
    return RunRow(state, Measures({**NO_MEASURES.columns, GOODPUT.key: None if goodput is None else 1e6 * goodput}))


@pytest.fixture
def plan(results: Path) -> WrittenPlan:
    return read_written_plan(results / "plan.json")


def test_a_condition_has_the_runs_of_every_implementation(plan: WrittenPlan) -> None:
    cells = planned_cells(plan)

    assert [(each.condition.key, each.implementation, len(each.run_ids)) for each in cells] == [
        ("1MB_10Mbps_25ms_per0", "cfdp", 3),
        ("1MB_10Mbps_25ms_per0", "norm", 3),
        ("1MB_10Mbps_25ms_per0.01", "cfdp", 3),
        ("1MB_10Mbps_25ms_per0.01", "norm", 3),
    ]


def test_baseline_runs_are_further_runs_of_their_cell(tmp_path: Path) -> None:
    baseline = {"every": 2, "implementations": "cfdp", "packet_error_rate": 0}
    asked = sweep(file_size="1 MB", delay="25 ms", packet_error_rate=[0, 0.01], repetitions=2, baseline=baseline)
    write_plan(plan_of(asked), tmp_path)

    snapshot = SweepIndex(tmp_path).snapshot()

    cells = {(each.condition.key, each.implementation): len(each.run_ids) for each in snapshot.planned}
    assert cells["1MB_10Mbps_25ms_per0", "cfdp"] > 2
    assert cells["1MB_10Mbps_25ms_per0", "norm"] == 2


def test_the_highest_goodput_is_the_file_over_its_time_and_a_round_trip() -> None:
    assert CONDITION.best_goodput_bps == pytest.approx(8e6 / (1 + 1))


def test_a_channel_without_rate_and_delay_has_no_highest_goodput() -> None:
    unlimited = Condition("free", POINT.model_copy(update={"rate_bps": None, "delay_ns": 0}))

    assert unlimited.best_goodput_bps is None


@pytest.mark.parametrize(("share", "level"), [(0.001, 0), (0.01, 1), (0.6, 5), (0.95, len(LEVELS))])
def test_the_colour_follows_the_share_of_the_highest_goodput(share: float, level: int) -> None:
    assert cell_of(CONDITION, [row(1, share * 4)]).level == level


def test_a_cell_counts_its_states() -> None:
    rows = [
        row(1, 2.0),
        row(2, None, Outcome.FAILED),
        row(3, None, Outcome.ABORTED),
        row(4, None, Outcome.UNSUPPORTED),
        row(5, 4.0, suspect=("doubt",)),
        row(6, None, None),
        row(7, None, Outcome.QUARANTINED),
    ]

    cell = cell_of(CONDITION, rows)

    counts = cell.counts
    assert (counts.planned, counts.with_record, counts.undelivered, counts.suspect) == (7, 6, 2, 1)
    assert (counts.unsupported, counts.quarantined) == (1, 1)
    assert (cell.goodput, cell.level) == (3.0, 6)
    assert cell.states == {"open", "failed", "suspect", "unsupported", "quarantined"}


def test_only_values_of_the_address_that_are_filters_select() -> None:
    selected = Filter.of_query({"file": ["1 MB"], "state": [""], "unknown": ["x"]})

    assert selected.query == "file=1+MB"


def test_a_filter_selects_cells_by_dimension_and_implementation(results: Path) -> None:
    snapshot = SweepIndex(results).snapshot()

    matrix = matrix_of(snapshot, Filter.of_query({"implementation": ["norm"], "per": ["0.01"]}))

    assert (matrix.implementations, [row.heads for row in matrix.rows]) == (("norm",), [("0.01",)])


def test_a_state_selects_cells(results: Path) -> None:
    snapshot = SweepIndex(results).snapshot()

    assert matrix_of(snapshot, Filter.of_query({"state": ["done"]})).rows == ()
    assert len(matrix_of(snapshot, Filter.of_query({"state": ["open"]})).rows) == 2


def test_only_dimensions_that_vary_have_a_column(plan: WrittenPlan) -> None:
    assert [each.name for each in varying(planned_cells(plan))] == ["per"]


def test_a_form_offers_the_values_of_the_grid(plan: WrittenPlan) -> None:
    offered = {choice.name: choice.values for choice in choices(planned_cells(plan))}

    assert (offered["implementation"], offered["per"]) == (("cfdp", "norm"), ("0", "0.01"))


def test_the_title_of_a_condition_says_what_varies(plan: WrittenPlan) -> None:
    planned = planned_cells(plan)

    assert condition_title(planned, planned[-1].condition) == "PER 0.01"


def test_changed_cells_are_those_after_a_version_in_any_state(results: Path) -> None:
    snapshot = SweepIndex(results).snapshot()
    selected = Filter.of_query({"implementation": ["cfdp"], "state": ["done"]})

    assert len(changed_cells(snapshot, selected, since=0)) == 2
    assert changed_cells(snapshot, selected, since=snapshot.version) == []


def test_a_box_needs_three_values_and_every_value_has_a_dot() -> None:
    rows = {"cfdp": [row(1, 1.0), row(2, 2.0), row(3, 4.0)], "norm": [row(4, 3.0), row(5, None, None)]}

    plot = box_plot(rows, GOODPUT, {"cfdp": 0, "norm": 1})

    assert [(each.box is not None, len(each.dots), each.planned) for each in plot.rows] == [(True, 3, 3), (False, 1, 2)]


def test_dots_lie_between_the_ticks_in_the_order_of_their_values() -> None:
    plot = box_plot({"cfdp": [row(1, 1.0), row(2, 2.0), row(3, 4.0)]}, GOODPUT, {})

    places = [dot.x for dot in plot.rows[0].dots]
    assert places == sorted(places)
    assert plot.ticks[0][0] <= places[0] < places[-1] <= plot.ticks[-1][0]


@pytest.mark.parametrize("name", ["ltp", "LTP, red segment 1400 B, report segments 12"])
def test_a_long_name_has_room_at_the_left_of_the_axis(name: str) -> None:
    plot = box_plot({name: [row(1, 1.0), row(2, 2.0)]}, GOODPUT, {})

    assert plot.left - 10 >= 7.5 * len(name)
    assert plot.width > plot.right > plot.left


@pytest.mark.parametrize("values", [[], [5.0], [0.0, 0.0], [1e-9, 1e9]])
def test_any_values_have_an_axis(values: list[float]) -> None:
    plot = box_plot({"cfdp": [row(number, value) for number, value in enumerate(values)]}, GOODPUT, {})

    assert len(plot.ticks) >= 2
