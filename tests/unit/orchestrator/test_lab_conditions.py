"""What readings of a lab host before and after a run say about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from owlt.orchestrator.rigs.lab.raising import (
    Reading,
    doubts_about_ports,
    doubts_between,
    drops_between,
    parse_reading,
)

READ = """1000.10 3000.00
1700000000000000000
1000.12 3000.00
250 4096
port enp3s0f0 rx_dropped 7
port enp3s0f0 rx_missed_errors 2
port enp3s0f1 rx_dropped 0
cpu  100 0 50 700 20 5 25 100 0 0
cpu0 50 0 25 350 10 5 15 50 0 0
cpu1 50 0 25 350 10 0 10 50 0 0
"""
BEGIN = Reading(1_700_000_000 * 10**9, 1000 * 10**9, 20_000_000, 1_000, 100_000, 4, 10**9)


DROPS = {"enp3s0f0": {"rx_dropped": 7, "rx_missed_errors": 2}, "enp3s0f1": {"rx_dropped": 0}}


def after(seconds: float, busy: float = 0.1, step_s: float = 0.0) -> Reading:
    """A host of four processors that were busy for `busy` s in each second, whose clock was set by `step_s`."""
    return Reading(
        BEGIN.clock_ns + round((seconds + step_s) * 1e9),
        BEGIN.uptime_ns + round(seconds * 1e9),
        20_000_000,
        BEGIN.busy_ticks + round(100 * seconds * busy),
        BEGIN.ticks + round(400 * seconds),
        4,
        10**9,
    )


def test_a_reading_is_parsed() -> None:
    assert parse_reading(READ) == Reading(
        1_700_000_000 * 10**9, 1_000_110_000_000, 20_000_000, 280, 1000, 2, 1_024_000, DROPS
    )


def test_an_ordinary_run_has_no_doubts() -> None:
    assert doubts_between("receiver", BEGIN, after(100)) == []


@pytest.mark.parametrize("step_s", [0.03, -0.03])
def test_a_difference_within_the_error_of_the_readings_is_no_step(step_s: float) -> None:
    assert doubts_between("receiver", BEGIN, after(10, step_s=step_s)) == []


def test_a_clock_that_is_slewed_was_not_set() -> None:
    assert doubts_between("receiver", BEGIN, after(10_000, step_s=4.0)) == []


@pytest.mark.parametrize(
    ("role", "step_s", "expected"),
    [
        (
            "receiver",
            -2.5,
            "the clock of the receiver was set by -2.50 s during the run: times that its programs noted",
        ),
        ("emulator", 3600, "the clock of the emulator was set by +3600.00 s during the run: times in the captures"),
    ],
)
def test_a_clock_that_was_set_is_named_with_what_is_wrong(role: str, step_s: float, expected: str) -> None:
    (sentence,) = doubts_between(role, BEGIN, after(10, step_s=step_s))

    assert sentence == f"{expected} are wrong"


def test_a_host_that_kept_a_processor_busy_may_have_been_the_limit() -> None:
    (sentence,) = doubts_between("sender", BEGIN, after(10, busy=0.98))

    assert sentence == (
        "CPU-bound: the sender may have limited the run, not the channel: its 4 processors were busy for 0.98 s in "
        "each second of the 10.0 s from the start of the programs to their end"
    )


def test_a_run_that_mostly_started_programs_is_not_called_cpu_bound() -> None:
    assert doubts_between("sender", BEGIN, after(0.5, busy=1.0)) == []


def test_only_what_a_card_dropped_during_the_run_counts() -> None:
    begin = replace(BEGIN, drops=DROPS)
    end = replace(begin, drops=DROPS | {"enp3s0f0": {"rx_dropped": 7, "rx_missed_errors": 5}})

    drops = drops_between(begin, end)

    assert drops == {"enp3s0f0": {"rx_dropped": 0, "rx_missed_errors": 3}, "enp3s0f1": {"rx_dropped": 0}}


def test_a_card_that_dropped_frames_makes_a_run_suspect() -> None:
    (sentence,) = doubts_about_ports(
        {"sender": {"rx_dropped": 0, "rx_missed_errors": 3}, "receiver": {"rx_dropped": 0}}
    )

    assert sentence.startswith(
        "the emulator's card at the sender's port dropped frames during the run (3 rx_missed_errors)"
    )
