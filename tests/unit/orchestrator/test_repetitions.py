"""Adaptive repetitions: the key of a sweep, and which runs are performed, by workers in memory."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from owlt.captures.accounting.derived_files import keep
from owlt.captures.accounting.ledger import Ledger
from owlt.captures.accounting.measures import Amounts, measure
from owlt.captures.accounting.summary import SUMMARY, CaptureSummary, load_summary
from owlt.orchestrator.commands.progress import SweepProgress
from owlt.orchestrator.errors import OwltError, ProfileError
from owlt.orchestrator.planning import repetitions as planned_repetitions
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.planning.repetitions import Repeating, due_runs, spread_of
from owlt.orchestrator.planning.selection import Selection, parse_shard
from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.orchestrator.profiles.load import load_sweep
from owlt.orchestrator.sweep.forecast import forecast, texts
from owlt.orchestrator.sweep.merging import merge
from owlt.orchestrator.sweep.state import repetitions_text
from owlt.orchestrator.sweep.state_reader import read_state
from owlt.orchestrator.sweep.supervisor import supervise
from owlt.reports.comparison.stopping import Stop, stops_of
from owlt.reports.results.load import load_results
from owlt.results.record import read_record
from owlt.results.recorded_runs import read_recorded
from tests.unit.orchestrator.small_sweep import (
    abort,
    at_once,
    except_in,
    in_memory,
    runs_done,
    small_plan,
    small_workers,
)
from tests.unit.orchestrator.workers_in_memory import InMemoryWorkers, PerformRun, complete

RULE = {"at_least": 3, "at_most": 9, "until_interval_percent": 10}
SWEEP = """\
name: small
seed: 7
implementations: cfdp
file_size: 1 kB
rate: 1 Mbit/s
delay: 1 ms
packet_error_rate: 0
repetitions: {}
"""


def adaptive_plan(clock: str = "exact", **changes: Any) -> Plan:
    return small_plan(clock, repetitions=RULE | changes)


def goodput(error_rate: float, repetition: int) -> float:
    """That of a cell without errors does not vary; the others vary by 20 % and by a factor."""
    return {0: 1e6, 0.1: 1e6 + 2e5 * (repetition % 2), 0.2: 1e6 * (1 + repetition % 3)}[error_rate]


def summary(goodput_bps: float) -> CaptureSummary:
    """A summary of which only the goodput matters."""
    amounts, nothing = Amounts(1, 1, 1, 1), dict.fromkeys(Ledger.model_fields, 0)
    numbers = measure(amounts, 0, 1, None, None, None).model_dump() | amounts._asdict() | {"goodput_bps": goodput_bps}
    counts = dict.fromkeys(("str_sent", "str_delivered", "rts_sent", "rts_delivered", "slow_frames"), 0)
    parts = {"ledger_forward": nothing, "ledger_reverse": nothing, "background_packets": {}, "suspect": []}
    delays = {"owd_forward": {"matched": 0}, "owd_reverse": {"matched": 0}, "headers_only": False}
    return CaptureSummary.model_validate(numbers | counts | parts | delays)


def summarise(directory: Path) -> str:
    record = read_record(directory)
    value = goodput(record.packet_error_rate, record.repetition)
    keep(directory / SUMMARY, summary(goodput_bps=value))
    return ""


def go(plan: Plan, results: Path, perform: PerformRun = complete, slots: int = 1) -> InMemoryWorkers:
    workers = small_workers(plan, perform)
    analyse: Callable[[Path], str] = summarise
    supervise(plan, results, in_memory(workers, slots), lambda entry: None, analyse, at_once())
    return workers


def repetitions(results: Path) -> dict[float, int]:
    """The number of recorded runs by packet error rate."""
    return dict(Counter(read_record(results / "runs" / name).packet_error_rate for name in runs_done(results)))


EXPECTED = {0.0: 6, 0.1: 9, 0.2: 9}


def test_each_permutation_has_the_repetitions_that_its_results_call_for(tmp_path: Path) -> None:
    go(adaptive_plan(), tmp_path)

    assert repetitions(tmp_path) == EXPECTED


@pytest.mark.parametrize("clock", ["skip", "real"])
def test_runs_that_share_a_guest_end_one_by_one(tmp_path: Path, clock: str) -> None:
    go(adaptive_plan(clock), tmp_path, slots=2)

    assert repetitions(tmp_path) == EXPECTED


def test_the_repetitions_of_a_permutation_are_performed_in_their_order(tmp_path: Path) -> None:
    workers = go(adaptive_plan(), tmp_path, slots=3)
    numbers = [
        run.repetition for batch in workers.batches for run in batch.runs if run.permutation.packet_error_rate == 0
    ]

    assert numbers[3:] == [4, 5, 6]
    assert sorted(numbers[:3]) == [1, 2, 3]


def test_a_sweep_that_was_interrupted_performs_what_is_left_and_no_more(tmp_path: Path) -> None:
    plan = adaptive_plan()
    go(plan, tmp_path)
    for run in plan.runs:
        if run.repetition > 4:
            shutil.rmtree(tmp_path / "runs" / run.run_id, ignore_errors=True)

    go(plan, tmp_path)

    assert repetitions(tmp_path) == EXPECTED


def test_a_finished_sweep_performs_nothing(tmp_path: Path) -> None:
    plan = adaptive_plan()
    go(plan, tmp_path)

    assert go(plan, tmp_path).batches == []


def test_a_run_aborted_by_the_rig_is_awaited_and_ends_no_loop(tmp_path: Path) -> None:
    plan = adaptive_plan()
    victim = next(run.run_id for run in plan.runs if run.repetition == 3 and run.permutation.packet_error_rate == 0)

    go(plan, tmp_path, except_in(victim, abort))
    assert repetitions(tmp_path)[0.0] == 3

    go(plan, tmp_path)
    assert repetitions(tmp_path) == EXPECTED


def test_failing_permutations_end_after_the_least_number(tmp_path: Path) -> None:
    failing = partial(complete, outcome="failed", reason="no")

    go(adaptive_plan(), tmp_path, lambda run, task, directory: failing(run, task, directory))

    assert repetitions(tmp_path) == {0.0: 3, 0.1: 3, 0.2: 3}


def test_a_wider_rule_adds_nothing_and_a_narrower_one_more(tmp_path: Path) -> None:
    go(adaptive_plan(until_interval_percent=20), tmp_path)
    before = repetitions(tmp_path)

    go(adaptive_plan(at_most=12), tmp_path)

    assert before == EXPECTED | {0.1: 6}
    assert repetitions(tmp_path) == {0.0: 6, 0.1: 12, 0.2: 12}


def test_the_due_runs_of_a_finished_sweep_are_the_recorded_ones(tmp_path: Path) -> None:
    plan = adaptive_plan()
    go(plan, tmp_path)
    records = read_recorded(tmp_path, {run.run_id for run in plan.runs}).records

    assert due_runs(plan, tmp_path, records) == runs_done(tmp_path)


def test_the_forecast_has_the_bounds_before_and_the_decisions_afterwards(tmp_path: Path) -> None:
    plan = adaptive_plan()
    before = forecast(plan, set(), tmp_path)
    go(plan, tmp_path)
    after = forecast(plan, runs_done(tmp_path), tmp_path)

    assert (before.least_left, before.left, {cell.repetitions for cell in before.cells}) == (9, 27, {"open"})
    assert next(iter(texts(before, tmp_path))).startswith(
        "3 to 9 repetitions, until the interval of the median goodput"
    )
    assert (after.left, [cell.repetitions for cell in after.cells]) == (
        0,
        ["narrow: 0 % after 6", "bound: 16.7 % after 9", "bound: 100 % after 9"],
    )


def test_the_status_counts_due_runs_and_says_how_many_permutations_are_done(tmp_path: Path) -> None:
    plan = adaptive_plan()
    go(plan, tmp_path)
    write_plan(plan, tmp_path, runs_done(tmp_path))
    state = read_state(tmp_path)

    assert (state.counts.planned, state.counts.recorded, state.counts.waiting) == (24, 24, 0)
    assert state.repetitions is not None
    assert repetitions_text(state.repetitions).endswith("of 3 permutations 1 narrow enough, 2 at the bound")


@pytest.mark.parametrize(
    ("files", "decision"),
    [
        ((), Stop(9, "bound", 100.0)),
        (("sender.pcap", "receiver.pcap"), Stop(4, "open")),
        (("sender.pcap", "receiver.pcap", "analysis-failed.txt"), Stop(9, "bound", 100.0)),
    ],
)
def test_the_report_and_the_sweep_decide_alike_on_a_run_without_summary(
    tmp_path: Path, files: tuple[str, ...], decision: Stop
) -> None:
    plan = adaptive_plan()
    write_plan(plan, tmp_path)
    go(plan, tmp_path)
    varying = [run for run in plan.runs if run.permutation.packet_error_rate == 0.2]
    directory = tmp_path / "runs" / next(run.run_id for run in varying if run.repetition == 4)
    (directory / SUMMARY).unlink()
    for name in files:
        (directory / name).write_text("")

    records = read_recorded(tmp_path, {run.run_id for run in plan.runs}).records
    due = Repeating(plan, tmp_path).due(records)
    of_report = {point.packet_error_rate: stop for point, stop in stops_of(load_results(tmp_path)).items()}

    assert due is not None
    assert due.stops[varying[0].permutation] == of_report[0.2] == decision


def test_a_command_reads_the_summary_of_a_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = adaptive_plan()
    write_plan(plan, tmp_path)
    go(plan, tmp_path)
    records = read_recorded(tmp_path, {run.run_id for run in plan.runs}).records
    copied = tmp_path.rename(tmp_path.parent / f"{tmp_path.name}-copy")  # nothing is known of it
    read: list[str] = []

    def counting(directory: Path) -> CaptureSummary | None:
        read.append(directory.name)
        return load_summary(directory)

    monkeypatch.setattr(planned_repetitions, "load_summary", counting)
    Repeating(plan, copied).due(records)
    forecast(plan, set(records), copied)
    spread_of(copied)

    assert sorted(read) == sorted(records)


def test_the_progress_counts_the_runs_that_are_due_and_ends_complete(tmp_path: Path) -> None:
    plan = adaptive_plan()
    out = StringIO()
    with SweepProgress(Console(file=StringIO()), log=out) as progress:
        observe = progress(due_plan(plan, tmp_path), set())
        supervise(plan, tmp_path, in_memory(small_workers(plan)), observe, summarise, at_once())
    lines = out.getvalue().splitlines()

    assert "0 of 9 runs recorded" in lines[0]
    assert "24 of 24 runs recorded" in lines[-1]


def due_plan(plan: Plan, results: Path) -> Plan:
    """The part of a plan that is due before the first run."""
    return Selection(frozenset(due_runs(plan, results, {}))).alone(plan)


def test_runs_that_are_not_due_are_not_missing_after_a_merge(tmp_path: Path) -> None:
    plan = adaptive_plan()
    write_plan(plan, tmp_path / "one")
    go(plan, tmp_path / "one")

    assert merge(tmp_path / "both", [tmp_path / "one"]).missing == 0


def test_shards_are_refused_because_they_do_not_know_each_others_results() -> None:
    with pytest.raises(OwltError, match="a shard does not know the results of the others"):
        parse_shard("1/2").runs(adaptive_plan())


def written(directory: Path, text: str) -> Path:
    path = directory / "sweep.yaml"
    path.write_text(SWEEP.format(text))
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{at_least: 6, at_most: 6, until_interval_percent: 5}", "at_most: got 6, expected more than 6"),
        ("{at_least: 6, at_most: 40}", "'until' and 'until_interval_percent' are missing, expected one of them"),
        ("{at_least: 1, at_most: 40, until_interval_percent: 5}", "repetitions.at_least: got 1"),
        ("{at_least: 6, at_most: 40, until_interval_percent: 0}", "repetitions.until_interval_percent: got 0"),
        ("{at_least: 6, at_most: 40, until: 5}", "repetitions.until: got 5, expected one of decided"),
        ("many", "a whole number from 1 to 10000, or {at_least: 6"),
    ],
)
def test_a_rule_without_sense_is_refused_with_its_key(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ProfileError) as refused:
        load_sweep(written(tmp_path, text))

    assert words in str(refused.value)


def test_a_baseline_needs_a_fixed_number_of_repetitions(tmp_path: Path) -> None:
    text = "{at_least: 6, at_most: 40, until_interval_percent: 5}\nbaseline: {every: 10, implementations: cfdp}"

    with pytest.raises(ProfileError, match="baseline: needs a number of runs that is known before"):
        load_sweep(written(tmp_path, text))
