"""Bytes of others: every decoder reads them or refuses them by name, in little time and memory; every engine ends.

The tables are those of `python -m tests.fuzz`, which does the same for longer. Examples here are the same each time.
"""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from owlt.agents.bundle.blocks import Timestamp
from owlt.agents.bundle.convergence import Reassembly, segments_of
from owlt.agents.contract.implementation import ContractError, load_implementation
from owlt.agents.ltp.receiving import InboundBlock
from owlt.agents.ltp.segments import Checkpoint, DataSegment, SessionId
from owlt.agents.saratoga import version0, version1
from owlt.agents.saratoga.packets import Data, Metadata, Status
from owlt.agents.saratoga.settings import Settings as SaratogaSettings
from tests.calls import TooManyCalls, calls_limited_to
from tests.fuzz.changes import EXTREMES, Change, Kind, changed, changed_at_random
from tests.fuzz.decoders import DECODERS
from tests.fuzz.engines import ENGINES, Channel, NoEnd, Script
from tests.fuzz.examining import Target, examine
from tests.unit.agents.saratoga_channel import transfer

FLOOR_CALLS = 100_000
CALLS_PER_BYTE = 60
"""An empty TLV of a CFDP metadata PDU is two bytes, and 60 calls and returns."""
BYTES_PER_BYTE = 300
"""A claim of two bytes in an LTP report takes three hundred as a tuple of numbers."""

CHANGES = st.builds(Change, st.sampled_from(Kind), st.integers(0, 65_535), st.integers(0, 255))
SLOW = {"profile", "saratoga-layer", "custody-layer", "captures", "quic-frames"}
"""A tenth of the examples: a call takes milliseconds."""

EXTREME_NUMBERS = [at for at, extreme in enumerate(EXTREMES) if extreme[:1] in (b"\xff", b"\x81", b"\x90", b"\x7f")]


@cache
def decoder(name: str) -> Target:
    target = DECODERS[name]()
    target.run(target.seeds[0])  # what is imported or kept for later is no input's
    return target


@cache
def engine(name: str) -> Target:
    return ENGINES[name]()


def read(target: Target, octets: bytes) -> None:
    """Raises every exception that is not a refusal; fails on too many calls and on too much memory."""
    tracemalloc.start()
    try:
        with suppress(*target.refuses), calls_limited_to(FLOOR_CALLS + CALLS_PER_BYTE * len(octets)):
            target.run(octets)
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak_bytes < target.floor_bytes + BYTES_PER_BYTE * len(octets)


