"""Which figures there are, what is in them, and on which scales."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from owlt.reports.comparison.cells import box_of, cells_of
from owlt.reports.comparison.grid import DELAY
from owlt.reports.comparison.metrics import METRICS, MetricKind
from owlt.reports.comparison.panels import BOXES_ACROSS, Figure, comparisons, portraits
from owlt.reports.comparison.theory import comparisons_of
from owlt.reports.drawing.scales import Kind, scale_for, scales_of
from owlt.reports.drawing.sweep_figures import draw
from owlt.reports.page.figure_files import bounds_by_permutation
from owlt.reports.results.load import Results, load_results
from owlt.reports.results.rows import run_rows
from owlt.results.permutation import Permutation
from tests.unit.reports.conftest import few, named, sweep, write_results


@pytest.fixture(scope="module")
def results(demo: Path) -> Results:
    return load_results(demo)


COMPARED = ("goodput", "goodput-to-delivery", "str", "rts", "total-data", "normalized-goodput")


@pytest.fixture
def figures_of(tmp_path: Path) -> Any:
    """The comparisons of a sweep none of whose runs but one has a record."""

    def of(**changes: Any) -> list[Figure]:
        asked = sweep(**changes)
        return list(comparisons(load_results(write_results(tmp_path, asked, skip=lambda run: run.order > 1))))

    return of


def permutations_in(figure: Figure) -> list[Any]:
    return [box.permutation for panel in chain(*figure.panels) for box in chain(*panel.boxes)]


def test_each_metric_is_compared_against_error_rate_and_against_file_size(results: Results) -> None:
    assert [figure.name for figure in comparisons(results)] == [
        *(f"{metric}-against-{axis}-10Mbps" for metric in COMPARED for axis in ("error-rate", "file-size")),
        "time-to-delivery-against-delay-10Mbps",
    ]


def test_the_time_to_delivery_is_compared_against_several_delays_with_a_row_for_each_file_size(
    results: Results, figures_of: Any
) -> None:
    figure = list(comparisons(results))[-1]
    box = figure.panels[1][2].boxes[1][0]
    goodput = box_of(results, box.permutation, METRICS[1])

    assert [panel.categories for panel in chain(*figure.panels)] == [("25 ms", "1250 ms")] * 6
    assert [panels[0].title for panels in figure.panels] == ["100 kB · PER 0", "1 MB · PER 0"]
    assert (box.permutation.delay_ns, box.permutation.file_size_bytes) == (1_250_000_000, 1_000_000)
    assert figure.caption.endswith(
        "10 Mbit/s both ways; rows: files of 100 kB and 1 MB; columns: packet error rate 0, 0.001 and 0.01."
    )
    assert [value for _, value in box.values] == pytest.approx([8 / value for _, value in goodput.values])
    assert not [figure for figure in figures_of(delay=["25 ms"]) if figure.axis == DELAY]


def test_a_comparison_has_every_permutation_once(results: Results) -> None:
    for figure in comparisons(results):
        assert sorted(map(repr, permutations_in(figure))) == sorted(map(repr, results.planned))


def test_the_portraits_of_an_implementation_have_only_its_permutations(results: Results) -> None:
    for figure in portraits(results):
        assert {point.implementation for point in permutations_in(figure)} == set(figure.implementations)


def test_implementations_are_side_by_side_in_every_category(results: Results) -> None:
    for panel in chain.from_iterable(chain(*figure.panels) for figure in comparisons(results)):
        assert {tuple(box.permutation.implementation for box in boxes) for boxes in panel.boxes} == {("cfdp", "norm")}


def test_no_error_has_a_category_of_its_own(results: Results) -> None:
    assert next(comparisons(results)).panels[0][0].categories == ("0", "0.001", "0.01")


def test_rates_never_share_a_figure(figures_of: Any) -> None:
    figures = figures_of(rate=["1 Mbit/s", "10 Mbit/s"])

    assert {len({point.rate_bps for point in permutations_in(figure)}) for figure in figures} == {1}


def test_nothing_is_drawn_against_a_dimension_with_one_value(figures_of: Any) -> None:
    assert {figure.axis.slug for figure in figures_of(file_size="1 MB", delay="25 ms")} == {"error-rate"}


def test_a_figure_with_too_many_boxes_becomes_several(figures_of: Any) -> None:
    figures = figures_of(
        file_size=["10 kB", "100 kB", "1 MB", "10 MB"], packet_error_rate=[0, 1e-5, 1e-4, 0.001, 0.01, 0.1]
    )

    assert max(sum(len(panel.categories) for panel in figure.panels[0]) * 2 for figure in figures) <= BOXES_ACROSS


def test_the_parts_of_a_figure_together_have_every_permutation_once(figures_of: Any) -> None:
    figures = figures_of(packet_error_rate=[0, 1e-6, 1e-5, 1e-4, 0.001, 0.01, 0.1, 0.2, 0.3])

    parts = [figure for figure in figures if figure.name.startswith("str-against-file-size")]
    drawn = list(chain.from_iterable(map(permutations_in, parts)))

    assert (len(parts), len(drawn), len(set(drawn))) == (2, 72, 72)


def test_no_two_figures_have_one_name(figures_of: Any) -> None:
    names = [figure.name for figure in figures_of(packet_error_rate=[0, 1e-6, 1e-5, 1e-4, 0.001, 0.01, 0.1, 0.2, 0.3])]

    assert len(set(names)) == len(names)


def test_goodput_has_one_scale_along_a_row(results: Results) -> None:
    figure = next(comparisons(results))

    top_left, top_right, bottom_left, bottom_right = scales_of(figure)

    assert top_left == top_right != bottom_left == bottom_right


def test_packet_counts_against_error_rate_have_one_scale_for_each_file_size(results: Results) -> None:
    figure = next(figure for figure in comparisons(results) if figure.name.startswith("str-against-error-rate"))

    top_left, top_right, bottom_left, bottom_right = scales_of(figure)

    assert top_left == bottom_left != top_right == bottom_right


def to_delivery(results: Results) -> Figure:
    return next(
        figure for figure in comparisons(results) if figure.name.startswith("goodput-to-delivery-against-error")
    )


def test_what_theory_expects_is_drawn_behind_the_boxes_of_its_permutation(results: Results) -> None:
    figure = to_delivery(results)
    first, second = (box.permutation for box in figure.boxes[:2])
    artists = draw(figure, results.series, {first: (4.0, 9.0), second: (0.0, 9.5)}).artists

    (band,) = [each for each in artists if isinstance(each, Rectangle)]
    assert (band.get_y(), band.get_y() + band.get_height()) == (4.0, 9.0)
    (line,) = [each for each in artists if isinstance(each, Line2D) and list(each.get_ydata()) == [9.5, 9.5]]
    assert band.get_x() < line.get_xdata()[0]


def test_figures_of_other_measures_have_no_theory(results: Results) -> None:
    figure = next(comparisons(results))
    artists = draw(figure, results.series, {box.permutation: (4.0, 9.0) for box in figure.boxes}).artists

    assert not [each for each in artists if isinstance(each, Rectangle)]


def test_a_scale_reaches_the_bounds_of_theory(results: Results) -> None:
    figure = to_delivery(results)
    bounds = {figure.boxes[0].permutation: (0.0, 1000.0)}

    assert scales_of(figure)[0].high < 1000 < scales_of(figure, bounds)[0].high


def test_the_bounds_of_theory_are_those_of_the_time_to_delivery(results: Results) -> None:
    medians = comparisons_of(cells_of(run_rows(results)))
    bounds = bounds_by_permutation(results, medians)

    assert len(bounds) == len(results.planned)
    for each in medians:
        low, high = bounds[Permutation(implementation=each.name, **each.point._asdict())]
        bits = 8 * (each.point.file_size_bytes or 0) / 1e6
        assert (bits / high, bits / low) == pytest.approx((each.expected.low_s, each.expected.high_s))


def test_values_that_span_more_than_a_decade_are_on_a_logarithmic_scale(results: Results) -> None:
    assert {scale.kind for scale in scales_of(next(comparisons(results)))} == {"log"}


def test_a_sweep_without_a_single_value_has_figures_all_the_same(tmp_path: Path) -> None:
    results = load_results(write_results(tmp_path, few(), skip=lambda run: "per0.01_r3" not in run.run_id))

    assert scales_of(next(comparisons(results)))


def test_rates_on_a_linear_scale_begin_at_zero() -> None:
    assert scale_for("linear", [9.1, 9.2], "rate").low == 0


def test_counts_that_lie_close_together_do_not_begin_at_zero() -> None:
    assert scale_for("linear", [980, 994], "count").low > 900


def test_amounts_that_lie_close_together_do_not_either() -> None:
    scale = scale_for("linear", [0.105, 0.108], "amount")

    assert 0.1 < scale.low < scale.high < 0.11


def test_a_logarithmic_scale_has_a_place_for_no_packets() -> None:
    assert scale_for("log above 1", [0, 250], "count").low < 0


@given(
    st.sampled_from(["linear", "log", "log above 1"]),
    st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=20),
    st.sampled_from(get_args(MetricKind)),
)
def test_every_value_lies_within_its_scale(kind: Kind, values: list[float], values_are: MetricKind) -> None:
    scale = scale_for(kind, values, values_are)

    assert scale.low < min(values) <= max(values) < scale.high


@pytest.fixture(scope="module")
def on_channels(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A sweep over named channels, each with its own errors."""
    return load_results(write_results(tmp_path_factory.mktemp("named"), named()))


