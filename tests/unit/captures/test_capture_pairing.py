"""Pairing by keys that may repeat."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from owlt.captures.matches.by_key import Bounds, assign_in_order, pair_by_key

DELAY = 25


def pairs(
    near: list[tuple[int, int]], far: list[tuple[int, int]], least_delay_ns: int | None = 0
) -> list[tuple[int, int]]:
    """Of (key, time) at both points: the pairs of indices, sorted."""
    near_columns = np.array(near, np.int64).reshape(-1, 2)
    far_columns = np.array(far, np.int64).reshape(-1, 2)
    first, second = pair_by_key(
        near_columns[:, 0].astype(np.uint64),
        near_columns[:, 1],
        far_columns[:, 0].astype(np.uint64),
        far_columns[:, 1],
        least_delay_ns=least_delay_ns,
    )
    return sorted(zip(first.tolist(), second.tolist(), strict=True))


NEVER = 10**6


def assigned(departures: list[int], wanted: list[int], latest: list[int] | None = None) -> list[int]:
    """What one group is assigned; no departure after the `latest`, where there are some."""
    counts = np.array([len(departures)]), np.array([len(wanted)])
    bounds = Bounds(np.array([-NEVER] * len(wanted)), np.array(latest or [NEVER] * len(wanted)))
    return assign_in_order(np.array(departures), counts[0], np.array(wanted), bounds, counts[1]).tolist()


def test_single_keys_are_paired_whatever_their_order() -> None:
    assert pairs([(1, 0), (2, 10), (3, 20)], [(3, 45), (1, 46)]) == [(0, 1), (2, 0)]


def test_nothing_is_paired_with_nothing() -> None:
    assert pairs([], [(1, 0)]) == pairs([(1, 0)], []) == pairs([], []) == []


def test_of_two_equal_packets_the_second_is_paired_when_the_delay_of_the_others_says_so() -> None:
    near = [(1, 0), (7, 10), (7, 100), (2, 110)]
    far = [(1, 0 + DELAY), (7, 100 + DELAY), (2, 110 + DELAY)]
    assert pairs(near, far) == [(0, 0), (2, 1), (3, 2)]


def test_of_two_equal_packets_the_first_is_paired_when_the_delay_of_the_others_says_so() -> None:
    near = [(1, 0), (7, 10), (7, 100), (2, 110)]
    far = [(1, 0 + DELAY), (7, 10 + DELAY), (2, 110 + DELAY)]
    assert pairs(near, far) == [(0, 0), (1, 1), (3, 2)]


def test_equal_packets_alone_are_paired_in_their_order() -> None:
    assert pairs([(7, 0), (7, 10), (7, 20)], [(7, 1000), (7, 1010), (7, 1020)]) == [(0, 0), (1, 1), (2, 2)]


def test_a_duplicated_packet_is_in_two_pairs() -> None:
    assert pairs([(1, 0), (2, 10)], [(1, DELAY), (1, DELAY + 1), (2, 10 + DELAY)]) == [(0, 0), (0, 1), (1, 2)]


def test_departures_are_not_taken_twice_where_there_are_enough() -> None:
    assert assigned([0, 10, 20], [7, 14]) == [1, 2]


def test_an_assignment_leaves_room_for_those_that_follow() -> None:
    assert assigned([0, 10], [100, 101]) == [0, 1]


def test_a_departure_that_is_unmistakable_is_taken_twice() -> None:
    assert assigned([0, 10, 20], [9, 11]) == [1, 1]


def test_groups_are_assigned_each_for_itself() -> None:
    departures, wanted = np.array([0, 10, 5, 3, 7]), np.array([9, 5, 5, 4])
    counts = np.array([2, 1, 2]), np.array([1, 2, 1])
    bounds = Bounds(np.full(4, -NEVER), np.full(4, NEVER))
    assert assign_in_order(departures, counts[0], wanted, bounds, counts[1]).tolist() == [1, 2, 2, 3]


def test_a_departure_after_the_latest_time_is_not_taken_although_it_is_nearer() -> None:
    assert assigned([0, 100], [90], latest=[95]) == [0]


def test_an_assignment_leaves_room_for_those_before_which_less_was_sent() -> None:
    assert assigned([0, 10, 20], [12, 18], latest=[50, 15]) == [0, 1]


def test_a_departure_is_taken_twice_where_another_would_have_to_be_after_the_arrival() -> None:
    assert assigned([0, 100], [40, 60], latest=[45, 65]) == [0, 0]


def test_what_arrived_before_all_departures_is_assigned_none() -> None:
    assert assigned([10, 20], [0, 12], latest=[5, 25]) == [-1, 0]


def test_equal_packets_alone_of_which_one_was_lost_show_a_delay_that_fits_all() -> None:
    near = [(7, 0), (7, 1000), (8, 1100), (8, 1300), (9, 1350), (9, 1430)]
    far = [(7, 1000 + DELAY), (8, 1100 + DELAY), (9, 1350 + DELAY), (9, 1430 + DELAY)]
    assert pairs(near, far) == [(1, 0), (2, 1), (4, 2), (5, 3)]


def test_of_delays_that_fit_alike_the_least_is_taken() -> None:
    assert pairs([(7, 0), (7, 100), (7, 200)], [(7, 100 + DELAY), (7, 200 + DELAY)]) == [(1, 0), (2, 1)]


def test_a_copy_that_came_before_all_equal_packets_were_sent_is_in_no_pair() -> None:
    assert pairs([(1, 0), (7, 50), (7, 90)], [(1, DELAY), (7, 40)]) == [(0, 0)]


def test_on_two_clocks_a_copy_may_come_before_its_packet() -> None:
    assert pairs([(7, 50), (7, 90)], [(7, 10), (7, 50)], least_delay_ns=None) == [(0, 0), (1, 1)]


def test_delays_below_zero_that_keys_which_do_not_repeat_show_are_those_of_the_others() -> None:
    assert pairs([(1, 50), (7, 60), (7, 90)], [(1, 10), (7, 20), (7, 50)]) == [(0, 0), (1, 1), (2, 2)]


@given(
    keys=st.lists(st.integers(0, 3), min_size=1, max_size=60),
    lost=st.sets(st.integers(0, 59)),
    delay=st.integers(0, 10_000),
)
def test_a_channel_that_delays_and_loses_is_undone_however_often_the_keys_repeat(
    keys: list[int], lost: set[int], delay: int
) -> None:
    # A packet of its own key in front makes the delay known, as one packet of a protocol's start does.
    near = [(1000, 0)] + [(key, 100 * (n + 1)) for n, key in enumerate(keys)]
    arrived = [0] + [n + 1 for n in range(len(keys)) if n not in lost]
    far = [(near[n][0], near[n][1] + delay) for n in arrived]
    assert pairs(near, far) == [(n, place) for place, n in enumerate(arrived)]


def test_equal_packets_of_which_only_one_was_sent_and_two_came_show_the_delay_of_the_first() -> None:
    assert pairs([(7, 0), (8, 10)], [(7, DELAY), (7, DELAY + 1), (8, 10 + DELAY), (8, 12 + DELAY)]) == [
        (0, 0),
        (0, 1),
        (1, 2),
        (1, 3),
    ]


RESET, SERVICE, PROPAGATION = 7, 10, 50
"""The key of equal packets, and what each packet takes at the end of a queue, and then on its way."""


def through_a_queue(
    near: list[tuple[int, int]], most_waiting: int = 1000, lost: frozenset[int] = frozenset()
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """What arrives behind a queue that drops packets if it is full, and those that are `lost`; and the pairs."""
    far: list[tuple[int, int]] = []
    true: list[tuple[int, int]] = []
    leaves: list[int] = []
    for number, (key, sent) in enumerate(near):
        if number not in lost and sum(each > sent for each in leaves) < most_waiting:
            leaves.append(max([sent, *leaves[-1:]]) + SERVICE)
            true.append((number, len(far)))
            far.append((key, leaves[-1] + PROPAGATION))
    return far, true


def test_equal_packets_that_a_full_queue_brings_together_are_no_duplicates() -> None:
    """The second one comes right behind the last packet of data, which was sent shortly after the first one."""
    near = [*((key, 2 * key) for key in range(100, 119)), (RESET, 237), (119, 238), (RESET, 390)]
    far, true = through_a_queue(near)

    assert pairs(near, far) == true


STEPS = st.lists(st.tuples(st.booleans(), st.one_of(st.integers(1, 20), st.integers(1, 500))), min_size=1, max_size=60)
"""Whether a packet is one of the equal ones, and how long after the one before it is sent."""


def sent(steps: list[tuple[bool, int]], in_a_row: bool) -> list[tuple[int, int]]:
    """Packets of which some are equal, perhaps several in a row, behind some that show the order of the channel, and
    that no queue drops."""
    near, now = [(1000 + number, number * SERVICE) for number in range(12)], 12 * SERVICE
    for number, (is_equal, pause) in enumerate(steps):
        now += pause
        near.append((RESET if is_equal and (in_a_row or near[-1][0] != RESET) else 2000 + number, now))
    return near


@given(STEPS, st.frozensets(st.integers(12, 71)))
def test_an_equal_packet_is_the_one_that_was_sent_between_those_around_it_whichever_of_the_others_were_dropped(
    steps: list[tuple[bool, int]], dropped: frozenset[int]
) -> None:
    near = sent(steps, in_a_row=False)
    far, true = through_a_queue(near, lost=frozenset(n for n in dropped if n < len(near) and near[n][0] == RESET))

    assert pairs(near, far) == true


@given(STEPS, st.integers(1, 12))
def test_of_equal_packets_none_is_a_duplicate_and_none_overtakes_another_behind_a_full_queue(
    steps: list[tuple[bool, int]], most_waiting: int
) -> None:
    near = sent(steps, in_a_row=True)
    far, _ = through_a_queue(near, most_waiting)
    first, second = zip(*pairs(near, far), strict=True)

    assert len(set(first)) == len(far)
    assert sorted(second) == list(second)
    assert all(near[n][1] <= far[m][1] for n, m in zip(first, second, strict=True))
