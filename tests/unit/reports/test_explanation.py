from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from matplotlib.collections import PolyCollection

from owlt.captures.inspection.causes import causes
from owlt.reports.drawing.sweep_figures import save
from owlt.reports.sessions.run_page import ROWS, draw_waterfall
from owlt.reports.sessions.run_text import cause_text, explanation_json, headline, share_rows, spent_ns
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
    assert "waited 2.992 s until the expiry of a timer last set to 10 ms" in text_of(10)


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


def test_a_program_that_polls_is_not_said_to_wait_for_a_timer():
    polls = [TimedWait("sender", "program", "nanosleep", (160 + number) * MS, MS) for number in range(3000)]
    path = explained([*file_of(20), LOST, AGAIN, ANSWER], replace(KNOWN, waits=polls))

    (text,) = [cause_text(cause, path) for cause in causes(path) if cause.what == "timer"]

    assert text.startswith(
        "the sender waited 2.992 s, while program polled every 1 ms (nanosleep), then sent of the sender"
    )


def test_waits_of_different_lengths_are_described_by_the_shortest_and_the_longest():
    paced = [rung("sender", left_ms, "new data", data=1000 * number) for number, left_ms in enumerate((0, 20, 50))]
    path = explained([*paced, rung("receiver", 50 + 258, "of the receiver", size=100)])

    (text,) = [cause_text(cause, path) for cause in causes(path)]

    assert text == "the sender was idle for 12 ms to 22 ms 2 times (34 ms in total), then sent new data"


def test_round_trips_of_the_transfer_state_the_mean_of_the_data_of_a_flight():
    sent = [
        rung("sender", 516.8 * number + left_ms, "new data", data=1000 * (2 * number + left_ms // 8))
        for number in range(4)
        for left_ms in (0, 8)
    ]
    answers = [rung("receiver", 516.8 * number + 266, "of the receiver", size=100) for number in range(4)]
    path = explained([*sent, *answers])

    (text,) = [cause_text(cause, path) for cause in causes(path) if cause.what == "round trips"]

    assert text.startswith("3 round trips took 1.5 s during") or text.startswith("3 round trips took 1.500 s during")
    assert text.endswith("; 2 kB of new data per flight")


def test_data_at_unknown_positions_are_payload():
    sent = [rung("sender", 508.8 * number, "new data") for number in range(4)]
    answers = [rung("receiver", 508.8 * number + 258, "of the receiver", size=100) for number in range(4)]
    path = explained([*sent, *answers])

    (text,) = [
        cause_text(each, path) for each in causes(path) if (each.what, each.phase) == ("round trips", "transfer")
    ]

    assert text.endswith("; 0.958 kB of payload per flight")


def test_of_many_losses_the_number_and_the_first_are_stated():
    nak, again = (rung("receiver", 410, "of the receiver", size=100), rung("sender", 660.8, "data again", data=2000))
    path = explained([*file_of(20, lost=range(2, 12)), nak, again, rung("receiver", 919, "of the receiver", size=100)])

    (text,) = [cause_text(cause, path) for cause in causes(path) if cause.what == "round trips"]

    assert text.endswith("; preceding losses: 10 packets of the sender, the first after 16 ms")
