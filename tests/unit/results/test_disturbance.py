"""The machine delay above which a run is disturbed."""

from __future__ import annotations

import pytest

from owlt.results.judgements import DISPATCH_NS, MOST_OVERDUE, MOST_WAITED, described, disturbance
from owlt.results.record import MachineDelay

SESSION_NS = 100_000_000


def delay(**values: int) -> MachineDelay:
    return MachineDelay(session_ns=SESSION_NS, **values)


def test_a_run_without_delay_by_the_machine_is_not_disturbed() -> None:
    assert disturbance(delay(overdue_ns=0, waited_ns=0, dispatches=0)) == ""


def test_delays_that_were_not_measured_disturb_nothing() -> None:
    assert disturbance(delay()) == ""


@pytest.mark.parametrize("more_ns, is_disturbed", [(0, False), (1, True)])
def test_packets_may_be_overdue_for_a_share_of_the_session(more_ns: int, is_disturbed: bool) -> None:
    assert bool(disturbance(delay(overdue_ns=round(MOST_OVERDUE * SESSION_NS) + more_ns))) is is_disturbed


@pytest.mark.parametrize("more_ns, is_disturbed", [(0, False), (1, True)])
def test_processes_may_wait_for_a_share_of_the_session(more_ns: int, is_disturbed: bool) -> None:
    assert bool(disturbance(delay(waited_ns=round(MOST_WAITED * SESSION_NS) + more_ns, dispatches=0))) is is_disturbed


def test_the_time_of_a_dispatch_is_not_a_wait() -> None:
    waited_ns = round(MOST_WAITED * SESSION_NS) + 5000 * DISPATCH_NS

    assert disturbance(delay(waited_ns=waited_ns, dispatches=5000)) == ""
    assert disturbance(delay(waited_ns=waited_ns, dispatches=4999))


def test_the_reason_has_the_numbers() -> None:
    reason = disturbance(delay(overdue_ns=31_700_000, waited_ns=336_000_000, dispatches=6000))

    assert reason == (
        "the machine was busy: during a session of 100.0 ms the rig's processes waited 300.0 ms for a processor "
        "and packets were overdue in the emulator for 31.7 ms"
    )


def test_a_page_has_the_machine_delay() -> None:
    assert described("real", delay(overdue_ns=31_700_000, waited_ns=312_000_000, dispatches=6000)) == [
        ("packets overdue in the emulator", "31.7 ms, 31.7 % of the session"),
        ("processes waited for a processor", "312.0 ms in 6000 dispatches"),
    ]


def test_a_page_says_what_was_not_measured() -> None:
    assert [value for _, value in described("skip", delay())] == [
        "n/a on a channel that varies",
        "not measured",
    ]
    assert [value for _, value in described("exact", None)] == [
        "n/a on the exact clock, where computation takes no time"
    ]
    assert described("real", None) == []