def test_named_channels_are_the_rows_of_one_figure_a_metric(on_channels: Results) -> None:
    assert [figure.name for figure in comparisons(on_channels)] == [
        f"{metric}-against-file-size-channels" for metric in COMPARED
    ]


def test_over_a_row_stands_its_channel_with_rates_and_delay(on_channels: Results) -> None:
    assert [panels[0].heading for panels in next(comparisons(on_channels)).panels] == [
        "terrestrial · 10 Mbit/s · 25 ms one way",
        "deep-space · 2 Mbit/s → / 8 kbit/s ← · 10 min one way",
    ]


def test_a_caption_says_that_rates_differ_between_rows(on_channels: Results) -> None:
    assert "rates differ between rows" in next(comparisons(on_channels)).caption


def test_errors_of_the_channels_own_are_no_dimension(on_channels: Results) -> None:
    figure = next(comparisons(on_channels))

    assert [[panel.categories for panel in panels] for panels in figure.panels] == [[("100 kB",)]] * 2
    assert "errors and losses as each channel specifies" in figure.caption


def test_a_comparison_of_channels_has_every_permutation_once(on_channels: Results) -> None:
    for figure in comparisons(on_channels):
        assert sorted(map(repr, permutations_in(figure))) == sorted(map(repr, on_channels.planned))


