"""Whole LTP transfers between the two engines, over a link that loses chosen segments."""

from __future__ import annotations

import math
import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from owlt.agents.endpoint.exit import Failed, Unsupported
from owlt.agents.ltp.receiving import Receiving
from owlt.agents.ltp.segments import (
    Cancel,
    CancelAck,
    Checkpoint,
    Claim,
    DataSegment,
    Report,
    ReportAck,
    Segment,
    SegmentType,
    SessionId,
    decode,
    encode,
    segment_type,
)
from owlt.agents.ltp.sending import Sending
from owlt.agents.ltp.settings import Settings
from owlt.agents.ltp.side import SessionSide
from tests.unit.agents.simulated_link import Link, Loses, at_random, nothing

CONTENT = random.Random(1).randbytes(30_000)
RTT_S = 2.0
TOLD: dict[str, Any] = {"rate_bps": 10e6, "rtt_s": RTT_S, "seed": 5}


class Absent:
    """A peer that is not there."""

    ended = True
    wakes_at_s = math.inf

    def advance(self, now_s: float) -> None: ...

    def hear(self, datagram: bytes, now_s: float) -> None: ...

    def has_datagram(self) -> bool:
        return False

    def next_datagram(self, now_s: float) -> bytes:
        raise AssertionError("nobody is there")


class Transfer:
    """A file, its two engines and the link between them."""

    opened: ClassVar[list[Receiving]] = []

    def __init__(self, directory: Path, loses: Loses = nothing, content: bytes = CONTENT, **choices: Any) -> None:
        self.link = Link(RTT_S / 2, loses)
        self._output = directory / "output"
        self._content = content
        (directory / "file").write_bytes(content)
        told = choices.pop("file_bytes", len(content))
        choice = Settings(**{**TOLD, **choices})
        self.sender = Sending(directory / "file", choice)
        self.receiver = Receiving(self._output, choice, self.link.now_s, told)
        self.opened.append(self.receiver)
        self.ended_s: dict[str, float] = {}

    def run(self) -> Transfer:
        self.link.run({"sender": self.sender, "receiver": self.receiver})
        return self

    @property
    def is_same(self) -> bool:
        return self._output.exists() and self._output.read_bytes() == self._content

    def sent(self, kind: type[Segment] | None = None) -> list[Any]:
        segments = [decode(datagram) for _, _, datagram in self.link.sent]
        return [segment for segment in segments if kind is None or isinstance(segment, kind)]

    def counts(self) -> Counter[SegmentType]:
        return Counter(segment_type(datagram) for _, _, datagram in self.link.sent)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while Transfer.opened:
        with Transfer.opened.pop():
            pass


def lose(kind: SegmentType, *numbers: int) -> Loses:
    """Lose the first, second, ... segment of a type (counted from 1)."""
    seen: Counter[SegmentType] = Counter()

    def loses(_side: str, datagram: bytes) -> bool:
        seen[segment_type(datagram)] += 1
        return segment_type(datagram) == kind and seen[kind] in numbers

    return loses


def test_a_clean_transfer_sends_each_byte_once_and_one_report(tmp_path: Path) -> None:
    transfer = Transfer(tmp_path).run()

    assert transfer.is_same
    assert transfer.counts() == {
        SegmentType.RED: 29,
        SegmentType.RED_END_OF_BLOCK: 1,
        SegmentType.REPORT: 1,
        SegmentType.REPORT_ACK: 1,
    }


@pytest.mark.parametrize(
    "kind", [SegmentType.RED, SegmentType.RED_END_OF_BLOCK, SegmentType.REPORT, SegmentType.REPORT_ACK]
)
def test_one_lost_segment_of_any_type_is_made_up_for(kind: SegmentType, tmp_path: Path) -> None:
    transfer = Transfer(tmp_path, lose(kind, 1)).run()

    assert transfer.is_same
    assert transfer.sender.facts().startswith("sent=")


