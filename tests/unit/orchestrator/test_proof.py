"""A proof tries every set of losses once; and its verdict. The transfer is a stop-and-wait exchange in memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from owlt.orchestrator.checks.fault_cases import (
    PLAIN_CHANNEL,
    Losses,
    Place,
    SentPacket,
    case_name,
    drops,
    plan_of_cases,
    telling_packets,
)
from owlt.orchestrator.checks.proof import Trial, successors, verdict_of
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.results.record import Outcome


def exchange(losses: Losses, units: int = 2, attempts: int = 3) -> tuple[list[SentPacket], bool]:
    """The packets of a stop-and-wait transfer, and whether it delivers: a unit is sent until it is acknowledged, or
    `attempts` times."""
    sent: list[SentPacket] = []
    numbers = {"forward": 0, "reverse": 0}

    def send(direction: str, name: str) -> bool:
        numbers[direction] += 1
        place = Place(direction, numbers[direction])  # type: ignore[arg-type]
        sent.append(SentPacket(place, len(sent), name))
        return place not in losses

    for unit in range(units):
        arrived = False
        for _ in range(attempts):
            is_there = send("forward", f"unit {unit}")
            arrived |= is_there
            if is_there and send("reverse", f"ACK {unit}"):
                break
        if not arrived:
            return sent, False
    return sent, True


def trial(losses: Losses) -> Trial:
    sent, is_delivered = exchange(losses)
    outcome = Outcome.COMPLETED if is_delivered else Outcome.FAILED
    extra = float(len(sent)) if is_delivered else None
    names = tuple(packet.text for packet in sent if packet.place in losses)
    return Trial(losses, names, outcome, "", (), extra, extra, len(sent), Path("run"), tuple(sent))


def trials(most: int) -> list[Trial]:
    """All trials with up to so many losses, as `owlt prove` grows them."""
    level, found = [trial(())], [trial(())]
    for _ in range(most):
        level = [trial(losses) for each in level if each.is_delivered for losses in successors(each)]
        found += level
    return found


def by_hand(most: int) -> set[frozenset[Place]]:
    """Every set of up to so many losses that a run can have: those of which each packet is sent, in any run."""
    places = [Place(direction, number) for direction in ("forward", "reverse") for number in range(1, 8)]  # type: ignore[arg-type]
    return {
        frozenset(losses)
        for count in range(most + 1)
        for losses in combinations(places, count)
        if set(losses) <= {packet.place for packet in exchange(losses)[0]}
    }


@pytest.mark.parametrize("most", [1, 2, 3])
def test_every_set_of_losses_that_can_happen_is_tried_once(most: int) -> None:
    tried = [frozenset(each.losses) for each in trials(most)]
    failed = {frozenset(each.losses) for each in trials(most) if not each.is_delivered}

    assert len(tried) == len(set(tried))
    assert set(tried) == {each for each in by_hand(most) if not any(fewer < each for fewer in failed)}


def test_losses_are_in_the_order_in_which_the_packets_are_sent() -> None:
    for each in trials(3):
        order = [packet.place for packet in each.sent if packet.place in each.losses]
        assert list(each.losses) == order


def test_a_transfer_that_gives_up_after_three_attempts_is_proven_for_two_losses_and_not_for_three() -> None:
    verdict = verdict_of(trials(3))

    assert verdict_of(trials(2)).is_proven
    assert not verdict.is_proven
    assert [each.text for each in verdict.counterexamples] == [
        "forward #1 (unit 0) and forward #2 (unit 0) and forward #3 (unit 0)",
        "forward #2 (unit 1) and forward #3 (unit 1) and forward #4 (unit 1)",
    ]


def test_the_faults_of_a_set_drop_its_packets_and_no_others() -> None:
    losses = (Place("forward", 24), Place("reverse", 2), Place("forward", 3))
    forward, reverse = drops(losses)

    assert case_name(losses) == "f24-r2-f3"
    assert [(each.first, each.last) for each in forward.occurrences] == [(3, 3), (24, 24)]
    assert [(each.first, each.last) for each in reverse.occurrences] == [(2, 2)]
    assert forward.action.drop and reverse.action.drop


def test_a_suspect_run_neither_proves_nor_refutes() -> None:
    first = trial((Place("forward", 1),))
    verdict = verdict_of([trial(()), replace(first, suspect=("a step came late",))])

    assert verdict_of([trial(()), first]).is_proven
    assert not verdict.is_proven
    assert (len(verdict.counterexamples), len(verdict.undecided)) == (0, 1)


def test_an_aborted_run_is_no_counterexample_beside_one_that_fails() -> None:
    aborted = replace(trial((Place("forward", 1),)), outcome=Outcome.ABORTED)
    failed = replace(trial((Place("forward", 2),)), outcome=Outcome.FAILED)

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
