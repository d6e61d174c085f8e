"""waits.json: the waits of a run that timed out, bounded, and read safely."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from owlt.results.files import DamagedFile, ReportError
from owlt.results.waits import (
    MOST_GROUPS,
    MOST_WAITS,
    WAITS_NAME,
    RunWaits,
    TimedWait,
    described_waits,
    read_run_waits,
    summarised,
    write_waits,
)


def wait(**values: Any) -> TimedWait:
    usual = {"host": "receiver", "process": "ltp", "kind": "epoll_wait", "begin_ns": 0, "length_ns": 3_750_000_000}
    return TimedWait(**usual | values)


def summary_of(waits: Iterable[TimedWait], **unrecorded: int) -> RunWaits:
    return summarised(map(astuple, waits), **unrecorded)  # type: ignore[arg-type]


def read_waits(run: Path) -> tuple[TimedWait, ...] | None:
    """The waits in the directory of a run; None if there is no file."""
    waits = read_run_waits(run)
    return None if waits is None else waits.waits


def test_waits_that_were_written_are_read(tmp_path: Path) -> None:
    waits = wait(begin_ns=1), wait(begin_ns=2, host="sender", kind="timerfd")

    write_waits(summary_of(waits), tmp_path)

    assert read_waits(tmp_path) == waits


def test_a_run_without_the_file_has_no_waits_recorded(tmp_path: Path) -> None:
    assert read_waits(tmp_path) is None


def test_a_run_in_which_nothing_timed_out_has_an_empty_record(tmp_path: Path) -> None:
    write_waits(summary_of([]), tmp_path)

    assert read_waits(tmp_path) == ()


def test_a_group_says_how_often_a_host_waited_for_how_long() -> None:
    waits = summary_of([wait(begin_ns=n, length_ns=3_750_050_176 + 256 * n) for n in range(3)])

    assert [str(group) for group in waits.groups] == ["receiver: 3 waits of 3.75 s (epoll_wait)"]


@pytest.mark.parametrize(
    "other", [{"host": "sender"}, {"process": "ion"}, {"kind": "futex"}, {"length_ns": 3_760_000_000}]
)
def test_waits_that_differ_are_not_of_one_group(other: dict[str, Any]) -> None:
    assert len(summary_of([wait(), wait(**other)]).groups) == 2


def test_the_group_with_the_longest_sum_is_first() -> None:
    waits = summary_of([wait(length_ns=10**9), *[wait(length_ns=400_000_000)] * 3])

    assert [group.count for group in waits.groups] == [3, 1]


def test_the_longest_waits_are_listed_and_the_others_counted() -> None:
    short = [wait(begin_ns=n, length_ns=1000) for n in range(MOST_WAITS)]

    waits = summary_of([*short, wait(begin_ns=MOST_WAITS)])

    assert waits.waits[-1].length_ns == 3_750_000_000
    assert (waits.left_out, waits.left_out_ns) == (1, 1000)
    assert sum(group.count for group in waits.groups) == MOST_WAITS + 1


def test_listed_waits_are_in_the_order_of_their_beginnings() -> None:
    waits = summary_of([wait(begin_ns=2), wait(begin_ns=1, length_ns=1)])

    assert [each.begin_ns for each in waits.waits] == [1, 2]


def test_waits_for_which_the_kernel_had_no_room_are_left_out() -> None:
    waits = summary_of([wait()], unrecorded=7, unrecorded_ns=9)

    assert (waits.left_out, waits.left_out_ns) == (7, 9)


def test_lengths_without_end_make_a_bounded_number_of_groups(tmp_path: Path) -> None:
    write_waits(summary_of([wait(length_ns=n) for n in range(1, 4001)]), tmp_path)

    read = read_run_waits(tmp_path)

    assert read is not None
    assert len(read.groups) == MOST_GROUPS


def test_a_line_for_people_has_the_longest_groups_and_how_many_more_there_are() -> None:
    waits = summary_of([wait(length_ns=n * 10**9) for n in range(1, 7)])

    ((_, text),) = described_waits(waits)

    assert text.startswith("receiver: 1 wait of 6 s (epoll_wait); ")
    assert text.endswith("; and 2 more lengths")


def test_nothing_is_described_without_waits() -> None:
    assert described_waits(None) == described_waits(summary_of([])) == []


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"waits": 3}, ReportError),
        ({"left_out": -1}, ReportError),
        ({"waits": [{}] * (MOST_WAITS + 1)}, ReportError),
        ({"waits": [{"host": "emulator", "process": "", "kind": "", "begin_ns": 0, "length_ns": 0}]}, ReportError),
        ({"left_out": 2**70}, DamagedFile),
    ],
)
def test_a_file_with_other_content_is_refused_by_name(
    tmp_path: Path, change: dict[str, Any], error: type[Exception]
) -> None:
    (tmp_path / WAITS_NAME).write_text(json.dumps({"groups": [], "waits": []} | change))

    with pytest.raises(error, match=WAITS_NAME):
        read_waits(tmp_path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text('{"groups": [], "waits": []}')
    (tmp_path / WAITS_NAME).symlink_to("elsewhere")

    with pytest.raises(DamagedFile, match="link"):
        read_waits(tmp_path)
