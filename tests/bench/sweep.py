"""What a run of the main paper's grid costs in CPU time, beside the same transfers with nothing around them.

A tenth of the grid's 5,760 runs: every tenth batch in its order, so that a tenth of the runs are first repetitions,
whose messages are read too. Bare transfers: the same programs with the same arguments, over the same channels, in one
guest, without SSH, captures, analysis and records. Certificates are not part of either: each of the 36 channels is
certified once. OWLT_BENCH_RUNS=48 performs about so many runs; then the report, which costs about the same for any
number of them, weighs more.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from owlt.orchestrator.kernel.kernel import find_kernel
from owlt.orchestrator.planning.plan import Batch, Plan
from owlt.orchestrator.profiles.catalogue import PROFILES, resolve
from owlt.orchestrator.run.analysis import analyse_runs
from owlt.orchestrator.run.events import Observe
from owlt.orchestrator.sweep.campaign import Start, perform_plan
from owlt.orchestrator.sweep.machine import ThisMachine
from owlt.orchestrator.sweep.supervisor import Workers, supervise
from owlt.reports.page.page import build_report
from owlt.results.record import Outcome, RunRecord
from owlt.results.recorded_runs import recorded_runs
from tests.bench.channel import in_guest
from tests.kills import become_reaper
from tests.system.conftest import Guest

GRID = PROFILES / "sweeps" / "grc-nack-2012.yaml"
TENTH = 576
PARTS = {
    "boot": "boot and rig",
    "connect": "boot and rig",
    "run": "stage and launch",
    "stage": "stage and launch",
    "configure": "stage and launch",
    "launch": "stage and launch",
    "capture": "captures and fetch",
    "transfer": "transfer",
    "stop": "captures and fetch",
    "fetch": "captures and fetch",
    "done": "record",
    "published": "record",
    "end": "boot and rig",
}
"""The part of a run's cost that the time after each event belongs to."""
GOAL_S, RUNS, CORES = 45 * 60, 5760, 2
LIMIT_S = math.floor(100 * CORES * GOAL_S / RUNS) / 100
"""CPU time per run, of everything: then all runs of the grid take less than 45 minutes on two cores."""
GUEST_LIMIT_S = 3600

Result = TypeVar("Result")


class WithoutAnalysis(ThisMachine):
    """This machine, whose runs are analysed afterwards, so that the analysis is measured apart."""

    def analysis_executor(self, plan: Plan) -> Executor:
        """Only for what `supervise` is given here, which does nothing."""
        return ThreadPoolExecutor(1)


def main() -> int:
    """Print CPU time per run by part, and the ratio to the bare transfers. Exit status 1 if it is over the limit."""
    kernel = find_kernel()
    if kernel is None:
        sys.exit("bench: no virtual-time kernel is cached; run 'owlt kernel build'")
    become_reaper()
    plan = sample(int(os.environ.get("OWLT_BENCH_RUNS", TENTH)))
    count = len(plan.runs)
    with tempfile.TemporaryDirectory(prefix="owlt-bench-") as name:
        results = Path(name, "results")
        print(f"sweep: {count} of the 5,760 runs of {GRID.stem}, CPU time per run", flush=True)
        sweeping_s, _ = cpu_s(partial(perform, plan, results))
        analysis_s, problems = cpu_s(partial(analyse_runs, results))
        report_s, page = cpu_s(partial(build_report, results))
        shares = shares_of(results / "journal.jsonl")
        records = [run.record for run in recorded_runs(results)]
        bare_s, arrived = cpu_s(partial(transfer_bare, Guest(Path(name), kernel), records))
        page_bytes = page.stat().st_size
        disk_bytes = sum(path.stat().st_size for path in results.rglob("*") if path.is_file())
        memory = memory_text()
    costs_s = {part: share * sweeping_s for part, share in shares.items()}
    costs_s |= {"analysis": analysis_s, "report": report_s}
    total_s = sum(costs_s.values())
    for part, part_s in [*costs_s.items(), ("together", total_s), ("bare transfers", bare_s)]:
        print(f"  {part:20} {part_s / count:6.3f} s  {part_s / bare_s:5.2f} of the bare transfers")
    outcomes = Counter(record.outcome for record in records)
    completed = outcomes[Outcome.COMPLETED]
    print(f"  outcomes: {', '.join(f'{number} {outcome}' for outcome, number in outcomes.most_common())}")
    print(f"  disk: {disk_bytes / 1e6:.0f} MB, {disk_bytes / count / 1e3:.0f} kB per run, with the report")
    print(f"  {memory}")
    print(f"  files that arrived: {completed} in the sweep, {arrived} in the bare transfers")
    print(f"  page: {page_bytes / 1e6:.1f} MB; the analysis's problems: {'; '.join(problems) or 'none'}")
    verdict = "within" if total_s / count <= LIMIT_S else "OVER"
    print(f"sweep: {total_s / count:.2f} s of CPU time per run, {verdict} {LIMIT_S:g} s")
    return int(total_s / count > LIMIT_S or bool(problems))


