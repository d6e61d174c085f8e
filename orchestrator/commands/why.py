"""`owlt why`: the breakdown of the session time, the cost of each cause, and the differences between two runs; for a
results directory, the breakdown for all runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.commands.fault_tests import case_runs, empty_directory
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Guests, Json
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.captures.inspection.causes import Cause, Comparison
    from owlt.captures.inspection.critical_path import CriticalPath, Kind
    from owlt.orchestrator.checks.costs import Costs, Counterfactual
    from owlt.orchestrator.checks.counterfactuals import Times
    from owlt.orchestrator.planning.plan import Plan
    from owlt.reports.comparison.cells import Cell, TimeUse
    from owlt.results.record import RunRecord

MOST_CAUSES = 3
PERFORMED = Path("results", "why")
_NEEDED: Mapping[str | None, str] = {
    "all": "; all of them have to be removed for this",
    "some": "; removing some of them saves as much",
    "unknown": "; known only for all of them together",
}
"""Which losses of a set have to be removed to save this time, in words, by `Counterfactual.needed`."""
_INDIRECT = "; partly indirect: something else also changed, such as the congestion window or a later timer"


def why(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A results directory, or the directory of one run: RESULTS/runs/NAME.")
    ],
    against: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Compare with another run: the first packet and the causes that differ."),
    ] = None,
    perform: Annotated[
        bool, typer.Option(help="Perform the run again with one change at a time, to measure what each cause costs.")
    ] = True,
    every: Annotated[
        bool, typer.Option("--all", help=f"Print all causes and costs, not only the {MOST_CAUSES} largest.")
    ] = False,
    guests: Guests = None,
    as_json: Json = False,
) -> None:
    """Explain where the time of a run or of a sweep went.

    The session time is divided into the parts of its critical path: transmission, queueing, propagation, timers and
    idle time. The causes of additional time follow, largest first. On the clock exact, the run is then performed again
    in results/why/NAME, each time with one change: without a loss, with half the delay or with an unlimited rate. The
    difference in session time is the cost. 'owlt analyse RUN' draws the critical path.

    For a results directory, the command prints means for each implementation in each cell. 'owlt report' and 'owlt
    figure --kind time' draw them.
    """
    from owlt.captures.inspection.causes import causes, compare
    from owlt.orchestrator.profiles.load import existing_results
    from owlt.reports.sessions.run_text import explanation_json
    from owlt.results.files import PLAN_NAME
    from owlt.results.plain_files import real_root

    if (real_root(run.absolute()) / PLAN_NAME).exists():
        explain_results(existing_results(run), as_json)
        return
    record, path, suspect = _path_of(run)
    printer = Printer(as_json)
    found = causes(path)
    values = {"run": record.run_id, "outcome": record.outcome, "suspect": suspect} | explanation_json(path, found)
    for line in _lines(record, path, suspect, found, every):
        printer.text(line)
    if against is not None:
        other_record, other, _ = _path_of(against)
        comparison = compare(path, other)
        printer.json(values | {"against": {"run": other_record.run_id, **asdict(comparison)}})
        for line in _comparison_lines(comparison, other_record.run_id, every):
            printer.text(line)
        return
    costs = _costs(printer, run, record, path, found, guests) if perform else None
    printer.json(values | {"costs": _costs_json(costs) if costs else None})
    for line in _cost_lines(costs, every) if costs else ():
        printer.text(line)


def _path_of(run: Path) -> tuple[RunRecord, CriticalPath, list[str]]:
    """The record of a run, its critical path, and why it is suspect. Raises OwltError if there is no path."""
    from owlt.orchestrator.commands.captures import inspected_run
    from owlt.results.plain_files import real_root
    from owlt.results.recorded_runs import is_recorded

    directory = real_root(run.absolute())
    if not is_recorded(directory):
        expected = "the directory of a recorded run, such as results/demo/runs/NAME, or a results directory"
        raise OwltError(Mistake("is not the directory of a run", expected, where=Place(str(run))))
    record, _, inspection = inspected_run(directory)
    if inspection.path is None:
        problem = "its time cannot be broken down: its packets could not be analysed, or there is only one"
        raise OwltError(Mistake(problem, "a session of several packets", where=Place(str(run))))
    return record, inspection.path, list(dict.fromkeys([*record.suspect, *inspection.summary.suspect]))


def _lines(
    record: RunRecord, path: CriticalPath, suspect: Sequence[str], found: Sequence[Cause], every: bool
) -> Iterator[str]:
    """The breakdown of the session time, and the causes."""
    from owlt.reports.sessions.run_text import cause_text, headline, share_rows

    yield f"{record.run_id}: {record.outcome}; {headline(path)}"
    yield from (f"suspect: {reason}" for reason in suspect)
    rows = share_rows(path)
    width, numbers = max(len(title) for title, _, _ in rows), max(len(time) for _, time, _ in rows)
    yield from (f"  {title:{width}}  {time:>{numbers}}  {share:>6}" for title, time, share in rows)
    if any(rung.kind == "new data" and rung.message.unplaced for rung in path.rungs):
        yield "  some of the file data may be retransmissions, which cannot be distinguished in these packets"
    shown = found if every else found[:MOST_CAUSES]
    yield "causes of additional time, largest first:" if shown else "no significant cause of additional time"
    yield from (f"  {number}. {cause_text(cause, path)}" for number, cause in enumerate(shown, start=1))
    if left := len(found) - len(shown):
        yield f"  {left} more with --all"


def _costs(
    printer: Printer, run: Path, record: RunRecord, path: CriticalPath, found: Sequence[Cause], guests: int | None
) -> Costs:
    """What the causes cost. The runs remain in a results directory of their own."""
    from owlt.orchestrator.checks.costs import costs
    from owlt.results.plain_files import real_root

    results = empty_directory(PERFORMED, record.run_id)
    again = shlex.join(["owlt", "why", str(run)])

    with case_runs(printer, again, guests) as perform_cases:

        def perform(plan: Plan, name: str) -> Path:
            perform_cases(plan, results / name)
            return results / name

        return costs(real_root(run.absolute()), path, found, perform)


def _cost_lines(costs: Costs, every: bool) -> Iterator[str]:
    """What each change saves, and the smallest set of changes that explains the additional time."""
    from owlt.orchestrator.checks.costs import conclusive, is_larger_than_needed, is_part_of_larger

    if costs.problem:
        yield f"the costs of the causes are not available: {costs.problem}"
        return
    assert costs.base is not None
    of_one = [each for each in costs.counterfactuals if len(each.changes) == 1]
    saving = [each for each in conclusive(of_one, costs.base) if each.cost_s > 0]
    single = [
        each for each in saving if every or not (is_larger_than_needed(each, saving) or is_part_of_larger(each, saving))
    ]
    shown = single if every else single[:MOST_CAUSES]
    yield f"session time with one change each ({costs.runs} runs):" if shown else "no change reduces the session time"
    yield from (f"  {_cost_text(each, costs.base)}" for each in shown)
    if left := len(single) - len(shown):
        yield f"  {left} more with --all"
    yield from (f"  {each.text}: its cost is not known, because {each.problem}" for each in of_one if each.problem)
    if len(costs.least) > 1:
        changes = " and ".join(change.text for change in costs.least)
        yield f"  combined, {changes}: {costs.least_cost_s:.3f} s saved"
    for each in costs.interactions:
        which = "; ".join(loss.text for loss in each.losses)
        how = "all of them are" if each.is_shared else "any one of them is"
        yield f"  losses ({which}): {each.cost_s:.3f} s saved if {how} removed"


def _cost_text(each: Counterfactual, base: Times) -> str:
    """A change, the session time with it, and the time saved; if the session begins at another time with it, the times
    from the launch."""
    from owlt.orchestrator.checks.costs import SAME_S

    doubt = f"; losses that hit other packets than recorded: {each.displaced}" if each.displaced else ""
    times = f"{each.times.session_s:.3f} s instead of {base.session_s:.3f} s"
    if abs(base.session_s - each.times.session_s - each.cost_s) > SAME_S:
        times = f"{each.times.ended_s:.3f} s instead of {base.ended_s:.3f} s from the launch"
    how = _NEEDED.get(each.needed, "") + (_INDIRECT if each.is_indirect else "")
    return f"{each.text}: {times}, {each.cost_s:.3f} s saved{how}{doubt}"


def _costs_json(costs: Costs) -> dict[str, Any]:
    return {
        "problem": costs.problem,
        "above_bound_s": costs.above_bound_s,
        "runs": costs.runs,
        "changes": [
            {
                "text": each.text,
                "losses": [loss.text for loss in each.losses],
                "session_s": each.times.session_s,
                "cost_s": None if each.problem else each.cost_s,
                "delivery_cost_s": None if each.problem else each.delivery_cost_s,
                "needed": each.needed,
                "indirect": each.is_indirect,
                "problem": each.problem,
                "displaced": each.displaced,
                "run": each.run,
            }
            for each in costs.counterfactuals
        ],
        "least": [change.text for change in costs.least],
        "least_cost_s": costs.least_cost_s,
        "interactions": [
            {"losses": [loss.text for loss in each.losses], "shared": each.is_shared, "cost_s": each.cost_s}
            for each in costs.interactions
        ],
    }


def _comparison_lines(comparison: Comparison, other: str, every: bool) -> Iterator[str]:
    """The first packet that differs, and the causes that differ."""
    from owlt.reports.sessions.run_text import difference_text

    lengths_s = [length_ns / 1e9 for length_ns in comparison.lengths_ns]
    yield f"session time: {lengths_s[0]:.3f} s in this run, {lengths_s[1]:.3f} s in {other}"
    first = comparison.first
    if first is None:
        yield "all packets are identical"
        return
    here, there = (
        f"no packet {first.number}" if name is None or left_ns is None else f"{name} after {left_ns / 1e9:.6f} s"
        for name, left_ns in zip(first.names, first.left_ns, strict=True)
    )
    which = f"number {first.number} of the {first.host}"
    yield f"first packet that differs, {which}: {here} in this run, {there} in the other"
    shown = comparison.causes if every else comparison.causes[:MOST_CAUSES]
    yield from (f"  {difference_text(each)}" for each in shown)
    if left := len(comparison.causes) - len(shown):
        yield f"  {left} more with --all"


def explain_results(results: Path, as_json: bool) -> None:
    """Print the breakdown of session time for a results directory, after computing the time accounts that are missing.

    Raises OwltError if no run has a time account, ReportError as `load_results`.
    """
    from owlt.orchestrator.run.analysis import account_runs
    from owlt.reports.answer.reasons import largest_shares
    from owlt.reports.answer.regions import dimensions_of
    from owlt.reports.comparison.cells import cells_of, shown_kinds
    from owlt.reports.comparison.stopping import load_due_results

    without = account_runs(results)
    loaded = load_due_results(results)
    cells = cells_of(loaded.rows)
    uses = list(_time_uses(cells))
    if not uses:
        raise OwltError(_no_time_account(results, without))
    dimensions = dimensions_of([cell.point for cell in cells])
    sentences = largest_shares(cells, dimensions, loaded.accounts)
    printer = Printer(as_json)
    printer.json(
        {
            "cells": [cell.point.values | {"implementations": _implementations_json(cell)} for cell in cells],
            "sentences": sentences,
            "without_time": without,
        }
    )
    kinds = shown_kinds(use for _, _, use in uses)
    heads = [dimension.head for dimension in dimensions]
    rows = (
        (name, *(each.text(each.of(cell.point)) for each in dimensions), use.runs, *_time_columns(use, kinds))
        for cell, name, use in uses
    )
    numbers = ("runs", "session", *kinds)
    printer.table(("implementation", *heads, *numbers), rows, numbers)
    printer.text("means in s over the runs whose file was delivered, with their share of the session time")
    printer.text(f"to add this to the report: owlt report {results}")
    for sentence in (*sentences, *(f"no time account: {reason}" for reason in without)):
        printer.text(sentence)


def _time_uses(cells: Sequence[Cell]) -> Iterator[tuple[Cell, str, TimeUse]]:
    """The time use of each implementation in each cell, if any of its runs has a time account."""
    from owlt.reports.comparison.cells import time_use

    for cell in cells:
        for name, sample in cell.samples.items():
            if use := time_use(sample):
                yield cell, name, use


def _time_columns(use: TimeUse, kinds: Sequence[Kind]) -> list[str]:
    """The mean time of a session, and of each kind with its share."""
    from owlt.reports.answer.sentences import percent_text
    from owlt.reports.looks import LEAST_PRINTED_SHARE

    texts = [f"{use.seconds(kind):.3f} ({percent_text(use.share(kind))})" for kind in kinds]
    shown = [text if use.share(kind) >= LEAST_PRINTED_SHARE else "" for kind, text in zip(kinds, texts, strict=True)]
    return [f"{use.mean_s:.3f}", *shown]


def _implementations_json(cell: Cell) -> list[dict[str, Any]]:
    return [
        {
            "implementation": name,
            "runs": use.runs,
            "mean_s": use.mean_s,
            "median_s": use.median_s,
            "sem_s": use.sem_s,
            "spent_ns": dict(use.totals_ns),
            "session_ns": sum(use.sessions_ns),
            "share": {kind: use.share(kind) for kind in use.totals_ns},
        }
        for _, name, use in _time_uses([cell])
    ]


def _no_time_account(results: Path, without: Sequence[str]) -> Mistake:
    problem = f"no run has a time account: {'; '.join(without) or 'no file was delivered'}"
    return Mistake(problem, "delivered files and kept captures", where=Place(str(results)))
