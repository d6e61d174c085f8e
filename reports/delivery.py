"""How many of an implementation's files were delivered, and where it stands among the others because of that.

The medians of an implementation are of the files that it delivered. Of one that delivered only the easy ones they are
no measure beside one that delivered all: so those that delivered every file stand first, then those that delivered
some, then those that delivered none and have no goodput; in each class in the order of the sweep.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reports.records import Record

COMPLETED = "completed"
RIGS_OWN = "aborted"
"""The outcome that says nothing of an implementation."""


@dataclass(frozen=True)
class Delivery:
    """The files that one implementation delivered, of those that it was tried with.

    Runs that the rig aborted are no trials; runs that the build cannot do, or was not launched for, are.
    """

    delivered: int
    tried: int

    @property
    def all_of_them(self) -> bool:
        """Whether every file was delivered; True where none was tried."""
        return self.delivered == self.tried

    @property
    def place(self) -> int:
        """0: it delivered every file; 1: some; 2: none."""
        return 2 if not self.delivered else int(not self.all_of_them)


def delivery_of(records: Iterable[Record]) -> Delivery:
    """What became of the files of these runs."""
    outcomes = [record.outcome for record in records if record.outcome != RIGS_OWN]
    return Delivery(sum(outcome == COMPLETED for outcome in outcomes), len(outcomes))


def by_delivery(names: Sequence[str], records: Sequence[Record]) -> dict[str, Delivery]:
    """Each implementation's deliveries: those that delivered every file first, `names` is the order among equals."""
    found = {name: delivery_of(record for record in records if record.implementation == name) for name in names}
    return dict(sorted(found.items(), key=lambda item: item[1].place))
