"""What a run of the demo sweep costs on one core, and where the wall time goes."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections import defaultdict
from pathlib import Path

from owlt.orchestrator.profiles.catalogue import PROFILES, resolve
from owlt.orchestrator.sweep.campaign import Start, perform_plan

PARTS = {
    "boot": "boot",
    "connect": "connect",
    "stage": "launch",
    "configure": "launch",
    "capture": "capture",
    "launch": "launch",
    "transfer": "transfer",
    "stop": "capture",
    "fetch": "capture",
    "done": "record",
    "end": "connect",
}
"""The part of a run's cost that the time after each event belongs to."""

LIMIT_S = 2.0


def wall_by_part(journal: Path) -> dict[str, float]:
    """Seconds of wall time by part, summed over all runs, from a journal that one worker at a time wrote."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    events = [line for line in lines if line["batch"] is not None]  # the others are of the sweep and of the analysis
    spent: dict[str, float] = defaultdict(float)
    for event, after in itertools.pairwise(events):
        name = event["phase"] if event["event"] == "phase" else event["event"]
        spent[PARTS.get(name, "launch")] += after["at_s"] - event["at_s"]
    return dict(spent)


def main() -> int:
    """Run the demo in one guest at a time. Exit status 1 when a run costs more than the limit on the mean."""
    with tempfile.TemporaryDirectory(prefix="owlt-bench-") as directory:
        results = Path(directory, "demo")
        plan = resolve(PROFILES / "sweeps" / "demo.yaml")
        start = Start(plan, results, "the same command", guests=1)
        perform_plan(start, lambda _plan, _done: lambda _event: None)
        spent = wall_by_part(results / "journal.jsonl")
        runs = sum(1 for _ in (results / "runs").iterdir())
    mean_s = sum(spent.values()) / runs
    for part in ("boot", "connect", "launch", "transfer", "capture", "record"):
        print(f"  {part:9} {spent[part] / runs:6.3f} s a run  {100 * spent[part] / sum(spent.values()):4.0f} %")
    verdict = "within" if mean_s <= LIMIT_S else "OVER"
    print(f"demo: {runs} runs on one core, {mean_s:.2f} s of wall time a run, {verdict} {LIMIT_S:g} s")
    return int(mean_s > LIMIT_S)
