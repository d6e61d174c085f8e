from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from matplotlib.collections import PolyCollection

from owlt.captures.inspection.causes import causes
from owlt.reports.drawing.sweep_figures import save
from owlt.reports.sessions.explanation import cause_text, explanation_json, headline, share_rows, spent_ns
from owlt.reports.sessions.waterfall import ROWS, draw_waterfall
from owlt.results.waits import TimedWait
from tests.unit.captures.test_critical_path import KNOWN, MS, explained, file_of, rung

LOST = rung("sender", 160, "of the sender", lost=True)
AGAIN = rung("sender", 160 + 3000, "of the sender")
ANSWER = rung("receiver", 160 + 3000 + 258, "of the receiver", size=100)
PATH = explained([*file_of(20), LOST, AGAIN, ANSWER])


def test_the_times_of_all_phases_and_kinds_sum_to_the_session():
    assert sum(sum(of_phase.values()) for of_phase in spent_ns(PATH).values()) == PATH.length_ns


def test_a_wait_is_described_with_its_length_its_end_and_the_packet_that_was_lost():
    (text, *_) = [cause_text(cause, PATH) for cause in causes(PATH) if cause.what == "waiting"]

    assert text.startswith(
        "the sender was idle for 2.992 s, then sent of the sender"
    )  # without 8 ms for the lost packet
    assert "of the sender (frame 1)" in text


def test_a_timer_that_is_shorter_than_the_wait_only_ended_it():
    def text_of(length_ms: int) -> str:
        timer = TimedWait("sender", "program", "poll", (3160 - length_ms) * MS, length_ms * MS)
        path = explained([*file_of(20), LOST, AGAIN, ANSWER], replace(KNOWN, waits=[timer]))
        (cause,) = [cause for cause in causes(path) if cause.what == "timer"]
        return cause_text(cause, path)

    assert "waited 2.992 s for a timer of 3.000 s" in text_of(3000)
    assert "waited 2.992 s until the end of a timer of 10 ms" in text_of(10)


def test_the_headline_has_the_session_the_delivery_and_the_least_time():
    assert [word for word in headline(PATH).split() if word[0].isdigit()] == ["3.669", "410", "410"]


def test_the_rows_name_only_what_took_a_visible_time():
    assert [seconds for _, seconds, _ in share_rows(PATH)] == ["0.160 s", "0.017 s", "0.500 s", "2.992 s"]


def test_the_json_names_the_lost_packet():
    found = explanation_json(PATH, causes(PATH))["causes"]

    assert [cause["lost"] for cause in found if cause["what"] == "waiting"] == [
        [{"host": "sender", "frame": 1, "message": "of the sender"}]
    ]


def bars_ms(canvas) -> dict[str, float]:
    """The length of the bars in each row."""
    lengths = dict.fromkeys(ROWS, 0.0)
    (axes,) = canvas.axes
    for bars in axes.collections:
        if isinstance(bars, PolyCollection):
            for bar in bars.get_paths():
                box = bar.get_extents()
                lengths[ROWS[3 - round((box.y0 + box.y1) / 2)]] += box.width
    return lengths


def test_the_bars_of_the_waterfall_cover_the_session():
    lengths = bars_ms(draw_waterfall(PATH, "A session"))

    assert round(sum(lengths.values()), 6) == PATH.length_ns / MS
    assert round(lengths["sender"]) == 2992


def test_the_same_waterfall_gives_the_same_bytes(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        save(draw_waterfall(PATH, "A session"), tmp_path / name, "time", with_pdf=True)

    assert (tmp_path / "a" / "time.svg").read_bytes() == (tmp_path / "b" / "time.svg").read_bytes()
