"""Cells whose links differ between the directions: how a page and an answer name them."""

from __future__ import annotations

from owlt.reports.answer.assertions import point_text
from owlt.reports.answer.regions import dimensions_of, place_text
from owlt.reports.comparison.cells import Point

SAME = Point("", 1e7, 25_000_000, 1000, 0.01)
CLEAN_BACK = SAME._replace(reverse_packet_error_rate=0.0)
WORSE = CLEAN_BACK._replace(packet_error_rate=0.02)


def test_both_directions_are_named_where_they_differ() -> None:
    dimensions = dimensions_of([SAME, CLEAN_BACK, WORSE])

    assert [place_text(point, dimensions) for point in (SAME, WORSE)] == [
        "forward PER 0.01, reverse PER 0.01",
        "forward PER 0.02, reverse PER 0",
    ]


def test_one_name_is_enough_for_links_that_are_the_same_both_ways() -> None:
    points = [SAME, SAME._replace(packet_error_rate=0.02)]

    assert place_text(points[0], dimensions_of(points)) == "PER 0.01"


def test_what_a_profile_has_in_reverse_is_in_its_name() -> None:
    geo = SAME._replace(channel_name="geo", reverse_rate_bps=64e3)
    points = [geo, geo._replace(channel_name="leo", reverse_rate_bps=32e3)]

    assert place_text(points[0], dimensions_of(points)) == "geo"


def test_an_assertion_names_what_differs_in_reverse() -> None:
    unlimited = SAME._replace(reverse_rate_bps=float("inf"))

    assert point_text(unlimited) == "10 Mbit/s, 25 ms, reverse unlimited rate, PER 0.01, 1 kB"
    assert point_text(SAME) == "10 Mbit/s, 25 ms, PER 0.01, 1 kB"