@pytest.mark.parametrize("rate", [0.05, 0.3])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"checkpoint_every": 7},
        {"block_bytes": 4_500, "sessions": 3},
        {"block_bytes": 4_500, "sessions": 3, "checkpoint_every": 2},
        {"segment_bytes": 64},
    ],
    ids=str,
)
def test_a_lossy_link_delivers_every_byte(choices: dict[str, Any], seed: int, rate: float, tmp_path: Path) -> None:
    transfer = Transfer(tmp_path, at_random(rate, seed), **choices).run()

    assert transfer.is_same


@pytest.mark.parametrize(
    ("kind", "numbers"), [(SegmentType.RED_END_OF_BLOCK, (1, 2)), (SegmentType.REPORT, (1,))], ids=["data", "report"]
)
def test_a_fixed_timer_repeats_an_unanswered_segment_regardless_of_the_round_trip(
    kind: SegmentType, numbers: tuple[int, ...], tmp_path: Path
) -> None:
    transfer = Transfer(tmp_path, lose(kind, *numbers), timer_s=10).run()

    left_s = [at_s for _, at_s, datagram in transfer.link.sent if segment_type(datagram) == kind]
    assert left_s[len(numbers)] - left_s[0] == pytest.approx(10 * len(numbers))


def test_losses_of_data_cost_one_round_trip_and_only_the_lost_segments(tmp_path: Path) -> None:
    transfer = Transfer(tmp_path, lose(SegmentType.RED, 3, 4, 20)).run()

    again = transfer.sent(DataSegment)[30:]
    assert [(segment.offset, len(segment.data)) for segment in again] == [(2000, 1000), (3000, 1000), (19000, 1000)]
    primary, secondary = transfer.sent(Report)
    assert [segment.checkpoint for segment in again] == [
        None,
        None,
        Checkpoint(primary.checkpoint_serial + 1, primary.serial),
    ]
    assert (secondary.lower_bound, secondary.upper_bound) == (0, 20_000)
    assert secondary.claims == ((0, 20_000),)


def test_reports_on_discretionary_checkpoints_begin_where_the_last_one_ended(tmp_path: Path) -> None:
    transfer = Transfer(tmp_path, checkpoint_every=10).run()

    bounds = [(report.lower_bound, report.upper_bound) for report in transfer.sent(Report)]
    assert bounds == [(0, 10_000), (10_000, 20_000), (20_000, 30_000)]


def test_a_lost_discretionary_checkpoint_is_not_repeated_once_a_later_report_covers_it(tmp_path: Path) -> None:
    transfer = Transfer(tmp_path, lose(SegmentType.CHECKPOINT, 1), checkpoint_every=10).run()

    first = transfer.sent(Report)[0]
    assert (first.lower_bound, first.upper_bound) == (0, 20_000)
    assert transfer.is_same
    repeated = [segment for segment in transfer.sent(DataSegment) if segment.offset == 9000]
    assert [segment.checkpoint.report_serial for segment in repeated] == [0, first.serial]


def test_reports_are_no_larger_than_data_segments_and_lie_side_by_side(tmp_path: Path) -> None:
    every_other = lose(SegmentType.RED, *range(1, 400, 2))
    transfer = Transfer(tmp_path, every_other, segment_bytes=100).run()

    reports = [datagram for _, _, datagram in transfer.link.sent if segment_type(datagram) == SegmentType.REPORT]
    assert transfer.is_same
    assert len(reports) > 5
    assert max(map(len, reports)) <= 100
    first = [report for report in transfer.sent(Report) if report.checkpoint_serial == decoded(reports[0])]
    assert [report.lower_bound for report in first] == [0, *(report.upper_bound for report in first[:-1])]
    assert first[-1].upper_bound == 30_000


def decoded(report: bytes) -> int:
    segment = decode(report)
    assert isinstance(segment, Report)
    return segment.checkpoint_serial


