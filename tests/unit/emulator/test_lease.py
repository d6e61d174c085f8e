"""The rules of a lease on a clock of the test's own, and the thread that clears the channel when one ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Condition, Event, Thread

import pytest

from owlt.emulator.faults import ChannelRefused, InvalidLease, LeaseHeld, LeaseLost
from owlt.emulator.service.access import LeaseBook, LeaseKeeper


class Clock:
    """Shows the time that it is set to. A wait for some time looks again and again; one without a time does not."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def wait(self, condition: Condition, timeout_s: float | None) -> None:
        condition.wait(None if timeout_s is None else 0.001)


class Cleared:
    """Counts how often a channel was cleared."""

    def __init__(self) -> None:
        self.count = 0
        self.done = Event()

    def __call__(self) -> None:
        self.count += 1
        self.done.set()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(clock: Clock) -> LeaseBook:
    return LeaseBook(clock)


@pytest.fixture
def cleared() -> Cleared:
    return Cleared()


@pytest.fixture
def keeper(cleared: Cleared, clock: Clock) -> LeaseKeeper:
    return LeaseKeeper(cleared, clock, wait=clock.wait)


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.005)


def test_a_lease_lasts_as_long_as_was_asked(book: LeaseBook, clock: Clock) -> None:
    lease = book.grant("night", 60)
    clock.now_s += 59.9
    assert book.expired() is None
    clock.now_s += 0.1

    assert book.expired() == lease
    assert book.lease is None


def test_a_renewed_lease_lasts_from_its_renewal(book: LeaseBook, clock: Clock) -> None:
    lease = book.grant("night", 60)
    clock.now_s += 50
    book.renew(lease.id, 60)
    clock.now_s += 59.9

    assert book.expired() is None
    assert book.seconds_left == pytest.approx(0.1)


def test_a_lease_can_be_shortened(book: LeaseBook, clock: Clock) -> None:
    book.renew(book.grant("night", 60).id, 1)
    clock.now_s += 1

    assert book.expired() is not None


def test_a_second_lease_is_refused_with_the_holder_and_the_time_left(book: LeaseBook) -> None:
    book.grant("night", 60)

    with pytest.raises(LeaseHeld, match=r"night holds it for 60\.0 s"):
        book.grant("day", 60)


def test_a_released_lease_is_anybodys(book: LeaseBook) -> None:
    first = book.grant("night", 60)
    book.release(first.id)

    assert book.grant("day", 60).id != first.id


@pytest.mark.parametrize("id", ["", "0", "0" * 16, "ü", None, 1, ["x"], b"x"])
def test_an_unknown_lease_is_refused(book: LeaseBook, id: object) -> None:
    lease = book.grant("night", 60)

    for refuse in (book.held, book.release, lambda unknown: book.renew(unknown, 60)):
        with pytest.raises(LeaseLost):
            refuse(id)
    assert book.lease == lease


def test_everybody_may_while_there_is_no_lease(book: LeaseBook) -> None:
    book.check(None)


def test_a_lease_of_yesterday_does_not_pass_even_if_there_is_none_today(book: LeaseBook) -> None:
    old = book.release(book.grant("night", 60).id)

    with pytest.raises(LeaseLost, match="no client holds one"):
        book.check(old.id)


def test_only_the_holder_may_while_there_is_a_lease(book: LeaseBook) -> None:
    lease = book.grant("night", 60)

    book.check(lease.id)
    with pytest.raises(LeaseHeld):
        book.check(None)
    with pytest.raises(LeaseLost):
        book.check("0" * 16)


@pytest.mark.parametrize("holder", ["", "a\nb", "\x00", "x" * 101, None, 5, b"night"])
def test_a_holder_without_a_proper_name_is_refused(book: LeaseBook, holder: object) -> None:
    with pytest.raises(InvalidLease, match="expected a name of 1 to 100 printable characters"):
        book.grant(holder, 60)
    assert book.lease is None


