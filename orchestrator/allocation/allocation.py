"""Gives each slot its next batch: a machine takes a block, and its slots share the block's batches."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from owlt.orchestrator.allocation.places import Places
from owlt.orchestrator.planning.plan import Batch


class Allocation:
    """The batches that are left of some. Any thread may call it.

    What is left of a block of a machine that was lost is taken by the next machine.
    """

    def __init__(self, batches: Sequence[Batch], places: Places) -> None:
        self.places = places
        self._lock = threading.Lock()
        self._unclaimed = deque(deque(block) for block in places.blocks(batches) if block)
        self._claimed: dict[str, deque[Batch]] = {}
        """By machine."""

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
