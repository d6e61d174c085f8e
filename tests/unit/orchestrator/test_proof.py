"""A proof tries every set of faults once; and its verdict. The transfer is a stop-and-wait exchange in memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import pytest

from owlt.emulator.channel.aimed_fault import Action
from owlt.orchestrator.checks.fault_cases import (
    DROP,
    PLAIN_CHANNEL,
    Hit,
    Hits,
    Place,
    SentPacket,
    aimed_at,
    case_name,
    plan_of_cases,
    telling_packets,
)
from owlt.orchestrator.checks.proof import Trial, successors, verdict_of
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.results.record import Outcome

DUPLICATE = Action(duplicate=1)


def lost(direction: str, number: int, action: Action = DROP) -> Hit:
    return Hit(Place(direction, number), action)  # type: ignore[arg-type]


def exchange(hits: Hits, units: int = 2, attempts: int = 3) -> tuple[list[SentPacket], bool]:
    """The packets of a stop-and-wait transfer, and whether it delivers: a unit is sent until it is acknowledged, or
    `attempts` times, and each copy of it is acknowledged."""
    sent: list[SentPacket] = []
    numbers = {"forward": 0, "reverse": 0}

    def copies(direction: str, name: str) -> int:
        """Send a packet; how many copies of it arrive."""
        numbers[direction] += 1
        place = Place(direction, numbers[direction])  # type: ignore[arg-type]
        sent.append(SentPacket(place, len(sent), name))
        return 0 if Hit(place) in hits else 2 if Hit(place, DUPLICATE) in hits else 1

    for unit in range(units):
        arrived = False
        for _ in range(attempts):
            come = copies("forward", f"unit {unit}")
            arrived |= come > 0
            if sum([copies("reverse", f"ACK {unit}") for _ in range(come)]):
                break
        if not arrived:
            return sent, False
    return sent, True


def trial(hits: Hits) -> Trial:
    sent, is_delivered = exchange(hits)
    outcome = Outcome.COMPLETED if is_delivered else Outcome.FAILED
    extra = float(len(sent)) if is_delivered else None
    names = tuple(packet.text for hit in hits for packet in sent if packet.place == hit.place)
    return Trial(hits, names, outcome, "", (), extra, extra, len(sent), Path("run"), tuple(sent))


def trials(most: int, actions: tuple[Action, ...] = (DROP,)) -> list[Trial]:
    """All trials with up to so many faults, as `owlt prove` grows them."""
    level, found = [trial(())], [trial(())]
    for _ in range(most):
        level = [trial(hits) for each in level if each.is_delivered for hits in successors(each, actions)]
        found += level
    return found


def by_hand(most: int, actions: tuple[Action, ...]) -> set[frozenset[Hit]]:
    """Every set of up to so many faults that a run can have: those of which each packet is sent, in any run."""
    places = [(direction, number) for direction in ("forward", "reverse") for number in range(1, 11)]
    return {
        frozenset(hits)
        for count in range(most + 1)
        for chosen in combinations(places, count)
        for hits in product(*[[lost(*place, action) for action in actions] for place in chosen])
        if {hit.place for hit in hits} <= {packet.place for packet in exchange(hits)[0]}
    }


@pytest.mark.parametrize(("most", "actions"), [(1, (DROP,)), (3, (DROP,)), (2, (DROP, DUPLICATE)), (2, (DUPLICATE,))])
def test_every_set_of_faults_that_can_happen_is_tried_once(most: int, actions: tuple[Action, ...]) -> None:
    tried = [frozenset(each.hits) for each in trials(most, actions)]
    failed = {frozenset(each.hits) for each in trials(most, actions) if not each.is_delivered}

    assert len(tried) == len(set(tried))
    assert set(tried) == {each for each in by_hand(most, actions) if not any(fewer < each for fewer in failed)}


def test_faults_are_in_the_order_in_which_the_packets_are_sent() -> None:
    for each in trials(3):
        places = [hit.place for hit in each.hits]
        assert places == [packet.place for packet in each.sent if packet.place in places]


def test_a_transfer_that_gives_up_after_three_attempts_is_proven_for_two_losses_and_not_for_three() -> None:
    verdict = verdict_of(trials(3))

    assert verdict_of(trials(2)).is_proven
    assert not verdict.is_proven
    assert [each.text for each in verdict.counterexamples] == [
        "forward #1 (unit 0) is lost and forward #2 (unit 0) is lost and forward #3 (unit 0) is lost",
        "forward #2 (unit 1) is lost and forward #3 (unit 1) is lost and forward #4 (unit 1) is lost",
    ]


def test_the_faults_of_a_set_drop_its_packets_and_no_others() -> None:
    hits = (lost("forward", 24), lost("reverse", 2), lost("forward", 3))
    forward, reverse = aimed_at(hits)

    assert case_name(hits) == "f24-r2-f3"
    assert [(each.first, each.last) for each in forward.occurrences] == [(3, 3), (24, 24)]
    assert [(each.first, each.last) for each in reverse.occurrences] == [(2, 2)]
    assert forward.action.drop and reverse.action.drop


def test_packets_that_are_lost_and_delayed_in_one_direction_are_two_faults() -> None:
    late = Action(delay_ns=5 * 10**9)
    hits = (lost("forward", 2, late), lost("forward", 3), lost("reverse", 1, DUPLICATE))
    faults = aimed_at(hits)

    assert case_name(hits) == "f2-delayed-f3-r1-duplicated"
    assert [(each.direction, each.action, each.occurrences[0].first) for each in faults] == [
        ("forward", late, 2),
        ("forward", DROP, 3),
        ("reverse", DUPLICATE, 1),
    ]


def test_a_suspect_run_neither_proves_nor_refutes() -> None:
    first = trial((lost("forward", 1),))
    verdict = verdict_of([trial(()), replace(first, suspect=("a step came late",))])

    assert verdict_of([trial(()), first]).is_proven
    assert not verdict.is_proven
    assert (len(verdict.counterexamples), len(verdict.undecided)) == (0, 1)


def test_an_aborted_run_is_no_counterexample_beside_one_that_fails() -> None:
    aborted = replace(trial((lost("forward", 1),)), outcome=Outcome.ABORTED)
    failed = replace(trial((lost("forward", 2),)), outcome=Outcome.FAILED)

    assert verdict_of([trial(()), aborted, failed]).counterexamples == (failed,)


def test_failures_in_a_row_do_not_keep_later_sets_from_being_performed() -> None:
    plan = plan_of_cases("prove-cfdp", find_implementation("cfdp"), PLAIN_CHANNEL, 2000, {"f1": ()})

    assert plan.sweep.quarantine_after == 0


def test_of_many_packets_of_one_name_the_first_and_the_last_are_lost() -> None:
    names = [*("data",) * 9, "EOF", *("data",) * 9]
    sent = [SentPacket(Place("forward", number), number, name) for number, name in enumerate(names, start=1)]
    sent.append(SentPacket(Place("reverse", 1), 10, "ACK"))

    assert [packet.text for packet in telling_packets(sent)] == [
        "forward #1 (data)",
        "forward #10 (EOF)",
        "reverse #1 (ACK)",
        "forward #19 (data)",
    ]