def sent_by(sender: Sending, now_s: float) -> list[Segment]:
    """All that a sender has to send now."""
    segments = []
    sender.advance(now_s)
    while sender.has_datagram():
        segments.append(decode(sender.next_datagram(now_s)))
    return segments


def offsets_again(sender: Sending, *reports: Report) -> list[int]:
    """Where the data begin that a sender sends after these reports."""
    for report in reports:
        sender.hear(encode(report), 1002.0)
    return [segment.offset for segment in sent_by(sender, 1002.0) if isinstance(segment, DataSegment)]


def checkpoints(segments: list[Segment]) -> list[int]:
    """Serial numbers of the checkpoints among them."""
    return [
        segment.checkpoint.serial for segment in segments if isinstance(segment, DataSegment) and segment.checkpoint
    ]


def test_reports_that_overlap_have_missing_data_sent_once(tmp_path: Path) -> None:
    sender = Transfer(tmp_path, checkpoint_every=10).sender
    first, second, _ = checkpoints(sent_by(sender, 1000.0))
    one = Report(SessionId(1, 1), 7, first, 10_000, 0, (Claim(0, 3000), Claim(4000, 6000)))
    both = Report(SessionId(1, 1), 8, second, 20_000, 0, (Claim(0, 3000), Claim(4000, 8000), Claim(13_000, 7000)))

    assert offsets_again(sender, one, both) == [3000, 12_000]


def test_a_report_made_before_data_went_again_does_not_have_them_sent_a_third_time(tmp_path: Path) -> None:
    sender = Transfer(tmp_path, checkpoint_every=10).sender
    first, second, _ = checkpoints(sent_by(sender, 1000.0))
    one = Report(SessionId(1, 1), 7, first, 10_000, 0, (Claim(0, 3000), Claim(4000, 6000)))
    both = Report(SessionId(1, 1), 8, second, 20_000, 0, (Claim(0, 3000), Claim(4000, 16_000)))

    assert offsets_again(sender, one) == [3000]
    assert offsets_again(sender, both) == []


def test_a_report_on_data_that_went_again_has_them_sent_a_third_time(tmp_path: Path) -> None:
    sender = Transfer(tmp_path).sender
    (first,) = checkpoints(sent_by(sender, 1000.0))
    gaps = (Claim(0, 3000), Claim(5000, 25_000))
    sender.hear(encode(Report(SessionId(1, 1), 7, first, 30_000, 0, gaps)), 1002.0)
    (again,) = checkpoints(sent_by(sender, 1002.0))

    assert offsets_again(sender, Report(SessionId(1, 1), 8, again, 5000, 0, (Claim(0, 3000), Claim(4000, 1000)))) == [
        3000
    ]


@pytest.mark.parametrize("session", [1, 9], ids=["of the transfer", "unknown"])
def test_a_report_that_does_not_fit_is_acknowledged_and_refused(session: int, tmp_path: Path) -> None:
    """RFC 5326, section 6.13: first, an acknowledgement is issued."""
    sender = Transfer(tmp_path).sender
    sent_by(sender, 1000.0)
    sender.hear(encode(Report(SessionId(1, session), 5, 5, 40_000, 0, (Claim(0, 40_000),))), 1001.0)

    assert sent_by(sender, 1001.0) == [ReportAck(SessionId(1, session), 5)]
    assert " refused=1 " in sender.facts()


def test_a_checkpoint_that_comes_again_is_answered_at_once(tmp_path: Path) -> None:
    """RFC 5326, section 6.8. A sender whose timer is shorter than ours may have missed the report."""
    receiver = Transfer(tmp_path, file_bytes=3).receiver
    checkpoint = encode(DataSegment(SessionId(1, 1), 4, 0, b"red", True, Checkpoint(9, 0), True, True))
    answers = []
    for now_s in (1000.0, 1000.1, 1000.2):
        receiver.hear(checkpoint, now_s)
        receiver.advance(now_s)
        while receiver.has_datagram():
            answers.append(receiver.next_datagram(now_s))

    assert len(answers) == 3
    assert len(set(answers)) == 1


