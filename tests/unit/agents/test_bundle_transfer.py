"""Transfers with custody between two parties, over a channel of this module: paced, slow one way, losing, shown to
tshark."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from owlt.agents.bundle.blocks import CustodyId, Eid, Timestamp
from owlt.agents.bundle.convergence import Convergence
from owlt.agents.bundle.custody import AggregateCustodySignal, Fill, Status
from owlt.agents.bundle.receiving import Receiving
from owlt.agents.bundle.sending import Sending
from owlt.agents.bundle.settings import BundleCheck, Custody, Settings
from owlt.agents.endpoint.event_loop import frame_bytes
from owlt.agents.endpoint.files import IncomingFile
from tests.unit.agents.bundle_channel import BOTH, CLOCK, FOREIGN, Answers, lose_at_random, transfer, with_unknown_block


@BOTH
def test_a_clean_transfer_sends_each_bundle_once(tmp_path: Path, custody: Custody) -> None:
    ending = transfer(tmp_path, custody=custody)

    assert ending.same
    assert "bundles=10 bundles_again=0 sent=(bundle=10)" in ending.sender_said
    assert ending.count("sender") == 50


def test_single_signals_are_one_a_bundle_and_aggregates_fewer(tmp_path: Path) -> None:
    assert "sent=(cs=10)" in transfer(tmp_path, custody=Custody.SINGLE).receiver_said
    assert "sent=(acs=4)" in transfer(tmp_path, custody=Custody.AGGREGATE).receiver_said
    assert "sent=(acs=1)" in transfer(tmp_path, custody=Custody.AGGREGATE, acs_window_s=60.0).receiver_said


@BOTH
@pytest.mark.parametrize("convergence", list(Convergence))
def test_losses_both_ways_are_mended(tmp_path: Path, custody: Custody, convergence: Convergence) -> None:
    for seed in range(5):
        ending = transfer(tmp_path, lose_at_random(0.2, seed), custody=custody, convergence=convergence)

        assert ending.same, seed
        assert "failed" not in ending.sender_said + ending.receiver_said, seed


@BOTH
@pytest.mark.parametrize("size_bytes", [0, 1, 5000, 5001])
def test_files_of_any_size_arrive(tmp_path: Path, custody: Custody, size_bytes: int) -> None:
    assert transfer(tmp_path, lose_at_random(0.1, 3), size_bytes=size_bytes, custody=custody).same


@BOTH
def test_a_bundle_lost_once_goes_once_more(tmp_path: Path, custody: Custody) -> None:
    ending = transfer(
        tmp_path, lambda side, number, it: [] if (side, number) == ("sender", 8) else [it], custody=custody
    )

    assert ending.same
    assert "bundles_again=1 " in ending.sender_said


def test_a_lost_signal_is_answered_as_redundant_and_counts(tmp_path: Path) -> None:
    def rule(side: str, number: int, datagram: bytes) -> list[bytes]:
        return [] if (side, number) == ("receiver", 4) else [datagram]

    ending = transfer(tmp_path, rule, custody=Custody.SINGLE)

    assert ending.same
    assert "bundles_again=1 sent=(bundle=11) received=(cs=10)" in ending.sender_said
    assert "sent=(cs=11)" in ending.receiver_said
    assert b"\x21\x03" in ending.sent[-1][2], "a signal for a fragment that failed, reason 3"


@BOTH
def test_every_datagram_may_come_twice(tmp_path: Path, custody: Custody) -> None:
    ending = transfer(tmp_path, lambda _side, _number, datagram: [datagram, datagram], custody=custody)

    assert ending.same
    assert "bundles_again=0 " in ending.sender_said


@BOTH
def test_rubbish_between_the_datagrams_disturbs_nobody(tmp_path: Path, custody: Custody) -> None:
    chance = random.Random(6)

    def rule(_side: str, _number: int, datagram: bytes) -> list[bytes]:
        return [chance.randbytes(60), datagram[: chance.randrange(len(datagram))], b"", datagram]

    ending = transfer(tmp_path, rule, custody=custody)

    assert ending.same
    assert "bundles_again=0 " in ending.sender_said


@BOTH
def test_signals_that_are_not_ours_move_nothing(tmp_path: Path, custody: Custody) -> None:
    """Each side hears its own datagrams come back."""
    ending = transfer(tmp_path, lambda _side, _number, datagram: [datagram], custody=custody)
    settings = Settings(rate_bps=1e6, rtt_s=2.0, custody=custody)
    sender = Sending(bytes(50_000), settings, CLOCK, 0.0)
    for _, side, datagram in ending.sent:
        if side == "sender":
            sender.hear(datagram, 0.0)
    sender.advance(0.0)

    assert not sender.ended
    assert "received=(none)" in sender.facts()


@BOTH
@pytest.mark.parametrize("convergence", list(Convergence))
def test_datagrams_with_changed_bytes_raise_nothing(tmp_path: Path, custody: Custody, convergence: Convergence) -> None:
    chance = random.Random(7)
    choices: dict[str, Any] = {"custody": custody, "convergence": convergence}
    sent = transfer(tmp_path, size_bytes=3000, bundle_bytes=100, **choices).sent
    settings = Settings(rate_bps=1e6, rtt_s=2.0, bundle_bytes=100, **choices)
    with IncomingFile(tmp_path / "other") as incoming:
        parties: dict[str, Sending | Receiving] = {
            "receiver": Sending(bytes(3000), settings, CLOCK, 0.0),
            "sender": Receiving(incoming, settings, CLOCK, 0.0),
        }
        for _ in range(100):
            for _, side, datagram in sent:
                changed = bytearray(datagram)
                changed[chance.randrange(len(changed))] = chance.randrange(256)
                parties[side].hear(bytes(changed), 0.0)


@BOTH
def test_no_timer_expires_early_over_a_reverse_channel_250_times_slower(tmp_path: Path, custody: Custody) -> None:
    ending = transfer(tmp_path, custody=custody, reverse_rate_bps=4e3, size_bytes=200_000)

    assert ending.same
    assert "bundles_again=0 " in ending.sender_said


def test_a_timer_without_the_queue_of_signals_repeats_what_had_arrived(tmp_path: Path) -> None:
    """The effect of the ACS paper: single signals wait for each other longer than the timer."""
    single, aggregate = (
        transfer(tmp_path, size_bytes=200_000, custody=custody, reverse_rate_bps=4e3, custody_timer_s=3.0)
        for custody in (Custody.SINGLE, Custody.AGGREGATE)
    )

    assert single.same and aggregate.same
    assert "bundles_again=0 " in aggregate.sender_said
    assert single.channel_bytes("sender") > 1.5 * aggregate.channel_bytes("sender")
    assert single.channel_bytes("receiver") > 3 * aggregate.channel_bytes("receiver")


@BOTH
def test_signals_keep_to_the_rate_of_the_reverse_channel(tmp_path: Path, custody: Custody) -> None:
    ending = transfer(tmp_path, custody=custody, reverse_rate_bps=4e3, size_bytes=200_000)
    signals = [(at_s, 8 * frame_bytes(len(datagram))) for at_s, side, datagram in ending.sent if side == "receiver"]

    for (at_s, bits), (next_at_s, _) in pairwise(signals):
        assert next_at_s - at_s > bits / 4e3 - 0.003


def test_a_sender_without_a_receiver_ends_with_a_reason(tmp_path: Path) -> None:
    ending = transfer(tmp_path, lambda _side, _number, _datagram: [], size_bytes=10_000)

    assert "failed: the receiver was silent for" in ending.sender_said
    assert "failed: the sender was silent for" in ending.receiver_said


def test_a_sender_ends_when_a_bundle_went_as_often_as_it_may(tmp_path: Path) -> None:
    ending = transfer(tmp_path, lambda _side, _number, _datagram: [], size_bytes=10_000, repeat_limit=3)

    assert "failed: bundle 1 was sent 3 times" in ending.sender_said


@BOTH
def test_a_receiver_that_has_all_ends_well_without_any_word_from_the_sender(tmp_path: Path, custody: Custody) -> None:
    ending = transfer(tmp_path, lambda side, _, it: [it] if side == "sender" else [], custody=custody, repeat_limit=2)

    assert ending.same
    assert "failed: " in ending.sender_said
    assert "failed: " not in ending.receiver_said


def test_bundles_without_custody_ids_are_signalled_one_by_one_where_aggregates_are_made(tmp_path: Path) -> None:
    ending = transfer(tmp_path, custody=Custody.SINGLE, receiver={"custody": Custody.AGGREGATE})

    assert ending.same
    assert "sent=(cs=10)" in ending.receiver_said
    assert "bundles_again=0 " in ending.sender_said


def test_custody_ids_are_ignored_where_no_aggregates_are_made(tmp_path: Path) -> None:
    ending = transfer(tmp_path, custody=Custody.AGGREGATE, receiver={"custody": Custody.SINGLE})

    assert ending.same
    assert "sent=(cs=10)" in ending.receiver_said
    assert "bundles_again=0 " in ending.sender_said


@pytest.mark.parametrize("custody_id", [2, 4711, 2**32])
def test_any_custody_id_is_accepted(tmp_path: Path, custody_id: int) -> None:
    bundle = replace(FOREIGN, custody_id=CustodyId(custody_id, Eid(1, 0)))

    (answer,) = Answers(tmp_path).to(bundle.encode())

    assert answer == AggregateCustodySignal(Status.ACCEPTED, (Fill(custody_id, 1),)).encode()


def test_a_bundle_with_a_block_that_has_it_deleted_is_not_received(tmp_path: Path) -> None:
    """RFC 5050, section 5.6, step 3: nothing follows, custody neither."""
    answers = Answers(tmp_path)

    assert answers.to(with_unknown_block(FOREIGN, 0x04)) == []
    assert " deleted=1 " in f"{answers.party._tally.facts()} "
    assert not answers.party.is_complete


def test_a_block_that_cannot_be_processed_is_reported_if_it_asks_for_that(tmp_path: Path) -> None:
    report, signal = Answers(tmp_path, custody=Custody.SINGLE).to(with_unknown_block(FOREIGN, 0x02))

    assert report[:3] == bytes([0x10, 0x01, 8]), "a status report: received, block unintelligible"
    assert signal[:2] == bytes([0x20, 0x80])


@pytest.mark.parametrize(("wanted", "reports"), [(True, [bytes([0x10, 0x10, 8])]), (False, [])])
def test_a_deletion_is_reported_if_the_bundle_asks_for_that(tmp_path: Path, wanted: bool, reports: list[bytes]) -> None:
    bundle = replace(FOREIGN, reports_deletion=wanted)

    assert [answer[:3] for answer in Answers(tmp_path).to(with_unknown_block(bundle, 0x04))] == reports


def test_a_file_in_pieces_that_are_numbered_is_put_together(tmp_path: Path) -> None:
    """As the profile of ION sends it, which makes no fragments."""
    pieces = [(1, b"second ten"), (0, b"first ten."), (1, b"second ten"), (2, b"end"), (3, b"none"), (0, b"short")]
    bundles = [
        replace(FOREIGN, created=Timestamp(820_000_000, number), payload=b"%08d" % piece + content).encode()
        for number, (piece, content) in enumerate(pieces)
    ]

    answers = Answers(tmp_path, custody=Custody.SINGLE, pieces_of=23).to(*bundles)

    assert (tmp_path / "output").read_bytes() == b"first ten.second tenend"
    assert [answer[1] for answer in answers] == [Status.ACCEPTED, Status.ACCEPTED, Status.REDUNDANT, Status.ACCEPTED]


def two_flips_in_the_third_bundle(side: str, number: int, datagram: bytes) -> list[bytes]:
    """The first bit of two 16-bit words of the payload, one up and one down: the checksum of UDP stays the same."""
    if (side, number) != ("sender", 3):
        return [datagram]
    flipped = bytearray(datagram)
    ups = [at for at in range(1000, 2000, 2) if not flipped[at] & 0x80]
    downs = [at for at in range(1000, 2000, 2) if flipped[at] & 0x80]
    flipped[ups[0]] ^= 0x80
    flipped[downs[0]] ^= 0x80
    return [bytes(flipped)]


@BOTH
def test_flips_that_the_checksum_of_udp_hides_corrupt_a_file_without_a_check(tmp_path: Path, custody: Custody) -> None:
    ending = transfer(tmp_path, two_flips_in_the_third_bundle, custody=custody, convergence=Convergence.UDP)

    assert not ending.same
    assert "bundles_again=0 " in ending.sender_said


@BOTH
def test_a_bundle_that_fails_its_check_is_sent_again(tmp_path: Path, custody: Custody) -> None:
    ending = transfer(
        tmp_path,
        two_flips_in_the_third_bundle,
        custody=custody,
        convergence=Convergence.UDP,
        bundle_check=BundleCheck.CRC32C,
    )

    assert ending.same
    assert "bundles_again=1 " in ending.sender_said
    assert " damaged=1 " in ending.receiver_said


def test_a_bundle_without_the_check_that_was_agreed_on_is_not_received(tmp_path: Path) -> None:
    assert Answers(tmp_path, bundle_check=BundleCheck.CRC32C).to(FOREIGN.encode()) == []
