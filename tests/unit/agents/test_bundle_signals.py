"""When custody is signalled, in how many signals, and when a sender stops waiting for one."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from owlt.agents.bundle.blocks import Bundle, CustodyId, Eid, Fragment, Timestamp
from owlt.agents.bundle.convergence import Convergence
from owlt.agents.bundle.custody import AggregateCustodySignal, CustodySignal, Extent, Fill, Status
from owlt.agents.bundle.nodes import DtnClock, data_bundle
from owlt.agents.bundle.receiving import AggregateSignals, SingleSignals
from owlt.agents.bundle.sending import Awaited, CustodyTimers
from owlt.agents.bundle.settings import Custody, Settings
from owlt.agents.endpoint.exit import Unsupported

CLOCK = DtnClock(1000.0)


def bundle(number: int | None) -> Bundle:
    return data_bundle(b"12345", Fragment(5 * (number or 0), 50_000), Timestamp(7, 0), number)


def test_a_single_signal_is_due_at_once_and_names_its_fragment() -> None:
    signals = SingleSignals(CLOCK)
    signals.note(bundle(3), Status.ACCEPTED, 2.5)

    assert signals.due_at_s() < 2.5
    signal = signals.next_record()
    assert isinstance(signal, CustodySignal)
    assert (signal.status, signal.extent, signal.signalled) == (0x80, Extent(15, 5), (1002, 500_000_000))
    assert signals.due_at_s() == math.inf


def aggregate(signals: AggregateSignals) -> AggregateCustodySignal:
    """The next record, which is an aggregate."""
    record = signals.next_record()
    assert isinstance(record, AggregateCustodySignal)
    return record


def test_a_bundle_without_a_number_for_aggregates_has_a_signal_of_its_own() -> None:
    """CCSDS 734.2-B-1: such a custodian may know of nothing but RFC 5050."""
    signals = AggregateSignals(0.5, 1000, CLOCK)
    signals.note(bundle(1), Status.ACCEPTED, 10.0)
    signals.note(bundle(None), Status.ACCEPTED, 10.0)

    assert signals.due_at_s() < 10.0
    single = signals.next_record()
    assert isinstance(single, CustodySignal)
    assert (single.status, single.source) == (Status.ACCEPTED, (1, 1))
    assert signals.due_at_s() == 10.5
    assert aggregate(signals).fills == (Fill(1, 1),)


def test_a_number_that_another_custodian_gave_is_in_no_aggregate() -> None:
    signals = AggregateSignals(0.5, 1000, CLOCK)
    signals.note(replace(bundle(None), custody_id=CustodyId(7, Eid(3, 0))), Status.ACCEPTED, 10.0)

    assert isinstance(signals.next_record(), CustodySignal)


def test_an_aggregate_is_due_when_the_window_of_its_first_bundle_is_over() -> None:
    signals = AggregateSignals(0.5, 1000, CLOCK)
    for number, at_s in ((1, 10.0), (2, 10.2), (4, 10.4)):
        signals.note(bundle(number), Status.ACCEPTED, at_s)

    assert signals.due_at_s() == 10.5
    assert signals.next_record() == AggregateCustodySignal(Status.ACCEPTED, (Fill(1, 2), Fill(4, 1)))
    assert signals.due_at_s() == math.inf


def test_an_aggregate_that_is_full_is_due_at_once_and_the_rest_waits_for_the_window() -> None:
    signals = AggregateSignals(0.5, 32, CLOCK)
    for number in range(15):
        signals.note(bundle(2 * number + 1), Status.ACCEPTED, 10.0)
    assert signals.due_at_s() == 10.5
    signals.note(bundle(31), Status.ACCEPTED, 10.1)
    assert signals.due_at_s() < 10.1

    assert len(aggregate(signals).fills) == 15
    assert signals.due_at_s() < 10.5 + 1e-9
    assert aggregate(signals).fills == (Fill(31, 1),)


def test_what_comes_while_an_aggregate_waits_for_the_channel_is_in_it() -> None:
    signals = AggregateSignals(0.5, 1000, CLOCK)
    signals.note(bundle(1), Status.ACCEPTED, 10.0)
    signals.note(bundle(2), Status.ACCEPTED, 11.0)

    assert aggregate(signals).fills == (Fill(1, 2),)


def test_redundant_bundles_are_in_an_aggregate_of_their_own() -> None:
    signals = AggregateSignals(0.5, 1000, CLOCK)
    signals.note(bundle(1), Status.ACCEPTED, 10.0)
    signals.note(bundle(9), Status.REDUNDANT, 10.1)

    assert [signals.next_record().status for _ in range(2)] == [Status.ACCEPTED, Status.REDUNDANT]


def test_a_bundle_that_comes_again_before_its_signal_went_is_signalled_once() -> None:
    signals = AggregateSignals(0.5, 1000, CLOCK)
    signals.note(bundle(1), Status.ACCEPTED, 10.0)
    signals.note(bundle(1), Status.REDUNDANT, 10.1)

    assert signals.next_record() == AggregateCustodySignal(Status.ACCEPTED, (Fill(1, 1),))
    assert signals.due_at_s() == math.inf


def test_nothing_waits_when_nothing_more_is_expected() -> None:
    signals = AggregateSignals(0.5, 1000, CLOCK)
    signals.note(bundle(1), Status.ACCEPTED, 10.0)
    signals.hasten()

    assert signals.due_at_s() < 10.0


@settings(max_examples=50, deadline=None)
@given(numbers=st.lists(st.integers(1, 300), min_size=1, max_size=200, unique=True), record_bytes=st.integers(32, 100))
def test_every_bundle_is_in_exactly_one_aggregate(numbers: list[int], record_bytes: int) -> None:
    signals = AggregateSignals(0.5, record_bytes, CLOCK)
    said: list[int] = []
    for number in numbers:
        signals.note(bundle(number), Status.ACCEPTED, 10.0)
    while signals.due_at_s() < math.inf:
        record = aggregate(signals)
        assert len(record.encode()) <= record_bytes
        said += [number for fill in record.fills for number in range(fill.first, fill.last + 1)]

    assert sorted(said) == sorted(numbers)


def timers(**choices: object) -> tuple[Settings, CustodyTimers]:
    chosen = Settings(**({"rate_bps": 1e6, "rtt_s": 10.0, "reverse_rate_bps": 4e3} | choices))  # type: ignore[arg-type]
    return chosen, CustodyTimers(chosen)


def expiries(started: CustodyTimers) -> list[Awaited]:
    found = []
    while first := started.first():
        found.append(first)
        started.drop_first()
    return found


def test_a_chosen_timer_is_the_same_for_every_bundle() -> None:
    _, started = timers(custody_timer_s=12.0)
    for number in range(3):
        started.start(number, float(number))

    assert expiries(started) == [(12.0, 0), (13.0, 1), (14.0, 2)]


def test_timers_of_single_signals_are_longer_by_the_signals_before() -> None:
    chosen, started = timers(custody=Custody.SINGLE)
    for number in range(3):
        started.start(number, 100.0)

    waits_s = [expires_at_s - 100.0 - 10.0 - chosen.timer_margin_s for expires_at_s, _ in expiries(started)]
    assert waits_s == pytest.approx([chosen.signal_s, 2 * chosen.signal_s, 3 * chosen.signal_s])


def test_a_timer_of_aggregates_has_time_for_the_window_and_two_aggregates() -> None:
    chosen, started = timers(custody=Custody.AGGREGATE, acs_window_s=0.75)
    started.start(0, 100.0)

    assert expiries(started)[0].expires_at_s == pytest.approx(100 + 10 + 0.75 + 2 * chosen.signal_s + 0.1)


@pytest.mark.parametrize(
    "choices",
    [
        {"bundle_bytes": 0},
        {"bundle_bytes": 65_500, "convergence": Convergence.UDP},
        {"bundle_bytes": 1 << 30},
        {"segment_bytes": 0},
        {"segment_bytes": 70_000},
        {"acs_bytes": 10},
    ],
)
def test_what_the_format_cannot_hold_is_not_supported(choices: dict[str, object]) -> None:
    with pytest.raises(Unsupported):
        timers(**choices)


def test_a_file_beyond_the_fragment_offsets_is_not_supported() -> None:
    chosen, _ = timers()

    with pytest.raises(Unsupported, match="a file of 2147483648 bytes"):
        chosen.division(2**31)
