"""What the guests' kernel records of waits, as values."""

from __future__ import annotations

import struct

import pytest

from owlt.orchestrator.rigs.timed_waits import parse_recorded

SENDER, RECEIVER, ELSEWHERE = 4026532101, 4026532202, 4026531840
NETWORKS = {SENDER: "sender", RECEIVER: "receiver"}
SLEEP, TIMER_FD, POSIX_TIMER, INTERVAL_TIMER = 1, 2, 3, 4
EPOLL_WAIT = 232


def recorded(network: int = RECEIVER, call: int = EPOLL_WAIT, timer: int = SLEEP, name: bytes = b"ltp") -> bytes:
    return struct.pack("=QQIIHHI16s", 5_000_000_000, 3_750_000_000, network, 17, call, timer, 0, name)


HEAD = struct.pack("=QQ", 0, 0)


def test_a_wait_begins_its_length_before_its_time_out() -> None:
    (wait,) = parse_recorded(HEAD + recorded(), NETWORKS).waits

    assert (wait.begin_ns, wait.length_ns) == (1_250_000_000, 3_750_000_000)


def test_the_network_of_a_program_tells_its_host() -> None:
    waits = parse_recorded(HEAD + recorded(SENDER) + recorded(RECEIVER), NETWORKS).waits

    assert [wait.host for wait in waits] == ["sender", "receiver"]


def test_a_program_in_another_network_is_of_no_side() -> None:
    assert parse_recorded(HEAD + recorded(ELSEWHERE), NETWORKS).waits == ()


@pytest.mark.parametrize(
    ("call", "timer", "kind"),
    [
        (EPOLL_WAIT, SLEEP, "epoll_wait"),
        (202, SLEEP, "futex"),
        (999, SLEEP, "system call 999"),
        (EPOLL_WAIT, TIMER_FD, "timerfd"),
        (34, INTERVAL_TIMER, "alarm"),
        (128, POSIX_TIMER, "timer_create"),
    ],
)
def test_a_wait_is_of_the_kind_of_its_time_out(call: int, timer: int, kind: str) -> None:
    (wait,) = parse_recorded(HEAD + recorded(call=call, timer=timer), NETWORKS).waits

    assert wait.kind == kind


def test_a_name_of_a_process_is_made_printable() -> None:
    (wait,) = parse_recorded(HEAD + recorded(name=b"\x1b[2J\xff" + b"\x07" * 11), NETWORKS).waits

    assert wait.process.isprintable()


def test_waits_for_which_there_was_no_room_are_counted() -> None:
    waits = parse_recorded(struct.pack("=QQ", 3, 7) + recorded(), NETWORKS)

    assert (waits.left_out, waits.left_out_ns) == (3, 7)
