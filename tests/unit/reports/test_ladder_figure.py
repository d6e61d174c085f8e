"""The ladder drawn: the same bytes every time, no words on others, none beyond the edge."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.transforms import Bbox

from owlt.captures.frames.session import Host
from owlt.captures.protocols.ladder import Kind, Rung, Step, thin
from owlt.captures.protocols.messages import Message
from owlt.reports.drawing.sweep_figures import save
from owlt.reports.results.channels import ChannelChanges
from owlt.reports.sessions.ladder import draw_ladder

SECOND_NS = 1_000_000_000
NAMES: dict[Kind, str] = {
    "new data": "data",
    "data again": "data",
    "of the sender": "end-of-file of a protocol with long names",
    "of the receiver": "aggregate custody signal",
}


def rung(number: int, kind: Kind, left_ns: int, delay_ns: int = SECOND_NS, is_lost: bool = False) -> Rung:
    host: Host = "receiver" if kind == "of the receiver" else "sender"
    message = Message(number + 1, left_ns, host, 1042, 1000, NAMES[kind], f"bytes {number}000-{number}999, and more")
    return Rung(message, left_ns, () if is_lost else (left_ns + delay_ns,), number % 7 == 6, kind)


def session(count: int = 40) -> list[Step]:
    kinds = list(NAMES)
    rungs = [
        rung(number, kinds[number * number % 4], number**2 * SECOND_NS // 50, is_lost=number % 5 == 4)
        for number in range(count)
    ]
    return thin(rungs, alike=6)


def words(figure: Figure) -> list[Bbox]:
    FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    return [text.get_window_extent() for text in axes.texts if text.get_text()]


def test_the_same_ladder_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        save(draw_ladder(session(), "A ladder"), tmp_path / name, "ladder", with_pdf=True)

    for kind in ("svg", "pdf"):
        assert (tmp_path / "a" / f"ladder.{kind}").read_bytes() == (tmp_path / "b" / f"ladder.{kind}").read_bytes()


def assert_readable(figure: Figure) -> None:
    boxes = words(figure)
    for one, other in combinations(boxes, 2):
        height = min(one.y1, other.y1) - max(one.y0, other.y0)
        width = min(one.x1, other.x1) - max(one.x0, other.x0)
        assert width <= 0 or height <= 1, (one, other)
    for box in boxes:
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1


def test_no_words_lie_on_others_or_beyond_the_edge() -> None:
    assert_readable(draw_ladder(session(), "A ladder"))


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(NAMES)), st.integers(0, 10**11), st.booleans()), min_size=1, max_size=30),
    st.integers(1, 10**12),
)
@example([("data again", 0, False)] * 13 + [("data again", 9_999_500_001, False)], 1)
def test_that_is_so_for_any_times(sent: list[tuple[Kind, int, bool]], delay_ns: int) -> None:
    ordered = sorted(sent, key=lambda message: message[1])
    assert_readable(
        draw_ladder([rung(number, kind, left, delay_ns, lost) for number, (kind, left, lost) in enumerate(ordered)])
    )


def test_a_lost_message_ends_in_a_cross() -> None:
    def crosses(is_lost: bool) -> int:
        figure = draw_ladder([rung(0, "new data", 0), rung(1, "new data", SECOND_NS, is_lost=is_lost)])
        return sum(line.get_marker() == "x" for line in figure.axes[0].lines)

    assert (crosses(False), crosses(True)) == (0, 1)


def test_a_ladder_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="expected at least one"):
        draw_ladder([])


def test_times_count_from_the_start_of_the_session_and_a_loss_has_its_cause() -> None:
    lost = replace(rung(1, "new data", 3 * SECOND_NS, is_lost=True), fate="queue")

    def labels(first_ns: int | None) -> list[str]:
        return [text.get_text() for text in draw_ladder([lost], first_ns=first_ns).axes[0].texts[2:]]

    (since_start,), (since_first,) = labels(SECOND_NS), labels(None)
    assert since_start.startswith("2.000 s") and since_first.startswith("0.000 s")
    assert "(dropped, queue full)" in since_start


def test_a_packet_that_an_aimed_fault_hit_is_marked_with_the_action() -> None:
    delayed = replace(rung(1, "new data", 0), action="delayed by 5 s")
    figure = draw_ladder([delayed, rung(2, "of the receiver", SECOND_NS)])
    labels = [text.get_text() for text in figure.axes[0].texts[2:]]

    assert ["(fault: delayed by 5 s)" in label for label in labels] == [True, False]
    assert "lost" not in " ".join(text.get_text() for text in figure.legends[0].get_texts())


def test_outages_are_drawn_where_they_are() -> None:
    steps = [rung(0, "new data", 0), rung(1, "new data", 4 * SECOND_NS)]
    (axes,) = draw_ladder(steps, "", 0, ChannelChanges(((1.0, 3.0), (40.0, 50.0)), (4.0,))).axes

    areas = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert [(area.get_y(), area.get_height()) for area in areas] == [(1.0, 2.0)]


def test_the_legend_of_all_kinds_is_within_the_figure() -> None:
    figure = draw_ladder([rung(number, kind, number, is_lost=number == 0) for number, kind in enumerate(NAMES)])
    FigureCanvasAgg(figure).draw()
    (legend,) = figure.legends

    assert len(legend.get_texts()) == len(NAMES) + 1
    assert figure.bbox.containsx(legend.get_window_extent().x1)
    assert legend.get_window_extent().y0 > max(text.y1 for text in words(figure))
