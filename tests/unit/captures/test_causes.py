from __future__ import annotations

from dataclasses import replace

from owlt.captures.inspection.causes import causes
from owlt.captures.inspection.critical_path import Clues
from owlt.captures.matches.bottleneck import Link
from owlt.results.waits import TimedWait
from tests.unit.captures.test_critical_path import DELAY_NS, KNOWN, LINK, MS, arriving, explained, file_of, rung


def answer(left_ms: float):
    return rung("receiver", left_ms, "of the receiver", size=100)


def test_a_file_without_losses_has_no_cause():
    assert causes(explained([*file_of(20), answer(160 + 250)])) == []


def test_a_wait_is_a_cause_with_its_length_and_what_ended_it():
    (cause,) = causes(explained([*file_of(20), answer(160 + 250 + 1000)]))

    assert (cause.what, cause.host, cause.message, cause.count) == ("waiting", "receiver", "of the receiver", 1)
    assert cause.total_ns == 1000 * MS


def test_waits_of_one_length_are_one_cause():
    slow = [rung("sender", 16 * number, "new data", data=1000 * number) for number in range(20)]

    (cause,) = causes(explained([*slow, answer(19 * 16 + 8 + 250)]))

    assert (cause.what, cause.host, cause.count, cause.total_ns) == ("waiting", "sender", 19, 19 * 8 * MS)


def test_a_wait_during_which_data_are_transmitted_is_one_wait():
    slow = [rung("sender", 16 * number, "new data", data=1000 * number) for number in range(40)]
    timer = TimedWait("receiver", "program", "poll", 260 * MS, 1000 * MS)

    path = explained([*slow, answer(1260)], replace(KNOWN, waits=[timer]))
    (cause,) = [cause for cause in causes(path) if cause.what == "timer"]

    assert (cause.host, cause.count) == ("receiver", 1)
    assert cause.total_ns == sum(part.length_ns for part in path.parts if part.kind == "timer") > 800 * MS


def test_waits_of_different_lengths_are_different_causes():
    lost = [rung("sender", 160 + 1000 * wait, "of the sender", lost=True) for wait in (0, 1, 3)]
    again = rung("sender", 160 + 7000, "of the sender")

    found = causes(explained([*file_of(20, lost=[19]), *lost, again, answer(160 + 7000 + 258)]))
    waits = sorted(cause.total_ns for cause in found if cause.what == "waiting")

    assert [round(wait_ns / 1e9) for wait_ns in waits] == [1, 2, 4]


def test_waits_that_grow_by_little_each_time_are_not_all_one_cause():
    """Each is 1.5 % longer than the one before it, and the last one is 9 % longer than the first."""
    waits_ms = [1000 * 1.015**number for number in range(7)]
    left_ms = [160 + sum(waits_ms[:number]) for number in range(8)]
    sent = [rung("sender", each, "of the sender", lost=True) for each in left_ms[:-1]]
    last = rung("sender", left_ms[-1], "of the sender")

    found = causes(explained([*file_of(20, lost=[19]), *sent, last, answer(left_ms[-1] + 258)]))

    assert [cause.count for cause in found if cause.what == "waiting"] == [2, 2, 2, 1]


def test_the_packet_whose_loss_the_host_waited_for_is_named():
    lost, again = rung("sender", 160, "of the sender", lost=True), rung("sender", 3160, "of the sender")

    path = explained([*file_of(20), lost, again, answer(3160 + 258)])
    (cause,) = [cause for cause in causes(path) if cause.what == "waiting"]

    assert [path.rungs[index] for index in cause.lost] == [lost]


def test_a_round_of_recovery_is_a_round_trip():
    again = rung("sender", 410 + 250.8, "data again", data=0)
    path = explained([*file_of(20, lost=[0]), answer(410), again, answer(410 + 250.8 + 258)])

    (cause,) = [cause for cause in causes(path) if cause.what == "round trips"]

    assert (cause.phase, cause.count, cause.total_ns) == ("recovery", 2, 500 * MS)
    assert [path.rungs[index].message.first_byte for index in cause.lost] == [0]


def test_a_handshake_is_a_round_trip_before_the_data():
    hello, welcome = rung("sender", 0, "of the sender", size=100), answer(250.8)
    data = [rung("sender", 501.6 + 8 * number, "new data", data=1000 * number) for number in range(20)]

    (cause,) = causes(explained([hello, welcome, *data, answer(501.6 + 160 + 250)]))

    assert (cause.what, cause.phase, cause.count, cause.total_ns) == ("round trips", "opening", 2, 500 * MS)


def test_a_way_in_two_phases_is_one_way_of_the_phase_with_most_of_it():
    hello, welcome = rung("sender", 0, "of the sender", size=100), answer(250.8)
    early = rung("sender", 490, "new data", data=0)  # while the welcome is on its way
    data = [rung("sender", 501.6 + 8 * number, "new data", data=1000 * number + 1000) for number in range(20)]

    path = explained([hello, welcome, early, *data, answer(501.6 + 160 + 250)])

    assert {part.phase for part in path.parts if part.packet == 1 and part.kind == "propagation"} == {
        "opening",
        "transfer",
    }
    assert [(each.phase, each.count) for each in causes(path) if each.what == "round trips"] == [("opening", 2)]


