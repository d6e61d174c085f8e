"""The figure of a run over time: what is thinned keeps its extremes, what is left out is silence."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from owlt.captures.inspection.traces import Acknowledgements, Delays, FileData, Traces, Way
from owlt.captures.matches.bottleneck import Link, Queue
from owlt.reports.drawing.output import inlined
from owlt.reports.drawing.sweep_figures import save
from owlt.reports.results.channels import ChannelChanges
from owlt.reports.sessions.trace_axis import Period, drawn_periods, stepped, thinned_dots
from owlt.reports.sessions.trace_figure import draw_traces

MS, S = 10**6, 10**9
LINK = Link(25 * MS, 10e6)


def ints(values: object) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def way(sent_ns: NDArray[np.int64], link: Link | None = LINK, wire_bytes: int = 1000, cut: bool = False) -> Way:
    """Packets that take 25 ms and wait for up to three others; every hundredth is lost, every fiftieth damaged."""
    sizes = np.full(len(sent_ns), wire_bytes, np.int64)
    waiting = np.arange(len(sent_ns)) % 4 * MS
    return Way(
        sent_ns=sent_ns,
        sent_bytes=sizes,
        delivered_ns=sent_ns + 25 * MS,
        delivered_bytes=sizes,
        lost_ns=sent_ns[5::100],
        damaged_ns=sent_ns[5::50],
        delays=Delays(sent_ns, 25 * MS + waiting, sizes, waiting if link else None),
        queue=Queue(sent_ns, np.arange(len(sent_ns)) % 4 + 1, sizes) if link else None,
        link=link,
        cut=cut,
    )


def run(
    sent_ns: NDArray[np.int64], answered_ns: NDArray[np.int64], link: Link | None = LINK, *, cut: bool = False
) -> Traces:
    """A run whose sender sends a part of the file in each packet, every tenth again, and whose receiver answers."""
    number = np.arange(len(sent_ns), dtype=np.int64)
    again = number % 10 == 9
    arrived_ns = answered_ns + 25 * MS
    return Traces(
        first_packet_ns=0,
        length_ns=int(max(sent_ns[-1] + 25 * MS, arrived_ns[-1])),
        forward=way(sent_ns, link, cut=cut),
        reverse=way(answered_ns, link, 60),
        data=FileData(
            sent_ns,
            number + 1,
            np.full(len(number), 1000),
            np.where(again, number - 5, number) * 900,
            np.full(len(number), 900),
            np.where(again, 0, 900),
        ),
        acknowledgements=Acknowledgements(
            arrived_ns, number[: len(arrived_ns)], np.full(len(arrived_ns), 60), number[: len(arrived_ns)] * 900
        ),
    )


PACED = ints(np.arange(0, S, MS))


def texts(traces: Traces, *between: tuple[float, float]) -> list[str]:
    """All words of the figure."""
    canvas = draw_traces(traces, "title", *between)
    words = [text.get_text() for text in canvas.texts]
    for axes in canvas.axes:
        legend = axes.get_legend()
        words += [axes.get_title(loc="left"), axes.get_ylabel()]
        words += [text.get_text() for text in legend.get_texts()] if legend else []
    return words


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        save(draw_traces(run(PACED, PACED), "A run"), tmp_path / name, "run", with_pdf=True)

    for suffix in ("svg", "pdf"):
        assert (tmp_path / "a" / f"run.{suffix}").read_bytes() == (tmp_path / "b" / f"run.{suffix}").read_bytes()


def test_eleven_thousand_packets_are_drawn_in_less_than_300_kb(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    sent_ns = np.sort(random.integers(0, 12 * S, 11_000))
    save(draw_traces(run(sent_ns, sent_ns), "A run"), tmp_path, "run")

    assert (tmp_path / "run.svg").stat().st_size < 300_000


def test_the_figure_can_stand_in_the_page_with_the_pages_colours(tmp_path: Path) -> None:
    save(draw_traces(run(PACED, PACED), "A run"), tmp_path, "run")
    svg = inlined((tmp_path / "run.svg").read_text(), "run", "a run over time", {})

    assert not re.search(r"(fill|stroke): #", svg)


def test_every_panel_says_what_it_shows_and_its_unit() -> None:
    assert {
        "Throughput from the sender",
        "Throughput from the receiver",
        "Offset of data and acknowledgements",
        "One-way delay beyond 25 ms propagation",
        "Queue at the bottleneck (with the packet being sent)",
        "Mbit/s",
        "kbit/s",
        "kB",
        "ms",
        "packets",
        "time since the session's first packet (s); throughput averaged over 10 ms",
    } <= set(texts(run(PACED, PACED)))


def test_unknown_values_have_no_panel() -> None:
    known = run(PACED, PACED, link=None)
    words = texts(replace(known, data=None, acknowledgements=None))

    assert "One-way delay" in words
    assert not [word for word in words if word.startswith(("Queue", "Offset"))]
    assert {"sent", "arriving"} <= set(words)


def at_one_port(way: Way, *, departing: bool) -> Way:
    none = ints([])
    unseen = {"delivered_ns": none, "delivered_bytes": none} if departing else {"sent_ns": none, "sent_bytes": none}
    nothing = {"delays": Delays(none, none, none, None), "queue": None, "link": None}
    return replace(way, **unseen, **nothing, seen_departing=departing, seen_arriving=not departing)


def test_flows_of_one_capture_are_named_as_seen_at_its_port() -> None:
    both = run(PACED, PACED)
    there, back = both.forward, both.reverse
    seen = {
        host: texts(
            replace(
                both,
                forward=at_one_port(there, departing=host == "sender"),
                reverse=at_one_port(back, departing=host == "receiver"),
            )
        )
        for host in ("sender", "receiver")
    }

    assert {"retransmitted", "acknowledgements arriving"} <= set(seen["sender"])
    assert {"received again", "acknowledgements sent"} <= set(seen["receiver"])
    assert not [word for words in seen.values() for word in words if word.startswith(("One-way", "Queue", "delivered"))]


def test_lost_and_damaged_packets_are_counted() -> None:
    assert {"lost: 10", "damaged: 20"} <= set(texts(run(PACED, PACED)))


def test_where_captures_are_cut_more_may_be_damaged() -> None:
    assert "damaged: 20 or more" in texts(run(PACED, PACED, cut=True))


def test_of_a_part_of_the_run_only_what_is_in_it_is_counted_and_named() -> None:
    words = texts(run(PACED, ints([900 * MS])), (0.0, 0.1))

    assert {"lost: 1", "damaged: 2", "from the sender"} <= set(words)
    assert "from the receiver" not in words


@pytest.mark.parametrize("between_s", [(1.0, 1.0), (2.0, 1.0), (0.0, float("nan")), (0.0, float("inf"))])
def test_a_part_that_ends_before_it_begins_is_refused(between_s: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="expected an end after the begin"):
        drawn_periods(run(PACED, PACED), between_s)


@pytest.mark.parametrize("between_s", [(-5.0, -1.0), (1e6, 1e6 + 1e-8), (1e5, 1e9)])
def test_a_part_in_which_nothing_was_is_drawn_empty(between_s: tuple[float, float]) -> None:
    assert draw_traces(run(PACED, PACED), "A run", between_s).axes


def test_no_interval_is_refused() -> None:
    with pytest.raises(ValueError, match=r"interval: expected at least .* got 0 ns"):
        draw_traces(run(PACED, PACED), "A run", interval_ns=0)


@pytest.mark.parametrize("times", [[0], [0, 1], [0, 10**15]])
def test_a_run_of_next_to_nothing_is_drawn(times: list[int]) -> None:
    assert draw_traces(run(ints(times), ints(times)), "A run").axes


def test_a_session_without_a_packet_is_drawn() -> None:
    nothing = ints([])
    assert draw_traces(Traces(0, 0, way(nothing), way(nothing), None, None), "Nothing").axes


LIGHT = 600 * S


def test_idle_periods_are_omitted_and_the_axis_says_so() -> None:
    traces = run(PACED, ints(LIGHT + PACED))
    words = texts(traces)

    assert any("idle periods omitted" in word for word in words)
    assert "sent" in words


def test_a_session_that_is_busy_is_drawn_completely() -> None:
    canvas = draw_traces(run(PACED, PACED), "A run")

    assert len(canvas.axes) == 5
    assert not any("idle" in text.get_text() for text in canvas.texts)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 10**13), min_size=1, max_size=25))
def test_every_packet_is_in_a_drawn_period(steps_ns: list[int]) -> None:
    sent_ns = np.concatenate([ints([0]), np.cumsum(ints(steps_ns))])
    periods = drawn_periods(run(sent_ns, sent_ns))

    for times in (sent_ns / 1e9, (sent_ns + 25 * MS) / 1e9):
        assert all(any(each.begin_s <= time <= each.end_s for each in periods) for time in times)
    for before, after in pairwise(periods):
        assert before.end_s <= after.begin_s
        assert before.left + before.width < after.left


def test_every_period_has_a_tick_and_no_two_run_together() -> None:
    starts = [0, 600, 1200, 1800, 2400]
    sent_ns = ints(np.concatenate([start * S + np.arange(0, 3 * S, 30 * MS) for start in starts]))
    canvas = draw_traces(run(sent_ns, sent_ns), "A run")
    last_row = [axes for axes in canvas.axes if axes.get_position().y0 == min(a.get_position().y0 for a in canvas.axes)]
    places = []
    for axes in last_row:
        box, (begin, end) = axes.get_position(), axes.get_xlim()
        assert len(axes.get_xticks())
        places += [7.0 * (box.x0 + box.width * (tick - begin) / (end - begin)) for tick in axes.get_xticks()]

    assert len(last_row) == len(starts)
    assert np.diff(places).min() > 0.4


PERIOD = Period(0.0, 1.0, 0.6, 2.0)
points = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 10)), min_size=1, max_size=400)


@settings(max_examples=60, deadline=None)
@given(points, st.integers(5, 100))
def test_thinned_dots_keep_the_least_and_the_greatest(drawn: list[tuple[float, float]], most: int) -> None:
    x, y = np.array(sorted(drawn)).T
    kept = thinned_dots(x, y, PERIOD, (0, 10), 1.0, most)

    assert (y[kept].min(), y[kept].max()) == (y.min(), y.max())
    assert (np.diff(kept) > 0).all()


def test_dots_are_thinned_to_a_cell_of_a_point_and_no_more() -> None:
    x = np.linspace(0, 1, 10_000)
    kept = thinned_dots(x, np.full(10_000, 5.0), PERIOD, (0, 10), 1.0, 1_000)

    assert 144 <= len(kept) <= 3 * 145
    assert thinned_dots(x[::200], x[::200], PERIOD, (0, 10), 1.0, 1_000).tolist() == list(range(50))


@settings(max_examples=60, deadline=None)
@given(points)
def test_steps_that_are_too_many_become_a_band_around_all_of_them(drawn: list[tuple[float, float]]) -> None:
    x, first = np.unique([time for time, _ in drawn], return_index=True)
    y = np.array([value for _, value in drawn])[first]
    edges, low, high = stepped(x, y, PERIOD, 20)
    inside = (x > PERIOD.begin_s) & (x < PERIOD.end_s)
    held = np.append(0.0 if x[0] > 0 else y[0], y[inside])

    assert (edges[0], edges[-1], len(edges)) == (0.0, 1.0, len(low) + 1)
    assert (low.min(), high.max()) == (held.min(), held.max())
    for time, value in zip(x[inside], y[inside], strict=True):
        place = np.searchsorted(edges, time, "right") - 1
        assert low[place] <= value <= high[place]


def test_few_steps_are_drawn_as_they_are() -> None:
    edges, low, high = stepped(np.array([0.25, 0.5]), np.array([3.0, 1.0]), PERIOD, 100)

    assert edges.tolist() == [0, 0.25, 0.5, 1]
    assert low.tolist() == high.tolist() == [0, 3, 1]


@pytest.mark.parametrize(("outages", "areas"), [((), 0), (((0.01, 0.02),), 1), (((500.0, 600.0),), 0)])
def test_outages_are_grey_in_every_panel(outages: tuple[tuple[float, float], ...], areas: int) -> None:
    canvas = draw_traces(run(PACED, PACED), "A run", changes=ChannelChanges(outages))

    for axes in canvas.axes:
        grey = [patch for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_alpha() == 0.25]
        assert [(area.get_x(), round(area.get_width(), 9)) for area in grey] == [(0.01, 0.01)] * areas
