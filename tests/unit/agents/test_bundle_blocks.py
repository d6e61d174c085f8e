"""The bytes of bundles and of custody signals: what goes in comes out, and what is wrong is Malformed."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.bundle.blocks import Bundle, CustodyId, Fragment, Timestamp, decode
from agents.bundle.custody import (
    LARGEST_CUSTODY_ID,
    AggregateCustodySignal,
    CustodySignal,
    DtnTime,
    Extent,
    Fill,
    Status,
    decode_record,
    first_fills,
)
from agents.bundle.eid import NONE, Eid
from agents.bundle.fields import Malformed

NUMBERS = st.integers(0, 2**63)
EIDS = st.builds(Eid, NUMBERS, NUMBERS)
CUSTODIANS = st.builds(Eid, st.integers(1, 2**63), NUMBERS)
TIMESTAMPS = st.builds(Timestamp, NUMBERS, NUMBERS)


@st.composite
def bundles(draw: st.DrawFn) -> Bundle:
    payload = draw(st.binary(max_size=200))
    offset = draw(st.integers(0, 2**40))
    behind = draw(st.integers(0, 2**40))
    return Bundle(
        source=draw(EIDS),
        destination=draw(EIDS),
        created=draw(TIMESTAMPS),
        payload=payload,
        custodian=draw(st.one_of(st.just(NONE), CUSTODIANS)),
        custody_id=draw(st.none() | st.builds(CustodyId, NUMBERS, EIDS)),
        fragment=draw(st.sampled_from([None, Fragment(offset, offset + len(payload) + behind)])),
        administrative=draw(st.booleans()),
    )


@st.composite
def fills(draw: st.DrawFn) -> tuple[Fill, ...]:
    """Disjoint, apart from each other, in rising order."""
    steps = draw(st.lists(st.tuples(st.integers(2, 10**4), st.integers(1, 10**4)), min_size=1, max_size=40))
    made, last = [], -2
    for gap, length in steps:
        made.append(Fill(last + gap, length))
        last = made[-1].last
    return tuple(made)


SIGNALS = st.builds(
    CustodySignal,
    status=st.integers(0, 255),
    source=EIDS,
    created=TIMESTAMPS,
    extent=st.none() | st.builds(Extent, NUMBERS, NUMBERS),
    signalled=st.builds(DtnTime, NUMBERS, NUMBERS),
)
AGGREGATES = st.builds(AggregateCustodySignal, st.integers(0, 255), fills())

EXAMPLE = Bundle(
    source=Eid(1, 1),
    destination=Eid(2, 1),
    custodian=Eid(1, 0),
    created=Timestamp(820_540_979, 0),
    custody_id=CustodyId(1, Eid(1, 0)),
    fragment=Fragment(0, 1000),
    payload=b"hello",
)


@settings(max_examples=100, deadline=None)
@given(bundle=bundles())
def test_a_bundle_comes_back_as_it_went(bundle: Bundle) -> None:
    assert decode(bundle.encode()) == bundle


@settings(max_examples=100, deadline=None)
@given(record=st.one_of(SIGNALS, AGGREGATES))
def test_a_signal_comes_back_as_it_went(record: CustodySignal | AggregateCustodySignal) -> None:
    assert decode_record(record.encode()) == record


@settings(max_examples=200, deadline=None)
@given(octets=st.binary(max_size=80), begins=st.sampled_from([b"", b"\x06", b"\x06\x19", b"\x40\x80", b"\x20\x80"]))
def test_any_bytes_are_a_bundle_or_malformed(octets: bytes, begins: bytes) -> None:
    for reads in (decode, decode_record):
        with suppress(Malformed):
            reads(begins + octets)


@pytest.mark.parametrize("place", range(len(EXAMPLE.encode())))
def test_a_bundle_cut_short_is_malformed(place: int) -> None:
    with pytest.raises(Malformed):
        decode(EXAMPLE.encode()[:place])


def test_a_bundle_with_a_changed_byte_is_a_bundle_or_malformed() -> None:
    chance = random.Random(3)
    for _ in range(2000):
        octets = bytearray(EXAMPLE.encode())
        octets[chance.randrange(len(octets))] = chance.randrange(256)
        with suppress(Malformed):
            decode(bytes(octets))


def test_a_bundle_is_laid_out_as_rfc_5050_and_rfc_6260_have_it() -> None:
    version_and_flags = "06 19"
    length = "16"
    endpoints = "02 01 01 01 00 00 01 00"  # destination, source, report-to, custodian
    created = "83 87 a1 ec 33 00"
    lifetime_and_dictionary = "81 9e 9a 00 00"
    fragment = "00 87 68"
    primary = bytes.fromhex(version_and_flags + length + endpoints + created + lifetime_and_dictionary + fragment)
    enhancement = b"\x0a\x00\x08\x01ipn:1.0"
    payload = b"\x01\x08\x05hello"

    assert EXAMPLE.encode() == primary + enhancement + payload


def test_an_aggregate_counts_each_fill_from_the_last_number_of_the_one_before() -> None:
    signal = AggregateCustodySignal(Status.ACCEPTED, (Fill(1, 10), Fill(12, 7), Fill(200, 1)))

    assert signal.encode() == bytes([0x40, 0x80, 1, 10, 12 - 10, 7, 0x81, (200 - 18) & 0x7F, 1])


@pytest.mark.parametrize(
    "octets",
    [
        b"\x40\x80",  # no fill
        b"\x40\x80\x01\x00",  # an empty one
        b"\x40\x80\x01\x05\x00\x02",  # two that overlap
        b"\x40\x80\x01\x88\x80\x80\x80\x00",  # beyond the largest id
        b"\x30\x80\x01\x01",  # of a type that is not known
        b"\x21\x80\x00",  # cut short
    ],
)
def test_a_signal_that_says_nothing_sensible_is_malformed(octets: bytes) -> None:
    with pytest.raises(Malformed):
        decode_record(octets)


def test_a_bundle_with_a_dictionary_is_malformed() -> None:
    octets = bytearray(EXAMPLE.encode())
    at = octets.index(bytes.fromhex("81 9e 9a 00")) + 4
    octets[at] = 1

    with pytest.raises(Malformed, match="a dictionary"):
        decode(bytes(octets))


def test_an_unknown_block_is_passed_over() -> None:
    octets = EXAMPLE.encode()
    payload_at = octets.index(b"\x01\x08\x05hello")

    assert decode(octets[:payload_at] + b"\x13\x01\x02\x00\x00" + octets[payload_at:]) == EXAMPLE


@settings(max_examples=50, deadline=None)
@given(made=fills(), record_bytes=st.integers(32, 200))
def test_the_first_fills_that_have_room_are_as_many_as_can_be(made: tuple[Fill, ...], record_bytes: int) -> None:
    taken = first_fills(list(made), record_bytes)

    def length(fills_there: list[Fill]) -> int:
        return len(AggregateCustodySignal(Status.ACCEPTED, tuple(fills_there)).encode())

    assert list(made[: len(taken)]) == taken
    assert length(taken) <= record_bytes
    assert len(taken) == len(made) or length(list(made[: len(taken) + 1])) > record_bytes


def test_the_largest_custody_id_is_within_what_is_read() -> None:
    signal = AggregateCustodySignal(Status.ACCEPTED, (Fill(LARGEST_CUSTODY_ID, 1),))

    assert decode_record(signal.encode()) == signal