@pytest.mark.parametrize("seed", [0, 7])
def test_both_sides_draw_their_first_serial_numbers_apart(seed: int) -> None:
    choice = Settings(**{**TOLD, "seed": seed})

    drawn = [[choice.first_serials(sends_block=side).random() for _ in range(2)] for side in (True, False)]

    assert drawn[0] != drawn[1]


def test_the_serial_numbers_of_checkpoints_and_of_reports_differ(tmp_path: Path) -> None:
    transfer = Transfer(tmp_path).run()

    (report,) = transfer.sent(Report)
    assert report.serial != report.checkpoint_serial


def test_no_more_sessions_are_open_than_allowed(tmp_path: Path) -> None:
    transfer = Transfer(tmp_path, block_bytes=5_000, sessions=2).run()

    first_sent_s: dict[int, float] = {}
    for _, at_s, datagram in transfer.link.sent:
        first_sent_s.setdefault(decode(datagram).session.number, at_s)
    began = [round((at_s - 1000.0) / RTT_S) for _, at_s in sorted(first_sent_s.items())]
    assert began == [0, 0, 1, 1, 2, 2]


def test_a_green_rest_is_sent_once(tmp_path: Path) -> None:
    transfer = Transfer(tmp_path, red_bytes=10_500).run()

    assert transfer.is_same
    counts = transfer.counts()
    assert (counts[SegmentType.RED], counts[SegmentType.END_OF_RED_PART]) == (10, 1)
    assert (counts[SegmentType.GREEN], counts[SegmentType.GREEN_END_OF_BLOCK]) == (19, 1)


def test_the_loss_of_a_green_segment_is_the_files_loss(tmp_path: Path) -> None:
    transfer = Transfer(tmp_path, lose(SegmentType.GREEN, 4), red_bytes=10_000)

    with pytest.raises(Failed, match="green data were lost"):
        transfer.run()
    assert not transfer.is_same


def test_a_file_that_is_green_as_a_whole_needs_no_answer(tmp_path: Path) -> None:
    transfer = Transfer(tmp_path, red_bytes=0).run()

    assert transfer.is_same
    assert {side for side, _, _ in transfer.link.sent} == {"sender"}


def test_a_receiver_that_was_given_no_size_takes_one_session_of_any_number(tmp_path: Path) -> None:
    sender_told = Transfer(tmp_path, first_session=4_000_000_000, file_bytes=None).run()

    assert sender_told.is_same


def test_a_sender_cancels_after_its_last_repetition(tmp_path: Path) -> None:
    deaf = Transfer(tmp_path, lambda side, _: side == "receiver", checkpoint_limit=3, cancel_limit=2)

    with pytest.raises(Failed, match="retransmitted 3 times: cancelled with RLEXC"):
        deaf.link.run({"sender": deaf.sender, "receiver": Absent()})
    counts = deaf.counts()
    assert (counts[SegmentType.RED_END_OF_BLOCK], counts[SegmentType.CANCEL_BY_SENDER]) == (4, 3)


def test_a_sender_cancels_data_that_are_missing_however_often_they_go_again(tmp_path: Path) -> None:
    """Each report is an answer, so that no checkpoint is ever repeated as often as it may be."""
    lossy = Transfer(tmp_path, lambda _, datagram: segment_type(datagram) == SegmentType.RED, cycle_limit=6)

    with pytest.raises(Failed, match="missing after being retransmitted 6 times: cancelled with RXMTCYCEXC"):
        lossy.run()
    assert lossy.counts()[SegmentType.REPORT] == 7


