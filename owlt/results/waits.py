"""waits.json of a run: the waits of its programs that a timer ended, such as a poll(2) that timed out.

They exist only on the clock exact of a virtual rig, where the guests' kernel records them without taking virtual time
(`orchestrator.rigs.timed_waits`). Lengths are virtual time from the beginning of the system call to its time-out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from owlt.agents.contract.implementation import Role
from owlt.inputs.quantities import format_delay
from owlt.results.files import stating_problems_of
from owlt.results.plain_files import read_json, write_whole

WAITS_NAME = "waits.json"
"""The file beside the record of a run."""
MOST_WAITS = 4096
"""The number of waits that the file has one by one: the longest."""
MOST_GROUPS = 1024
"""The number of groups of equal waits that the file has: those with the longest sums."""
MOST_DESCRIBED = 4
"""The number of groups in a line for people."""
DIGITS = 3
"""Waits whose lengths agree in so many significant digits are equal: the kernel may end the time-out of a poll or
select 0.1 % later, together with another timer (`select_estimate_accuracy` in fs/select.c)."""

_Count = Annotated[int, Field(ge=0)]
_Name = Annotated[str, Field(max_length=64)]


@dataclass(frozen=True, slots=True)
class TimedWait:
    """A wait that a timer ended. `process` is the name of the process, as ps(1) has it.

    `kind` is the system call that timed out, such as epoll_wait or futex; or, for a wait without a time-out of its own,
    the timer that ended it: `timerfd`, `alarm` (alarm(2), setitimer(2)) or `timer_create`. `begin_ns` is when the
    system call began, by the clock of the captures, in ns since 1970.
    """

    host: Role
    process: _Name
    kind: _Name
    begin_ns: _Count
    length_ns: _Count

    @property
    def end_ns(self) -> int:
        """When the timer expired."""
        return self.begin_ns + self.length_ns


@dataclass(frozen=True, slots=True)
class EqualWaits:
    """Waits of one kind of one program on one host, with the same length: `length_ns` has `DIGITS` digits."""

    host: Role
    process: _Name
    kind: _Name
    length_ns: _Count
    count: Annotated[int, Field(ge=1)]

    def __str__(self) -> str:
        waits = "1 wait" if self.count == 1 else f"{self.count} waits"
        return f"{self.host}: {waits} of {format_delay(self.length_ns)} ({self.kind})"


class RunWaits(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    groups: tuple[EqualWaits, ...] = Field(max_length=MOST_GROUPS)
    """The groups of equal waits, the longest sum first."""
    waits: tuple[TimedWait, ...] = Field(max_length=MOST_WAITS)
    """In the order of their beginnings."""
    left_out: _Count = 0
    """Waits that are not in `waits`."""
    left_out_ns: _Count = 0
    """The sum of their lengths."""


WaitValues = tuple[Role, str, str, int, int]
"""The values of a TimedWait in their order. Tuples, because a guest summarises ten thousand of them after a run, and
making so many objects takes longer than all else."""


def summarised(waits: Iterable[WaitValues], unrecorded: int = 0, unrecorded_ns: int = 0) -> RunWaits:
    """The content of a file from all waits of a run. `unrecorded`: waits, with the sum of their lengths, for which the
    kernel had no room."""
    waits = sorted(waits, key=_length_ns_of, reverse=True)
    lengths_ns = list(map(_length_ns_of, waits))
    rounded_ns = {length_ns: round(length_ns, DIGITS - len(str(length_ns))) for length_ns in set(lengths_ns)}
    counts = Counter((host, process, kind, rounded_ns[length_ns]) for host, process, kind, _, length_ns in waits)
    groups = [EqualWaits(*equal, count) for equal, count in counts.items()]
    return RunWaits(
        groups=tuple(sorted(groups, key=lambda group: -group.count * group.length_ns)[:MOST_GROUPS]),
        waits=tuple(TimedWait(*wait) for wait in sorted(waits[:MOST_WAITS], key=_begin_ns_of)),
        left_out=len(waits[MOST_WAITS:]) + unrecorded,
        left_out_ns=sum(lengths_ns[MOST_WAITS:]) + unrecorded_ns,
    )


_begin_ns_of, _length_ns_of = itemgetter(3), itemgetter(4)


def described_waits(waits: RunWaits | None) -> list[tuple[str, str]]:
    """The longest groups of a run's waits as a name and a value for people; [] if none was recorded."""
    if waits is None or not waits.groups:
        return []
    groups = "; ".join(map(str, waits.groups[:MOST_DESCRIBED]))
    more = len(waits.groups) - MOST_DESCRIBED
    return [("waits that timed out", f"{groups}; and {more} more lengths" if more > 0 else groups)]


def write_waits(waits: RunWaits, run: Path) -> Path:
    """Write the file into the directory of a run. Raises OSError."""
    return write_whole(run / WAITS_NAME, waits.model_dump_json() + "\n")


def read_run_waits(run: Path) -> RunWaits | None:
    """The file in the directory of a run; None if the waits of the run were not recorded. Raises DamagedFile or
    ReportError, which name the file."""
    try:
        with stating_problems_of(run / WAITS_NAME):
            return RunWaits.model_validate(read_json(run / WAITS_NAME))
    except FileNotFoundError:
        return None
