from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from owlt.captures.frames.session import Host
from owlt.captures.inspection.critical_path import Clues, CriticalPath, critical_path, is_lost
from owlt.captures.matches.bottleneck import Link
from owlt.captures.protocols.ladder import Kind, Rung
from owlt.captures.protocols.messages import Message
from owlt.results.waits import TimedWait

MS = 1_000_000
DELAY_NS, TAKEN_NS = 250 * MS, 8 * MS
LINK = Link(delay_ns=DELAY_NS, rate_bps=1e6)  # 1,000 bytes take 8 ms
KNOWN = Clues(links=(LINK, LINK))


def rung(host: Host, left_ms: float, kind: Kind, lost: bool = False, data: int | None = None, size: int = 1000) -> Rung:
    """A packet that waits in no queue."""
    left_ns = round(left_ms * MS)
    arrived_ns = left_ns + 8_000 * size + DELAY_NS
    message = Message(1, left_ns, host, size, size - 42, kind, first_byte=data, byte_count=0 if data is None else 1000)
    return Rung(message, left_ns, () if lost else (arrived_ns,), False, kind, "corruption" if lost else "")


def file_of(packets: int, lost: Sequence[int] = ()) -> list[Rung]:
    return [rung("sender", 8 * number, "new data", number in lost, 1000 * number) for number in range(packets)]


def arriving(left_ms: float, arrived_ms: float) -> Rung:
    """A packet of the receiver that arrives at a given time."""
    left = rung("receiver", left_ms, "of the receiver", size=100)
    return replace(left, arrived_ns=(round(arrived_ms * MS),))


def explained(rungs: Sequence[Rung], clues: Clues = KNOWN) -> CriticalPath:
    rungs = sorted(rungs, key=lambda each: each.left_ns)
    at_sender = [
        time_ns for each in rungs for time_ns in ((each.left_ns,) if each.message.host == "sender" else each.arrived_ns)
    ]
    return critical_path(rungs, min(at_sender), max(at_sender), clues)


def spent_ms(path: CriticalPath, kind: str, phase: str = "") -> float:
    return sum(part.length_ns for part in path.parts if part.kind == kind and phase in ("", part.phase)) / MS


def test_a_file_without_losses_takes_its_transmission_and_the_way_there_and_back():
    answer = rung("receiver", 10 * 8 + 250, "of the receiver", size=100)

    path = explained([*file_of(10), answer])

    assert (spent_ms(path, "new data"), spent_ms(path, "propagation")) == (80, 500)
    assert spent_ms(path, "waiting") == spent_ms(path, "processing") == 0


def test_the_least_time_is_one_transmission_of_the_file_and_one_propagation():
    assert explained(file_of(10)).least_ns == 10 * TAKEN_NS - TAKEN_NS + DELAY_NS  # the last one ends the session


def test_a_host_that_sends_something_without_being_asked_has_waited():
    path = explained([*file_of(10), rung("sender", 80 + 3000, "of the sender")])

    assert spent_ms(path, "waiting") == 3000


def test_the_time_until_an_arrival_is_no_wait_of_the_host():
    asked = rung("receiver", 330, "of the receiver", size=100)
    path = explained([*file_of(10), asked, rung("sender", 580.8, "data again", data=0)])

    assert spent_ms(path, "waiting") == 0
    assert spent_ms(path, "propagation") == 500


def test_a_wait_that_a_timer_ended_is_a_timer():
    finished = rung("receiver", 80 + 250 + 1000, "of the receiver", size=100)
    timer = TimedWait("receiver", "program", "poll", 330 * MS, 1000 * MS)

    path = explained([*file_of(10), finished], Clues(links=(LINK, LINK), waits=[timer]))

    assert (spent_ms(path, "timer"), spent_ms(path, "waiting")) == (1000, 0)
    assert [part.timer for part in path.parts if part.kind == "timer"] == [timer]


