"""The box plots of the first screen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import quantiles

import pytest

from owlt.reports.answer.cell_verdicts import verdicts
from owlt.reports.comparison.cells import DELIVERY, GOODPUT, TO_DELIVERY, Cell, Criterion, cells_of
from owlt.reports.comparison.theory import Comparison, Expectation, comparisons_of
from owlt.reports.drawing.link_boxes import CriterionBoxes, LinkBoxes, boxes_of_links
from owlt.reports.results.load import load_results
from tests.unit.reports.conftest import FAILED, FAILURE, change_record, few, sweep, write_results


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Cell]:
    """Two delays, two file sizes, three error rates."""
    return cells_of(load_results(write_results(tmp_path_factory.mktemp("results"), sweep(repetitions=4))).rows)


def boxes(cells: Sequence[Cell], criterion: Criterion = GOODPUT, theory: Sequence[Comparison] = ()) -> CriterionBoxes:
    found = {each.point: each for each in verdicts(cells, criterion)}
    return boxes_of_links(cells, criterion, found, {(each.name, each.point): each for each in theory})


def places_of(link: LinkBoxes, drawing: str) -> list[float]:
    """The places of points, in percent of the width."""
    return [float(x) / 20 for x in re.findall(r"M([\d.]+) [\d.]+h0", drawing)]


def test_every_cell_is_a_panel_of_one_link(cells: list[Cell]) -> None:
    links = boxes(cells).links
    points = [panel.point for link in links for panel in link.panels]

    assert sorted(points) == sorted(cell.point for cell in cells)
    assert [link.places for link in links] == [
        ("25 ms", "", "100 kB"),
        ("25 ms", "", "1 MB"),
        ("1250 ms", "", "100 kB"),
        ("1250 ms", "", "1 MB"),
    ]
    assert [panel.title for panel in links[0].panels] == ["PER 0", "PER 0.001", "PER 0.01"]


def test_the_largest_file_is_shown_first(cells: list[Cell]) -> None:
    found = boxes(cells)

    assert found.first.places == ("1250 ms", "", "1 MB")


def test_with_many_lines_each_cell_is_a_link_of_its_own(cells: list[Cell]) -> None:
    many = [
        Cell(cell.point, {f"{name}{copy}": each for copy in range(5) for name, each in cell.samples.items()})
        for cell in cells
    ]

    assert {len(link.panels) for link in boxes(many).links} == {1}
    assert boxes(many).links[0].places == ("25 ms", "0", "100 kB")


def test_points_are_where_the_ticks_say(cells: list[Cell]) -> None:
    link = boxes(cells).links[0]
    (_, first, _), (last_at, last, _) = link.ticks[0], link.ticks[-1]
    (first_at, *_), *_ = link.ticks
    per_percent = (float(last) - float(first)) / (last_at - first_at)
    sample = next(cell for cell in cells if cell.point == link.panels[0].point).samples["cfdp"]
    (line,) = [each for each in link.panels[0].lines if each.name == "cfdp"]

    shown = [float(first) + (at - first_at) * per_percent for at in places_of(link, line.drawing)]
    assert shown == pytest.approx(sample.values(GOODPUT.metric), rel=0.01)


def test_the_box_has_the_quartiles(cells: list[Cell]) -> None:
    link = next(link for link in boxes(cells).links if link.ticks[0][:2] == (0.0, "0"))  # from 0: in proportion
    cell = next(cell for cell in cells if cell.point == link.panels[-1].point)
    expected = quantiles(cell.samples["norm"].values(GOODPUT.metric), method="inclusive")
    (line,) = [each for each in link.panels[-1].lines if each.name == "norm"]
    low, high = map(float, re.search(r'class="box" d="M([\d.]+) 6H([\d.]+)V', line.drawing).groups())  # type: ignore[union-attr]
    (middle,) = re.findall(r'class="median" d="M([\d.]+) ', line.drawing)
    whole = float(middle) / expected[1]

    assert (low / whole, high / whole) == pytest.approx((expected[0], expected[2]), rel=0.01)


def test_a_median_has_the_unit_that_suits_the_link(cells: list[Cell]) -> None:
    slow = [
        Cell(
            cell.point,
            {
                name: replace(
                    sample,
                    rows=tuple(
                        row | {"goodput_bps": row["goodput_bps"] and row["goodput_bps"] / 1e4} for row in sample.rows
                    ),
                )
                for name, sample in cell.samples.items()
            },
        )
        for cell in cells
    ]

    assert {link.axis for link in boxes(cells).links} == {"Goodput (Mbit/s)", "Goodput (kbit/s)"}
    assert {link.axis for link in boxes(slow).links} == {"Goodput (bit/s)"}
    assert all("⁻" not in line.value for link in boxes(slow).links for panel in link.panels for line in panel.lines)


def test_files_that_were_not_delivered_are_counted_in_red(tmp_path: Path) -> None:
    asked = few()
    assert FAILED.startswith("cfdp")
    link = boxes(cells_of(load_results(write_results(tmp_path, asked)).rows)).links[0]
    lines = {(panel.value, each.name): each for panel in link.panels for each in panel.lines}

    assert (lines["0.01", "cfdp"].n, lines["0.01", "cfdp"].is_short) == ("2 of 3 delivered", True)
    assert (lines["0", "cfdp"].n, lines["0", "cfdp"].is_short) == ("n = 3", False)


def test_shares_are_drawn_from_0_to_100_however_low_one_of_them_may_be(tmp_path: Path) -> None:
    results = write_results(tmp_path, few(repetitions=2))  # 1 of 2: from 9 % to 91 %; 2 of 2: to 100 %
    change_record(results, FAILED.replace("_r3", "_r2"), outcome="failed", reason_code="exited", reason=FAILURE)

    link = boxes(cells_of(load_results(results).rows), DELIVERY).links[0]

    assert (link.ticks[0][:2], link.ticks[-1][:2]) == ((0.0, "0"), (100.0, "100"))


def test_theory_is_drawn_for_the_time_until_the_file_is_delivered_only(cells: list[Cell]) -> None:
    theory = comparisons_of(cells)
    drawn = [
        line.drawing
        for link in boxes(cells, TO_DELIVERY, theory).links
        for panel in link.panels
        for line in panel.lines
    ]
    others = [
        line.drawing for link in boxes(cells, GOODPUT, theory).links for panel in link.panels for line in panel.lines
    ]

    assert theory
    assert sum("expected" in each or "bound" in each for each in drawn) == len(theory)
    assert not any("expected" in each or "bound" in each for each in others)


def expected(cells: Sequence[Cell], factor: float, high: float) -> list[Comparison]:
    """A theory whose bounds are the measured time divided by a factor, and so many times that."""
    return [
        replace(each, expected=Expectation("repair rounds", each.measured_s / factor, high * each.measured_s / factor))
        for each in comparisons_of(cells)
        if each.name == "cfdp"
    ]


@pytest.mark.parametrize(
    ("factor", "high", "text"),
    [
        (1.0, 1.5, "Theory (grey): cfdp is as expected."),
        (2.0, 1.0, "Theory (grey): cfdp takes 2 times the longest expected time (PER 0)."),
        (0.5, 9.0, "Theory (grey): cfdp takes 0.5 times the shortest possible time (PER 0)."),
        (4.0, float("inf"), "Theory (grey): cfdp takes 4 times the shortest possible time."),
    ],
)
def test_the_distance_from_theory_is_said(cells: list[Cell], factor: float, high: float, text: str) -> None:
    assert {link.theory for link in boxes(cells, TO_DELIVERY, expected(cells, factor, high)).links} == {text}
