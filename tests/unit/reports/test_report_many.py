"""Reports of more implementations than there are colours."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain, combinations, islice
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Curve
from matplotlib.text import Text

from owlt.reports.comparison.metrics import METRICS
from owlt.reports.comparison.panels import Figure, listings, needs_listings
from owlt.reports.drawing.boxes import BOXES
from owlt.reports.drawing.line_figures import FRAME
from owlt.reports.drawing.sweep_figures import draw
from owlt.reports.looks import MARKERS, NAMED, SERIES, Looks, named_or_counted
from owlt.reports.page.tables import glance_rows, glance_tables
from owlt.reports.results.load import Results, load_results
from tests.unit.reports.conftest import few, page_text, sweep, write_results

NAMES = ["bp-acs", "bp-cs", "cfdp", "ltp", "norm", "norm-cc", "saratoga", "saratoga-get", "tcp", "udp-blast"]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten implementations, two error rates, a run each."""
    return write_results(tmp_path_factory.mktemp("many"), few(implementations=NAMES, repetitions=1))


@pytest.fixture(scope="module")
def results(many: Path) -> Results:
    return load_results(many)


@pytest.fixture(scope="module")
def page(many: Path, results: Results) -> str:
    return page_text(many, tuple(islice(listings(results), 1)))


def boxes_in(canvas: Canvas) -> int:
    """The number of boxes that were drawn: each is a closed line of one of the paths labelled BOXES."""
    curves = [each.get_path() for each in canvas.findobj(PathPatch) if each.get_label() == BOXES]  # type: ignore[attr-defined]
    return sum(code == Curve.CLOSEPOLY for curve in curves for _, code in curve.iter_segments(simplify=False))


def texts_of(figure: Figure) -> Counter[str]:
    """What a drawn figure says."""
    series = {name: number for number, name in enumerate(figure.implementations)}
    canvas = draw(figure, series)
    return Counter(text.get_text() for text in canvas.findobj(Text))  # type: ignore[attr-defined]


def test_as_many_implementations_as_colours_and_markers_can_tell_apart_look_different() -> None:
    every = [Looks(number) for number in range(len(SERIES) * len(MARKERS))]

    assert len({(looks.colour, looks.marker) for looks in every}) == len(every)


def test_the_first_implementations_differ_in_colour_and_in_marker() -> None:
    first = [Looks(number) for number in range(len(SERIES))]

    assert len({looks.colour for looks in first}) == len({looks.marker for looks in first}) == len(SERIES)


def test_a_sentence_names_few_implementations_and_counts_many() -> None:
    assert named_or_counted(["TCP", "LTP"]) == "TCP and LTP"
    assert named_or_counted(["NORM, parity 8", "LTP"]) == "NORM, parity 8 and LTP"
    assert named_or_counted(["A, 1", "B", "C"]) == "A, 1; B and C"
    assert named_or_counted(["X"] * (NAMED + 1)) == f"{NAMED + 1} implementations"


def test_implementations_beyond_the_colours_are_listed(results: Results, demo: Path) -> None:
    assert needs_listings(results)
    assert not needs_listings(load_results(demo))


def test_listings_of_a_metric_have_every_permutation_once(results: Results) -> None:
    for metric in METRICS:
        figures = [figure for figure in listings(results) if figure.panels[0][0].metric == metric]
        counts = Counter(box.permutation for figure in figures for box in figure.boxes)

        assert counts == Counter(dict.fromkeys(results.planned, 1))


def test_a_listing_has_a_line_for_each_implementation_in_the_order_of_the_sweep(results: Results) -> None:
    for figure in listings(results):
        for panel in chain(*figure.panels):
            assert [box.permutation.implementation for box in panel.boxes[0]] == NAMES


def test_a_drawn_listing_names_each_implementation_once(results: Results) -> None:
    texts = texts_of(next(listings(results)))

    titles = [results.implementations[name] for name in NAMES]
    assert {title: texts[title] for title in titles} == dict.fromkeys(titles, 1)