def test_each_of_several_waits_of_one_length_is_a_timer():
    again = [rung("sender", 80 + 3750 * number, "of the sender", lost=number < 3) for number in range(4)]
    timers = [TimedWait("sender", "program", "poll", (80 + 3750 * number) * MS, 3750 * MS) for number in range(3)]

    path = explained([*file_of(10), *again], Clues(links=(LINK, LINK), waits=timers))

    assert list(dict.fromkeys(part.timer for part in path.parts if part.kind == "timer")) == timers
    assert spent_ms(path, "waiting") == 0


def test_a_timer_of_the_other_host_ends_no_wait():
    finished = rung("receiver", 80 + 250 + 1000, "of the receiver", size=100)
    timer = TimedWait("sender", "program", "poll", 330 * MS, 1000 * MS)

    path = explained([*file_of(10), finished], Clues(links=(LINK, LINK), waits=[timer]))

    assert (spent_ms(path, "timer"), spent_ms(path, "waiting")) == (0, 1000)


def test_what_arrives_after_a_packet_has_left_is_not_the_reason_for_it():
    paced = TimedWait("sender", "program", "nanosleep", round(579.9 * MS), 100_000)
    late = arriving(330, 580.05)
    ended = rung("receiver", 900, "of the receiver", size=100)

    path = explained([*file_of(10), late, rung("sender", 580, "of the sender"), ended], replace(KNOWN, waits=[paced]))

    assert all(part.length_ns > 0 for part in path.parts)
    assert late not in [path.rungs[part.packet] for part in path.parts]


def test_a_packet_that_arrives_before_it_leaves_is_no_part_of_the_path():
    wrong, ended = arriving(400, 390), arriving(700, 300)

    path = explained([*file_of(10), wrong, rung("sender", 390, "of the sender"), ended])

    assert all(part.length_ns > 0 for part in path.parts)
    assert {path.rungs[part.packet].message.host for part in path.parts} == {"sender"}


def test_of_a_transfer_that_failed_the_arrival_of_all_that_was_sent_is_no_delivery():
    asked = rung("receiver", 330, "of the receiver", size=100)
    part_of_file = [rung("sender", 8 * number, "new data", data=1000 * number) for number in range(10)]

    assert explained([*part_of_file, asked]).delivered_ns == 80 * MS + DELAY_NS
    assert explained([*part_of_file, asked], replace(KNOWN, has_failed=True)).delivered_ns is None


def test_a_packet_lost_when_the_host_began_to_wait_may_be_the_reason():
    lost = rung("sender", 80, "of the sender", lost=True)
    again = rung("sender", 80 + 3000, "of the sender")

    path = explained([*file_of(10, lost=[2]), lost, again])
    (wait,) = [part for part in path.parts if part.kind == "waiting" and part.length_ns > 1000 * MS]

    assert [path.rungs[index].left_ns for index in path.lost_before([(wait.begin_ns, wait)])] == [lost.left_ns]


def test_a_packet_lost_before_several_waits_is_named_once():
    again = [rung("sender", 80 + 1000 * number, "of the sender", lost=number < 3) for number in range(4)]
    late = replace(arriving(20, 3000), is_damaged=True)

    path = explained([*file_of(10, lost=[2]), late, *again])
    waits = [(part.begin_ns, part) for part in path.parts if part.kind == "waiting"]

    assert len({part.packet for _, part in waits}) == 3
    assert [path.rungs[index] for index in path.lost_before(waits)] == [late, *again[:3]]


def test_data_that_are_sent_again_are_no_new_data():
    asked = rung("receiver", 330, "of the receiver", size=100)
    again = [rung("sender", 580.8 + 8 * number, "data again", data=1000 * number) for number in range(3)]

    path = explained([*file_of(10, lost=[0, 1, 2]), asked, *again])

    assert spent_ms(path, "new data") == 80
    assert spent_ms(path, "serialization", "recovery") == 16.8  # 0.8 ms of the request, and all but the last packet


def test_recovery_ends_when_the_receiver_has_the_file():
    asked = rung("receiver", 330, "of the receiver", size=100)
    again = rung("sender", 580.8, "data again", data=0)
    finished = rung("receiver", 838.8, "of the receiver", size=100)

    path = explained([*file_of(10, lost=[0]), asked, again, finished])

    assert path.delivered_ns == round(838.8 * MS)
    assert sum(part.length_ns for part in path.parts if part.phase == "closing") == round(250.8 * MS)


