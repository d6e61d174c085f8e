"""What is kept of what a program writes, and what is found in it."""

from __future__ import annotations

import io
import re
import threading
from pathlib import Path

from owlt.orchestrator.hosts.confinement import LEFT
from owlt.orchestrator.hosts.program import LONGEST_LINE_BYTES, Output


def drained(directory: Path, written: bytes) -> Output:
    """A stream that carried this."""
    output = Output(directory / "log")
    output.drain(io.BytesIO(written).read, threading.Condition())
    return output


def test_all_that_is_written_is_in_the_log(tmp_path: Path) -> None:
    drained(tmp_path, b"one\n\xfftwo")

    assert (tmp_path / "log").read_bytes() == b"one\n\xfftwo"


def test_beyond_the_limit_nothing_is_read_or_logged(tmp_path: Path) -> None:
    stream = io.BytesIO(b"x" * 1_000_000)
    output = Output(tmp_path / "log", limit_bytes=100_000)
    output.drain(stream.read, threading.Condition())

    assert output.flooded
    assert (tmp_path / "log").stat().st_size == 100_000
    assert stream.tell() == 2 * 65_536


def test_what_stays_within_the_limit_is_no_flood(tmp_path: Path) -> None:
    assert not drained(tmp_path, b"x" * 1_000_000).flooded


def test_the_last_line_is_the_last_that_says_something(tmp_path: Path) -> None:
    assert drained(tmp_path, b"first\nlast words\r\n\n  \n").last_line == "last words"


def test_a_match_is_looked_for_from_where_it_is_asked(tmp_path: Path) -> None:
    output = drained(tmp_path, b"ready\nready\n")

    first = output.find(re.compile(b"ready"), 0)
    assert first == 5
    assert output.find(re.compile(b"ready"), first) == 11
    assert output.find(re.compile(b"ready"), 11) is None


def test_a_line_that_comes_in_pieces_is_searched_from_its_begin(tmp_path: Path) -> None:
    assert drained(tmp_path, b"one\ntwo and").begin_of_last == 4
    assert drained(tmp_path, b"one\ntwo\n").begin_of_last == 4


def test_the_line_that_matches_is_reported_completely(tmp_path: Path) -> None:
    output = drained(tmp_path, b"begin\nput of x failed: no room\r\nend\n")

    assert output.line_like("^put .* failed") == "put of x failed: no room"
    assert output.line_like("^nothing") is None


def test_a_line_that_came_in_two_pieces_is_found(tmp_path: Path) -> None:
    output, news = Output(tmp_path / "log"), threading.Condition()
    output.drain(io.BytesIO(b"one\nput do").read, news)
    assert output.line_like("^put done$") is None

    output.drain(io.BytesIO(b"ne\ntwo\n").read, news)

    assert output.line_like("^put done$") == "put done"


def test_a_line_that_was_found_unfinished_is_reported_completely_once_it_is(tmp_path: Path) -> None:
    output, news = Output(tmp_path / "log"), threading.Condition()
    output.drain(io.BytesIO(b"failed: dis").read, news)
    assert output.line_like("^failed") == "failed: dis"

    output.drain(io.BytesIO(b"k full\n").read, news)

    assert output.line_like("^failed") == "failed: disk full"


def test_what_was_searched_is_not_searched_again(tmp_path: Path) -> None:
    """Each piece that comes is looked at once: all of it each time took minutes for some megabytes."""
    output, news = Output(tmp_path / "log"), threading.Condition()
    for _ in range(3):
        output.drain(io.BytesIO(b"x" * 80 + b"\n").read, news)
        output.line_like("^never$")

    assert output._searched == {"^never$": 2 * 81}


def test_last_words_are_the_programs_and_not_ours(tmp_path: Path) -> None:
    written = f"last words\n{LEFT}sleep 5\n".encode()

    assert drained(tmp_path, written).last_line == "last words"


def test_of_a_flood_without_line_ends_only_the_end_is_searched_again(tmp_path: Path) -> None:
    """32 MB in pieces of 64 kB, searched after each: from the beginning of the line every time that would be 8 GB."""
    output = Output(tmp_path / "log")
    news = threading.Condition()

    for _ in range(488):
        output.drain(io.BytesIO(b"x" * 65_536).read, news)
        assert output.line_like("^ready") is None
        assert output._searched == {"^ready": len(output) - LONGEST_LINE_BYTES}


def test_a_line_behind_a_very_long_one_is_found(tmp_path: Path) -> None:
    output = drained(tmp_path, b"x" * 1_000_000)
    assert output.line_like("^ready") is None

    output.drain(io.BytesIO(b"x\nready\n").read, threading.Condition())

    assert output.line_like("^ready") == "ready"