@pytest.mark.parametrize("seconds", [0, -1, 0.05, 5184001, float("nan"), float("inf"), 10**400, True, "60", None, [60]])
def test_a_time_that_is_no_time_is_refused(book: LeaseBook, seconds: object) -> None:
    with pytest.raises(InvalidLease, match=r"expected a number from 0\.1 to 5184000"):
        book.grant("night", seconds)
    assert book.lease is None
    kept = book.grant("night", 60)
    with pytest.raises(InvalidLease):
        book.renew(kept.id, seconds)
    assert book.lease == kept


def test_a_lease_that_is_not_renewed_is_cleared_at_its_time(
    keeper: LeaseKeeper, cleared: Cleared, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    keeper.lease("night", 60)
    clock.now_s += 59.9
    assert keeper.lease_status()["held"]
    assert cleared.count == 0
    clock.now_s += 0.1

    assert cleared.done.wait(5)
    assert not keeper.lease_status()["held"]
    assert "lease of night not renewed" in caplog.text
    assert cleared.count == 1


def test_a_lease_that_is_renewed_is_not_cleared(keeper: LeaseKeeper, cleared: Cleared, clock: Clock) -> None:
    lease = keeper.lease("night", 60)["lease"]
    clock.now_s += 30
    keeper.renew(lease, 60)
    clock.now_s += 59.9

    assert keeper.lease_status()["held"]
    assert cleared.count == 0


def test_a_shortened_lease_is_cleared_earlier(keeper: LeaseKeeper, cleared: Cleared, clock: Clock) -> None:
    keeper.renew(keeper.lease("night", 60)["lease"], 10)
    clock.now_s += 10

    assert cleared.done.wait(5)


def test_releasing_clears_before_it_returns(keeper: LeaseKeeper, cleared: Cleared) -> None:
    keeper.release(keeper.lease("night", 60)["lease"])

    assert cleared.count == 1
    assert keeper.lease_status() == {"held": False, "holder": "", "seconds_left": 0.0}


def test_a_call_that_outlives_its_lease_is_cleared_after_it(
    keeper: LeaseKeeper, cleared: Cleared, clock: Clock
) -> None:
    lease = keeper.lease("night", 60)["lease"]

    with pytest.raises(LeaseLost, match="what it changed is cleared"), keeper.changing(lease):
        clock.now_s += 60
        assert cleared.done.wait(5)
        until(lambda: cleared.count == 1)
    assert cleared.count == 2


def test_nobody_changes_anything_while_a_call_of_an_ended_lease_runs(
    keeper: LeaseKeeper, cleared: Cleared, clock: Clock
) -> None:
    lease = keeper.lease("night", 60)["lease"]
    order = []

    def other() -> None:
        with keeper.changing(None):
            order.append("other")

    with pytest.raises(LeaseLost), keeper.changing(lease):
        clock.now_s += 60
        assert cleared.done.wait(5)
        waiting = Thread(target=other)
        waiting.start()
        time.sleep(0.1)
        order.append("night")
    waiting.join()
    assert order == ["night", "other"]


def test_a_lease_begins_when_the_calls_before_it_are_over(keeper: LeaseKeeper) -> None:
    order = []

    def taking() -> None:
        keeper.lease("night", 60)
        order.append("lease")

    with keeper.changing(None):
        waiting = Thread(target=taking)
        waiting.start()
        time.sleep(0.1)
        order.append("call")
    waiting.join()
    assert order == ["call", "lease"]


def test_a_call_that_fails_leaves_the_lease_as_it_is(keeper: LeaseKeeper, cleared: Cleared) -> None:
    lease = keeper.lease("night", 60)["lease"]

    with pytest.raises(ZeroDivisionError), keeper.changing(lease):
        raise ZeroDivisionError
    with keeper.changing(lease):
        pass
    assert cleared.count == 0


def test_a_channel_that_cannot_be_cleared_is_cleared_later(caplog: pytest.LogCaptureFixture) -> None:
    cleared = Cleared()

    def refusing() -> None:
        cleared()
        if cleared.count < 3:
            raise ChannelRefused("clearing: the kernel says no")

    keeper = LeaseKeeper(refusing, clear_again_s=(0.001, 0.001))
    keeper.release(keeper.lease("night", 60)["lease"])

    assert cleared.count == 3
    assert "could not be cleared" in caplog.text