def test_a_sender_that_waits_between_packets_is_seen_to_wait():
    slow = [rung("sender", 16 * number, "new data", data=1000 * number) for number in range(10)]

    path = explained(slow)

    assert (spent_ms(path, "new data"), spent_ms(path, "waiting")) == (72, 72)


def test_a_packet_that_answers_an_arrival_is_not_paced_by_one_that_left_just_before():
    slow = Clues(links=(LINK, Link(delay_ns=DELAY_NS, rate_bps=8000)))  # 100 bytes take 100 ms
    request, spurious = arriving(330, 330 + 100 + 250), arriving(928, 928 + 100 + 250)
    again = rung("sender", 330 + 350, "data again", data=0)
    finished = arriving(330 + 350 + 258, 928 + 200 + 250)

    path = explained([*file_of(10, lost=[0]), request, again, spurious, finished], slow)

    assert spent_ms(path, "waiting") == 0
    assert [path.rungs[part.packet] for part in path.parts if part.kind == "propagation"].count(again) == 1


def test_packets_that_wait_for_the_link_are_queued():
    burst = [rung("sender", 0, "new data", data=1000 * number) for number in range(4)]
    burst = [
        Rung(each.message, 0, (TAKEN_NS * (number + 1) + DELAY_NS,), False, "new data")
        for number, each in enumerate(burst)
    ]
    control = Rung(rung("sender", 0, "of the sender").message, 0, (5 * TAKEN_NS + DELAY_NS,), False, "of the sender")
    reply = rung("receiver", 290, "of the receiver", size=100)

    path = explained([*burst, control, reply])

    assert spent_ms(path, "new data") == 32  # of which the control packet's queueing was a part
    assert spent_ms(path, "queueing") == 0


def test_without_a_link_the_channel_is_one_part():
    asked = rung("receiver", 330, "of the receiver", size=100)
    path = explained([*file_of(10), asked, rung("sender", 580.8, "data again", data=0)], Clues())

    assert spent_ms(path, "in the channel") == 258 + 250.8
    assert path.least_ns is None


packets = st.builds(
    rung,
    st.sampled_from(["sender", "receiver"]),
    st.integers(0, 4000).map(float),
    st.sampled_from(["new data", "data again", "of the sender"]),
    st.booleans(),
    st.none(),
    st.integers(60, 1500),
)
waits = st.builds(
    TimedWait,
    st.sampled_from(["sender", "receiver"]),
    st.just("program"),
    st.just("poll"),
    st.integers(0, 4000).map(lambda ms: ms * MS),
    st.one_of(st.integers(1, 2000).map(lambda ms: ms * MS), st.integers(0, 200_000)),
)


@given(st.lists(packets, min_size=1, max_size=30), st.lists(waits, max_size=10), st.sampled_from([LINK, None]))
def test_the_parts_of_any_session_cover_it_each_moment_once(
    rungs: list[Rung], timers: list[TimedWait], link: Link | None
):
    rungs = [rung("sender", 0, "new data"), *rungs]
    path = explained(rungs, Clues(links=(link, link), waits=timers))

    assert sum(part.length_ns for part in path.parts) == path.length_ns
    assert all(part.length_ns > 0 for part in path.parts)
    assert all(part.end_ns == following.begin_ns for part, following in pairwise(path.parts))


def test_a_damaged_packet_that_the_host_takes_all_the_same_is_not_lost():
    asked = replace(rung("receiver", 330, "of the receiver", size=100), is_damaged=True)
    again = rung("sender", 580.8, "data again", data=0)

    refused = explained([*file_of(10, lost=[0]), asked, again])
    accepted = explained([*file_of(10, lost=[0]), replace(asked, is_accepted=True), again])

    assert [is_lost(asked), is_lost(replace(asked, is_accepted=True))] == [True, False]
    assert (spent_ms(refused, "waiting"), spent_ms(accepted, "waiting")) == (500.8, 0)


