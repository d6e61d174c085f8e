"""What the captures of a whole campaign cost: the summaries of many runs, made, found in the cache, made again.

The runs' captures are hard links to a few distinct ones; each run has a directory and a record of its own.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from owlt.captures.accounting.summary import CAPTURES, CaptureSummary, load_summary
from owlt.orchestrator.run.analysis import analyse_runs
from owlt.results.files import PLAN_NAME
from owlt.results.record import SUMMARY, Outcome, RunRecord, write_record
from tests.bench.packets_captures import DATA_BYTES, SESSION, START_NS, STEP_NS, Fate, write_session
from tests.bench.packets_readers import Counts, Timed, timed

CAMPAIGN = 5_760
PACKETS, DISTINCT = 11_000, 5
FILE_BYTES = 9 * PACKETS // 10 * DATA_BYTES
LIMIT_S = 300
CHANGED = "run-00001"
_LAST_RECORD_BYTES = 16 + 74
"""A capture of these ends with a reply."""


@dataclass(frozen=True)
class Passes:
    """What analysing all runs took for the first time, and what was not as it should be."""

    first: Timed
    wrong: list[str]


def measure(directory: Path, runs: int, say: Callable[[str], None]) -> Passes:
    """Make the results directory and analyse it three times, as `owlt` does."""
    results = directory / "results"
    fates = make_results(directory, results, runs)
    first = analyse(results)
    say(
        f"{runs} runs of {PACKETS:,} packets a capture summarised in {first.wall_s:.1f} s, CPU {first.cpu_s:.1f} s on "
        f"{first.cores} of the CPUs: {1e3 * first.judged_s / runs:.0f} ms a run"
    )
    wrong = [
        f"{name}: {difference}"
        for name, fate in fates.items()
        for difference in differences(load_summary(results / "runs" / name), *fate)
    ]
    before = written(results)
    cached = analyse(results)
    second = written(results)
    if second != before:
        wrong.append("a second pass made summaries again, and no capture had changed")
    drop_last_packet(results / "runs" / CHANGED / "receiver.pcap")
    changed = analyse(results)
    third = written(results)
    made_again = [name for name in third if third[name] != second[name]]
    if made_again != [CHANGED]:
        wrong.append(f"a capture of {CHANGED} had changed, and made again was {', '.join(made_again) or 'nothing'}")
    say(f"again: {cached.wall_s:.2f} s from the cache; {changed.wall_s:.2f} s after one capture had changed")
    return Passes(first, wrong)


FATES = ("sent", "lost", "duplicated", "corrupted")


def make_results(directory: Path, results: Path, runs: int) -> dict[str, tuple[Fate, Fate]]:
    """A results directory of so many runs, and what became of each one's packets."""
    made = []
    for number in range(DISTINCT):
        captures = directory / f"captures-{number}"
        captures.mkdir()
        made.append((captures, write_session(captures, PACKETS, seed=10 + number)))
    (results / "runs").mkdir(parents=True)
    (results / PLAN_NAME).write_text(json.dumps({"sweep": {"keep_captures": "full"}}))
    fates = {}
    for number in range(runs):
        captures, fate = made[number % DISTINCT]
        run = results / "runs" / f"run-{number:05}"
        run.mkdir()
        for name in CAPTURES:
            os.link(captures / name, run / name)
        write_record(record(run.name, number), run)
        fates[run.name] = fate
    return fates


def record(run_id: str, number: int) -> RunRecord:
    """As a run leaves it."""
    return RunRecord(
        run_id=run_id,
        sweep="bench",
        implementation="cfdp",
        title="CFDP",
        protocol="CFDP",
        file_size_bytes=FILE_BYTES,
        delay_ns=25_000_000,
        rate_bps=None,
        packet_error_rate=0.01,
        repetition=number + 2,
        order=number,
        seed=number,
        clock="exact",
        rig="virtual",
        outcome=Outcome.COMPLETED,
        file_delivered_at_ns=START_NS + 2 * PACKETS * STEP_NS + 10**9,
        session=SESSION.model_dump(mode="json"),
    )


def analyse(results: Path) -> Timed:
    """What it takes to summarise what has no summary; where other processes do most of it, all cores are at work."""

    def read() -> Counts:
        analyse_runs(results)
        return Counts(packets=0, wire_bytes=0)

    before = os.times()
    took = timed(read, repetitions=1)
    after = os.times()
    of_children_s = sum(after[2:4]) - sum(before[2:4])
    return replace(took, cores=len(os.sched_getaffinity(0))) if of_children_s > took.cpu_s / 2 else took


def differences(summary: CaptureSummary | None, forward: Fate, reverse: Fate) -> list[str]:
    """Where a summary says otherwise than what became of the packets."""
    if summary is None:
        return ["there is no summary"]
    wanted = {
        f"{way} {name}": getattr(fate, name)
        for way, fate in (("forward", forward), ("reverse", reverse))
        for name in FATES
    }
    ledgers = {"forward": summary.ledger_forward, "reverse": summary.ledger_reverse}
    told = {f"{way} {name}": getattr(ledger, name) for way, ledger in ledgers.items() for name in FATES}
    return [f"{name} {told[name]}, expected {wanted[name]}" for name in wanted if told[name] != wanted[name]]


def written(results: Path) -> dict[str, int]:
    """When each summary was last written; a summary is replaced as a whole."""
    return {run.name: (run / SUMMARY).stat().st_mtime_ns for run in sorted((results / "runs").iterdir())}


def drop_last_packet(capture: Path) -> None:
    """Replace the capture, a link to one that others share, by its own copy without the last packet."""
    copy = capture.with_suffix(".copy")
    shutil.copyfile(capture, copy)
    os.truncate(copy, copy.stat().st_size - _LAST_RECORD_BYTES)
    copy.replace(capture)
