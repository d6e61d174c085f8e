"""The bytes of bundles and of custody signals: what goes in comes out, and what is wrong is Malformed."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from owlt.agents.bundle.blocks import NONE, BlockFlag, Bundle, CustodyId, Eid, Fragment, Malformed, Timestamp, decode
from owlt.agents.bundle.custody import (
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
        report_to=draw(EIDS),
        reports_deletion=draw(st.booleans()),
        checked=draw(st.booleans()),
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


def with_block(bundle: Bundle, kind: int, flags: int, content: bytes = b"??") -> bytes:
    """The bytes of a bundle with one more block in front of its payload."""
    octets = bundle.encode()
    payload_at = octets.index(b"\x01\x08\x05hello")
    return octets[:payload_at] + bytes([kind, flags, len(content)]) + content + octets[payload_at:]


@pytest.mark.parametrize("flags", [0x00, 0x01, 0x10, 0x20], ids=["none", "in every fragment", "discard", "forwarded"])
def test_an_unknown_block_is_passed_over(flags: int) -> None:
    assert decode(with_block(EXAMPLE, 0x13, flags)) == EXAMPLE


@pytest.mark.parametrize("flags", [0x02, 0x04, 0x06], ids=["report", "delete the bundle", "both"])
def test_what_an_unknown_block_asks_for_is_known(flags: int) -> None:
    assert decode(with_block(EXAMPLE, 0x13, flags)) == replace(EXAMPLE, not_processed=BlockFlag(flags))


def test_what_a_known_block_asks_for_when_it_is_unknown_is_not_asked_for() -> None:
    octets = with_block(replace(EXAMPLE, custody_id=None), 10, 0x06, b"\x07ipn:1.0")

    assert decode(octets) == replace(EXAMPLE, custody_id=CustodyId(7, Eid(1, 0)))


def test_a_custody_id_of_a_custodian_of_another_scheme_is_none() -> None:
    octets = with_block(replace(EXAMPLE, custody_id=None), 10, 0, b"\x07dtn://node")

    assert decode(octets).custody_id is None


def test_a_custody_id_that_another_custodian_gave_is_not_for_aggregates() -> None:
    assert EXAMPLE.aggregate_id == 1
    assert replace(EXAMPLE, custody_id=CustodyId(1, Eid(3, 0))).aggregate_id is None


CHECKED = replace(EXAMPLE, checked=True)


def test_a_check_is_a_private_block_that_a_node_without_it_may_discard() -> None:
    octets = CHECKED.encode()
    check_at = octets.index(b"\xc8\x10\x04")
    zeroed = octets[: check_at + 3] + bytes(4) + octets[check_at + 7 :]

    assert octets[check_at + 3 : check_at + 7] == crc32c(zeroed).to_bytes(4)
    assert octets[:check_at] + octets[check_at + 7 :] == EXAMPLE.encode()


def crc32c(octets: bytes) -> int:
    """As RFC 3720, appendix B.4, has it, bit by bit."""
    crc = 0xFFFFFFFF
    for octet in octets:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_the_crc_of_this_test_is_that_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def ones_complement_sum(octets: bytes) -> int:
    """The checksum of UDP before its complement: a sum of 16-bit words with end-around carry (RFC 1071)."""
    total = sum(int.from_bytes(octets[at : at + 2].ljust(2, b"\0")) for at in range(0, len(octets), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def flips_that_cancel(octets: bytes, chance: random.Random) -> bytes:
    """Two bits flipped at the same place of two 16-bit words, one up and one down."""
    while True:
        one, other = (8 * 2 * chance.randrange(len(octets) // 2) for _ in range(2))
        column = chance.randrange(16)
        flipped = bytearray(octets)
        for word in (one, other):
            flipped[(word + column) // 8] ^= 0x80 >> column % 8
        if one != other and ones_complement_sum(bytes(flipped)) == ones_complement_sum(octets):
            return bytes(flipped)


def test_two_flips_that_cancel_in_the_checksum_of_udp_may_make_another_bundle() -> None:
    chance = random.Random(11)
    bundle = replace(EXAMPLE, payload=chance.randbytes(1000), fragment=None)
    others = 0
    for _ in range(50):
        with suppress(Malformed):
            others += decode(flips_that_cancel(bundle.encode(), chance)) != bundle

    assert others > 40


def test_no_two_flips_that_cancel_in_the_checksum_of_udp_pass_the_check() -> None:
    chance = random.Random(12)
    octets = replace(CHECKED, payload=chance.randbytes(1000), fragment=None).encode()
    for _ in range(300):
        flipped = flips_that_cancel(octets, chance)
        with suppress(Malformed):
            assert not decode(flipped).checked


def test_two_random_flips_cancel_once_in_32_times() -> None:
    """Same place of two words: 1 in 16. One up and one down: 1 in 2. The bound is 5 standard deviations."""
    chance = random.Random(13)
    octets = chance.randbytes(400)
    wanted, trials, cancelled = ones_complement_sum(octets), 10_000, 0
    for _ in range(trials):
        flipped = bytearray(octets)
        for bit in chance.sample(range(8 * len(octets)), 2):
            flipped[bit // 8] ^= 0x80 >> bit % 8
        cancelled += ones_complement_sum(bytes(flipped)) == wanted
    share = (len(octets) / 2 - 1) / (8 * len(octets) - 1) / 2

    assert abs(cancelled - trials * share) < 5 * (trials * share * (1 - share)) ** 0.5


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