def test_each_channel_has_a_portrait_of_each_implementation(on_channels: Results) -> None:
    assert [figure.name for figure in portraits(on_channels)] == [
        f"{name}-against-file-size-{channel}" for name in ("cfdp", "norm") for channel in ("terrestrial", "deep-space")
    ]


def test_error_rates_that_the_sweep_gives_are_an_axis_on_named_channels_too(tmp_path: Path) -> None:
    asked = named(channel="terrestrial", packet_error_rate=[0, 0.01], file_size=["100 kB", "1 MB"])
    figure = next(comparisons(load_results(write_results(tmp_path, asked))))

    assert figure.axis.slug == "error-rate"
    assert [panel.title for panel in figure.panels[0]] == ["100 kB", "1 MB"]


def test_delays_that_the_sweep_gives_make_rows_of_a_channel_each(tmp_path: Path) -> None:
    asked = named(channel="terrestrial", delay=["25 ms", "1250 ms"])
    results = load_results(write_results(tmp_path, asked))

    assert [panels[0].heading for panels in next(comparisons(results)).panels] == [
        "terrestrial · 10 Mbit/s · 25 ms one way",
        "terrestrial · 10 Mbit/s · 1250 ms one way",
    ]
    assert len({figure.name for figure in portraits(results)}) == 4


