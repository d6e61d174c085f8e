"""There is no goodput if the packets show that the transfer failed; otherwise there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from owlt.agents.ltp.segments import Cancel, Checkpoint, Claim, DataSegment, Report
from owlt.agents.ltp.segments import encode as ltp
from owlt.agents.saratoga import version1
from owlt.agents.saratoga.packets import Metadata, Status
from owlt.captures.accounting.one_side import one_side
from owlt.captures.accounting.summary import read_both
from owlt.captures.accounting.suspicion import Claims
from owlt.captures.inspection.inspection import Case, Inspection, inspect
from owlt.captures.protocols.messages import messages, stated_failure
from tests.unit.captures.making import SESSION, flip, later, timed, write_pcap
from tests.unit.captures.octets import (
    ACK_OF_EOF,
    BLOCK,
    CFDP,
    CFDP_RUN,
    FINISHED,
    LTP,
    RECEIVER_SAYS,
    SARATOGA,
    cfdp_data,
    eof,
    frame,
    metadata,
    nak,
    norm_data,
    pdu,
    red,
    saratoga_data,
)
from tests.unit.captures.valid_units import cfdp_pdu

NORM = ("-d", "udp.port==5222,norm")
OWD_NS, STEP_NS = 25_000_000, 1_000_000
Sent = tuple[bytes, bool]
"""A frame, and whether it arrives."""


def inspected(
    tmp_path: Path, dissector: Sequence[str], exchange: Sequence[Sent], case: Case | None = None
) -> Inspection:
    """The frames leave their hosts one after the other; those of the receiver are known by their addresses."""
    ports: dict[str, list[tuple[int, bytes]]] = {"sender": [], "receiver": []}
    for (time_ns, octets), (_, arrives) in zip(
        timed([octets for octets, _ in exchange], 2 * OWD_NS), exchange, strict=True
    ):
        is_sender = octets[26:30] == bytes([10, 77, 0, 1])
        near, far = ("sender", "receiver") if is_sender else ("receiver", "sender")
        ports[near].append((time_ns, octets))
        ports[far] += later([(time_ns, octets)] if arrives else [], OWD_NS)
    pcaps = [write_pcap(tmp_path / f"{host}.pcap", sorted(frames)) for host, frames in ports.items()]
    return inspect(*read_both(*pcaps), replace(case or Case(SESSION), dissector=dissector))


def all_arrive(frames: Sequence[bytes]) -> list[Sent]:
    return [(octets, True) for octets in frames]


NAK_LIMIT_REACHED = pdu(b"\x05\x77")  # condition 7, incomplete, unreported
CLASS_1 = [
    (frame(metadata(2500)), True),
    (frame(cfdp_data(0, 1000)), True),
    (frame(cfdp_data(1000, 1000)), False),
    (frame(cfdp_data(2000, 500)), True),
    (frame(eof(2500)), True),
]


def test_a_transfer_of_which_everything_arrived_has_a_goodput(tmp_path: Path) -> None:
    found = inspected(tmp_path, CFDP, all_arrive(CFDP_RUN))

    assert found.summary.goodput_bps is not None
    assert "the receiver's messages state that the file was delivered" in found.notes


def test_missing_octets_leave_no_goodput(tmp_path: Path) -> None:
    found = inspected(tmp_path, CFDP, CLASS_1)

    assert found.summary.goodput_bps is None
    assert found.left_out == (
        "the transfer failed: 1000 of the 2500 bytes of the file that were sent never arrived at the receiver's port"
    )


def test_data_that_was_lost_and_sent_again_counts_as_arrived(tmp_path: Path) -> None:
    found = inspected(tmp_path, CFDP, [*CLASS_1, (frame(cfdp_data(1000, 1000)), True)])

    assert found.summary.goodput_bps is not None


def test_a_receiver_that_acknowledges_what_its_capture_missed_makes_the_captures_suspect(tmp_path: Path) -> None:
    satisfied = (frame(nak(0, 2500), RECEIVER_SAYS), True)
    found = inspected(tmp_path, CFDP, [*CLASS_1, satisfied])

    assert found.summary.goodput_bps is None
    assert found.left_out == "the transfer is suspect"
    assert found.summary.suspect[0].startswith(
        "the receiver acknowledges 2500 bytes of the file, but the capture at its port contains 1500"
    )


def test_a_receiver_that_finishes_without_all_data_leaves_no_goodput_and_says_why(tmp_path: Path) -> None:
    found = inspected(tmp_path, CFDP, [*CLASS_1, (frame(NAK_LIMIT_REACHED, RECEIVER_SAYS), True)])

    assert found.left_out == "the transfer failed: the receiver's Finished states: NAK limit reached, data incomplete"
    assert found.exchange is not None
    assert found.exchange.of_receiver[-1].detail == "NAK limit reached, data incomplete"


def test_a_finished_with_an_error_leaves_no_goodput_although_all_data_arrived(tmp_path: Path) -> None:
    wrong_checksum = frame(pdu(b"\x05\x54"), RECEIVER_SAYS)
    found = inspected(tmp_path, CFDP, all_arrive([*CFDP_RUN[:-2], wrong_checksum]))

    assert found.summary.goodput_bps is None
    assert "file checksum failure" in found.left_out


def test_a_sender_that_cancels_leaves_no_goodput(tmp_path: Path) -> None:
    cancel = frame(pdu(b"\x04\xf0" + bytes(4) + (2500).to_bytes(4, "big")))

    assert (
        "cancelled: cancel request received" in inspected(tmp_path, CFDP, all_arrive([*CFDP_RUN[:4], cancel])).left_out
    )


def test_a_sender_that_cancels_after_the_receiver_had_finished_changes_nothing(tmp_path: Path) -> None:
    cancel = frame(pdu(b"\x04\x10" + bytes(4) + (2500).to_bytes(4, "big")))
    lost = [(frame(FINISHED, RECEIVER_SAYS), False), (cancel, True)]
    found = inspected(tmp_path, CFDP, [*all_arrive(CFDP_RUN[:-2]), *lost])

    assert found.summary.goodput_bps is not None


def test_a_file_of_which_the_sender_never_sent_all_has_no_goodput(tmp_path: Path) -> None:
    found = inspected(tmp_path, CFDP, all_arrive([*CFDP_RUN[:2], frame(eof(2500))]))

    assert found.left_out == "the transfer failed: the messages carry 1000 of the 2500 bytes that they state"


def test_a_run_that_is_known_to_be_complete_keeps_its_goodput(tmp_path: Path) -> None:
    """The file had the right hash: the receiver accepted data that the packets do not show."""
    case = Case(SESSION, file_size_bytes=2500, outcome="completed")

    assert inspected(tmp_path, CFDP, CLASS_1, case).summary.goodput_bps is not None


def test_an_empty_file_is_no_failure(tmp_path: Path) -> None:
    frames = [metadata(0), eof(0)]
    answers = [ACK_OF_EOF, FINISHED]
    found = inspected(
        tmp_path, CFDP, all_arrive([*map(frame, frames), *(frame(answer, RECEIVER_SAYS) for answer in answers)])
    )

    assert (found.left_out, found.summary.goodput_bps) == ("", 0)


# LTP


def block(arrives: bool) -> list[Sent]:
    return [(red(0, 1000, checkpoint=Checkpoint(5, 0), ends_red_part=True, ends_block=True), arrives)]


@pytest.mark.parametrize("by_sender", [True, False])
def test_a_cancelled_session_of_ltp_leaves_no_goodput(tmp_path: Path, by_sender: bool) -> None:
    hosts = () if by_sender else (RECEIVER_SAYS,)
    cancel = frame(ltp(Cancel(BLOCK, by_sender, 2)), *hosts)
    found = inspected(tmp_path, LTP, [*block(arrives=False), (cancel, True)])

    assert found.summary.goodput_bps is None
    assert "never arrived" in found.left_out


def test_a_session_cancelled_after_its_block_had_arrived_is_no_failure(tmp_path: Path) -> None:
    report = frame(ltp(Report(BLOCK, 9, 5, 1000, 0, (Claim(0, 1000),))), RECEIVER_SAYS)
    cancel = frame(ltp(Cancel(BLOCK, True, 2)))
    found = inspected(tmp_path, LTP, [*block(arrives=True), (report, False), (cancel, True)])

    assert found.summary.goodput_bps is not None


def test_two_segments_in_a_datagram_are_counted_both(tmp_path: Path) -> None:
    halves = [ltp(DataSegment(BLOCK, 2, offset, bytes(1000), True)) for offset in range(0, 4000, 1000)]
    found = inspected(tmp_path, LTP, all_arrive([frame(halves[0] + halves[1]), frame(halves[2] + halves[3])]))

    assert found.view is not None
    assert (found.view.carried_file_bytes, found.view.repeated_file_bytes) == (4000, 0)


def test_a_block_of_the_bundle_service_that_is_no_bundle_is_the_file(tmp_path: Path) -> None:
    segments = [ltp(DataSegment(BLOCK, 1, offset, bytes(1000), True)) for offset in (0, 1000, 0)]
    found = inspected(tmp_path, LTP, all_arrive([frame(segment) for segment in segments]))

    assert found.view is not None
    assert (found.view.carried_file_bytes, found.view.repeated_file_bytes) == (2000, 1000)


def test_pieces_that_do_not_follow_each_other_are_rows_of_their_own(tmp_path: Path) -> None:
    far_apart = [ltp(DataSegment(BLOCK, 2, offset, bytes(10), True)) for offset in (0, 500)]
    found = inspected(tmp_path, LTP, all_arrive([frame(far_apart[0] + far_apart[1])]))
    data = found.traces.data

    assert data is not None
    assert (data.first_byte.tolist(), data.byte_count.tolist(), data.frame.tolist()) == ([0, 500], [10, 10], [1, 1])


# NORM, Saratoga


def test_segments_that_parity_can_restore_are_no_failure(tmp_path: Path) -> None:
    sent = [
        (frame(norm_data(0, 1000)), True),
        (frame(norm_data(1, 1000)), False),
        (frame(norm_data(0, 500, block=1)), True),
    ]

    assert inspected(tmp_path, NORM, sent).summary.goodput_bps is None
    assert inspected(tmp_path, NORM, [*sent, (frame(norm_data(2, 1000)), True)]).summary.goodput_bps is not None


def saratoga_status(code: int) -> bytes:
    status = Status(
        session=1,
        descriptor_bits=32,
        code=code,
        progress=0,
        in_response_to=0,
        holes=(),
        partial=False,
        voluntary=False,
        metadata_missing=False,
        timestamp=b"",
    )
    return frame(version1.pack(status), RECEIVER_SAYS)


def test_an_error_of_saratoga_leaves_no_goodput_unless_all_had_arrived(tmp_path: Path) -> None:
    start = Metadata(session=1, descriptor_bits=32, file_bytes=2000, name="x", checksum="none", digest=b"")
    first, second = (frame(saratoga_data(offset, 1000)) for offset in (0, 1000))
    sent = [(frame(version1.pack(start)), True), (first, True)]
    wrong = (saratoga_status(3), True)

    assert inspected(tmp_path, SARATOGA, [*sent, (second, False), wrong]).summary.goodput_bps is None
    assert inspected(tmp_path, SARATOGA, [*sent, (second, True), wrong]).summary.goodput_bps is not None


# What the channel does to packets


def test_a_damaged_packet_with_a_wrong_checksum_did_not_arrive(tmp_path: Path) -> None:
    sent = timed([octets for octets, _ in CLASS_1], STEP_NS)
    damaged = [
        (time_ns, flip(octets, 8 * 300)) if number == 2 else (time_ns, octets)
        for number, (time_ns, octets) in enumerate(sent)
    ]
    pcaps = write_pcap(tmp_path / "sender.pcap", sent), write_pcap(tmp_path / "receiver.pcap", later(damaged, OWD_NS))

    assert "1000 of the 2500 bytes" in inspect(*read_both(*pcaps), Case(SESSION, CFDP)).left_out


def test_a_damaged_packet_that_the_receiver_may_have_taken_is_no_failure(tmp_path: Path) -> None:
    """A bit of the source MAC address was flipped: the host accepts the frame."""
    sent = timed([octets for octets, _ in CLASS_1], STEP_NS)
    damaged = [
        (time_ns, flip(octets, 8 * 8) if number == 2 else octets) for number, (time_ns, octets) in enumerate(sent)
    ]
    pcaps = write_pcap(tmp_path / "sender.pcap", sent), write_pcap(tmp_path / "receiver.pcap", later(damaged, OWD_NS))

    assert inspect(*read_both(*pcaps), Case(SESSION, CFDP)).left_out == ""


# One capture


def test_one_capture_has_no_goodput_where_a_host_says_that_the_transfer_failed(tmp_path: Path) -> None:
    frames = [octets for octets, _ in CLASS_1]
    for last, expected in ((NAK_LIMIT_REACHED, False), (FINISHED, True)):
        capture = write_pcap(tmp_path / "x.pcap", timed([*frames, frame(last, RECEIVER_SAYS)]))
        at_sender, _ = read_both(capture, capture)
        failure = stated_failure(messages(at_sender, SESSION, CFDP)).text
        found = one_side(at_sender, SESSION, "sender", Claims(2500), carried_file_bytes=2500, failure=failure)

        assert (found.goodput_bps is not None) == expected
        assert any("NAK limit reached" in reason for reason in found.suspect) != expected


# What is not read


def test_of_pdus_in_space_packets_it_is_not_known_what_was_sent_again(tmp_path: Path) -> None:
    packets = [b"\x18\x01\xc0\x00" + (len(octets) - 43).to_bytes(2, "big") + octets[42:] for octets in CFDP_RUN[:5]]
    found = inspected(tmp_path, CFDP, all_arrive([frame(octets) for octets in packets]))

    assert found.view is not None
    assert found.view.counts["sender"] == {"malformed CFDP": 5}
    assert found.view.repeated_file_bytes is None


def test_bytes_further_behind_than_any_file_has_are_not_placed(tmp_path: Path) -> None:
    far = cfdp_pdu((2**64 - 10).to_bytes(8, "big") + bytes(10), is_data=True, large=True)
    found = inspected(tmp_path, CFDP, all_arrive([*CFDP_RUN[:2], frame(far)]))

    assert found.view is not None
    assert found.view.repeated_file_bytes is None
    assert found.traces.data is not None
    assert (found.traces.data.first_byte.tolist(), found.traces.data.unplaced_frames) == ([0], 1)


def test_a_nak_alone_says_nothing_of_the_end(tmp_path: Path) -> None:
    waiting = (frame(nak(0, 2500, (1000, 2000)), RECEIVER_SAYS), True)

    assert "1000 of the 2500 bytes" in inspected(tmp_path, CFDP, [*CLASS_1, waiting]).left_out
