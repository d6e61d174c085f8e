"""The summary of two captures: its definitions, and its reasons for suspicion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from owlt.captures.accounting.measures import DelaySummary, DirectionCounters, direction_counters, summarise_delays
from owlt.captures.accounting.summary import CaptureSummary, Transfer
from owlt.captures.accounting.suspicion import NOTHING_EXPECTED, Expected
from owlt.results.record import CaptureCounters
from tests.unit.captures.making import (
    DATA,
    RECEIVER,
    SENDER,
    SESSION,
    START_NS,
    Timed,
    flip,
    later,
    timed,
    udp_frame,
    write_pcap,
)
from tests.unit.captures.summarising import summarise

OWD_NS = 25_000_000
FILE_BYTES = 100_000
GOLDEN = ["netem-all", "netem-half", "netem-tcp", "mixed"]

DATA_PACKETS = timed([udp_frame(n.to_bytes(4, "big") * 50) for n in range(20)])
REPLIES = timed(
    [udp_frame(b"ack %d" % n, source=RECEIVER, destination=SENDER) for n in range(5)],
    start_ns=START_NS + OWD_NS + 100,
)


def summary_of(name: str) -> CaptureSummary:
    return summarise(DATA / f"{name}-sender.pcap", DATA / f"{name}-receiver.pcap", SESSION, Transfer(FILE_BYTES))


def summary_between(
    folder: Path,
    at_sender: list[Timed],
    at_receiver: list[Timed],
    file_delivered_at_ns: int | None = None,
    expected: Expected = NOTHING_EXPECTED,
) -> CaptureSummary:
    sender_pcap = write_pcap(folder / "sender.pcap", sorted(at_sender))
    receiver_pcap = write_pcap(folder / "receiver.pcap", sorted(at_receiver))
    return summarise(sender_pcap, receiver_pcap, SESSION, Transfer(FILE_BYTES, file_delivered_at_ns, expected))


def clean_run(folder: Path, file_delivered_at_ns: int | None = None) -> CaptureSummary:
    at_sender, at_receiver = DATA_PACKETS + later(REPLIES, OWD_NS), later(DATA_PACKETS, OWD_NS) + REPLIES
    return summary_between(folder, at_sender, at_receiver, file_delivered_at_ns)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_packets_of_a_real_run_add_up(name: str) -> None:
    summary = summary_of(name)
    for way, ledger in (("str", summary.ledger_forward), ("rts", summary.ledger_reverse)):
        inside = ledger.delivered + ledger.corrupted - ledger.corrupted_outside
        assert getattr(summary, f"{way}_sent") == ledger.sent == ledger.delivered + ledger.corrupted + ledger.lost
        assert getattr(summary, f"{way}_delivered") == inside + ledger.duplicated
    assert summary.suspect == []


def test_equal_packets_of_which_one_copy_was_damaged_make_no_run_suspect_and_reorder_nothing() -> None:
    session = SESSION.model_copy(update={"udp_ports": (12347,), "tcp_ports": ()})
    paths = [DATA / "equal-nacks" / f"{side}.pcap" for side in ("sender", "receiver")]
    summary = summarise(*paths, session, Transfer(FILE_BYTES))
    assert (summary.suspect, summary.ledger_reverse.reordered) == ([], 0)
    assert (summary.ledger_reverse.delivered, summary.ledger_reverse.corrupted) == (3, 4)


def test_the_background_is_named_by_its_kind() -> None:
    assert set(summary_of("mixed").background_packets) == {
        *("ARP", "ICMP", "IGMP", "MLD report", "UDP"),
        *("neighbour solicitation", "router solicitation"),
    }


def test_bytes_are_those_of_the_frames(tmp_path: Path) -> None:
    summary = clean_run(tmp_path)
    assert summary.str_sent_bytes == summary.str_delivered_bytes == 20 * (42 + 200)
    assert summary.rts_sent_bytes == summary.rts_delivered_bytes == 5 * (42 + 5)


def test_the_session_lasts_from_the_first_to_the_last_packet_at_the_senders_port(tmp_path: Path) -> None:
    summary = clean_run(tmp_path)
    last_reply_ns = START_NS + OWD_NS + 100 + 4_000_000 + OWD_NS
    assert (summary.first_packet_ns, summary.last_packet_ns) == (START_NS, last_reply_ns)
    assert summary.session_s == (last_reply_ns - START_NS) / 1e9


def test_goodput_is_the_files_bits_over_the_sessions_time(tmp_path: Path) -> None:
    assert clean_run(tmp_path).goodput_bps == pytest.approx(8 * FILE_BYTES / 0.0540001)


def test_goodput_to_delivery_ends_when_the_receiver_has_the_file(tmp_path: Path) -> None:
    summary = clean_run(tmp_path, file_delivered_at_ns=START_NS + 40_000_000)
    assert summary.goodput_to_delivery_bps == pytest.approx(8 * FILE_BYTES / 0.04)


@pytest.mark.parametrize(("after_ms", "suspect"), [(40, False), (10, True)])
def test_a_file_that_seems_complete_before_its_bytes_came_is_suspect(
    tmp_path: Path, after_ms: int, suspect: bool
) -> None:
    clean_run(tmp_path)
    summary = summarise(
        tmp_path / "sender.pcap",
        tmp_path / "receiver.pcap",
        SESSION,
        Transfer(4800, START_NS + OWD_NS + after_ms * 1_000_000),
    )

    assert any("the file was reported delivered when" in reason for reason in summary.suspect) == suspect


@pytest.mark.parametrize(
    ("file_size_bytes", "equal", "suspect"), [(20 * 200, 0, False), (20 * 200 + 1, 0, True), (17 * 200 + 1, 3, True)]
)
def test_a_file_with_more_bytes_than_distinct_data_arrived_is_suspect(
    tmp_path: Path, file_size_bytes: int, equal: int, suspect: bool
) -> None:
    """Frame headers and repeated payloads carry no part of the file."""
    numbers = [*range(20 - equal), *[0] * equal]
    packets = timed([udp_frame(bytes([number + 1]) * 200) for number in numbers])
    write_pcap(tmp_path / "sender.pcap", packets)
    write_pcap(tmp_path / "receiver.pcap", later(packets, OWD_NS))
    paths = tmp_path / "sender.pcap", tmp_path / "receiver.pcap"
    summary = summarise(*paths, SESSION, Transfer(file_size_bytes, START_NS + 10**9))

    assert any("distinct bytes of data reached the receiver" in reason for reason in summary.suspect) == suspect


def test_a_file_that_never_was_complete_has_no_goodput_to_delivery(tmp_path: Path) -> None:
    assert clean_run(tmp_path).goodput_to_delivery_bps is None


def test_a_run_without_packets_has_no_times_and_says_why_it_is_suspect(tmp_path: Path) -> None:
    summary = summary_between(tmp_path, [], [])
    assert (summary.str_sent, summary.rts_sent, summary.owd_forward.matched) == (0, 0, 0)
    assert summary.first_packet_ns is summary.session_s is summary.goodput_bps is summary.owd_forward.min_ns is None
    assert summary.suspect == ["sender.pcap has no packet of the session: are the session's ports and addresses right?"]


@pytest.mark.parametrize("kind_of_other", [None, "udp", "arp"])
def test_a_sender_that_ended_before_its_first_packet_is_not_blamed_on_the_ports(
    tmp_path: Path, kind_of_other: str | None
) -> None:
    """Unless it sent packets to other ports."""
    others = {"udp": udp_frame(b"x", port=9), "arp": bytes(12) + b"\x08\x06" + bytes(46)}
    frames = timed([others[kind_of_other]] if kind_of_other else [])
    expected = Expected(why_silent="the sender ended before it sent one")
    (reason,) = summary_between(tmp_path, frames, later(frames, OWD_NS), expected=expected).suspect

    assert reason.partition(": ")[2] == (
        "are the session's ports and addresses right?" if kind_of_other == "udp" else expected.why_silent
    )


def test_one_packet_is_no_goodput(tmp_path: Path) -> None:
    summary = summary_between(tmp_path, DATA_PACKETS[:1], [])
    assert (summary.session_s, summary.goodput_bps) == (0, None)


def test_delays_are_of_each_way(tmp_path: Path) -> None:
    sent, replies = DATA_PACKETS, REPLIES
    summary = summary_between(tmp_path, sent + later(replies, 2 * OWD_NS), later(sent, OWD_NS) + replies)
    assert summary.owd_forward == DelaySummary(matched=20, min_ns=OWD_NS, p50_ns=OWD_NS, p99_ns=OWD_NS, max_ns=OWD_NS)
    assert (summary.owd_reverse.matched, summary.owd_reverse.min_ns) == (5, 2 * OWD_NS)


def test_percentiles_are_delays_that_a_packet_had() -> None:
    delays = summarise_delays(np.array([10, 40, 20, 30], np.int64))
    assert (delays.min_ns, delays.p50_ns, delays.p99_ns, delays.max_ns) == (10, 20, 40, 40)


def test_the_delay_behind_the_real_netem_is_the_one_that_was_set() -> None:
    delays = summary_of("netem-half").owd_forward
    assert delays.min_ns is not None
    assert delays.max_ns is not None
    assert 25_000_000 <= delays.min_ns <= delays.max_ns < 25_001_000


def test_a_summary_is_the_same_after_json(tmp_path: Path) -> None:
    summary = clean_run(tmp_path)
    assert CaptureSummary.model_validate_json(summary.model_dump_json()) == summary


def test_a_summary_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        summary_of("mixed").str_sent = 0  # type: ignore[misc]


def test_a_clean_run_is_not_suspect(tmp_path: Path) -> None:
    counters = CaptureCounters(25, 25, 0, 0)
    summary = summary_between(
        tmp_path,
        DATA_PACKETS + later(REPLIES, OWD_NS),
        later(DATA_PACKETS, OWD_NS) + REPLIES,
        expected=Expected(counters, counters),
    )
    assert summary.suspect == []


def test_a_packet_removed_by_hand_from_the_capture_where_it_was_sent_is_suspect(tmp_path: Path) -> None:
    summary = summary_between(tmp_path, DATA_PACKETS[:7] + DATA_PACKETS[8:], later(DATA_PACKETS, OWD_NS))
    assert summary.suspect == [
        "1 packets from the sender arrived but are not in the capture at its port: that capture missed them"
    ]


def test_a_packet_removed_by_hand_from_the_capture_where_it_arrived_is_suspect_by_tcpdumps_count(
    tmp_path: Path,
) -> None:
    summary = summary_between(
        tmp_path,
        DATA_PACKETS,
        later(DATA_PACKETS[:7] + DATA_PACKETS[8:], OWD_NS),
        expected=Expected(receiver_counters=CaptureCounters(20, 20, 0, 0)),
    )
    assert summary.ledger_forward.lost == 1
    assert summary.suspect == ["receiver.pcap has 19 packets, but tcpdump counted 20"]


def lossy(lost: int) -> DirectionCounters:
    """What an emulator counts that took in all packets of the sender and lost some."""
    pipe = {"packets": len(DATA_PACKETS) - lost, "waiting_packets": 0, "dropped_packets": lost}
    return direction_counters({"pipe": pipe})


def test_packets_that_were_lost_but_not_by_the_emulator_are_suspect(tmp_path: Path) -> None:
    summary = summary_between(
        tmp_path, DATA_PACKETS, later(DATA_PACKETS[5:], OWD_NS), expected=Expected(forward=lossy(3))
    )
    assert summary.ledger_forward.unexplained_missing == 2
    assert len(summary.suspect) == 1 and "5 frames from the sender did not arrive" in summary.suspect[0]


def test_packets_that_the_emulator_dropped_are_not_suspect(tmp_path: Path) -> None:
    summary = summary_between(
        tmp_path, DATA_PACKETS, later(DATA_PACKETS[5:], OWD_NS), expected=Expected(forward=lossy(5))
    )
    assert (summary.ledger_forward.lost, summary.suspect) == (5, [])


def test_packets_dropped_by_the_capture_are_suspect(tmp_path: Path) -> None:
    summary = summary_between(
        tmp_path,
        DATA_PACKETS,
        later(DATA_PACKETS, OWD_NS),
        expected=Expected(sender_counters=CaptureCounters(20, 23, 3, 0)),
    )
    assert summary.suspect == [
        "sender.pcap is not complete: 20 of 23 packets captured, 3 dropped by the kernel, 0 by the interface, "
        "0 lost by tcpdump"
    ]


def test_a_truncated_capture_is_suspect_and_what_is_complete_is_counted(tmp_path: Path) -> None:
    sender_pcap = write_pcap(tmp_path / "sender.pcap", DATA_PACKETS)
    receiver_pcap = write_pcap(tmp_path / "receiver.pcap", later(DATA_PACKETS, OWD_NS))
    receiver_pcap.write_bytes(receiver_pcap.read_bytes()[:-9])
    summary = summarise(sender_pcap, receiver_pcap, SESSION, Transfer(FILE_BYTES))
    assert summary.str_delivered == 19
    assert summary.suspect == [
        f"receiver.pcap: the record at byte {24 + 19 * 258} is incomplete: 249 bytes of it are there"
    ]


def test_packets_that_arrive_before_they_were_sent_are_suspect(tmp_path: Path) -> None:
    summary = summary_between(tmp_path, later(DATA_PACKETS, 1000), DATA_PACKETS)
    assert summary.suspect == [
        "20 packets of the sender were delivered before they were sent, by up to 1000 ns: "
        "were the captures taken with two clocks?"
    ]


def test_frames_above_the_mtu_are_suspect(tmp_path: Path) -> None:
    long = timed([udp_frame(bytes(1473))])
    summary = summary_between(tmp_path, long, later(long, OWD_NS))
    assert summary.suspect == [
        f"{name}.pcap: 1 frames longer than the MTU of 1500 bytes allows, the longest 1515 bytes: "
        f"is segmentation offload on?"
        for name in ("sender", "receiver")
    ]


def test_a_frame_of_exactly_the_mtu_is_not_suspect(tmp_path: Path) -> None:
    longest = timed([udp_frame(bytes(1472))])
    assert summary_between(tmp_path, longest, later(longest, OWD_NS)).suspect == []


def cut_run(folder: Path, corrupted: int | None) -> CaptureSummary:
    """Packets of which the third and the fifth are hit, the fifth behind the cut; the emulator counted so many."""
    far = [frame for _, frame in DATA_PACKETS]
    far[2], far[4] = flip(far[2], 8 * 60), flip(far[4], 8 * 150)
    arriving = [(time, frame) for (time, _), frame in zip(DATA_PACKETS, far, strict=True)]
    pcaps = [
        write_pcap(folder / f"{name}.pcap", frames, snaplen=96)
        for name, frames in (("sender", DATA_PACKETS), ("receiver", later(arriving, OWD_NS)))
    ]
    pipe = {"packets": 20, "waiting_packets": 0, "dropped_packets": 0, "lost_packets": 0, "duplicated_packets": 0}
    counters = None if corrupted is None else direction_counters({"pipe": pipe | {"corrupted_packets": corrupted}})
    return summarise(*pcaps, SESSION, Transfer(FILE_BYTES, expected=Expected(forward=counters)))


def test_what_was_hit_behind_the_cut_is_counted_by_the_emulator(tmp_path: Path) -> None:
    ledger = cut_run(tmp_path, corrupted=2).ledger_forward
    assert (ledger.delivered, ledger.corrupted, ledger.corrupted_unseen) == (18, 2, 1)


def test_without_its_count_only_what_is_seen_is_corrupted(tmp_path: Path) -> None:
    ledger = cut_run(tmp_path, corrupted=None).ledger_forward
    assert (ledger.delivered, ledger.corrupted, ledger.corrupted_unseen) == (19, 1, 0)


def test_a_capture_that_is_cut_more_than_its_header_says_is_matched_all_the_same(tmp_path: Path) -> None:
    whole = write_pcap(tmp_path / "sender.pcap", DATA_PACKETS)
    cut = write_pcap(tmp_path / "receiver.pcap", later(DATA_PACKETS, OWD_NS), snaplen=96)
    data = bytearray(cut.read_bytes())
    data[16:20] = (262_144).to_bytes(4, "little")
    cut.write_bytes(data)
    summary = summarise(whole, cut, SESSION, Transfer(FILE_BYTES))
    assert (summary.ledger_forward.delivered, summary.suspect) == (20, [])
