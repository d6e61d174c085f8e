from __future__ import annotations

from dataclasses import replace

from owlt.captures.inspection.causes import compare
from tests.unit.captures.test_critical_path import MS, explained, file_of, rung


def answer(left_ms: float, size: int = 100):
    return rung("receiver", left_ms, "of the receiver", size=size)


def test_two_equal_runs_do_not_differ():
    comparison = compare(explained([*file_of(20), answer(410)]), explained([*file_of(20), answer(410)]))

    assert (comparison.first, comparison.causes) == (None, ())


def test_a_packet_that_leaves_later_is_the_first_difference_and_the_wait_a_cause():
    comparison = compare(explained([*file_of(20), answer(410)]), explained([*file_of(20), answer(1410)]))

    assert comparison.first is not None
    assert (comparison.first.host, comparison.first.number, comparison.first.later_ns) == ("receiver", 1, 1000 * MS)
    (cause,) = comparison.causes
    assert (cause.what, cause.host, cause.counts, cause.more_ns) == ("waiting", "receiver", (0, 1), 1000 * MS)
    assert comparison.lengths_ns[1] - comparison.lengths_ns[0] == 1000 * MS


def test_a_packet_of_another_length_is_the_first_difference():
    comparison = compare(explained([*file_of(20), answer(410)]), explained([*file_of(20), answer(410, size=101)]))

    assert comparison.first is not None
    assert (comparison.first.names, comparison.first.later_ns) == (("of the receiver", "of the receiver"), 0)


def test_a_packet_that_only_one_run_sends_has_no_other():
    comparison = compare(explained([*file_of(20), answer(410)]), explained(file_of(20)))

    assert comparison.first is not None
    assert (comparison.first.number, comparison.first.names) == (1, ("of the receiver", None))
    assert comparison.first.later_ns is None


def test_of_both_hosts_the_packet_that_leaves_first_is_the_first_difference():
    early = [answer(100), *file_of(20), answer(410)]
    late = [answer(100.5), *file_of(19), rung("sender", 200, "new data", data=19_000), answer(410)]

    comparison = compare(explained(early), explained(late))

    assert comparison.first is not None
    assert (comparison.first.host, comparison.first.number) == ("receiver", 1)
    assert comparison.first.later_ns == 0.5 * MS


def test_times_count_from_the_first_packet_of_each_run():
    later = [
        rung(
            each.message.host,
            each.left_ns / MS + 5000,
            each.kind,
            data=each.message.first_byte,
            size=each.message.wire_bytes,
        )
        for each in [*file_of(20), answer(410)]
    ]

    assert compare(explained([*file_of(20), answer(410)]), explained(later)).first is None


def test_round_trips_of_one_phase_are_compared_whatever_their_messages_are():
    def recovering(name: str):
        again = rung("sender", 410 + 250.8, "data again", data=0)
        again = replace(again, message=replace(again.message, name=name))
        return [*file_of(20, lost=[0]), answer(410), again, answer(410 + 250.8 + 258)]

    assert compare(explained(recovering("data")), explained(recovering("retransmission"))).causes == ()
