"""Saratoga transfers over a simulated channel that loses, repeats or changes chosen packets."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from owlt.agents.saratoga import version0, version1
from owlt.agents.saratoga.packets import Beacon, Code, Data, Metadata, Packet, Request, Status, session_id
from owlt.agents.saratoga.receiving import Receiving
from owlt.agents.saratoga.sending import Sending
from owlt.agents.saratoga.settings import Settings
from tests.unit.agents.saratoga_channel import Ending, Rule, everything, kind_of, lose, lose_at_random, transfer

CONTENT = random.Random(1).randbytes(100_000)

PUT: dict[str, Any] = {}
ASKED_PUT: dict[str, Any] = {"start": "asked"}
GET: dict[str, Any] = {"transfer": "get"}
GET_0: dict[str, Any] = {"transfer": "get", "version": 0}
POLLED: dict[str, Any] = {**GET_0, "poll_s": 0.1}
UNPOLLED_WAYS = pytest.mark.parametrize("way", [PUT, ASKED_PUT, GET, GET_0], ids=["put", "asked", "get", "v0"])
WAYS = pytest.mark.parametrize("way", [PUT, ASKED_PUT, GET, GET_0, POLLED], ids=["put", "asked", "get", "v0", "polled"])


def assert_complete(ending: Ending) -> None:
    said = (ending.sender_said, ending.receiver_said)
    assert not any(line.startswith("failed") for line in said), said
    assert ending.same


def statuses(ending: Ending) -> list[Status]:
    return [packet for packet in map(version1.read, ending.sent) if isinstance(packet, Status)]


def test_a_blind_put_sends_each_packet_once_and_no_request(tmp_path: Path) -> None:
    ending = transfer(tmp_path, content=CONTENT)

    assert_complete(ending)
    assert ending.seen == {"Metadata": 1, "Data": 100, "Status": 1}


def test_a_put_that_asks_waits_for_the_answer(tmp_path: Path) -> None:
    ending = transfer(tmp_path, content=CONTENT, **ASKED_PUT)

    assert_complete(ending)
    assert [kind_of(datagram) for datagram in ending.sent[:4]] == ["Request", "Status", "Metadata", "Data"]


def test_a_get_is_asked_for_agreed_to_and_sent(tmp_path: Path) -> None:
    ending = transfer(tmp_path, content=CONTENT, **GET)

    assert_complete(ending)
    assert [kind_of(datagram) for datagram in ending.sent[:4]] == ["Request", "Status", "Metadata", "Data"]
    assert ending.seen == {"Request": 1, "Metadata": 1, "Data": 100, "Status": 2}


def test_a_get_of_version_0_has_no_word_of_agreement(tmp_path: Path) -> None:
    ending = transfer(tmp_path, content=CONTENT, **GET_0)

    assert_complete(ending)
    assert ending.seen == {"Request": 1, "Metadata": 1, "Data": 100, "Status": 1}
    assert {datagram[0] >> 5 for datagram in ending.sent} == {0}


POLL_BYTES = 18


def polls(ending: Ending) -> list[bytes]:
    return [datagram for datagram in ending.sent if kind_of(datagram) == "Data" and len(datagram) == POLL_BYTES]


def test_a_sender_polls_until_the_status_arrives_which_is_sent_once(tmp_path: Path) -> None:
    """As in the main paper (section 5.6.2.6): two packets of 18 bytes, 1 s apart, while the answer takes 2.5 s."""
    ending = transfer(tmp_path, content=CONTENT, one_way_s=1.25, **{**POLLED, "poll_s": 1})

    assert_complete(ending)
    assert ending.seen == {"Request": 1, "Metadata": 1, "Data": 102, "Status": 1}
    assert len(polls(ending)) == 2
    packets = [version0.read(poll) for poll in polls(ending)]
    assert [(packet.end, packet.asks) for packet in packets if isinstance(packet, Data)] == [(len(CONTENT), True)] * 2


def test_without_polls_the_last_data_are_sent_again_as_a_whole(tmp_path: Path) -> None:
    ending = transfer(tmp_path, lose("Status", 1), content=CONTENT, **GET_0)

    assert ending.seen["Data"] == 101
    assert polls(ending) == []


def test_a_poll_after_a_lost_last_status_is_answered(tmp_path: Path) -> None:
    ending = transfer(tmp_path, lose("Status", 1), content=CONTENT, one_way_s=1.25, **{**POLLED, "poll_s": 1})

    assert_complete(ending)
    assert ending.seen["Status"] == 2


def test_answers_to_several_polls_have_no_data_sent_twice(tmp_path: Path) -> None:
    ending = transfer(tmp_path, lose("Data", 5, 50), content=CONTENT, one_way_s=1.25, **{**POLLED, "poll_s": 1})

    assert_complete(ending)
    assert ending.seen["Data"] - len(polls(ending)) == 102


@WAYS
@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001])
def test_a_file_of_any_size_arrives(tmp_path: Path, way: dict[str, Any], size: int) -> None:
    assert_complete(transfer(tmp_path, content=CONTENT[:size], **way))


@WAYS
@pytest.mark.parametrize("seed", range(8))
def test_losses_at_random_are_mended(tmp_path: Path, way: dict[str, Any], seed: int) -> None:
    assert_complete(transfer(tmp_path, lose_at_random(0.2, seed), content=CONTENT, **way))


@WAYS
@pytest.mark.parametrize("size", [0, 1, 3000])
def test_a_third_of_all_packets_lost_are_mended(tmp_path: Path, way: dict[str, Any], size: int) -> None:
    for seed in range(5):
        assert_complete(transfer(tmp_path, lose_at_random(0.33, seed), content=CONTENT[:size], **way))


@WAYS
def test_every_packet_may_come_twice(tmp_path: Path, way: dict[str, Any]) -> None:
    assert_complete(transfer(tmp_path, lambda _kind, _number, datagram: [datagram] * 2, content=CONTENT, **way))


@WAYS
@pytest.mark.parametrize("kind", ["Request", "Metadata", "Status"])
def test_the_first_of_each_kind_lost_is_mended(tmp_path: Path, way: dict[str, Any], kind: str) -> None:
    assert_complete(transfer(tmp_path, lose(kind, 1, 2), content=CONTENT, **way))


@UNPOLLED_WAYS
def test_the_end_of_the_file_lost_again_and_again_is_mended(tmp_path: Path, way: dict[str, Any]) -> None:
    ending = transfer(tmp_path, lose("Data", 100, 101, 102), content=CONTENT, **way)

    assert_complete(ending)
    assert ending.seen["Data"] in (103, 104)


def test_data_lost_go_once_more_and_no_others(tmp_path: Path) -> None:
    ending = transfer(tmp_path, lose("Data", 1, 2, 10, 99), content=CONTENT)

    assert_complete(ending)
    assert ending.seen["Data"] == 104


def test_data_lost_twice_go_a_third_time(tmp_path: Path) -> None:
    ending = transfer(tmp_path, lose("Data", 10, 101), content=CONTENT)

    assert_complete(ending)
    assert ending.seen["Data"] == 102


def test_a_tail_of_which_nothing_came_is_sent_again(tmp_path: Path) -> None:
    """The receiver answers the 50th packet and has a hole before it; nothing tells it that there is more."""
    ending = transfer(tmp_path, lose("Data", 40, *range(51, 101)), content=CONTENT, status_packets=50)

    assert_complete(ending)
    assert ending.seen["Data"] == 151


@pytest.mark.parametrize("reverse_bps", [10e6, 9600])
@pytest.mark.parametrize("every", [0, 7, 20])
def test_no_data_go_twice_that_were_not_lost(tmp_path: Path, reverse_bps: float, every: int) -> None:
    """However often the sender asks: what a status reports is not sent again while the answer is on its way."""
    lost: list[bytes] = []

    def rule(kind: str, number: int, datagram: bytes) -> list[bytes]:
        if kind == "Data" and number % 9 == 0 and number < 100:
            lost.append(datagram)
            return []
        return [datagram]

    ending = transfer(tmp_path, rule, content=CONTENT, status_packets=every, reverse_bps=reverse_bps, timer_margin_s=5)

    assert_complete(ending)
    assert ending.seen["Data"] == 100 + len(lost)


def test_holes_are_filled_before_the_file_has_been_sent_once(tmp_path: Path) -> None:
    ending = transfer(tmp_path, lose("Data", 3), content=CONTENT, status_packets=5, one_way_s=0.01)

    data = [packet for packet in map(version1.read, ending.sent) if isinstance(packet, Data)]
    again = [place for place, packet in enumerate(data) if packet.offset == 2000][1]
    assert_complete(ending)
    assert again < len(data) - 50


def test_a_lost_last_status_is_asked_for_again(tmp_path: Path) -> None:
    ending = transfer(tmp_path, lose("Status", 1, 2, 3), content=CONTENT)

    assert_complete(ending)
    assert ending.seen == {"Metadata": 1, "Data": 103, "Status": 4}


def test_lost_metadata_are_asked_for_at_once_and_no_data_go_twice(tmp_path: Path) -> None:
    ending = transfer(tmp_path, lose("Metadata", 1), content=CONTENT)

    assert_complete(ending)
    assert ending.seen["Metadata"] == 2
    assert ending.seen["Data"] == 100
    assert statuses(ending)[0].metadata_missing
    assert statuses(ending)[0].voluntary


def test_metadata_that_end_before_the_data_are_refused(tmp_path: Path) -> None:
    usual: dict[str, Any] = {"session": 1, "descriptor_bits": 32}
    data = Data(**usual, offset=0, payload=bytes(1000), asks=False, ends=False, timestamp=b"")
    settings = Settings(rate_bps=0, rtt_s=1)
    with Receiving(tmp_path / "output", settings, 0.0) as receiver:
        for packet in (data, Metadata(**usual, file_bytes=999, name="x", checksum="none", digest=b"")):
            receiver.hear(version1.pack(packet), 0.0)

    assert not (tmp_path / "output").exists()


def test_a_long_list_of_holes_is_reported_in_parts_that_are_marked(tmp_path: Path) -> None:
    def rule(kind: str, number: int, datagram: bytes) -> list[bytes]:
        return [] if kind == "Data" and number < 1000 and number % 2 else [datagram]

    ending = transfer(tmp_path, rule, content=CONTENT, segment_bytes=100, status_packets=0)

    parts = [status for status in statuses(ending) if status.partial]
    assert_complete(ending)
    assert sum(len(status.holes) for status in parts) == 500
    assert max(len(version1.pack(status)) for status in parts) <= 132
    assert ending.seen["Data"] == 1500


def test_a_long_list_over_a_thin_channel_costs_hardly_any_data(tmp_path: Path) -> None:
    """A list takes a second to come, and the next is on its way before the first is worked off."""

    def rule(kind: str, number: int, datagram: bytes) -> list[bytes]:
        return [] if kind == "Data" and number < 1000 and number % 2 else [datagram]

    usual: dict[str, Any] = {"content": CONTENT, "segment_bytes": 100, "reverse_bps": 60e3, "rate_bps": 1e6}

    ending = transfer(tmp_path, rule, status_packets=100, timer_margin_s=1, one_way_s=0.05, **usual)

    # a sender that does not tell the parts of an answer from a new one sends 578 packets too many
    assert_complete(ending)
    assert 1500 <= ending.seen["Data"] <= 1510


def test_with_timestamps_a_thin_channel_costs_no_data_however_late_a_status_is(tmp_path: Path) -> None:
    """Each of 400 lists waits behind the others: the last comes 100 s after it was made, the timer is 0.2 s."""

    def rule(kind: str, number: int, datagram: bytes) -> list[bytes]:
        return [] if kind == "Data" and number < 1000 and number % 2 else [datagram]

    usual: dict[str, Any] = {"content": CONTENT, "segment_bytes": 100, "reverse_bps": 20e3, "rate_bps": 1e6}

    ending = transfer(tmp_path, rule, status_packets=30, timestamps="on", one_way_s=0.05, **usual)

    assert_complete(ending)
    assert ending.seen["Data"] == 1500


@pytest.mark.parametrize(("one_way_s", "told_s"), [(0.25, 0.1), (0.25, 3.0), (1.0, 0.0), (0.0, 0.0)])
def test_a_wrong_round_trip_time_ends_well_too(tmp_path: Path, one_way_s: float, told_s: float) -> None:
    ending = transfer(tmp_path, lose_at_random(0.1, 3), content=CONTENT, one_way_s=one_way_s, rtt_s=told_s)

    assert_complete(ending)


def test_the_sender_keeps_to_the_rate(tmp_path: Path) -> None:
    ending = transfer(tmp_path, content=CONTENT, one_way_s=0)

    # 4 type and flags, 4 session, 4 offset, 42 of UDP, IP and Ethernet
    assert ending.ended_s["sender"] == pytest.approx(100 * 8 * (1000 + 12 + 42) / 10e6, rel=0.01)


def test_unasked_statuses_come_at_the_start_and_at_intervals(tmp_path: Path) -> None:
    ending = transfer(tmp_path, content=CONTENT, voluntary_s=0.01)

    # 100 packets of 1054 bytes at 10 Mbit/s take 84 ms; the last one says that all is here
    unasked = [status for status in statuses(ending) if status.voluntary]
    assert_complete(ending)
    assert 8 <= len(unasked) <= 10
    assert unasked[0].progress == 0


def test_a_status_at_the_start_does_not_have_data_sent_again_that_are_on_their_way(tmp_path: Path) -> None:
    ending = transfer(tmp_path, content=CONTENT, voluntary_s=10, one_way_s=100)

    assert_complete(ending)
    assert statuses(ending)[0].progress == 0
    assert ending.seen["Data"] == 100


def test_a_timestamp_comes_back_in_the_status(tmp_path: Path) -> None:
    ending = transfer(tmp_path, content=CONTENT, timestamps="on", one_way_s=0.25)

    stamps = {packet.timestamp for packet in map(version1.read, ending.sent) if isinstance(packet, Data)}
    assert_complete(ending)
    assert len(stamps) == 100
    assert statuses(ending)[-1].timestamp in stamps
    assert "round_trip_s=0.50" in ending.sender_said


@pytest.mark.parametrize("checksum", ["none", "crc32", "md5", "sha1"])
@pytest.mark.parametrize("bits", [32, 64])
def test_each_checksum_and_length_of_offsets_goes(tmp_path: Path, checksum: str, bits: int) -> None:
    ending = transfer(tmp_path, lose_at_random(0.1, 1), content=CONTENT, checksum=checksum, descriptor_bits=bits)

    assert_complete(ending)
    assert all(status.descriptor_bits == bits for status in statuses(ending))


@pytest.mark.parametrize("checksum", ["crc32", "md5", "sha1"])
def test_damage_that_nobody_noticed_is_found_in_the_checksum(tmp_path: Path, checksum: str) -> None:
    def rule(kind: str, number: int, datagram: bytes) -> list[bytes]:
        return [datagram[:-1] + bytes([datagram[-1] ^ 1])] if (kind, number) == ("Data", 9) else [datagram]

    ending = transfer(tmp_path, rule, content=CONTENT, checksum=checksum)

    assert not (tmp_path / "output").exists()
    assert ending.sender_said.startswith("failed: the receiver gave up with UNSPECIFIED_ERROR")
    assert ending.receiver_said.startswith("failed: the checksum of the file differs from its metadata")


def test_a_file_that_is_not_there_is_refused_and_both_sides_say_so(tmp_path: Path) -> None:
    ending = transfer(tmp_path, content=CONTENT, wanted="other", idle_limit_s=2, **GET)

    assert ending.receiver_said.startswith("failed: the sender refused with FILE_NOT_FOUND")
    assert ending.sender_said.startswith("failed: the receiver was silent for 2 s")


def answers_to(tmp_path: Path, request: Request) -> list[Packet]:
    """What a sender of 100 kB has ready at once for a request to get its file."""
    (tmp_path / "file").write_bytes(CONTENT)
    sender = Sending(tmp_path / "file", Settings(rate_bps=0, rtt_s=1, transfer="get"), 0.0)
    sender.hear(version1.pack(request), 0.0)
    sender.advance(0.0)
    return [version1.read(sender.next_datagram(0.0)) for _ in range(3) if sender.has_datagram()]


def test_a_get_keeps_the_session_that_its_author_chose(tmp_path: Path) -> None:
    said = answers_to(tmp_path, Request(session=7, action=1, name="file", descriptor_bits=64))

    assert [type(packet) for packet in said] == [Status, Metadata, Data]
    assert {packet.session for packet in said if not isinstance(packet, Beacon)} == {7}


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (Request(session=7, action=1, name="file", descriptor_bits=16), Code.FILE_TOO_LONG),
        (Request(session=7, action=1, name="else", descriptor_bits=64), Code.FILE_NOT_FOUND),
        (Request(session=7, action=5, name="file", descriptor_bits=64), Code.UNSUPPORTED_REQUEST),
    ],
)
def test_a_request_that_cannot_be_met_is_answered_with_the_reason(
    tmp_path: Path, request_: Request, code: Code
) -> None:
    said = answers_to(tmp_path, request_)

    assert [packet.code for packet in said if isinstance(packet, Status)] == [code]
    assert len(said) == 1


def test_the_receiver_leaves_only_its_file(tmp_path: Path) -> None:
    assert_complete(transfer(tmp_path, content=CONTENT))

    assert {path.name for path in tmp_path.iterdir()} == {"file", "output"}


@WAYS
def test_a_sender_without_receiver_ends_with_a_reason(tmp_path: Path, way: dict[str, Any]) -> None:
    ending = transfer(tmp_path, content=CONTENT, parties=("sender",), idle_limit_s=3, **way)

    assert ending.sender_said.startswith("failed: the receiver was silent for 3 s")
    assert ending.ended_s["sender"] < 10


@WAYS
def test_a_receiver_without_sender_ends_with_a_reason(tmp_path: Path, way: dict[str, Any]) -> None:
    ending = transfer(tmp_path, content=CONTENT, parties=("receiver",), idle_limit_s=3, **way)

    assert ending.receiver_said.startswith("failed: the sender was silent for 3 s")
    assert ending.ended_s["receiver"] == pytest.approx(3)


def test_a_burst_that_takes_longer_than_the_limit_of_silence_is_no_silence(tmp_path: Path) -> None:
    lost = lose("Data", *range(1, 100, 2))

    ending = transfer(tmp_path, lost, content=CONTENT, rate_bps=40e3, idle_limit_s=5, status_packets=0)

    # 50 packets of 1054 bytes take 10.5 s
    assert_complete(ending)


def test_a_receiver_with_its_file_stays_to_say_so_and_then_ends(tmp_path: Path) -> None:
    ending = transfer(tmp_path, lambda kind, _, datagram: [] if kind == "Status" else [datagram], content=CONTENT)

    assert ending.same
    assert not ending.receiver_said.startswith("failed")
    assert ending.sender_said.startswith("failed: the receiver was silent")
    assert ending.ended_s["receiver"] > ending.ended_s["sender"]


def rubbish(seed: int) -> Rule:
    chance = random.Random(seed)
    session = session_id("file")
    usual: dict[str, Any] = {"session": session, "descriptor_bits": 64}
    strange: list[Request | Metadata | Data | Status] = [
        Data(**usual, offset=2**63, payload=b"x", asks=True, ends=False, timestamp=b""),
        Data(**usual, offset=10**12, payload=b"x", asks=True, ends=False, timestamp=b""),
        Metadata(**usual, file_bytes=5, name="../../x", checksum="none", digest=b""),
        Metadata(**usual, file_bytes=2**63, name="x", checksum="none", digest=b""),
        Request(**usual, action=5, name="file"),
        Request(**usual, action=2, name="x\n"),
    ]

    def rule(_kind: str, number: int, datagram: bytes) -> list[bytes]:
        cut = datagram[: chance.randrange(len(datagram))]
        if number % 7 or cut[:1] == b"\x23":
            return [datagram]
        other_session = datagram[:4] + chance.randbytes(4) + datagram[8:]
        return [datagram, chance.randbytes(40), cut, b"", other_session, version1.pack(chance.choice(strange))]

    return rule


@pytest.mark.parametrize("way", [PUT, GET], ids=["put", "get"])
@pytest.mark.parametrize("seed", range(5))
def test_rubbish_between_the_packets_disturbs_nobody(tmp_path: Path, way: dict[str, Any], seed: int) -> None:
    ending = transfer(tmp_path, rubbish(seed), content=CONTENT, **way)

    assert_complete(ending)


@pytest.mark.parametrize("offset", [2**40, 2**62, 2**63 - 1])
def test_data_from_beyond_any_file_system_are_refused(tmp_path: Path, offset: int) -> None:
    data = Data(session=1, offset=offset, payload=b"x", asks=True, ends=True, timestamp=b"", descriptor_bits=64)
    with Receiving(tmp_path / "output", Settings(rate_bps=0, rtt_s=1), 0.0) as receiver:
        receiver.hear(version1.pack(data), 0.0)

        assert not receiver.has_datagram()


def test_holes_beyond_what_was_sent_are_not_filled(tmp_path: Path) -> None:
    def rule(kind: str, number: int, datagram: bytes) -> list[bytes]:
        if (kind, number) != ("Status", 1):
            return [datagram]
        status = version1.read(datagram)
        assert isinstance(status, Status)
        return [version1.pack(replace(status, holes=((10**6, 2**31),), voluntary=True)), datagram]

    ending = transfer(tmp_path, rule, content=CONTENT)

    assert_complete(ending)
    assert ending.seen["Data"] == 100


def test_a_receiver_that_gives_up_ends_the_sender(tmp_path: Path) -> None:
    def rule(kind: str, _number: int, datagram: bytes) -> list[bytes]:
        status = version1.read(datagram)
        if kind != "Status" or not isinstance(status, Status):
            return [datagram]
        return [version1.pack(replace(status, code=Code.RECEIVER_LACKS_RESOURCES))]

    ending = transfer(tmp_path, rule, content=CONTENT)

    assert ending.sender_said.startswith("failed: the receiver gave up with RECEIVER_LACKS_RESOURCES")


def test_the_same_transfer_again_sends_the_same_bytes(tmp_path: Path) -> None:
    runs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        runs.append(transfer(tmp_path / name, lose_at_random(0.1, 9), content=CONTENT))

    assert runs[0].sent == runs[1].sent


def test_a_far_planet_takes_as_many_round_trips_as_losses_in_a_row(tmp_path: Path) -> None:
    ending = transfer(tmp_path, lose("Data", 5, 101), content=CONTENT, one_way_s=1200)

    assert_complete(ending)
    assert ending.ended_s["sender"] == pytest.approx(3 * 2400, rel=0.01)


def test_a_large_file_of_which_every_second_packet_is_lost_once_is_held_in_spans(tmp_path: Path) -> None:
    lost = lambda kind, number, datagram: [] if kind == "Data" and number < 4000 and number % 2 else [datagram]  # noqa: E731

    ending = transfer(tmp_path, lost, content=bytes(4_000_000))

    assert_complete(ending)
    assert ending.seen["Data"] == 6000


def test_everything_arrives_when_nothing_is_lost(tmp_path: Path) -> None:
    assert "data_again=0 unreadable=0 refused=0" in transfer(tmp_path, everything, content=CONTENT).receiver_said
