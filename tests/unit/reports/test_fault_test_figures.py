"""The figure of a proof: a bar for each loss, a square for each pair, and a mark where the file was not delivered."""

from __future__ import annotations

from owlt.reports.drawing.fault_tests import Cost, draw_losses
from owlt.reports.looks import ALARM

PACKETS = ["metadata", "data", "EOF"]


def test_each_single_loss_is_a_bar_of_its_cost_and_a_failure_is_red() -> None:
    canvas = draw_losses([Cost((0,), 1.5, (0,)), Cost((1,), None, (0,)), Cost((2,), 0.5, (0,))], PACKETS, "title")
    (axes,) = canvas.axes
    bars = [(round(bar.get_x() + bar.get_width() / 2), bar.get_height()) for bar in axes.patches]  # type: ignore[attr-defined]
    red = [bar.get_facecolor() for bar in axes.patches][1]

    assert bars == [(0, 1.5), (1, 1.5), (2, 0.5)]
    assert "#{:02x}{:02x}{:02x}".format(*(round(part * 255) for part in red[:3])) == ALARM  # type: ignore[index]
    assert [label.get_text() for label in axes.get_xticklabels()] == PACKETS


def test_pairs_are_a_map_of_the_first_and_the_second_loss() -> None:
    pairs = [((0, 1), 2.0), ((0, 3), None), ((1, 2), 3.0)]
    costs = [Cost((0,), 1.0, (0,)), *(Cost(places, extra, (0, 0)) for places, extra in pairs)]
    canvas = draw_losses(costs, PACKETS, "title")
    image = canvas.axes[1].images[0].get_array()
    (failed,) = canvas.axes[1].collections

    assert image is not None
    assert (float(image[1, 0]), float(image[2, 1])) == (2.0, 3.0)
    assert failed.get_offsets().tolist() == [[0.0, 3.0]]  # type: ignore[union-attr]


def test_each_effect_on_a_packet_has_its_own_bar_and_its_own_row_and_column() -> None:
    costs = [Cost((0,), 1.5, (0,)), Cost((0,), 0.5, (1,)), Cost((0, 1), 2.0, (1, 0)), Cost((0, 1), None, (0, 1))]
    canvas = draw_losses(costs, PACKETS, "title", ["lost", "duplicated"])
    bars = [(round(bar.get_center()[0], 3), bar.get_height()) for bar in canvas.axes[0].patches]  # type: ignore[attr-defined]
    image = canvas.axes[1].images[0].get_array()
    (failed,) = canvas.axes[1].collections
    (legend,) = canvas.legends

    assert bars == [(-0.2, 1.5), (0.2, 0.5)]
    assert image is not None and float(image[2, 1]) == 2.0
    assert failed.get_offsets().tolist() == [[-0.25, 1.25]]  # type: ignore[union-attr]
    assert [text.get_text() for text in legend.get_texts()] == ["lost", "duplicated"]
