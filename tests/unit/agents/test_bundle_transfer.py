"""Transfers with custody between two parties, over a channel of this module: paced, slow one way, losing, shown to
tshark; and between the two programs."""

from __future__ import annotations

import heapq
import math
import random
import socket
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agents.bundle.blocks import Bundle, CustodyId, Timestamp, decode
from agents.bundle.convergence import Convergence
from agents.bundle.custody import AggregateCustodySignal, Fill, Status
from agents.bundle.eid import Eid
from agents.bundle.nodes import DtnClock
from agents.bundle.receiving import Receiving
from agents.bundle.sending import Sending
from agents.bundle.settings import BundleCheck, Custody, Settings
from agents.ending import Failed
from agents.incoming import IncomingFile
from agents.pacing import Pacer, frame_bytes
from tests.conftest import require_command
from tests.unit.agents.conftest import Start
from tests.unit.captures.making import RECEIVER, SENDER, START_NS, udp_frame, write_pcap

Rule = Callable[[str, int, bytes], list[bytes]]
"""From "sender" or "receiver", how many datagrams it has sent, and this one: what arrives at the other."""

CLOCK = DtnClock(820_000_000.0)


def everything(_side: str, _number: int, datagram: bytes) -> list[bytes]:
    return [datagram]


def lose_at_random(rate: float, seed: int) -> Rule:
    chance = random.Random(seed)
    return lambda _side, _number, datagram: [] if chance.random() < rate else [datagram]


@dataclass
class Side:
    """A party, its pace, and how it ended."""

    party: Sending | Receiving
    pacer: Pacer
    said: str = ""

    def due_s(self) -> float:
        """When it wants to do something."""
        if self.said:
            return math.inf
        sends_s = self.pacer.opens_at_s if self.party.has_datagram() else math.inf
        return min(self.party.wakes_at_s, sends_s)


@dataclass
class Ending:
    """What became of a transfer. `sent` has time, side and datagram of all that was sent."""

    same: bool
    sender_said: str
    receiver_said: str
    now_s: float
    sent: list[tuple[float, str, bytes]] = field(default_factory=list)

    def count(self, side: str) -> int:
        return sum(sent_by == side for _, sent_by, _ in self.sent)

    def channel_bytes(self, side: str) -> int:
        return sum(frame_bytes(len(datagram)) for _, sent_by, datagram in self.sent if sent_by == side)


def transfer(
    directory: Path,
    rule: Rule = everything,
    *,
    size_bytes: int = 50_000,
    receiver: dict[str, object] | None = None,
    **choices: object,
) -> Ending:
    """Send random bytes to the end of both parties. What the receiver is given otherwise stands in `receiver`."""
    told = {"rate_bps": 1e6, "rtt_s": 2.0, **choices}
    settings = Settings(**told)  # type: ignore[arg-type]
    receivers = Settings(**(told | (receiver or {})))  # type: ignore[arg-type]
    file, output = directory / "file", directory / "output"
    file.write_bytes(random.Random(1).randbytes(size_bytes))
    with file.open("rb") as outgoing, IncomingFile(output) as incoming:
        sides = {
            "sender": Side(Sending(outgoing, settings, CLOCK, 0.0), Pacer(settings.rate_bps)),
            "receiver": Side(Receiving(incoming, receivers, CLOCK, 0.0), Pacer(settings.signal_rate_bps)),
        }
        now_s, sent = run(sides, rule, settings)
    same = output.exists() and output.read_bytes() == file.read_bytes()
    return Ending(same, sides["sender"].said, sides["receiver"].said, now_s, sent)


