"""How long packets were overdue in the emulator: counted against a bottleneck that is simulated here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from owlt.captures.accounting.summary import NO_LINKS, CaptureSummary, Links, Transfer
from owlt.captures.matches.bottleneck import TOLERANCE_NS, Link
from tests.unit.captures.making import RECEIVER, SENDER, SESSION, START_NS, Timed, udp_frame, write_pcap
from tests.unit.captures.summarising import summarise

MS = 10**6
LINK = Link(25 * MS, 10e6)


def through(frames: Sequence[Timed], link: Link = LINK, stalls: Sequence[tuple[int, int]] = ()) -> list[Timed]:
    """The frames behind a link of a machine that does nothing in the stalls (ns since the start)."""
    delivered, left_ns = [], 0
    for time_ns, frame in frames:
        left_ns = max(time_ns, left_ns) + round(8e9 * (len(frame) + link.overhead_bytes) / link.rate_bps)
        arrived_ns = left_ns + link.delay_ns
        for begin_ns, end_ns in stalls:
            if START_NS + begin_ns <= arrived_ns < START_NS + end_ns:
                arrived_ns = START_NS + end_ns
        delivered.append((arrived_ns, frame))
    return delivered


def sent(count: int, step_ns: int = MS, port: int = 5222, start_ns: int = START_NS) -> list[Timed]:
    return [(start_ns + n * step_ns, udp_frame(n.to_bytes(4, "big") * 240, port=port)) for n in range(count)]


def replies(count: int) -> list[Timed]:
    return [(START_NS + n * MS, udp_frame(b"%6d" % n, source=RECEIVER, destination=SENDER)) for n in range(count)]


def summary(
    directory: Path,
    forward: tuple[Sequence[Timed], Sequence[Timed]],
    reverse: tuple[Sequence[Timed], Sequence[Timed]] = ((), ()),
    links: Links = (LINK, LINK),
) -> CaptureSummary:
    """Of these packets: each way those that were sent, and those that were delivered."""
    at_sender = write_pcap(directory / "sender.pcap", sorted([*forward[0], *reverse[1]]))
    at_receiver = write_pcap(directory / "receiver.pcap", sorted([*forward[1], *reverse[0]]))
    return summarise(at_sender, at_receiver, SESSION, Transfer(1000, links=links))


def test_packets_that_wait_for_those_before_them_are_not_overdue(tmp_path: Path) -> None:
    burst = sent(100, step_ns=1000)

    assert summary(tmp_path, (burst, through(burst)), (replies(150), through(replies(150)))).overdue_ns == 0


def test_a_stall_is_counted_once_however_many_packets_it_holds_up(tmp_path: Path) -> None:
    packets = sent(100)
    due_ns = through(packets)[20][0] - START_NS

    late = summary(tmp_path, (packets, through(packets, stalls=[(due_ns, due_ns + 10 * MS)])))

    assert late.overdue_ns == 10 * MS - TOLERANCE_NS


def test_a_stall_is_counted_once_when_it_holds_up_both_ways(tmp_path: Path) -> None:
    packets, back = sent(100), replies(100)
    stall = [(40 * MS, 50 * MS)]

    late = summary(tmp_path, (packets, through(packets, stalls=stall)), (back, through(back, stalls=stall)))

    assert late.overdue_ns is not None
    assert 8.5 * MS < late.overdue_ns <= 10 * MS - TOLERANCE_NS


def test_stalls_add_up(tmp_path: Path) -> None:
    packets = sent(100)
    due_ns = [through(packets)[n][0] - START_NS for n in (20, 60)]
    stalls = [(begin_ns, begin_ns + 5 * MS) for begin_ns in due_ns]

    late = summary(tmp_path, (packets, through(packets, stalls=stalls)))

    assert late.overdue_ns == 2 * (5 * MS - TOLERANCE_NS)


def test_what_lies_behind_the_session_is_not_counted(tmp_path: Path) -> None:
    packets = sent(10)

    late = summary(tmp_path, (packets, through(packets, stalls=[(20 * MS, 500 * MS)])))

    assert late.session_s == pytest.approx(0.009)
    assert late.overdue_ns == 0


def test_the_packet_behind_a_lost_one_is_not_overdue(tmp_path: Path) -> None:
    slow = Link(25 * MS, 64_000)
    burst = sent(10, step_ns=1000)
    delivered = through(burst, slow)
    last = (START_NS + 10**10, udp_frame(b"last"))

    late = summary(
        tmp_path, ([*burst, last], [*delivered[:4], *delivered[6:], *through([last], slow)]), links=(slow, slow)
    )

    assert late.overdue_ns == 0


def test_the_packet_behind_another_sessions_is_not_overdue(tmp_path: Path) -> None:
    slow = Link(25 * MS, 64_000)
    packets = sorted([*sent(5, 400 * MS), *sent(5, 400 * MS, port=9, start_ns=START_NS - 20 * MS)])

    late = summary(tmp_path, (packets, through(packets, slow)), links=(slow, slow))

    assert late.overdue_ns == 0
    assert late.str_sent == 5


def test_a_link_without_a_rate_is_late_too(tmp_path: Path) -> None:
    link = Link(25 * MS, float("inf"))
    packets = sent(100)

    late = summary(tmp_path, (packets, through(packets, link, [(60 * MS, 70 * MS)])), links=(link, link))

    assert late.overdue_ns == 10 * MS - TOLERANCE_NS


def test_of_links_that_are_not_known_nothing_is_said(tmp_path: Path) -> None:
    packets = sent(10)

    assert summary(tmp_path, (packets, through(packets)), links=NO_LINKS).overdue_ns is None