def test_a_receiver_that_hears_a_cancellation_acknowledges_each_and_fails(tmp_path: Path) -> None:
    transfer = Transfer(tmp_path)
    transfer.receiver.hear(encode(DataSegment(SessionId(1, 1), 4, 0, b"red", True)), 1000.0)
    for _ in range(2):
        transfer.receiver.hear(encode(Cancel(SessionId(1, 1), True, 0)), 1000.0)

    with pytest.raises(Failed, match="the peer cancelled with USR_CNCLD"):
        transfer.link.run({"sender": Absent(), "receiver": transfer.receiver})
    assert transfer.sent() == 2 * [CancelAck(SessionId(1, 1), to_sender=True)]


def test_a_sender_that_hears_a_cancellation_acknowledges_it_and_fails(tmp_path: Path) -> None:
    transfer = Transfer(tmp_path, client_service=3)
    transfer.sender.next_datagram(1000.0)
    transfer.sender.hear(encode(Cancel(SessionId(1, 1), False, 77)), 1000.0)

    with pytest.raises(Failed, match="the reserved reason 77"):
        transfer.link.run({"sender": transfer.sender, "receiver": Absent()})
    assert transfer.sent() == [CancelAck(SessionId(1, 1), to_sender=False)]


@pytest.mark.parametrize(
    ("segments", "reason"),
    [
        ([DataSegment(SessionId(1, 1), 9, 0, b"red", True)], "UNREACH"),
        (
            [
                DataSegment(SessionId(1, 1), 4, 50, b"green", False),
                DataSegment(SessionId(1, 1), 4, 60, b"red", True),
            ],
            "MISCOLORED",
        ),
        (
            [
                DataSegment(SessionId(1, 1), 4, 60, b"red", True),
                DataSegment(SessionId(1, 1), 4, 50, b"green", False),
            ],
            "MISCOLORED",
        ),
    ],
)
def test_a_receiver_cancels_what_it_cannot_take(segments: Iterable[DataSegment], reason: str, tmp_path: Path) -> None:
    transfer = Transfer(tmp_path)
    for segment in segments:
        transfer.receiver.hear(encode(segment), 1000.0)

    with pytest.raises(Failed, match=f"cancelled with {reason}"):
        transfer.link.run({"sender": Absent(), "receiver": transfer.receiver})
    assert {type(segment) for segment in transfer.sent()} == {Cancel}


def test_a_cancellation_that_is_acknowledged_ends_both_sides_at_once(tmp_path: Path) -> None:
    transfer = Transfer(tmp_path)
    transfer.receiver.hear(encode(DataSegment(SessionId(1, 1), 9, 0, b"red", True)), 1000.0)
    transfer.receiver.advance(1000.0)
    transfer.receiver.next_datagram(1000.0)
    transfer.receiver.hear(encode(CancelAck(SessionId(1, 1), to_sender=False)), 1002.0)

    with pytest.raises(Failed, match="UNREACH"):
        transfer.receiver.advance(1002.0)


def test_a_receiver_whose_sender_never_comes_ends(tmp_path: Path) -> None:
    transfer = Transfer(tmp_path)

    with pytest.raises(Failed, match="the sender was silent for"):
        transfer.link.run({"sender": Absent(), "receiver": transfer.receiver})


def test_a_receiver_with_the_complete_file_ends_when_nobody_acknowledges_its_report(tmp_path: Path) -> None:
    transfer = Transfer(tmp_path, lambda _, datagram: segment_type(datagram) == SegmentType.REPORT_ACK).run()

    assert transfer.is_same
    assert transfer.counts()[SegmentType.REPORT] == 8
    assert transfer.receiver.ended