def run(sides: dict[str, Side], rule: Rule, settings: Settings) -> tuple[float, list[tuple[float, str, bytes]]]:
    arrivals: list[tuple[float, int, str, bytes]] = []
    sent: list[tuple[float, str, bytes]] = []
    counts: Counter[str] = Counter()
    now_s = 0.0
    while now_s < math.inf:
        while arrivals and arrivals[0][0] <= now_s:
            _, _, name, datagram = heapq.heappop(arrivals)
            if not sides[name].said:
                sides[name].party.hear(datagram, now_s)
        for name, side in sides.items():
            if not step(side, now_s):
                continue
            datagram = side.party.next_datagram(now_s)
            side.pacer.spend(len(datagram), now_s)
            sent.append((now_s, name, datagram))
            counts[name] += 1
            arrives_s = max(now_s, side.pacer.opens_at_s) + settings.rtt_s / 2
            other = "receiver" if name == "sender" else "sender"
            for copy in rule(name, counts[name], datagram):
                heapq.heappush(arrivals, (arrives_s, len(sent), other, copy))
        if all(side.said for side in sides.values()):
            return now_s, sent
        now_s = max(now_s, min([side.due_s() for side in sides.values()] + [arrival[0] for arrival in arrivals[:1]]))
    raise AssertionError("nobody wants to do anything, and not both have ended")


def step(side: Side, now_s: float) -> bool:
    """Whether the party has something to send now. Notes its end."""
    if side.said:
        return False
    try:
        side.party.advance(now_s)
    except Failed as failure:
        side.said = f"failed: {failure}"
        return False
    if side.party.ended:
        side.said = side.party.facts()
        return False
    if not side.party.has_datagram():
        side.pacer.rest()
        return False
    return side.pacer.opens_at_s <= now_s


BOTH = pytest.mark.parametrize("custody", [Custody.SINGLE, Custody.AGGREGATE])


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
    sender = Sending(BytesIO(bytes(50_000)), settings, CLOCK, 0.0)
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
            "receiver": Sending(BytesIO(bytes(3000)), settings, CLOCK, 0.0),
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


class Answers:
    """A receiver of one 10-byte file that hears bundles in datagrams, and what it answers."""

    def __init__(self, directory: Path, **choices: Any) -> None:
        self._settings = Settings(rate_bps=0, rtt_s=2.0, convergence=Convergence.UDP, bundle_bytes=10, **choices)
        self._file = IncomingFile(directory / "output")
        self.party = Receiving(self._file, self._settings, CLOCK, 0.0)

    def to(self, *bundles: bytes) -> list[bytes]:
        """The payloads of all that is sent in answer, within a minute."""
        with self._file:
            for octets in bundles:
                self.party.hear(octets, 0.0)
            payloads = []
            self.party.advance(60.0)
            while self.party.has_datagram():
                payloads.append(decode(self.party.next_datagram(60.0)).payload)
                self.party.advance(60.0)
            return payloads


FOREIGN = Bundle(
    source=Eid(1, 1),
    destination=Eid(2, 1),
    custodian=Eid(1, 0),
    report_to=Eid(1, 0),
    created=Timestamp(820_000_000, 1),
    payload=b"ten bytes.",
)


@pytest.mark.parametrize("custody_id", [2, 4711, 2**32])
def test_any_custody_id_is_accepted(tmp_path: Path, custody_id: int) -> None:
    bundle = replace(FOREIGN, custody_id=CustodyId(custody_id, Eid(1, 0)))

    (answer,) = Answers(tmp_path).to(bundle.encode())

    assert answer == AggregateCustodySignal(Status.ACCEPTED, (Fill(custody_id, 1),)).encode()


def with_unknown_block(bundle: Bundle, flags: int) -> bytes:
    octets = bundle.encode()
    payload_at = octets.index(b"\x01\x08\x0aten bytes.")
    return octets[:payload_at] + bytes([0x55, flags, 2]) + b"??" + octets[payload_at:]


def test_a_bundle_with_a_block_that_has_it_deleted_is_not_received(tmp_path: Path) -> None:
    """RFC 5050, section 5.6, step 3: nothing follows, custody neither."""
    answers = Answers(tmp_path)

    assert answers.to(with_unknown_block(FOREIGN, 0x04)) == []
    assert " deleted=1 " in f"{answers.party._tally.facts()} "
    assert not answers.party.whole


def test_a_block_that_cannot_be_processed_is_reported_if_it_asks_for_that(tmp_path: Path) -> None:
    report, signal = Answers(tmp_path, custody=Custody.SINGLE).to(with_unknown_block(FOREIGN, 0x02))

    assert report[:3] == bytes([0x10, 0x01, 8]), "a status report: received, block unintelligible"
    assert signal[:2] == bytes([0x20, 0x80])