def examples(name: str, many: int) -> settings:
    few = many // 10 if name in SLOW else many
    return settings(max_examples=few, deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_reads_what_its_encoder_made(name: str) -> None:
    target = decoder(name)

    for octets in target.seeds:
        target.run(octets)


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_reads_or_refuses_any_bytes(name: str) -> None:
    target = decoder(name)

    @examples(name, 40)
    @given(st.binary(max_size=200))
    def reads(octets: bytes) -> None:
        read(target, octets)

    reads()


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_reads_or_refuses_what_was_changed(name: str) -> None:
    target = decoder(name)

    @examples(name, 60)
    @given(st.sampled_from(target.seeds), st.lists(CHANGES, min_size=1, max_size=5))
    def reads(octets: bytes, changes: list[Change]) -> None:
        for change in changes:
            octets = changed(octets, change)
        read(target, octets)

    reads()


@pytest.mark.parametrize("name", [name for name in DECODERS if name not in SLOW])
def test_a_decoder_reads_or_refuses_an_extreme_number_at_every_place(name: str) -> None:
    target = decoder(name)
    for octets in target.seeds[:8]:
        for place, extreme in product(range(min(len(octets), 36)), EXTREME_NUMBERS):
            with suppress(*target.refuses):
                target.run(changed(octets, Change(Kind.OVERWRITE, place, extreme)))


@pytest.mark.parametrize("filler", [b"\0", b"\1", b"\xff"], ids=["0", "1", "255"])
@pytest.mark.parametrize("name", [name for name in DECODERS if name != "profile"])
def test_a_decoder_reads_or_refuses_the_largest_datagram(name: str, filler: bytes) -> None:
    target = decoder(name)

    for octets in target.seeds[:8]:
        read(target, (octets[:40] + filler * 65_507)[:65_507])


def test_a_decoder_whose_calls_grow_with_the_square_of_the_bytes_is_found() -> None:
    def compare_all(octets: bytes) -> None:
        for octet in octets:
            for other in octets:
                max(octet, other)

    with pytest.raises(TooManyCalls):
        read(Target(compare_all, (), []), bytes(65_507))


@pytest.mark.parametrize("name", ENGINES)
def test_parties_end_whatever_is_done_to_their_datagrams(name: str) -> None:
    target, chance = engine(name), random.Random(name)
    scripts = [*target.seeds, *(changed_at_random(chance.choice(target.seeds), chance) for _ in range(4))]

    for octets in scripts:
        target.run(octets)


SESSION = SessionId(1, 1)


def red(start: int, end: int, checkpoint: Checkpoint | None = None) -> DataSegment:
    return DataSegment(SESSION, 2, start, bytes(end - start), True, checkpoint)


def test_an_ltp_checkpoint_that_comes_after_a_later_one_is_not_reported_on() -> None:
    """It was a repetition of one that was lost; it asked for a report whose end lies in front of its begin."""
    block = InboundBlock(SESSION, 1000, None, first_serial=1)
    for segment in (red(0, 5), red(10, 20), red(20, 40)):
        block.take(segment)
    assert len(block.report(Checkpoint(3, 0), upper_bound=20, largest_bytes=1000)) == 1

    block.take(red(5, 10))

    assert block.report(Checkpoint(2, 0), upper_bound=10, largest_bytes=1000) == []


def test_an_ltp_report_of_crossed_bounds_is_none_however_far_they_are_apart() -> None:
    block = InboundBlock(SESSION, 1000, None, first_serial=1)
    block.take(red(0, 30))
    block.report(Checkpoint(1, 0), upper_bound=20, largest_bytes=1000)
    (second,) = block.report(Checkpoint(2, 0), upper_bound=30, largest_bytes=1000)

    assert block.report(Checkpoint(3, second.serial), upper_bound=1, largest_bytes=1000) == []


def test_green_blocks_that_were_delivered_make_no_room_for_others() -> None:
    """Each one made 256 bytes of it, and the bound meant nothing after some 10^5 bundles."""
    reassembly = Reassembly(most_blocks=50, most_bytes=5000)
    for number in range(100):
        for segment in segments_of(bytes(10), number, 1, 1, 20):
            reassembly.take(segment)

    for number in range(100, 120):
        reassembly.take(next(iter(segments_of(bytes(500), number, 1, 1, 400))))

    assert reassembly.forgotten == 20 - 5000 // (256 + 256 + 400)


PACKET: dict[str, Any] = {"session": 1, "asks": True, "ends": False, "timestamp": b"", "payload": b"x" * 100}


@pytest.mark.parametrize(
    ("version", "heard"),
    [
        (1, [Data(**PACKET, offset=10**6, descriptor_bits=32), Data(**PACKET, offset=0, descriptor_bits=16)]),
        (1, [Data(**PACKET, offset=2**16 - 1, descriptor_bits=16)]),
        (0, [Data(**PACKET, offset=2**32 - 1, descriptor_bits=32)]),
    ],
    ids=["a shorter descriptor later", "an end beyond 16 bits", "an end beyond 32 bits"],
)
def test_a_saratoga_status_has_room_for_its_numbers(tmp_path: Path, version: int, heard: list[Data]) -> None:
    from owlt.agents.saratoga.receiving import Receiving

    codec = {0: version0, 1: version1}[version]
    choices = {"version": version, "transfer": "get"}
    with Receiving(tmp_path / "output", SaratogaSettings(rate_bps=0, rtt_s=1, **choices), 0.0) as party:  # type: ignore[arg-type]
        for data in heard:
            party.hear(codec.pack(data), 0.0)

        while party.has_datagram():
            assert isinstance(codec.read(party.next_datagram(0.0)), Status)


def test_saratoga_sides_that_mean_files_of_different_sizes_give_up(tmp_path: Path) -> None:
    """Each heard the other for ever, and neither was silent."""

    def rule(kind: str, _number: int, datagram: bytes) -> list[bytes]:
        packet = version1.read(datagram)
        if isinstance(packet, Metadata):
            return [version1.pack(replace(packet, file_bytes=packet.file_bytes + 1))]
        if isinstance(packet, Status):
            return [version1.pack(replace(packet, metadata_missing=True))]
        return [version1.pack(replace(packet, ends=False))] if isinstance(packet, Data) else [datagram]

    ending = transfer(tmp_path, rule, content=bytes(5000))

    assert ending.sender_said.startswith("failed: no progress of the receiver")
    assert ending.receiver_said.startswith("failed: no progress")


@pytest.fixture
def cfdp_receiving(tmp_path: Path) -> Iterator[Any]:
    from owlt.agents.cfdp.receiving import Receiving
    from owlt.agents.cfdp.settings import Settings

    party = Receiving(tmp_path / "output", Settings(rate_bps=1e6, rtt_s=1, nak="immediate"), 0.0)
    with party:
        yield party


def cfdp_pdus(large: bool = False, acknowledged: bool = True) -> Callable[[int], bytes]:
    """Makes a File Data PDU with an offset, in a header of some kind."""
    from spacepackets.cfdp import Direction, LargeFileFlag, TransmissionMode
    from spacepackets.cfdp.conf import PduConfig
    from spacepackets.cfdp.pdu import FileDataPdu
    from spacepackets.cfdp.pdu.file_data import FileDataParams
    from spacepackets.util import ByteFieldU16

    conf = PduConfig(
        ByteFieldU16(101),
        ByteFieldU16(102),
        ByteFieldU16(0),
        TransmissionMode.ACKNOWLEDGED if acknowledged else TransmissionMode.UNACKNOWLEDGED,
        LargeFileFlag.LARGE if large else LargeFileFlag.NORMAL,
        direction=Direction.TOWARDS_RECEIVER,
    )
    return lambda offset: bytes(FileDataPdu(conf, FileDataParams(b"data", offset)).pack())


def end_of_file(file_bytes: int) -> bytes:
    from spacepackets.cfdp import TransmissionMode
    from spacepackets.cfdp.conf import PduConfig
    from spacepackets.cfdp.pdu import EofPdu
    from spacepackets.util import ByteFieldU16

    conf = PduConfig(ByteFieldU16(101), ByteFieldU16(102), ByteFieldU16(0), TransmissionMode.ACKNOWLEDGED)
    return bytes(EofPdu(conf, bytes(4), file_bytes).pack())


@pytest.mark.parametrize(
    "datagram",
    [cfdp_pdus(large=True)(2**62), cfdp_pdus(acknowledged=False)(0), cfdp_pdus()(2**32 - 3)],
    ids=["of a large file", "of class 1", "behind the largest file"],
)
def test_cfdp_pdus_that_the_engine_would_choke_on_are_not_shown_to_it(cfdp_receiving: Any, datagram: bytes) -> None:
    cfdp_receiving.hear(datagram, 0.0)

    assert "unreadable=1" in cfdp_receiving._tally.facts()


def test_a_cfdp_party_with_something_to_send_wants_nothing_but_its_turn(cfdp_receiving: Any) -> None:
    """It wanted to be woken at a time that was over, until its pacer opened: on an exact clock that is never."""
    party = cfdp_receiving
    party.hear(cfdp_pdus()(0), 1.0)
    party.next_datagram(1.0)
    assert party.wakes_at_s == 1.0
    party._outbox.add(party._early[0])

    party.advance(1.0)

    assert party.wakes_at_s > 1.0


def test_what_a_cfdp_receiver_keeps_before_the_metadata_is_bounded(tmp_path: Path) -> None:
    from owlt.agents.cfdp.receiving import Receiving
    from owlt.agents.cfdp.settings import Settings

    settings = Settings(rate_bps=1e6, rtt_s=1, nak="immediate")
    receiving = Receiving(tmp_path / "output", settings, 0.0, most_early_pdus=5)
    with receiving:
        for number in range(10):
            receiving.hear(cfdp_pdus()(4 * number), 0.0)
        for _ in range(3):
            receiving.hear(end_of_file(40), 0.0)

    assert [type(pdu).__name__ for pdu in receiving._early] == ["FileDataPdu"] * 5 + ["EofPdu"]


def test_an_aggregate_that_is_due_after_another_is_not_forgotten(tmp_path: Path) -> None:
    """It was sent when the next bundle came, or never."""
    from owlt.agents.bundle.convergence import Convergence
    from owlt.agents.bundle.nodes import Division, DtnClock, data_bundle
    from owlt.agents.bundle.receiving import Receiving
    from owlt.agents.bundle.settings import Settings
    from owlt.agents.endpoint.files import IncomingFile

    choices = Settings(rate_bps=0, rtt_s=1, convergence=Convergence.UDP, bundle_bytes=100, acs_window_s=0.1)
    file = Division(1000, 100)
    bundles = [data_bundle(bytes(100), file.fragment(at), Timestamp(1, 0), at + 1).encode() for at in range(2)]
    with IncomingFile(tmp_path / "output") as incoming:
        party = Receiving(incoming, choices, DtnClock(820_000_000.0), 0.0)
        party.hear(bundles[0], 0.0)
        party.advance(0.1)
        party.next_datagram(0.1)
        party.hear(bundles[1], 1.0)  # its aggregate is due at 1.1 s
        party.hear(bundles[0], 1.05)  # redundant: another aggregate, due at 1.15 s
        party.advance(1.1)
        party.next_datagram(1.1)

        assert not party.has_datagram()
        assert party.wakes_at_s <= 1.15 + 1e-9


def test_a_custody_timer_that_starts_with_the_last_bundle_is_not_forgotten() -> None:
    """A bundle alone in its datagram was sent once, and the receiver then called silent."""
    from owlt.agents.bundle.convergence import Convergence
    from owlt.agents.bundle.nodes import DtnClock
    from owlt.agents.bundle.sending import Sending
    from owlt.agents.bundle.settings import Settings

    choices = Settings(rate_bps=0, rtt_s=1, convergence=Convergence.UDP, bundle_bytes=100)
    party = Sending(bytes(50), choices, DtnClock(820_000_000.0), 0.0)
    party.advance(0.0)
    party.next_datagram(0.0)

    assert not party.has_datagram()
    assert party.wakes_at_s <= choices.longest_timer_s(1)


HOSTILE_PROFILES = {
    "deeply nested": "name: " + "[" * 1000,
    "a date that is none": "name: 2001-99-99",
    "a number of 5000 digits": "name: " + "9" * 5000,
    "not the number it says": "name: !!int abc",
    "not the truth it says": "name: !!bool abc",
    "no character": 'name: "\\U99999999"',
}


@pytest.mark.parametrize("text", HOSTILE_PROFILES.values(), ids=HOSTILE_PROFILES)
def test_a_hostile_implementation_file_is_one_error_of_a_few_lines(tmp_path: Path, text: str) -> None:
    path = tmp_path / "name.yaml"
    path.write_text(text)

    with pytest.raises(ContractError) as caught:
        load_implementation(path)

    assert len(str(caught.value)) < 10_000


def greedy(octets: bytes) -> None:
    """A decoder that believes a count."""
    bytearray(int.from_bytes(octets[:4]))


def test_a_decoder_that_believes_a_count_is_found_out() -> None:
    with pytest.raises(AssertionError):
        read(Target(greedy, (), []), b"\x04\x00\x00\x00")


def test_a_decoder_that_raises_something_else_is_found_out() -> None:
    finding = examine(Target(lambda octets: {}[octets], (ValueError,), []), b"key")

    assert finding is not None
    assert finding.place.startswith("KeyError ")
    assert "KeyError: b'key'" in finding.story


def test_a_party_that_never_ends_is_found_out() -> None:
    class Restless:
        ended = False
        wakes_at_s = 0.0

        def advance(self, now_s: float) -> None:
            """It is never over."""

        def has_datagram(self) -> bool:
            return False

    with pytest.raises(NoEnd):
        Channel((Restless(), Restless()), Script(b""), lambda _: None).run()


@pytest.mark.parametrize("kind", Kind)
@given(octets=st.binary(max_size=50), place=st.integers(0, 65_535), amount=st.integers(0, 255))
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
def test_any_change_fits_any_packet(kind: Kind, octets: bytes, place: int, amount: int) -> None:
    change = Change.read(bytes([kind]) + place.to_bytes(2) + bytes([amount]))

    assert change == Change(kind, place, amount)
    assert len(changed(octets, change)) <= 2 * len(octets) + 16
