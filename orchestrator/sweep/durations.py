"""How long runs took: in the journal of a results directory, and in a small history of this user on this machine.

`planning.estimate` learns from them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from owlt.installation import cache_directory
from owlt.orchestrator.planning.estimate import (
    CERTIFICATE,
    COSTS,
    REPORT,
    Pace,
    Took,
    certificate_wall_s,
    report_wall_s,
    run_wall_s,
)
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.run.events import ChannelCertified, RunPublished, RunRepeated, SweepStarted, WorkerStarted
from owlt.orchestrator.sweep.journal import entries_in
from owlt.results.files import JOURNAL_NAME
from owlt.results.plain_files import open_plain, read_plain, real_root, write_whole
from owlt.results.record import Outcome

MOST_JOURNAL_BYTES = 4_000_000
"""Only the end of a longer journal is read: about 2,500 runs."""
MOST_KEPT = 2000
"""Entries of the history."""
MOST_KEPT_OF_A_START = 300
_MARKS = tuple(
    f'"event": "{each.model_fields["event"].default}"'
    for each in (SweepStarted, WorkerStarted, ChannelCertified, RunRepeated, RunPublished)
)


def pace_of(plan: Plan, results: Path) -> Pace:
    """What this machine needs for runs, learned from the history and from the runs of a results directory."""
    return Pace([*history(), *durations(plan, results)], crowding())


def crowding() -> float:
    """How many times longer a program takes because of the other work on this machine, by its load average; 1: none."""
    cores = len(os.sched_getaffinity(0))
    return max(1.0, (os.getloadavg()[0] + cores) / cores / 2)


def durations(plan: Plan, results: Path, since_s: float = 0.0) -> list[Took]:
    """How long each run and certificate took of which the journal has the end, from the start of its worker or the end
    of what this worker did before; without those that were performed on other machines."""
    try:
        with open_plain(results / JOURNAL_NAME) as file:
            file.seek(max(0, file.seek(0, 2) - MOST_JOURNAL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    runs = {run.run_id: run for run in plan.runs}
    clock = plan.sweep.clock
    began_s: dict[int | None, float] = {}
    took = []
    for entry in entries_in(line for line in lines if any(mark in line for mark in _MARKS)):
        event = entry.event
        if isinstance(event, SweepStarted):
            began_s.clear()
        elif isinstance(event, WorkerStarted):
            began_s.pop(entry.batch, None)
            if not event.machine:
                began_s[entry.batch] = entry.at_s
        elif (start_s := began_s.get(entry.batch)) is not None:
            began_s[entry.batch] = entry.at_s
            took_s = entry.at_s - start_s
            if took_s <= 0 or start_s < since_s:
                continue
            if isinstance(event, ChannelCertified):
                took.append(Took(clock, CERTIFICATE, 0, certificate_wall_s(clock), took_s))
            elif isinstance(event, RunPublished) and event.outcome in _PERFORMED and (run := runs.get(event.run_id)):
                point = run.permutation
                expected_s = run_wall_s(run, clock)
                took.append(Took(clock, point.implementation, point.load, expected_s, took_s, point.slug))
    return took


_PERFORMED = (Outcome.COMPLETED, Outcome.INCOMPLETE, Outcome.CORRUPT, Outcome.TIMED_OUT, Outcome.FAILED)
"""Outcomes of runs that took their time."""


def history_file() -> Path:
    """The history of this user on this machine, in the cache: a line for each run, certificate or report. Other costs
    make another history."""
    return real_root(cache_directory()) / f"durations-{crc32(repr(COSTS).encode()):08x}.jsonl"


def history() -> Iterator[Took]:
    """The durations of earlier sweeps, from the oldest to the latest. Lines that are damaged are skipped."""
    try:
        lines = read_plain(history_file()).decode(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        with suppress(ValueError, TypeError, ArithmeticError):
            clock, implementation, load, expected_s, took_s = json.loads(line)
            each = Took(str(clock), str(implementation), int(load), float(expected_s), float(took_s))
            if each.expected_s > 0 and each.took_s > 0:
                yield each


def remember(took: Iterable[Took]) -> None:
    """Add durations to the history; the oldest are removed. Without a cache that can be written, nothing happens."""
    new = list(took)
    if new:
        lines = [json.dumps(each[:5]) for each in [*history(), *new[:: -(-len(new) // MOST_KEPT_OF_A_START)]]]
        with suppress(OSError):
            history_file().parent.mkdir(parents=True, exist_ok=True)
            write_whole(history_file(), "\n".join(lines[-MOST_KEPT:]) + "\n")


def report_took(runs: int, took_s: float) -> Took:
    """How long the report of a sweep with so many runs took."""
    return Took("", REPORT, 0, report_wall_s(runs), took_s)