@pytest.mark.parametrize(("wanted", "reports"), [(True, [bytes([0x10, 0x10, 8])]), (False, [])])
def test_a_deletion_is_reported_if_the_bundle_asks_for_that(tmp_path: Path, wanted: bool, reports: list[bytes]) -> None:
    bundle = replace(FOREIGN, reports_deletion=wanted)

    assert [answer[:3] for answer in Answers(tmp_path).to(with_unknown_block(bundle, 0x04))] == reports


def test_tshark_reads_a_status_report(tmp_path: Path) -> None:
    (report, _) = Answers(tmp_path, custody=Custody.SINGLE).to(with_unknown_block(FOREIGN, 0x02))
    octets = replace(FOREIGN, source=Eid(2, 0), destination=Eid(1, 0), payload=report, administrative=True).encode()
    capture = write_pcap(tmp_path / "report.pcap", [(START_NS, udp_frame(octets, RECEIVER, SENDER, port=4556))])

    (row,) = fields(
        capture, "bundle", "bundle.admin.record_type", "bundle.status_report_reason_code", "bundle.admin.endpoint_id"
    )
    assert row == ["1", "8", "ipn:1.1"]
    assert fields(capture, DAMAGED, "frame.number") == []


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


def fields(capture: Path, shown: str, *names: str) -> list[list[str]]:
    """What tshark shows of the frames that its filter passes."""
    options = [option for name in names for option in ("-e", name)]
    command = [require_command("tshark"), "-r", str(capture), "-Y", shown, "-T", "fields", *options]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.split("\t") for line in told.splitlines()]


def capture_of(ending: Ending, path: Path, port: int) -> Path:
    frames = []
    for at_s, side, datagram in ending.sent:
        ends = (SENDER, RECEIVER) if side == "sender" else (RECEIVER, SENDER)
        frames.append((START_NS + round(1e9 * at_s), udp_frame(datagram, *ends, port=port)))
    return write_pcap(path, frames)


DAMAGED = "_ws.malformed || _ws.expert.severity >= warning"
DATA = "bundle.primary.proc.admin == 0"


@BOTH
@pytest.mark.parametrize(("convergence", "port"), [(Convergence.LTP, 1113), (Convergence.UDP, 4556)])
def test_tshark_counts_the_same_bundles_and_signals(
    tmp_path: Path, custody: Custody, convergence: Convergence, port: int
) -> None:
    rule = lose_at_random(0.1, 8)
    ending = transfer(tmp_path, rule, custody=custody, convergence=convergence, bundle_bytes=1300, segment_bytes=500)
    capture = capture_of(ending, tmp_path / "all.pcap", port)
    kind, record_type = ("acs", 4) if custody is Custody.AGGREGATE else ("cs", 2)

    assert fields(capture, DAMAGED, "frame.number") == []
    assert f"sent=(bundle={len(fields(capture, DATA, 'frame.number'))})" in ending.sender_said
    signals = fields(capture, f"bundle.admin.record_type == {record_type}", "frame.number")
    assert f"sent=({kind}={len(signals)})" in ending.receiver_said


def test_tshark_reads_the_same_values_of_a_bundle(tmp_path: Path) -> None:
    ending = transfer(tmp_path, size_bytes=12_000)
    capture = capture_of(ending, tmp_path / "all.pcap", 1113)

    rows = fields(
        capture,
        DATA,
        "bundle.primary.source",
        "bundle.primary.destination",
        "bundle.primary.custodian",
        "bundle.primary.fragment_offset",
        "bundle.primary.total_adu_len",
        "bundle.payload.length",
        "bundle.block.cteb_custody_id",
        "bundle.block.cteb_creator_custodian_eid",
    )
    assert rows == [
        ["1.1", "2.1", "1.0", "0", "12000", "5000", "1", "ipn:1.0"],
        ["1.1", "2.1", "1.0", "5000", "12000", "5000", "2", "ipn:1.0"],
        ["1.1", "2.1", "1.0", "10000", "12000", "2000", "3", "ipn:1.0"],
    ]
    assert len(fields(capture, "bundle.block.control.cteb_valid", "frame.number")) == 3


