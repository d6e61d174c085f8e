"""Channels and their certificates in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from owlt.emulator.channel.spec import ChannelSpec
from owlt.reports.page.certificates import certificate_address, check_words, limits, verdict_words
from owlt.reports.results.channels import (
    MOST_STEPS,
    ChannelChanges,
    changes_during,
    channel_head,
    link_words,
    outage_words,
    step_rows,
    timeline_words,
)
from owlt.reports.results.load import Channel
from owlt.results.certificates import Certificate, Check
from owlt.results.files import WrittenChannel

ASYMMETRIC = {
    "both": {"delay": "600 s", "bit_error_rate": 1e-6, "error_effect": "drop"},
    "forward": {"rate": "2 Mbit/s"},
    "reverse": {"rate": "8 kbit/s"},
}
CONTACTS = {
    "both": {"delay": "7 ms", "rate": "1 Mbit/s"},
    "timeline": {
        "steps": [
            {"at": "480 s", "both": {"up": False, "while_down": "hold"}},
            {"at": "5700 s", "forward": {"up": True, "rate": "2 Mbit/s"}, "reverse": {"up": True}},
        ],
        "loop_after": "8 h",
    },
}


def written(asked: dict[str, Any]) -> WrittenChannel:
    """A channel as the orchestrator writes it into a plan."""
    return WrittenChannel.model_validate(ChannelSpec.from_wire(asked).to_wire())


def words(link: dict[str, Any]) -> tuple[str, ...]:
    return link_words(written({"forward": link}).forward)


def channel(*checks: Check, specified: dict[str, Any] | None = None) -> Channel:
    certificate = Certificate({}, checks, 0, 0.0, "6.12", 0.001)
    return Channel("abc", "geo", written(specified or {}), certificate if checks else None)


@pytest.mark.parametrize(
    ("asked", "head"),
    [
        ({"both": {"delay": "25 ms", "rate": "10 Mbit/s"}}, "10 Mbit/s · 25 ms one way"),
        (ASYMMETRIC, "2 Mbit/s → / 8 kbit/s ← · 10 min one way"),
        ({"forward": {"delay": "1 ms"}}, "unlimited rate · 1 ms → / 0 ms ← one way"),
        (CONTACTS, "1 Mbit/s · 7 ms one way · changes over time"),
        ({"bypass": True}, "a transparent bridge (bypass)"),
    ],
)
def test_a_channel_has_a_heading(asked: dict[str, Any], head: str) -> None:
    assert channel_head(written(asked)) == head


def test_a_link_that_does_nothing_says_so() -> None:
    assert words({}) == ("delay 0 ms", "unlimited rate", "no errors, no losses")


def test_a_rate_has_a_queue_before_it_even_where_none_is_written() -> None:
    assert "queue 1000 packets" in words({"rate": "1 Mbit/s"})


@pytest.mark.parametrize(
    ("asked", "phrases"),
    [
        ({"packet_error_rate": 0.01}, ["packet error rate 0.01", "an error flips one bit"]),
        (
            {"bit_error_rate": 1e-6, "error_effect": "drop"},
            ["bit error rate 10⁻⁶", "an error drops the frame"],
        ),
        ({"pattern": {"packets": [1, 5]}}, ["2 listed packets with errors"]),
        (
            {"loss": {"model": "gilbert_elliott", "mean_rate": 0.03, "burst_packets": 4}},
            ["loss 0.03 of the packets, in bursts of 4 on average"],
        ),
        (
            {"loss": {"model": "four_state", "p13": 0.01, "p31": 0.5}},
            ["loss four states: p13 0.01, p31 0.5, p32 0, p23 1, p14 0"],
        ),
        ({"jitter": {"amount": "3 ms"}}, ["jitter normal, standard deviation 3 ms"]),
        ({"jitter": {"amount": "3 ms", "distribution": "uniform"}}, ["jitter uniform, at most 3 ms"]),
        (
            {"reordering": {"rate": 0.1, "by": "5 ms"}, "keeps_order": False},
            ["reordering 0.1 of the packets delayed by a further 5 ms"],
        ),
        ({"duplication_rate": 0.1}, ["duplication 0.1 of the packets"]),
        ({"rate": "1 Mbit/s", "queue": "64 kB", "overhead": "24 B"}, ["queue 64 kB", "overhead 24 B per frame"]),
        ({"mtu": "1500 B"}, ["MTU 1500 B"]),
    ],
)
def test_a_link_has_a_phrase_for_each_value(asked: dict[str, Any], phrases: list[str]) -> None:
    assert set(phrases) <= set(words(asked))


def test_a_link_with_errors_does_not_say_that_it_has_none() -> None:
    assert "no errors, no losses" not in words({"packet_error_rate": 0.01})


def test_a_timeline_is_a_sentence() -> None:
    assert timeline_words(written(CONTACTS)) == (
        "Changes over time: 2 steps, the last at 1 h 35 min, and repeats after 8 h."
    )


def test_each_step_says_what_changes_with_it() -> None:
    assert step_rows(written(CONTACTS)) == [
        ("8 min", "down, packets wait during outages", "down, packets wait during outages"),
        ("1 h 35 min", "2 Mbit/s, up", "up"),
    ]


def test_a_step_names_impairments_that_it_turns_off() -> None:
    asked = {
        "both": {"rate": "1 Mbit/s", "jitter": {"amount": "1 ms"}},
        "timeline": {"steps": [{"at": "1 s", "both": {"rate": "unlimited", "jitter": "none"}}]},
    }

    assert {*step_rows(written(asked))[0][1].split(", ")} == {"unlimited rate", "no jitter"}


def test_many_steps_are_cut_and_counted() -> None:
    steps = [{"at": f"{number} s", "both": {"delay": f"{number} ms"}} for number in range(1, MOST_STEPS + 6)]

    rows = step_rows(written({"timeline": {"steps": steps}}))

    assert (len(rows), rows[-1][1]) == (MOST_STEPS + 1, "5 more steps")


OK = Check(direction="forward", quantity="rate, bit/s", verdict="ok")
FAILED = Check(direction="forward", quantity="rate, bit/s", verdict="failed")
UNMEASURED = Check(direction="forward", quantity="rate, bit/s", verdict="not measured")


@pytest.mark.parametrize(
    ("certified", "text"),
    [
        (channel(OK, OK), "ok: all 2 quantities as specified"),
        (channel(OK, FAILED), "failed: 1 of 2 quantities"),
        (channel(UNMEASURED, FAILED), "failed: 1 of 2 quantities, 1 not measured"),
        (channel(OK, UNMEASURED), "incomplete: 1 not measured of 2 quantities"),
        (channel(), "not certified: its certificate is missing"),
        (channel(specified={"bypass": True}), "not certified: a transparent bridge has no specification"),
    ],
)
def test_a_verdict_has_its_counts(certified: Channel, text: str) -> None:
    assert verdict_words(certified, certify=True) == text


def test_a_channel_that_was_not_to_be_certified_says_so() -> None:
    assert verdict_words(channel(), certify=False) == "not certified: the sweep sets certify: false"


def test_a_certificate_is_beside_the_report() -> None:
    assert certificate_address(channel()) == "../certificates/abc.json"


@pytest.mark.parametrize(
    ("quantity", "specified", "measured", "low", "high", "texts"),
    [
        (
            "one-way delay of 64-byte frames, p0, ns",
            25_051_200.0,
            25_051_392.0,
            25_050_392.0,
            25_051_392.0,
            ("25.0512 ms", "25.051392 ms", "25.050392 to 25.051392 ms"),
        ),
        ("rate, bit/s", 1e7, 9_999_995.3, 9.98e6, 1.001e7, ("10 Mbit/s", "10 Mbit/s", "9.98 to 10.01 Mbit/s")),
        ("rate, bit/s", float("inf"), 9e6, None, 9.5e6, ("unlimited rate", "9 Mbit/s", "at most 9.5 Mbit/s")),
        ("share of 64-byte frames lost", 5.1187e-4, 0.0, 0.0, 0.0107211, ("5.12·10⁻⁴", "0", "0 to 0.0107")),
        ("depth of the queue, packets", 1000.0, 1000.0, 1000.0, 1000.0, ("1\u202f000 packets",) * 3),
        ("depth of the queue, ns", 1e8, 1.004e8, 9.9e7, 1.01e8, ("100 ms", "100.4 ms", "99 to 101 ms")),
        ("most bits flipped in a packet", 1.0, 1.0, 1.0, 1.0, ("1", "1", "1")),
        ("shares of 64-byte frames", None, None, None, None, ("–", "–", "–")),
    ],
)
def test_a_check_is_in_readable_units(
    quantity: str,
    specified: float | None,
    measured: float | None,
    low: float | None,
    high: float | None,
    texts: tuple[str, str, str],
) -> None:
    values = {"specified": specified, "measured": measured, "low": low, "high": high}
    told = check_words(Check(direction="forward", quantity=quantity, verdict="ok", **values))

    assert (told.specified, told.measured, told.interval) == texts


def test_a_quantity_is_named_without_its_unit() -> None:
    told = check_words(Check(direction="forward", quantity="one-way delay, p0, ns", verdict="ok"))

    assert told.quantity == "one-way delay, p0"


CUT = Check(
    direction="forward",
    quantity="share of 64-byte frames lost",
    verdict="ok",
    specified=0.01,
    measured=0.012,
    count=1000,
    detectable_high=0.035,
    detection_probability=0.99,
    aim_low=0.00667,
    aim_high=0.015,
)


def test_a_check_says_what_its_sample_would_have_found_wrong() -> None:
    delay = Check(
        direction="forward",
        quantity="one-way delay of 64-byte frames, p50, ns",
        verdict="ok",
        specified=25e6,
        measured=25e6,
        detectable_low=24.999e6,
        detectable_high=25.001e6,
        aim_low=24.975e6,
        aim_high=25.025e6,
    )

    assert check_words(delay).power == "24.999 ms or less, 25.001 ms or more"
    assert check_words(CUT).power == "only 0.035 or more"


def test_a_channel_of_which_less_was_excluded_than_was_aimed_at_says_so() -> None:
    whole = replace(CUT, detectable_low=0.0067, detectable_high=0.0149)

    assert limits(channel(CUT, whole)) == ["forward share of 64-byte frames lost: detects only 0.035 or more"]


def test_a_certificate_of_an_earlier_version_says_nothing_of_what_it_would_have_found() -> None:
    assert check_words(Check(direction="forward", quantity="rate, bit/s", verdict="ok", specified=1e6)).power == "–"


def changing(steps: list[dict[str, Any]], **more: Any) -> WrittenChannel:
    """A channel that changes with time."""
    return WrittenChannel.model_validate({"timeline": {"steps": steps, **more}})


DOWN, UP = {"up": False}, {"up": True}
GAPS = [
    {"at": "1 s", "forward": DOWN, "reverse": DOWN},
    {"at": "2 s", "forward": UP},
    {"at": "3 s", "reverse": UP},
    {"at": "4 s", "forward": {"rate": "1 Mbit/s"}},
]


def test_an_outage_lasts_until_both_directions_are_up() -> None:
    assert changes_during(changing(GAPS), 0.0, 10.0) == ChannelChanges(((1.0, 3.0),), (2.0, 4.0))


def test_changes_count_from_the_first_packet_of_the_session() -> None:
    assert changes_during(changing(GAPS), -0.5, 10.0) == ChannelChanges(((0.5, 2.5),), (1.5, 3.5))
    assert changes_during(changing(GAPS), -0.5, 10.0).since(2.0) == ChannelChanges(((-1.5, 0.5),), (-0.5, 1.5))


def test_an_outage_that_does_not_end_lasts_until_the_end_of_the_session() -> None:
    assert changes_during(changing(GAPS[:1]), 0.0, 7.5).outages == ((1.0, 7.5),)


def test_a_timeline_that_repeats_repeats_its_outages() -> None:
    assert changes_during(changing(GAPS[:3], loop_after="5 s"), 0.0, 9.0).outages == ((1.0, 3.0), (6.0, 8.0))


def test_more_steps_than_a_figure_can_show_are_left_out() -> None:
    steps = [{"at": f"{number} s", "forward": {"rate": f"{number} kbit/s"}} for number in range(1, 102)]

    assert changes_during(changing(steps), 0.0, 200.0).steps == ()
    assert len(changes_during(changing(steps[:100]), 0.0, 200.0).steps) == 100


@pytest.mark.parametrize(
    ("channel", "words"),
    [
        (changing(GAPS), "down 1 s to 3 s"),
        (changing(GAPS[3:]), ""),
        (changing(GAPS[:1], loop_after="5 s"), "down 1 s to 5 s"),
        (WrittenChannel(), ""),
    ],
)
def test_the_outages_of_a_channel_are_said(channel: WrittenChannel, words: str) -> None:
    assert outage_words(channel) == words
