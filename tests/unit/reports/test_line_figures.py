"""A panel without matplotlib's axes: the same places and ticks as theirs."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.text import Text

from owlt.reports.drawing.line_figures import Place, Plot
from owlt.reports.drawing.scales import Scale, apply_scale
from owlt.reports.looks import STYLE

SCALES = [
    Scale("linear", 0, 7.3),
    Scale("linear", 101.5, 104.5),
    Scale("log", 0.02, 0.9),
    Scale("log", 3, 250_000),
    Scale("log above 1", -0.5, 3000),
]
PLACE = Place(1, 0.5, 2, 1.5)


def plot_and_axes(scale: Scale, lying: bool) -> tuple[Plot, Axes]:
    canvas = Figure(figsize=(4, 3))
    axes = canvas.add_axes((PLACE.left / 4, PLACE.bottom / 3, PLACE.width / 4, PLACE.height / 3))
    set_ends = axes.set_ylim if lying else axes.set_xlim
    set_ends(4.5, -0.5) if lying else set_ends(-0.5, 4.5)
    apply_scale(axes, scale, is_count=False, lying=lying)
    return Plot(canvas, PLACE, (4.5, -0.5) if lying else (-0.5, 4.5), scale, lying), axes


@pytest.mark.parametrize("lying", [False, True])
@pytest.mark.parametrize("scale", SCALES)
def test_a_point_is_where_axes_have_it(scale: Scale, lying: bool) -> None:
    plot, axes = plot_and_axes(scale, lying)
    points = [(place, value) for place in (0, 3) for value in (scale.low, scale.high, (scale.low + scale.high) / 2)]
    given = np.array([point[::-1] if lying else point for point in points])

    np.testing.assert_allclose(plot.transData.transform(given), axes.transData.transform(given), atol=1e-9)


@pytest.mark.parametrize("lying", [False, True])
@pytest.mark.parametrize("scale", SCALES)
def test_the_ticks_are_those_of_axes(scale: Scale, lying: bool) -> None:
    with matplotlib.rc_context(STYLE):
        plot, axes = plot_and_axes(scale, lying)
        plot.draw_scale(is_count=False)
        values = axes.get_xticks() if lying else axes.get_yticks()
    ticks = next(each for each in plot.canvas.artists if isinstance(each, Line2D))

    assert list(ticks.get_data()[not lying]) == [value for value in values if scale.low <= value <= scale.high]


@pytest.mark.parametrize("lying", [False, True])
@pytest.mark.parametrize("scale", SCALES[2:])
def test_the_minor_ticks_are_those_of_axes(scale: Scale, lying: bool) -> None:
    with matplotlib.rc_context(STYLE):
        plot, axes = plot_and_axes(scale, lying)
        plot.draw_scale(is_count=False)
    _, minor = (each for each in plot.canvas.artists if isinstance(each, Line2D))
    (of_axes,) = axes.lines

    assert list(minor.get_data()[not lying]) == list(of_axes.get_data()[not lying])


@pytest.mark.parametrize(
    ("least", "written"), [(0.002, ["0.002", "0.005", "0.01", "0.02"]), (2, ["2", "5", "10", "20"])]
)
def test_the_numbers_at_ticks_are_written_out(least: float, written: list[str]) -> None:
    plot = Plot(Figure(), PLACE, (-0.5, 4.5), Scale("log", least, 12 * least))
    plot.draw_scale(is_count=False)

    assert [each.get_text() for each in plot.canvas.artists if isinstance(each, Text)] == written


def test_a_rule_crosses_a_lying_panel_at_its_line() -> None:
    plot = Plot(Figure(figsize=(4, 3), dpi=100), PLACE, (4.5, -0.5), Scale("linear", 0, 1), lying=True)
    plot.draw_rules([0])
    rule = plot.canvas.artists[-1]
    assert isinstance(rule, PathPatch)
    ends = rule.get_path().vertices

    (x0, y0), (x1, y1) = rule.get_transform().transform(ends)
    assert (x0, x1) == pytest.approx((100, 300))
    assert y0 == y1 == pytest.approx(50 + 150 * 0.9)
