"""The share of an implementation's files that was delivered, and the order of implementations by it.

The medians of an implementation are of the files that it delivered. If it delivered only the easy ones, they cannot be
compared with those of one that delivered all. So implementations that delivered every file come first, then those that
delivered some, then those that delivered none and have no goodput; within each group in the order of the sweep.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from owlt.reports.results.records import Record

COMPLETED = "completed"
ABORTED = "aborted"
"""The outcome that is the rig's, not the implementation's."""


@dataclass(frozen=True)
class Delivery:
    """The number of files that one implementation delivered, of those that it tried.

    Runs that the rig aborted do not count; runs that the implementation does not support, or was not started for, do.
    """

    delivered: int
    tried: int

    @property
    def all_of_them(self) -> bool:
        """Whether every file was delivered; True if none was tried."""
        return self.delivered == self.tried

    @property
    def place(self) -> int:
        """0: it delivered every file; 1: some; 2: none."""
        return 2 if not self.delivered else int(not self.all_of_them)


def delivery_of(records: Iterable[Record]) -> Delivery:
    """The deliveries of these runs."""
    outcomes = [record.outcome for record in records if record.outcome != ABORTED]
    return Delivery(sum(outcome == COMPLETED for outcome in outcomes), len(outcomes))


def by_delivery(names: Sequence[str], records: Sequence[Record]) -> dict[str, Delivery]:
    """Each implementation's deliveries, in the order of the report; `names` is the order of the sweep."""
    deliveries = {name: delivery_of(record for record in records if record.implementation == name) for name in names}
    return dict(sorted(deliveries.items(), key=lambda item: item[1].place))
