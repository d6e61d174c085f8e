"""Copies that arrived too damaged to tell of which packet they are: known in numbers, from the emulator's counters."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from owlt.captures.accounting.crossing import Crossing
from owlt.captures.accounting.stages import DirectionCounters
from owlt.captures.frames.columns import Columns
from owlt.captures.matches.delivery import Delivery
from owlt.captures.session.session import Host

Rows = NDArray[np.int64]


def unrecognised_arrivals(
    near: Columns, far: Columns, delivery: Delivery, crossing: Crossing, counters: DirectionCounters | None
) -> Rows:
    """Arrivals (rows of the far capture) that are copies of missing packets, though it cannot be told of which.

    There are no more of them than packets that are missing although the emulator did not drop them, than frames that it
    damaged and of which no damaged copy was recognised, and, of each length, than missing frames. Those that pass the
    session's filter come first. None without counters: then what is missing may have been lost.
    """
    if counters is None:
        return np.empty(0, np.int64)
    let_through = crossing.missing - crossing.expected_missing(counters) - crossing.uncounted(counters)
    damaged = counters.corrupted_copies[1] - crossing.corrupted
    left = Counter(near.wire_bytes[np.concatenate([crossing.session_missing, crossing.background_missing])].tolist())
    is_session = np.isin(delivery.unmatched, delivery.unexplained)
    fitting = []
    for row in np.concatenate([delivery.unmatched[is_session], delivery.unmatched[~is_session]]).tolist():
        length = int(far.wire_bytes[row])
        if left[length]:
            left[length] -= 1
            fitting.append(row)
    return np.array(fitting[: max(min(let_through, damaged), 0)], np.int64)


def caveat(count: int, host: Host) -> str:
    """What to know of a ledger with so many unrecognised packets."""
    return (
        f"{count} packets from the {host} passed the emulator but were not matched, and {count} frames of the same "
        f"lengths arrived that match no packet because too many bits are damaged: these packets count as "
        f"unrecognised, not as lost"
    )