def sample(count: int) -> Plan:
    """The plan of the grid with about so many of its runs: batches at equal distances in its order."""
    plan = resolve(GRID)
    batches: list[Batch] = plan.batches[:: max(len(plan.runs) // count, 1)]
    sweep = plan.sweep.model_copy(update={"certify": False})
    return plan.model_copy(update={"sweep": sweep, "batches": batches, "certifications": []})


def perform(plan: Plan, results: Path) -> None:
    """Perform the runs in one guest at a time, without analysis."""

    def without_analysis(plan: Plan, results: Path, workers: Workers, observe: Observe, _analyse: object) -> None:
        supervise(plan, results, workers, observe, lambda directory: "")

    start = Start(plan, results, "", machine=WithoutAnalysis(), guests=1)
    perform_plan(start, lambda _plan, _done: lambda _event: None, without_analysis)


def cpu_s(work: Callable[[], Result]) -> tuple[float, Result]:
    """The CPU time of some work, with that of the processes that it started and waited for; and its result."""
    before_s = used_s()
    result = work()
    return used_s() - before_s, result


def used_s() -> float:
    """CPU time so far, of this process and of all that it waited for, which includes guests whose template has
    ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def memory_text() -> str:
    """The peak memory of this process and of the largest of those that it waited for, such as a guest."""
    own, child = (resource.getrusage(of).ru_maxrss * 1024 for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return f"peak memory: {own / 1e6:.0f} MB of this process, {child / 1e6:.0f} MB of the largest other"


def shares_of(journal: Path) -> dict[str, float]:
    """The share of each part in the time of one guest after the other, which is busy all the time."""
    spent: dict[str, float] = defaultdict(float)
    for part, part_s in timed_parts(journal):
        spent[part] += part_s
    return {part: spent[part] / sum(spent.values()) for part in dict.fromkeys(PARTS.values())}


def timed_parts(journal: Path) -> Iterator[tuple[str, float]]:
    """Each event's part, with the seconds of wall time to the next event."""
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    of_workers = [event for event in events if event["batch"] is not None]
    for event, after in pairwise(of_workers):
        name = event["phase"] if event["event"] == "phase" else event["event"]
        yield PARTS.get(name, "boot and rig"), after["at_s"] - event["at_s"]


def transfer_bare(guest: Guest, records: list[RunRecord]) -> int:
    """Transfer the files of these runs in one guest. Returns how many arrived."""
    runs = [
        {
            "sender": list(record.sender.command),
            "receiver": list(record.receiver.command),
            "file": argument_after("--file", list(record.sender.command)),
            "received": argument_after("--output", list(record.receiver.command)),
            "file_bytes": record.file_size_bytes,
            "channel": record.channel,
        }
        for record in records
        if record.sender.command and record.receiver.command
    ]
    (guest.out_dir / "runs.json").write_text(json.dumps(runs))
    return int(in_guest(guest, "bare.py", "/run/task/runs.json", timeout_s=GUEST_LIMIT_S)["arrived"])


def argument_after(option: str, command: list[str]) -> str:
    """The value of an option."""
    return command[command.index(option) + 1]
