"""Where workers run side by side: slots, each on a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from owlt.orchestrator.planning.plan import Batch


class Places(Protocol):
    """The slots of a start of a sweep. They may change while it goes on; a slot that is gone does not come back."""

    def machines(self) -> Mapping[int, str]:
        """The name of the machine of each slot; "": the machine that owlt runs on."""

    def blocks(self, batches: Sequence[Batch]) -> list[list[Batch]]:
        """The batches in blocks, each of which stays on one machine."""

    def stalled_s(self, slot: int) -> Callable[[], float | None] | None:
        """What measures whether the slot's machine is quiet, as `orchestrator.rigs.quiet` does; None: that."""

    def require_machine(self) -> None:
        """Raise OwltError if there has been no slot for too long."""


@dataclass(frozen=True)
class SlotsHere:
    """So many slots on the machine that owlt runs on."""

    count: int

    def machines(self) -> Mapping[int, str]:
        """They stay."""
        return dict.fromkeys(range(self.count), "")

    def blocks(self, batches: Sequence[Batch]) -> list[list[Batch]]:
        """One block: there is one machine."""
        return [list(batches)]

    def stalled_s(self, slot: int) -> None:
        """Measured here."""

    def require_machine(self) -> None:
        """There is always one."""