def test_tshark_reads_the_same_values_of_a_custody_signal(tmp_path: Path) -> None:
    ending = transfer(tmp_path, size_bytes=12_000, custody=Custody.SINGLE)
    capture = capture_of(ending, tmp_path / "all.pcap", 1113)

    rows = fields(
        capture,
        "bundle.admin.record_type == 2",
        "bundle.custody_trf_succ_flg",
        "bundle.custody_signal_reason_code",
        "bundle.admin.fragment_offset",
        "bundle.admin.fragment_length",
        "bundle.admin.endpoint_id",
    )
    assert rows == [
        ["1", "0", str(offset), str(length), "ipn:1.1"] for offset, length in ((0, 5000), (5000, 5000), (10000, 2000))
    ]


def test_tshark_reads_the_same_values_of_an_aggregate(tmp_path: Path) -> None:
    """Its first fill. Of a further one tshark 4.0 shows the gap, and an end that is one too high for each gap."""
    rule: Rule = lambda side, number, it: [] if (side, number) == ("sender", 20) else [it]  # noqa: E731
    ending = transfer(tmp_path, rule, acs_window_s=1.0)
    capture = capture_of(ending, tmp_path / "all.pcap", 1113)

    rows = fields(
        capture,
        "bundle.admin.record_type == 4",
        "bundle.custody_trf_succ_flg",
        "bundle.custody_id_range_start",
        "bundle.custody_id_range_end",
    )
    assert rows == [["1", "1,2", "3,11"], ["1", "4", "4"]]


def free_ports() -> list[int]:
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for probe in sockets:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in sockets]
    for probe in sockets:
        probe.close()
    return ports


@BOTH
def test_the_two_programs_carry_a_file(tmp_path: Path, start: Start, custody: Custody) -> None:
    file, output = tmp_path / "file", tmp_path / "output"
    file.write_bytes(random.Random(2).randbytes(60_000))
    near, far = (f"127.0.0.1:{port}" for port in free_ports())
    common = [
        "--rate-bps",
        20e6,
        "--rtt-s",
        0.01,
        "--timer-margin-s",
        0.03,
        "--acs-window-s",
        0.02,
        "--custody",
        custody,
    ]

    receiver = start("agents.bundle", "receive", "--output", output, "--local", far, "--peer", near, *common)
    assert receiver.stdout is not None
    assert receiver.stdout.readline() == f"listening on {far}\n"
    sender = start("agents.bundle", "send", "--file", file, "--local", near, "--peer", far, *common)
    said = [side.communicate(timeout=20) for side in (sender, receiver)]

    assert (sender.returncode, receiver.returncode) == (0, 0), said
    assert output.read_bytes() == file.read_bytes()
    assert said[0][0].startswith("complete bundles=12 bundles_again=")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--bundle-bytes", 0], 127, "unsupported: bundles of 0 bytes"),
        (["--convergence", "udp", "--bundle-bytes", 66_000], 127, "unsupported: bundles of 66000 bytes; over udp 1 to"),
        (["--custody", "none"], 2, "invalid"),
        (["--custody-timer-s", "-1"], 2, "got '-1', wanted a number from 0 up"),
        (["--reverse-rate-bps", "x"], 2, "got 'x', wanted a number from 0 up"),
        (["--file", "/no/such/file"], 1, "failed: /no/such/file: No such file or directory"),
    ],
)
def test_what_cannot_be_done_ends_with_one_line(start: Start, arguments: list[object], status: int, said: str) -> None:
    usual = ["--file", "/dev/null", "--local", "127.0.0.1:25070", "--peer", "127.0.0.1:9"]

    program = start("agents.bundle", "send", *usual, "--rate-bps", 0, "--rtt-s", 0, *arguments)
    _, error = program.communicate(timeout=20)

    assert program.returncode == status
    assert said in error.splitlines()[-1]