def test_a_way_is_counted_although_the_other_direction_takes_much_longer():
    near = Clues(links=(LINK, Link(delay_ns=MS, rate_bps=1e6)))
    asked, done = (arriving(left_ms, left_ms + 1.8) for left_ms in (410, 411.8 + 258))
    again = rung("sender", 411.8, "data again", data=0)

    path = explained([*file_of(20, lost=[0]), asked, again, done], near)
    (cause,) = [cause for cause in causes(path) if cause.what == "round trips"]

    assert (cause.phase, cause.count) == ("recovery", 2)


def test_no_loss_is_the_reason_for_a_pause_that_is_shorter_than_an_answer_takes():
    lost = rung("receiver", 60, "of the receiver", lost=True, size=100)
    paced = [rung("sender", 20 * number, "new data", data=1000 * number) for number in range(20)]

    (cause,) = causes(explained([*paced, lost, answer(19 * 20 + 258)]))

    assert (cause.what, cause.count, cause.lost) == ("waiting", 19, ())


def test_without_a_known_rate_the_pace_of_the_sender_is_a_cause_too():
    again = rung("sender", 410 + 250.8, "data again", data=0)
    path = explained([*file_of(20, lost=[0]), answer(410), again, answer(410 + 250.8 + 258)], Clues())

    assert [(cause.what, cause.phase) for cause in causes(path)] == [
        ("round trips", "recovery"),
        ("waiting", "transfer"),
    ]


def test_without_an_own_way_in_the_transfer_the_one_of_the_repeated_packet_is_the_one_that_every_file_needs():
    lost, again = rung("sender", 160, "of the sender", lost=True), rung("sender", 3160, "of the sender")

    (cause,) = causes(explained([*file_of(20), lost, again, answer(3160 + 258)]))

    assert (cause.what, cause.host) == ("waiting", "sender")
    assert cause.total_ns == (3000 - 8) * MS  # the transmission of the lost packet is none of it


def test_the_time_until_a_late_first_packet_is_a_cause():
    clues = replace(KNOWN, launched_ns=-2000 * MS)

    (cause,) = causes(explained([*file_of(20), answer(160 + 250)], clues))

    assert (cause.what, cause.host, cause.phase, cause.total_ns) == ("waiting", "sender", "opening", 2000 * MS)


def test_the_time_in_which_programs_start_is_no_cause():
    clues = replace(KNOWN, launched_ns=-20 * MS)

    assert causes(explained([*file_of(20), answer(160 + 250)], clues)) == []


def test_packets_of_the_receiver_that_wait_for_their_link_are_one_cause_with_its_transmission():
    slow = Clues(links=(LINK, Link(delay_ns=DELAY_NS, rate_bps=8000)))  # 100 bytes take 100 ms
    queued = [arriving(410, 410 + 100 + 250), arriving(410.1, 410 + 200 + 250)]

    (cause,) = causes(explained([*file_of(20), *queued], slow))

    assert (cause.what, cause.host) == ("serialization", "receiver")
    assert round(cause.total_ns / MS) == 200


def test_short_pauses_before_packets_of_one_name_are_one_cause_whatever_their_lengths():
    gaps_ms = [16 + number % 5 for number in range(20)]
    paced = [rung("sender", sum(gaps_ms[:number]), "new data", data=1000 * number) for number in range(20)]

    (cause,) = causes(explained([*paced, answer(sum(gaps_ms[:19]) + 258)]))

    assert (cause.what, cause.count, cause.total_ns) == ("waiting", 19, (sum(gaps_ms[:19]) - 19 * 8) * MS)


def test_pauses_belong_to_the_phase_in_which_they_took_most_time():
    hello = rung("sender", 0, "new data", size=100)
    hello = replace(hello, kind="of the sender")
    paced = [rung("sender", 10 + 20 * number, "new data", data=1000 * number) for number in range(20)]

    (cause,) = causes(explained([hello, *paced, answer(10 + 19 * 20 + 258)]))

    assert (cause.message, cause.count, cause.phase) == ("new data", 20, "transfer")


def test_short_waits_for_timers_of_different_kinds_are_different_causes():
    paced = [rung("sender", 20 * number, "new data", data=1000 * number) for number in range(20)]
    timers = [
        TimedWait("sender", "program", ("poll", "futex")[number % 2], (20 * number - 12) * MS, 12 * MS)
        for number in range(1, 20)
    ]

    found = causes(explained([*paced, answer(19 * 20 + 258)], replace(KNOWN, waits=timers)))

    assert sorted(cause.count for cause in found if cause.what == "timer") == [9, 10]


def window_limited(lost: list[int]):
    """Two packets a round trip."""
    sent = [
        rung("sender", 516.8 * (number // 2) + 8 * (number % 2), "new data", number in lost, 1000 * number)
        for number in range(8)
    ]
    answers = [answer(516.8 * number + 266) for number in range(4)]
    return explained([*sent, *answers])


def test_a_loss_before_the_last_round_trip_of_the_transfer_may_be_the_reason_for_its_small_window():
    def lost(path) -> list[int | None]:
        (cause,) = [cause for cause in causes(path) if cause.what == "round trips" and cause.phase == "transfer"]
        return [path.rungs[index].message.first_byte for index in cause.lost]

    assert lost(window_limited([2])) == [2000]
    assert lost(window_limited([])) == []