def test_a_combination_that_the_sweep_does_not_have_is_an_empty_place(results: Results) -> None:
    asked = {
        point: times
        for point, times in results.planned.items()
        if (point.delay_ns, point.packet_error_rate) != (25_000_000, 0)
    }
    runs = tuple(run for run in results.runs if run.record.permutation in asked)
    figure = next(comparisons(replace(results, planned=asked, runs=runs)))
    absent = figure.panels[0][0].boxes[0]

    assert [(box.n_text, box.numbers) for box in absent] == [("", None)] * 2
    assert draw(figure, {"cfdp": 0, "norm": 1})


def test_a_figure_is_as_wide_as_its_longest_heading(on_channels: Results) -> None:
    figure = next(comparisons(on_channels))
    canvas = draw(figure, {"cfdp": 0, "norm": 1})
    canvas.draw_without_rendering()
    headings = [each for each in canvas.artists if isinstance(each, Text) and "one way" in each.get_text()]

    assert len(headings) == 2
    assert max(text.get_window_extent().x1 for text in headings) <= canvas.bbox.x1


@pytest.mark.parametrize(("sizes", "axes"), [(2, {"error-rate", "file-size"}), (40, {"error-rate"})])
def test_portraits_of_many_permutations_are_along_one_axis(tmp_path: Path, sizes: int, axes: set[str]) -> None:
    asked = sweep(file_size=[f"{number} kB" for number in range(1, sizes + 1)], delay=["25 ms", "250 ms"])
    few_results = load_results(write_results(tmp_path, asked, skip=lambda run: run.order > 1))

    assert {figure.axis.slug for figure in portraits(few_results)} == axes


@pytest.mark.parametrize(("rate", "label"), [("10 Mbit/s", "Goodput (Mbit/s)"), ("100 kbit/s", "Goodput (kbit/s)")])
def test_an_axis_has_the_unit_for_its_greatest_value(tmp_path: Path, rate: str, label: str) -> None:
    results = load_results(write_results(tmp_path, few(repetitions=1, rate=rate)))
    canvas = draw(next(comparisons(results)), results.series)
    texts = [each for each in canvas.artists if isinstance(each, Text)]
    per_tick = 1.0 if "Mbit" in label else 1e-3

    assert label in [each.get_text() for each in texts]
    tick = next(each for each in texts if each.get_ha() == "right" and each.get_text() != "0")
    assert float(tick.get_text()) * per_tick == pytest.approx(tick.get_position()[1])


def test_the_label_of_large_values_is_beside_their_numbers(results: Results) -> None:
    figure = next(each for each in comparisons(results) if each.name.startswith("str-"))
    rows = [
        tuple(
            replace(
                panel,
                boxes=tuple(
                    tuple(replace(box, values=tuple((run, 2e3 * value) for run, value in box.values)) for box in boxes)
                    for boxes in panel.boxes
                ),
            )
            for panel in row
        )
        for row in figure.panels
    ]
    canvas = draw(replace(figure, panels=tuple(rows)), results.series)
    canvas.draw_without_rendering()
    texts = [each for each in canvas.artists if isinstance(each, Text)]
    label = next(each for each in texts if each.get_rotation() == 90).get_window_extent()
    numbers = [each.get_window_extent() for each in texts if each.get_ha() == "right"]

    assert max(len(each.get_text()) for each in texts if each.get_ha() == "right") > len("1 000 00")
    assert canvas.bbox.x0 <= label.x0
    assert label.x1 < min(each.x0 for each in numbers)