HOSTILE: list[Segment] = [
    DataSegment(SessionId(1, 9), 4, 0, b"another session", True),
    DataSegment(SessionId(2, 1), 4, 0, b"another engine", True),
    DataSegment(SessionId(1, 1), 4, 14_999, b"beyond the block", True),
    DataSegment(SessionId(1, 1), 4, 2**63, b"far beyond the block", True),
    DataSegment(SessionId(1, 1), 4, 100, b"a wrong end", True, Checkpoint(5, 0), True, True),
    DataSegment(SessionId(1, 1), 4, 100, b"", True, Checkpoint(6, 0)),
    ReportAck(SessionId(1, 1), 99),
    Report(SessionId(1, 1), 5, 5, 40_000, 0, ()),
    Report(SessionId(1, 1), 5, 5, 2**64 - 1, 2**64 - 2, ()),
    Report(SessionId(1, 9), 5, 5, 100, 0, ()),
    Cancel(SessionId(1, 9), False, 2),
    CancelAck(SessionId(1, 1), True),
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=str)
def test_a_segment_that_does_not_fit_changes_nothing(hostile: Segment, tmp_path: Path) -> None:
    transfer = Transfer(tmp_path, block_bytes=15_000)
    for side in (transfer.sender, transfer.receiver):
        start_and_hear(side, encode(hostile))
    transfer.run()

    assert transfer.is_same


def start_and_hear(side: SessionSide, datagram: bytes) -> None:
    side.advance(1000.0)
    side.hear(datagram, 1000.0)
    side.hear(b"\xff" + datagram, 1000.0)


def test_a_transfer_whose_every_segment_comes_twice_sends_none_in_vain(tmp_path: Path) -> None:
    transfer = Transfer(tmp_path, lose(SegmentType.RED, 3), checkpoint_every=10)
    transfer.link.copies = 2
    transfer.run()

    assert transfer.is_same
    assert len(transfer.sent(DataSegment)) == 31
    assert len(transfer.sent(Report)) == 4


SMALL = st.integers(0, 40_000)
SESSIONS = st.builds(SessionId, st.just(1), st.integers(0, 3))
ANY_SEGMENT: st.SearchStrategy[Segment] = st.one_of(
    st.builds(DataSegment, SESSIONS, st.just(4), SMALL, st.binary(max_size=9), st.just(True)),
    st.builds(
        lambda session, at, serial, answers, ends: DataSegment(
            session, 4, at, b"red", True, Checkpoint(serial, answers), ends, ends
        ),
        SESSIONS,
        SMALL,
        st.integers(1, 9),
        st.integers(0, 9),
        st.booleans(),
    ),
    st.builds(
        lambda session, serial, lower, length: Report(session, serial, serial, lower + length, lower, ()),
        SESSIONS,
        st.integers(1, 9),
        SMALL,
        st.integers(1, 9_000),
    ),
    st.builds(ReportAck, SESSIONS, st.integers(0, 9)),
    st.builds(CancelAck, SESSIONS, st.booleans()),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ANY_SEGMENT, max_size=12))
def test_no_segment_breaks_an_engine(segments: list[Segment]) -> None:
    """A file may be lost to them; both sides come to an end all the same."""
    with tempfile.TemporaryDirectory() as directory:
        transfer = Transfer(Path(directory), block_bytes=15_000)
        for segment in segments:
            for side in (transfer.sender, transfer.receiver):
                start_and_hear(side, encode(segment))
        with suppress(Failed):
            transfer.run()


def test_damaged_datagrams_are_counted(tmp_path: Path) -> None:
    transfer = Transfer(tmp_path)
    transfer.receiver.hear(b"\xff", 1000.0)
    transfer.run()

    assert "unreadable=1" in transfer.receiver.facts()


def test_an_empty_file_is_not_supported(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="a file of 0 bytes"):
        Transfer(tmp_path, content=b"")


@pytest.mark.parametrize("choices", [{"segment_bytes": 0}, {"segment_bytes": 65_500}, {"sender_engine": 2**64}])
def test_what_the_format_does_not_hold_is_not_supported(choices: dict[str, int]) -> None:
    with pytest.raises(Unsupported):
        Settings(**TOLD, **choices)


def test_the_same_seed_gives_the_same_segments(tmp_path: Path) -> None:
    first, second = ([datagram for *_, datagram in Transfer(tmp_path).run().link.sent] for _ in range(2))

    assert first == second
