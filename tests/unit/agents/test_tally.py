"""The last line of a side: what it counted, in which order, and how long it took."""

import pytest

from owlt.agents.cfdp.entity import PduTally
from owlt.agents.endpoint.event_loop import Tally


def test_a_side_that_did_nothing_says_so() -> None:
    assert Tally().facts() == "sent=0 (none) received=0 (none) duration_s=0.000000"


def test_kinds_are_counted_each_way_between_the_first_and_the_last_packet() -> None:
    tally = Tally("data_again", "unreadable")
    for kind, now_s in [("Data", 5.0), ("Ask", 5.5), ("Data", 6.0)]:
        tally.sent(kind, now_s)
    tally.received("Status", 7.25)
    tally.count("unreadable")

    expected = "sent=3 (Ask=1 Data=2) received=1 (Status=1) data_again=0 unreadable=1 duration_s=2.250000"
    assert tally.facts() == expected


def test_kinds_are_reported_in_a_given_order() -> None:
    tally = Tally(kinds=["Zero", "One", "Another"])
    for kind in ("Another", "Zero", "Another"):
        tally.sent(kind, 0.0)

    assert tally.facts().startswith("sent=3 (Zero=1 Another=2) received=0 (none)")


def test_sums_can_be_left_out() -> None:
    tally = Tally(with_sums=False)
    tally.received("bundle", 0.0)

    assert tally.facts().startswith("sent=(none) received=(bundle=1) ")


def test_what_was_measured_last_is_reported() -> None:
    tally = Tally("refused")
    tally.measured("round_trip_s", 3.0)
    tally.measured("round_trip_s", 2.5)

    assert " refused=0 round_trip_s=2.500000 duration_s=" in tally.facts()


def test_a_count_without_a_name_is_an_error() -> None:
    with pytest.raises(KeyError):
        Tally("refused").count("refuted")


def test_file_data_of_an_offset_that_was_seen_count_as_sent_again() -> None:
    tally = PduTally()
    for offset in (0, 1000, 0, None, None):
        tally.sent("FileData", 0.0, offset)
    tally.received("FileData", 0.0, 1000)

    assert " data_again=2 unreadable=0 " in tally.facts()