def periodic(period_ms: float, last_ms: float) -> CriticalPath:
    """A file, then three flushes, the last two a period apart; a probe leaves before the last one, and the program
    woke for it. Every packet of the sender leaves when a timer expires."""
    flushes = [replace_name(rung("sender", left_ms, "of the sender"), "FLUSH") for left_ms in (80, 80 + period_ms)]
    last = replace_name(rung("sender", last_ms, "of the sender"), "FLUSH")
    probe = replace_name(rung("sender", last_ms - 300, "of the sender"), "PROBE")
    sent = [*flushes[1:], probe, last]
    timers = [TimedWait("sender", "program", "timerfd", each.left_ns - 200 * MS, 200 * MS) for each in sent]
    return explained([*file_of(10), *flushes, probe, last], replace(KNOWN, waits=timers))


def replace_name(each: Rung, name: str) -> Rung:
    return replace(each, message=replace(each.message, name=name))


def waited_ms(path: CriticalPath) -> list[tuple[str, float]]:
    waits: Counter[int] = Counter()
    for part in path.parts:
        if part.kind == "timer":
            waits[part.packet] += part.length_ns
    return [(path.rungs[packet].message.name, round(length_ns / MS)) for packet, length_ns in waits.items()]


def test_of_periodic_messages_each_waits_for_the_one_before_it_whatever_leaves_in_between():
    assert waited_ms(periodic(1000, last_ms=2080)) == [("FLUSH", 992), ("FLUSH", 992 - 8)]  # 8 ms for the probe


def test_a_message_without_a_period_waits_for_the_packet_that_left_last():
    assert waited_ms(periodic(1000, last_ms=2180)) == [("FLUSH", 992), ("PROBE", 792), ("FLUSH", 292)]


def answered(answers_ms: list[float]) -> CriticalPath:
    """A file, then four flushes a period of 1 s apart, each after a timer that was set when the last packet of the
    other host had arrived, or at the flush before it; packets of the receiver arrive at some times."""
    flushes = [replace_name(rung("sender", 80 + 1000 * number, "of the sender"), "FLUSH") for number in range(4)]
    answers = [rung("receiver", each_ms - 250.8, "of the receiver", size=100) for each_ms in answers_ms]
    sent_ms = [each.left_ns / MS for each in flushes]
    timers = []
    for before_ms, after_ms in pairwise(sent_ms):
        set_ms = max([before_ms, *(each for each in answers_ms if before_ms < each < after_ms)])
        timers.append(TimedWait("sender", "program", "timerfd", int(set_ms * MS), int((after_ms - set_ms) * MS)))
    return explained([*file_of(10), *flushes, *answers], replace(KNOWN, waits=timers))


def test_an_arrival_that_does_not_change_a_period_is_not_what_the_next_packet_waited_for():
    assert waited_ms(answered([600])) == [("FLUSH", 992)] * 3


def test_a_packet_waits_from_the_arrival_on_if_one_arrived_in_each_period():
    assert ("FLUSH", 992) not in waited_ms(answered([600, 1600, 2600]))


def test_a_wait_of_many_equal_ones_is_polling():
    polls = [TimedWait("sender", "program", "nanosleep", (80 + number) * MS, MS) for number in range(3000)]

    path = explained([*file_of(10), rung("sender", 80 + 3000, "of the sender")], replace(KNOWN, waits=polls))

    assert {part.is_polling for part in path.parts if part.kind == "timer"} == {True}


def test_a_wait_with_a_last_one_for_another_timer_is_no_polling():
    polls = [TimedWait("sender", "program", "nanosleep", (80 + number) * MS, MS) for number in range(1000)]
    last = TimedWait("sender", "program", "nanosleep", 3070 * MS, 10 * MS)

    path = explained([*file_of(10), rung("sender", 80 + 3000, "of the sender")], replace(KNOWN, waits=[*polls, last]))

    assert {part.is_polling for part in path.parts if part.kind == "timer"} == {False}
