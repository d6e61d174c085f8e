"""Which slot of which machine performs which batch: repetitions stay together, and nothing is lost with a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from owlt.orchestrator.planning.plan import Batch, Plan
from owlt.orchestrator.sweep.machine import Allocation, SlotsHere, blocks_of_repetitions
from tests.unit.orchestrator.small_sweep import small_plan


@dataclass
class TwoMachines:
    """The slots 0 and 1 of machine a, 2 and 3 of machine b; a block for every two batches."""

    lost: set[str] = field(default_factory=set)

    def machines(self) -> Mapping[int, str]:
        return {slot: name for slot, name in enumerate("aabb") if name not in self.lost}

    def blocks(self, batches: Sequence[Batch]) -> list[list[Batch]]:
        return [list(batches[start : start + 2]) for start in range(0, len(batches), 2)]

    def stalled_s(self, slot: int) -> None:
        """Measured here."""

    def require_machine(self) -> None:
        """There is one."""


BATCHES = small_plan("exact").batches


def indexes(batches: Sequence[Batch | None]) -> list[int | None]:
    return [batch.index if batch else None for batch in batches]


def test_on_one_machine_batches_come_in_their_order() -> None:
    allocation = Allocation(BATCHES, SlotsHere(2))

    assert indexes([allocation.take(slot) for slot in (0, 1, 0, 1, 0, 1, 0)]) == [0, 1, 2, 3, 4, 5, None]
    assert allocation.is_empty


def test_the_slots_of_a_machine_share_a_block() -> None:
    allocation = Allocation(BATCHES, TwoMachines())

    assert indexes([allocation.take(slot) for slot in (0, 2, 1, 3)]) == [0, 2, 1, 3]


def test_a_machine_that_is_ready_takes_the_next_block() -> None:
    allocation = Allocation(BATCHES, TwoMachines())

    assert indexes([allocation.take(slot) for slot in (0, 1, 0, 2)]) == [0, 1, 2, 4]


def test_what_is_left_of_the_block_of_a_lost_machine_goes_to_another() -> None:
    machines = TwoMachines()
    allocation = Allocation(BATCHES, machines)
    performed = allocation.take(0)
    machines.lost.add("a")

    assert performed is not None
    allocation.put_back(performed)
    assert allocation.open_slots() == [2, 3]
    assert sorted(batch.index for _ in range(9) if (batch := allocation.take(2))) == [0, 1, 2, 3, 4, 5]


def test_a_lost_machine_takes_nothing() -> None:
    machines = TwoMachines(lost={"a"})

    assert Allocation(BATCHES, machines).take(0) is None


def test_no_slot_has_a_batch_if_none_is_left() -> None:
    assert Allocation([], TwoMachines()).open_slots() == []


def blocks_of(plan: Plan) -> list[list[Batch]]:
    return blocks_of_repetitions(plan.batches, plan.sweep.clock, first_index=100)


@pytest.mark.parametrize("clock", ["exact", "skip", "real"])
def test_every_run_is_in_one_block(clock: str) -> None:
    plan = small_plan(clock, repetitions=3, runs_per_guest=4)

    runs = [run.run_id for block in blocks_of(plan) for batch in block for run in batch.runs]

    assert sorted(runs) == sorted(run.run_id for run in plan.runs)


@pytest.mark.parametrize("clock", ["skip", "real"])
def test_a_block_has_a_repetition_of_every_cell(clock: str) -> None:
    plan = small_plan(clock, repetitions=3, runs_per_guest=4)
    cells = {run.permutation.slug for run in plan.runs}

    blocks = [[run for batch in block for run in batch.runs] for block in blocks_of(plan)]

    assert [({run.repetition for run in runs}, {run.permutation.slug for run in runs}) for runs in blocks] == [
        ({repetition}, cells) for repetition in (1, 2, 3)
    ]


def test_on_the_exact_clock_a_block_has_all_implementations_of_a_cell() -> None:
    plan = small_plan("exact", implementations=["cfdp", "ltp"])

    blocks = [[run for batch in block for run in batch.runs] for block in blocks_of(plan)]

    assert len(blocks) == 6
    for runs in blocks:
        assert {run.permutation.implementation for run in runs} == {"cfdp", "ltp"}
        assert len({(run.permutation.packet_error_rate, run.repetition) for run in runs}) == 1


def test_on_the_exact_clock_repetitions_that_may_share_their_start_are_in_one_block() -> None:
    plan = small_plan("exact", implementations=["cfdp", "norm"], repetitions=11)

    blocks = [{run.repetition for batch in block for run in batch.runs} for block in blocks_of(plan)]

    assert sorted(map(sorted, blocks)) == 3 * [[1]] + 3 * [list(range(2, 11))] + 3 * [[11]]


def test_the_parts_of_a_batch_have_different_numbers() -> None:
    plan = small_plan("skip", repetitions=3, runs_per_guest=4)

    numbers = [batch.index for block in blocks_of(plan) for batch in block]

    assert len(numbers) == len(set(numbers))


def test_a_baseline_stays_with_the_run_before_it() -> None:
    baseline = {"every": 2, "implementations": "cfdp", "packet_error_rate": 0}
    plan = small_plan("real", repetitions=2, runs_per_guest=3, baseline=baseline)

    blocks = [[run for batch in block for run in batch.runs] for block in blocks_of(plan)]

    assert [{run.repetition for run in runs if not run.is_baseline} for runs in blocks] == [{1}, {2}]


def test_every_certification_is_a_block() -> None:
    plan = small_plan("exact", certify=True)

    assert [len(block) for block in blocks_of_repetitions(plan.certifications, "exact", 100)] == [1, 1, 1]
