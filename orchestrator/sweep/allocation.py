"""Which slot of which machine performs which batch: a machine takes a block, and its slots share the block's batches.

Blocks are complete repetitions, so that a slow machine is slow in every cell. When a run is attempted again belongs to
`sweep.scheduling`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from owlt.agents.contract.implementation import Clock
from owlt.orchestrator.planning.plan import Batch, first_sharing


class Places(Protocol):
    """The slots of a start of a sweep. They may change during it; a slot that is gone does not come back."""

    def machines(self) -> Mapping[int, str]:
        """The name of the machine of each slot; "": the machine that owlt runs on."""

    def blocks(self, batches: Sequence[Batch]) -> list[list[Batch]]:
        """The batches in blocks, each of which stays on one machine."""

    def stalled_s(self, slot: int) -> Callable[[], float | None] | None:
        """What measures whether the slot's machine is quiet, as `orchestrator.rigs.processor_time` does; None: that."""

    def require_machine(self) -> None:
        """Raise OwltError if there has been no slot for too long."""


@dataclass(frozen=True)
class SlotsHere:
    """So many slots on the machine that owlt runs on."""

    count: int

    def machines(self) -> Mapping[int, str]:
        """The slots do not change."""
        return dict.fromkeys(range(self.count), "")

    def blocks(self, batches: Sequence[Batch]) -> list[list[Batch]]:
        """One block: there is one machine."""
        return [list(batches)]

    def stalled_s(self, slot: int) -> None:
        """Measured here."""

    def require_machine(self) -> None:
        """There is always one."""


class Allocation:
    """The batches that have yet to be performed. Any thread may call it.

    The next machine takes the rest of a block of a lost machine.
    """

    def __init__(self, batches: Sequence[Batch], places: Places) -> None:
        self.places = places
        self._lock = threading.Lock()
        self._unclaimed = deque(deque(block) for block in places.blocks(batches) if block)
        self._claimed: dict[str, deque[Batch]] = {}
        """The blocks by machine."""

    @property
    def is_empty(self) -> bool:
        """Whether no batch is left, beside those that slots perform now."""
        with self._lock:
            return not (self._unclaimed or any(self._claimed.values()))

    def is_open(self, slot: int) -> bool:
        """Whether the machine of a slot is there."""
        return slot in self.places.machines()

    def open_slots(self) -> list[int]:
        """The slots for which there is a batch."""
        machines = self.places.machines()
        with self._lock:
            self._release_lost(set(machines.values()))
            return [slot for slot, machine in machines.items() if self._unclaimed or self._claimed.get(machine)]

    def take(self, slot: int) -> Batch | None:
        """The next batch of a slot; None if there is none for it now."""
        machine = self.places.machines().get(slot)
        with self._lock:
            if machine is None:
                return None
            if not self._claimed.get(machine):
                if not self._unclaimed:
                    return None
                self._claimed[machine] = self._unclaimed.popleft()
            return self._claimed[machine].popleft()

    def put_back(self, batch: Batch) -> None:
        """A batch whose slot is gone; it comes before all blocks that no machine has begun."""
        with self._lock:
            self._unclaimed.appendleft(deque([batch]))

    def _release_lost(self, machines: set[str]) -> None:
        for machine in set(self._claimed) - machines:
            if left := self._claimed.pop(machine):
                self._unclaimed.appendleft(left)


Block = tuple[object, ...]


def blocks_of_repetitions(batches: Sequence[Batch], clock: Clock, first_index: int) -> list[list[Batch]]:
    """The batches in blocks: on the exact clock the repetitions of a cell that may share their start, on others a
    repetition of the sweep.

    On the exact clock a run does not depend on the machine, so blocks can be small, and all machines are busy to the
    end. A cell is a point of the grid with all its implementations. A batch with runs of two blocks is split; the parts
    are numbered from `first_index`. Certifications are blocks of their own.
    """
    blocks: dict[Block, list[Batch]] = {}
    for batch, repetition in _split(batches, first_index, first_sharing if clock == "exact" else int):
        key: Block = (repetition,)
        if batch.certify:
            key = ("certify", *batch.certify)
        elif clock == "exact":
            cell = batch.runs[0].permutation.model_dump(exclude={"implementation"})
            key = (repetition, *cell.values())
        blocks.setdefault(key, []).append(batch)
    return list(blocks.values())


def _split(batches: Iterable[Batch], index: int, turn_of: Callable[[int], int]) -> Iterator[tuple[Batch, int]]:
    """Each batch, or each of its parts, with what `turn_of` makes of the repetition of its runs. A baseline's is that
    of the run before it."""
    repetition = 1
    for batch in batches:
        if not batch.runs:
            yield batch, repetition
            continue
        repetitions = []
        for run in batch.runs:
            repetition = repetition if run.is_baseline else turn_of(run.repetition)
            repetitions.append(repetition)
        parts = [list(part) for _, part in groupby(zip(batch.runs, repetitions, strict=True), key=lambda pair: pair[1])]
        for number, part in enumerate(parts):
            runs = [run for run, _ in part]
            if number == 0:
                yield batch.model_copy(update={"runs": runs}), part[0][1]
            else:
                yield batch.model_copy(update={"runs": runs, "index": index}), part[0][1]
                index += 1