def test_a_drawn_listing_says_how_many_runs_are_on_each_line(tmp_path: Path) -> None:
    asked = few(implementations=NAMES, repetitions=1, packet_error_rate=0)
    write_results(tmp_path, asked, skip=lambda run: run.permutation.implementation == "tcp")
    texts = texts_of(next(listings(load_results(tmp_path))))

    assert (texts["1"], texts["0/1"]) == (len(NAMES) - 2, 2)  # tcp has no run, and the one of norm no numbers


@pytest.mark.parametrize(("repetitions", "boxes"), [(1, 0), (2, len(NAMES) - 1)])
def test_a_single_run_is_a_point_without_a_box(tmp_path: Path, repetitions: int, boxes: int) -> None:
    asked = few(implementations=NAMES, repetitions=repetitions, packet_error_rate=0)
    figure = next(listings(load_results(write_results(tmp_path, asked))))
    canvas = draw(figure, {name: number for number, name in enumerate(NAMES)})

    assert boxes_in(canvas) == boxes  # of norm, only one run has numbers


def test_no_two_panels_of_a_listing_overlap(results: Results) -> None:
    for figure in listings(results):
        canvas = draw(figure, {name: number for number, name in enumerate(NAMES)})
        frames = [each for each in canvas.findobj(PathPatch) if each.get_label() == FRAME]
        places = [each.get_window_extent() for each in frames]

        assert len(places) == sum(map(len, figure.panels))
        assert not any(one.overlaps(other) for one, other in combinations(places, 2))


def test_the_medians_of_many_are_a_row_for_each_by_name(results: Results) -> None:
    assert glance_rows(results) == []
    for table in glance_tables(results):
        assert list(table.rows) == NAMES


def test_the_tables_of_medians_together_have_every_metric_once(tmp_path: Path) -> None:
    asked = sweep(implementations=NAMES, repetitions=1)
    tables = glance_tables(load_results(write_results(tmp_path, asked, skip=lambda run: run.order > 1)))

    assert len(tables) > 1
    assert [metric.slug for table in tables for metric in table.metrics] == [metric.slug for metric in METRICS]


def test_the_heads_of_a_table_are_over_all_of_its_columns(tmp_path: Path) -> None:
    asked = sweep(implementations=NAMES, repetitions=1)
    table = glance_tables(load_results(write_results(tmp_path, asked, skip=lambda run: run.order > 1)))[0]

    assert [head.name for head in table.heads] == ["delay", "file", "PER"]
    assert [sum(columns for _, columns in head.values) for head in table.heads] == [table.points] * 3


def test_the_medians_of_few_stand_side_by_side(demo: Path) -> None:
    found = load_results(demo)

    assert glance_tables(found) == []
    assert len(glance_rows(found)) == len(found.planned) // len(found.implementations)


def test_a_point_that_the_first_implementation_does_not_have_is_among_the_medians(tmp_path: Path) -> None:
    asked = sweep(repetitions=1, exclude={"implementations": "cfdp", "delay": "1250 ms"})
    found = load_results(write_results(tmp_path, asked, skip=lambda run: run.order > 1))

    planned = [sorted(box.planned for box in row.boxes[0]) for row in glance_rows(found)]
    assert sorted(planned) == [[0, 1]] * 6 + [[1, 1]] * 6


def test_in_the_page_marks_have_a_shape_where_colours_repeat(page: str, reported: Path) -> None:
    assert len(set(re.findall(r'class="mark (shape-\d)" style="--colour: var\((--series-\d)\)', page))) == len(NAMES)
    assert "shape-" not in (reported / "report" / "index.html").read_text().partition("</style>")[2]


def test_every_shape_of_a_marker_has_a_rule(page: str) -> None:
    style = page.partition("</style>")[0]

    assert all(f".shape-{number}" in style for number in range(1, len(MARKERS)))


def test_the_statistics_of_single_runs_are_left_to_the_medians(page: str) -> None:
    assert 'class="statistics"' not in page
    assert 'there are only the <a href="#glance">medians</a>' in page


def test_every_drawing_in_the_page_says_how_wide_it_is(page: str) -> None:
    drawings = re.findall(r'<svg [^>]*role="group"[^>]*>', page)

    assert drawings
    assert all(re.search(r'style="--inches: [1-9][\d.]*"', drawing) for drawing in drawings)
