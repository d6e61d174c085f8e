"""The forecast of a sweep: its cells, what is recorded of them, and the time, disk and memory that the rest needs.

How long runs took is known from the journal of a results directory, and from a small history of this user on this
machine; `planning.estimate` computes the time of runs from it. The sizes of results were measured on the exact clock.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from owlt.inputs.axes import OF_THE_LINK
from owlt.installation import cache_directory
from owlt.orchestrator.planning.estimate import (
    CERTIFICATE,
    COSTS,
    REPORT,
    WITHOUT_RECORDS,
    Estimate,
    Pace,
    RigTime,
    Took,
    beyond_memory,
    certificate_wall_s,
    duration_text,
    estimate,
    infeasible,
    machine_memory_bytes,
    needed_memory_mb,
    report_wall_s,
    run_wall_s,
    times_by_rig,
)
from owlt.orchestrator.planning.plan import Plan, Run
from owlt.orchestrator.planning.repetitions import DueRuns, Repeating
from owlt.orchestrator.planning.selection import Selection
from owlt.orchestrator.run.events import ChannelCertified, RunPublished, RunRepeated, SweepStarted, WorkerStarted
from owlt.orchestrator.sweep.journal import entries_in
from owlt.results.files import JOURNAL_NAME
from owlt.results.permutation import Permutation
from owlt.results.plain_files import open_plain, read_plain, real_root, write_whole
from owlt.results.record import Outcome
from owlt.results.recorded_runs import read_recorded

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


RUN_BYTES = 60_000
"""Bytes for the record, summary, logs, and the first packets of a run, which are kept complete."""
CAPTURED_PER_BYTE = {"full": 2.3, "headers": 0.27, "none": 0.03}
"""Bytes of captures and of what is derived from them for each byte that is sent, by `keep_captures`: packets of 1000
bytes, in two captures."""

BUSY = 1.5
"""Load average per core above which other work makes runs slower."""


@dataclass(frozen=True)
class Resources:
    """Bytes that a sweep needs, and those that this machine has now."""

    disk_bytes: int
    """The disk space of the runs that are left, after their analysis."""
    disk_free_bytes: int
    guest_bytes: int
    """Memory of the largest guest; 0 if the sweep needs no guests."""
    guests: int
    """The number of guests that run side by side."""
    memory_free_bytes: int

    @property
    def is_disk_short(self) -> bool:
        """Whether the disk is too small."""
        return self.disk_bytes > self.disk_free_bytes

    @property
    def is_memory_short(self) -> bool:
        """Whether the guests do not fit into memory side by side."""
        return self.guest_bytes * self.guests > self.memory_free_bytes


def resources(left: Iterable[Run], keep_captures: str, guests: int, results: Path) -> Resources:
    """The resources that the remaining runs need; `guests` run side by side, 0 on a rig without guests."""
    runs = list(left)
    per_byte = CAPTURED_PER_BYTE[keep_captures]
    memory_mb = max((needed_memory_mb([run]) for run in runs), default=0) if guests else 0
    return Resources(
        disk_bytes=sum(RUN_BYTES + int(per_byte * run.permutation.most_bytes) for run in runs),
        disk_free_bytes=shutil.disk_usage(_existing(results)).free,
        guest_bytes=memory_mb * 1_000_000,
        guests=guests,
        memory_free_bytes=available_bytes(),
    )


def _existing(path: Path) -> Path:
    """A path, or the nearest directory above it that exists."""
    return next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())


def available_bytes() -> int:
    """Memory that programs can have without swapping, by the kernel's own estimate."""
    [line] = [line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:")]
    return int(line.split()[1]) * 1024


@dataclass(frozen=True)
class Cell:
    """A permutation of a sweep, as users see it."""

    name: str
    runs: int
    recorded: int
    time_limit_s: float
    repetitions: str = ""
    """With adaptive repetitions, the decision so far: "narrow: 3.1 % after 12"; "" if their number is fixed."""
    infeasible: str = ""
    """Why its runs cannot complete; "": they can."""
    is_refused: bool = False
    """Whether this machine cannot perform it: `owlt run` refuses it, and does not record it as unsupported."""


@dataclass(frozen=True)
class Forecast:
    """What a sweep consists of and needs; times and resources are those of the runs that are left."""

    cells: tuple[Cell, ...]
    runs: int
    recorded: int
    left: int
    estimate: Estimate
    times: tuple[RigTime, ...]
    resources: Resources
    rule: str = ""
    """Adaptive repetitions in words; "" if their number is fixed. Times and resources are then upper bounds."""
    least_left: int = 0
    """The number of runs that are left even if no permutation needs more repetitions."""
    load: float = 0.0
    """The load average of this machine over the last minute."""

    @property
    def infeasible(self) -> tuple[Cell, ...]:
        """The cells whose runs cannot complete on any machine."""
        return tuple(cell for cell in self.cells if cell.infeasible and not cell.is_refused)

    @property
    def refused(self) -> tuple[Cell, ...]:
        """The cells that this machine cannot perform, and that have runs left."""
        return tuple(cell for cell in self.cells if cell.is_refused and cell.recorded < cell.runs)


def forecast(
    plan: Plan,
    recorded: Collection[str],
    results: Path,
    guests: int | None = None,
    selected: Collection[str] | None = None,
    machine_bytes: int | None = None,
    pace: Pace = WITHOUT_RECORDS,
) -> Forecast:
    """The forecast of a plan; `recorded` are its runs whose records stand, `guests` those that run side by side.

    With `selected` runs, it is about these only. `machine_bytes` is the memory of the machine, by default of this one;
    `pace` is what it needs for runs.
    """
    records = read_recorded(results, set(recorded)).records if plan.sweep.adaptive else {}
    due = Repeating(plan, results).due(records)
    if selected is not None:
        recorded = set(recorded) & set(selected)
        plan = Selection(frozenset(selected)).alone(plan)
    machine_bytes = machine_memory_bytes() if machine_bytes is None else machine_bytes
    left = [run for run in plan.runs if run.run_id not in recorded and (due is None or due.is_possible(run))]
    to_launch = [run for run in left if not infeasible(run, plan.implementations[run.permutation.implementation])]
    expected = estimate(plan, guests, left, pace)
    side_by_side = expected.side_by_side if plan.sweep.rig == "virtual" else 0
    return Forecast(
        cells=tuple(_cells(plan, recorded, due, machine_bytes)),
        runs=len(left) + len(recorded),
        recorded=len(recorded),
        left=len(left),
        estimate=expected,
        times=times_by_rig(to_launch, pace),
        rule=plan.sweep.adaptive.text if plan.sweep.adaptive else "",
        least_left=sum(run.run_id not in recorded and (due is None or due.is_due(run)) for run in plan.runs),
        resources=resources(to_launch, plan.sweep.keep_captures, side_by_side, results),
        load=os.getloadavg()[0],
    )


def _cells(plan: Plan, recorded: Collection[str], due: DueRuns | None, machine_bytes: int) -> Iterable[Cell]:
    """The cells in the order of the grid."""
    by_cell: dict[Permutation, list[Run]] = {}
    for run in plan.runs:
        by_cell.setdefault(run.permutation, []).append(run)
    places = {name: place for place, name in enumerate(plan.implementations)}
    for point in sorted(by_cell, key=lambda point: _place(point, places)):
        runs = by_cell[point]
        implementation = plan.implementations[runs[0].permutation.implementation]
        reason = infeasible(runs[0], implementation)
        too_large = beyond_memory(runs[0], machine_bytes) if plan.sweep.rig == "virtual" and not reason else None
        yield Cell(
            name=point.slug,
            runs=len(runs),
            recorded=sum(run.run_id in recorded for run in runs),
            time_limit_s=runs[0].deadline_s(implementation),
            repetitions="" if due is None else due.text(point),
            infeasible=reason or too_large or "",
            is_refused=too_large is not None,
        )


def _place(point: Permutation, implementations: Mapping[str, int]) -> tuple[object, ...]:
    link = (point.channel_name, point.ip, *point.places(*OF_THE_LINK))
    return implementations[point.implementation], point.duration_ns or 0, point.file_size_bytes or 0, *link


def time_texts(forecast: Forecast) -> Iterable[str]:
    """How long the runs that are left take, and whether other work on this machine makes that longer."""
    yield forecast.estimate.text
    if forecast.load > BUSY * (cores := len(os.sched_getaffinity(0))):
        load = f"load average {forecast.load:.1f} on {cores} {'core' if cores == 1 else 'cores'}"
        yield f"warning: this machine is busy ({load}): runs may take longer"


def texts(forecast: Forecast, results: Path) -> Iterable[str]:
    """The lines below the table of cells."""
    if forecast.rule:
        more = f": {forecast.least_left} to {forecast.left} runs left; what follows is for {forecast.left}"
        yield forecast.rule + (more if forecast.left else "")
    if forecast.recorded:
        yield f"{forecast.recorded} of {forecast.runs} runs recorded in {results}, {forecast.left} left"
    if not forecast.left:
        return
    yield from time_texts(forecast)
    for time in forecast.times:
        yield f"  {time.rig}: about {duration_text(time.wall_s)}"
    needs = forecast.resources
    yield f"disk: about {_bytes(needs.disk_bytes)}, {_bytes(needs.disk_free_bytes)} free" + (
        "; not enough: free some space, or set 'keep_captures: none'" if needs.is_disk_short else ""
    )
    if needs.guest_bytes:
        count = f"{needs.guests} guests" if needs.guests > 1 else "1 guest"
        yield f"memory: {count} of up to {_bytes(needs.guest_bytes)}, {_bytes(needs.memory_free_bytes)} available" + (
            "; not enough: use fewer --guests, or exclude large files" if needs.is_memory_short else ""
        )
    if cells := forecast.infeasible:
        yield f"infeasible: {_counts(forecast, cells)}; they are recorded as unsupported, and nothing is launched"
    if cells := forecast.refused:
        fix = "leave them out with 'exclude', or perform others with --only"
        yield f"too large for this machine: {_counts(forecast, cells)}; 'owlt run' refuses them: {fix}"


def _counts(forecast: Forecast, cells: Collection[Cell]) -> str:
    runs = sum(cell.runs for cell in cells)
    return f"{len(cells)} of {len(forecast.cells)} cells, {runs} {'run' if runs == 1 else 'runs'}"


def _bytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
