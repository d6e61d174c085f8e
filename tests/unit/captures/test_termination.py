"""The termination phase: where it begins, and which of its packets are printed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from owlt.captures.protocols.ladder import last_new_data, left_out_text, termination_start, thinned
from owlt.captures.protocols.messages import Message
from owlt.captures.protocols.reader import Coverage

modest = settings(max_examples=100, deadline=None)


def content(*names: str) -> list[Message]:
    """Messages by name; "data N" carries the bytes of the N-th thousand, "?" some that are not placed."""
    found = []
    for place, name in enumerate(names):
        word, _, number = name.partition(" ")
        at = 1000 * int(number) if number.isdigit() else None
        found.append(
            Message(
                frame=place + 1,
                time_ns=place,
                host="receiver" if word in ("NAK", "ACK") else "sender",
                wire_bytes=1042,
                payload_bytes=40 if number == "short" else 1000,
                name=word,
                first_byte=at,
                byte_count=1000 if at is not None else 0,
                unplaced=word == "?",
            )
        )
    return found


def test_it_begins_some_messages_before_the_last_new_data() -> None:
    found = content("data 0", "data 1", "data 2", "data 3", "EOF", "NAK", "data 1", "data 3")

    assert last_new_data(found) == 3
    assert termination_start(found, lead=2) == 1
    assert termination_start(found, lead=20) == 0


def test_where_nothing_is_placed_the_last_long_message_counts() -> None:
    assert last_new_data(content("?", "?", "? short", "ACK", "? short")) == 1


def test_without_any_data_the_last_messages_are_the_end() -> None:
    assert last_new_data(content("EOF", "ACK")) is None
    assert termination_start(content("EOF", "ACK", "EOF"), lead=2) == 1


def test_those_after_the_first_few_that_are_alike_are_left_out() -> None:
    found = content(*["FLUSH"] * 9, "ACK", *["FLUSH"] * 4)

    assert thinned(found, alike=2) == [0, 1, tuple(range(2, 9)), 9, tuple(range(10, 13)), 13]


def test_one_alone_is_not_left_out() -> None:
    assert thinned(content("FLUSH", "FLUSH", "ACK"), alike=1) == [0, 1, 2]


@modest
@given(st.lists(st.sampled_from("abcdefgh"), max_size=300), st.integers(1, 8), st.integers(20, 60))
def test_each_message_is_shown_or_left_out_once_and_few_are_shown(names: list[str], alike: int, most: int) -> None:
    steps = thinned(content(*names), alike, most)

    indices = [index for step in steps for index in ([step] if isinstance(step, int) else step)]
    assert indices == list(range(len(names)))
    assert sum(isinstance(step, int) for step in steps) <= most
    assert not names or steps[-1] == len(names) - 1


def test_what_is_left_out_is_said_in_words() -> None:
    assert left_out_text(content("FLUSH", "CC", "FLUSH")) == "3 more like these: 2 FLUSH, 1 CC"
    assert left_out_text(content("FLUSH", "FLUSH")) == "2 more like these: FLUSH"
    assert left_out_text(content("FLUSH")) == "1 more like this: FLUSH"


@modest
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 15)), max_size=40))
def test_coverage_counts_what_a_set_of_bytes_counts(pieces: list[tuple[int, int]]) -> None:
    coverage, covered = Coverage(), set[int]()
    for first, count in pieces:
        new = set(range(first, first + count)) - covered
        assert coverage.add(first, first + count) == len(new)
        covered |= new
    missing = [byte for start, stop in coverage.holes for byte in range(start, stop)]
    assert sorted(set(range(coverage.furthest)) - covered) == missing
