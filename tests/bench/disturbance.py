"""Whether a run that the machine disturbed is marked: five implementations in guests on the clock real, beside a load
that takes all cores and on a quiet machine, against their medians on the exact clock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from owlt.captures.accounting.summary import load_summary
from owlt.orchestrator.rigs.processor_time import QUIET_SHARE, stalled_in_all_s
from owlt.results.judgements import is_disturbed
from owlt.results.recorded_runs import recorded_runs
from tests.commands import WITHOUT_PATIENCE
from tests.load import load

IMPLEMENTATIONS = ["cfdp", "ltp", "norm", "saratoga", "tcp"]
REPETITIONS = {"exact": 3, "real": 12}
FAR_OFF = 0.05
"""By so much a goodput differs from the exact clock's median where it has to be marked beside a load."""
MOST_MARKED = 0.02
"""Of the runs on a quiet machine."""
LONGEST_S = 1800.0
WATCHED_S = 5.0


@dataclass(frozen=True)
class Judged:
    """A run: by which share its goodput differs from the exact clock's, and whether it is marked as disturbed."""

    implementation: str
    off: float
    is_marked: bool


def perform(directory: Path, clock: str) -> Path:
    """Perform the sweep on a clock, each run once, as a user does. Returns its results directory."""
    sweep: dict[str, Any] = {
        "name": clock,
        "seed": 1,
        "clock": clock,
        "certify": False,
        "implementations": IMPLEMENTATIONS,
        "file_size": "100 kB",
        "rate": "10 Mbit/s",
        "delay": "25 ms",
        "packet_error_rate": 0,
        "repetitions": REPETITIONS[clock],
    }
    directory.mkdir(parents=True)
    file, results = directory / "sweep.yaml", directory / "results"
    file.write_text(json.dumps(sweep))
    command = [str(Path(sys.executable).parent / "owlt"), "run", str(file), "--results", str(results), "--no-report"]
    env = os.environ | WITHOUT_PATIENCE
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, timeout=LONGEST_S)
    return results


def goodputs(results: Path) -> dict[str, list[tuple[float, bool]]]:
    """By implementation, the goodput of each run, and whether it is marked."""
    found: dict[str, list[tuple[float, bool]]] = {name: [] for name in IMPLEMENTATIONS}
    for run in recorded_runs(results):
        record, summary = run.record, load_summary(run.directory)
        goodput_bps = summary.goodput_bps if summary and record.outcome == "completed" else None
        found[record.implementation].append((goodput_bps or 0.0, is_disturbed(record)))
    return found


def judge(results: Path, exact_bps: dict[str, float]) -> list[Judged]:
    """Every run against the exact clock's median of its implementation."""
    return [
        Judged(name, bps / exact_bps[name] - 1, is_marked)
        for name, runs in goodputs(results).items()
        for bps, is_marked in runs
    ]


def tell(where: str, judged: Iterable[Judged]) -> Counter[tuple[bool, bool]]:
    """Print how far off each run is, and the table of those that are far off and those that are marked."""
    judged = list(judged)
    for name in IMPLEMENTATIONS:
        runs = [run for run in judged if run.implementation == name]
        shown = " ".join(f"{100 * run.off:+.0f}{'*' if run.is_marked else ''}" for run in runs)
        print(f"  {where:6} {name:9} median {100 * median(run.off for run in runs):+5.1f} %: {shown}")
    table = Counter((abs(run.off) > FAR_OFF, run.is_marked) for run in judged)
    print(f"  {where:6} {'':24} marked   not marked")
    for is_off, words in ((True, f"off by more than {100 * FAR_OFF:.0f} %"), (False, "within it")):
        print(f"  {where:6} {words:24} {table[is_off, True]:6}   {table[is_off, False]:10}")
    return table


def stalled_share() -> float:
    """Which share of a while some thread on this machine waits for a processor; 1 where that is not counted."""
    before_s = stalled_in_all_s()
    time.sleep(WATCHED_S)
    after_s = stalled_in_all_s()
    return 1.0 if before_s is None or after_s is None else (after_s - before_s) / WATCHED_S


def main() -> int:
    """Exit status 1: a run beside the load is far off and not marked, or too many are marked on a quiet machine."""
    with tempfile.TemporaryDirectory(prefix="owlt-bench-") as directory:
        reference = goodputs(perform(Path(directory, "exact"), "exact"))
        exact_bps = {name: median(bps for bps, _ in runs) for name, runs in reference.items()}
        with load(LONGEST_S):
            beside_load = perform(Path(directory, "busy"), "real")
        missed = tell("busy", judge(beside_load, exact_bps))[True, False]
        stalled = [stalled_share()]
        alone = judge(perform(Path(directory, "quiet"), "real"), exact_bps)
        stalled.append(stalled_share())
        tell("quiet", alone)
    marked = sum(run.is_marked for run in alone) / len(alone)
    was_quiet = max(stalled) < QUIET_SHARE
    verdict = "within" if marked <= MOST_MARKED else "OVER"
    print(
        f"beside a load on all cores: {missed} runs off by more than {100 * FAR_OFF:.0f} %, not marked, expected none"
    )
    if was_quiet:
        print(f"on a quiet machine: {100 * marked:.1f} % of runs marked, {verdict} {100 * MOST_MARKED:.0f} %")
    else:
        other = f"threads waited {100 * max(stalled):.0f} % of the time beside the sweep"
        print(f"on a quiet machine: not judged, the machine was not quiet ({other}); {100 * marked:.1f} % were marked")
    return int(missed > 0 or (was_quiet and marked > MOST_MARKED))
