"""How fast every installed implementation carries 100 MB over an unrestricted link: the main paper's baseline.

On the local rig and the real clock: a transparent bridge between two gigabit interfaces, both captures running, and
every program of the run on this machine's cores. So the figures depend on this machine; the share of the ceiling, a
blast of UDP that is measured first and last, does not. Each implementation runs alone, on its own rig.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from owlt.agents.contract.implementation import Implementation, Parameter
from owlt.agents.contract.limits import TimeLimit
from owlt.captures.accounting.summary import CaptureSummary, load_summary
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.checks.doctor import missing_for
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import plan_sweep
from owlt.orchestrator.profiles.catalogue import find_implementation, implementation_files
from owlt.orchestrator.sweep.campaign import Start, perform_plan
from owlt.results.record import Outcome, RunRecord
from owlt.results.recorded_runs import recorded_runs
from tests.bench.endpoints_figure import Bar, draw

CEILING = "udp-blast"
FILE_BYTES = 100_000_000
SMALLER = {"cfdp-librecube": 2_000_000}
"""Implementations whose time grows with the square of the file."""

LEFT_OUT = ("ion-acs", "ion-ltp")
"""They pace themselves by a contact's rate, in steps of a second, and need one."""

ADVERTISED = dict.fromkeys(("normcast", "nrl-norm", "udpcast"), "1 Gbit/s")
"""Implementations that do nothing or crash without a rate: the rate of the interface is advertised to them."""

PARAMETERS: dict[str, dict[str, Parameter]] = {"socat": {"congestion_control": "reno"}}
"""A namespace may set what the kernel lets everyone use; it always lets everyone use reno."""

RUN_LIMIT_S = 30
TIME_IS_OVER = "not begun: the bench's time was over"
BENCH_LIMIT_S = 300
"""No implementation is started later than this."""

OUT = Path("results", "bench")

PAPER = {
    "TCP": "941 (iperf)",
    "NORM": "some 60, paced to 100",
    "Saratoga": "below 60, paced to 85",
    "CFDP": "as NORM and Saratoga",
    "LTP": "below the others",
}
"""NASA/TM-2012-216047, section 4.5 and figures 2 and 3, in Mbit/s: the figures have no numbers, the text has these."""


@dataclass(frozen=True)
class Result:
    """The result of one implementation."""

    implementation: Implementation
    record: RunRecord | None = None
    summary: CaptureSummary | None = None
    why_not: str = ""

    @property
    def file_bytes(self) -> int:
        """100 MB, or as much as the implementation carries."""
        return file_bytes_for(self.implementation)

    @property
    def delivery_bps(self) -> float:
        """Goodput until the file was whole; 0 where it never was."""
        completed = self.record is not None and self.record.outcome is Outcome.COMPLETED
        return (self.summary.goodput_to_delivery_bps or 0.0) if completed and self.summary else 0.0

    @property
    def session_bps(self) -> float:
        """Goodput over the whole session."""
        return (self.summary.goodput_bps or 0.0) if self.delivery_bps and self.summary else 0.0

    @property
    def outcome(self) -> str:
        """The outcome, and why it is not a good one."""
        if self.record is None:
            return self.why_not
        suspect = [*self.record.suspect, *(self.summary.suspect if self.summary else ())]
        return ": ".join(filter(None, [self.record.outcome, self.record.reason, "; ".join(suspect)]))

    @property
    def is_bad(self) -> bool:
        """It ran, and carried no file, or its figures are suspect."""
        return self.record is not None and self.outcome != Outcome.COMPLETED


def main() -> int:
    """Print a table and draw it. Exit status 1 if an implementation delivered no file or a figure is suspect."""
    if os.geteuid() != 0:
        sys.exit("bench: endpoints run on the local rig, which needs root")
    implementations = [find_implementation(path.stem) for path in implementation_files()]
    here = {
        implementation.name: implementation
        for implementation in implementations
        if implementation.name not in LEFT_OUT and not missing_for(implementation)
    }
    ceiling = here.pop(CEILING)
    print(f"endpoints: {FILE_BYTES // 10**6} MB, no rate, delay or errors; load {os.getloadavg()[0]:.1f}", flush=True)
    end_s = time.monotonic() + BENCH_LIMIT_S
    with tempfile.TemporaryDirectory(prefix="owlt-bench-") as directory:
        before = performed(ceiling, Path(directory, "before"))
        results = [
            performed(implementation, Path(directory))
            if time.monotonic() < end_s
            else Result(implementation, why_not=TIME_IS_OVER)
            for implementation in here.values()
        ]
        after = performed(ceiling, Path(directory, "after"))
    ceiling_bps = max(before.delivery_bps, after.delivery_bps)
    if not ceiling_bps:
        sys.exit(f"bench: there is no ceiling: {CEILING} {before.outcome}")
    ranked = sorted([before, *results], key=lambda result: result.delivery_bps, reverse=True)
    for line in table(ranked, ceiling_bps):
        print(line)
    not_here = [implementation.name for implementation in implementations if missing_for(implementation)]
    print(f"  not here: {', '.join(not_here) or 'none'}")
    OUT.mkdir(parents=True, exist_ok=True)
    draw([_bar(result) for result in ranked if result.record], ceiling_bps / 1e6, OUT / "endpoints.svg")
    print(f"figure: {OUT / 'endpoints.svg'}")
    bad = [result.implementation.name for result in [before, *results, after] if result.is_bad]
    carried, fastest = sum(result.delivery_bps > 0 for result in ranked), ranked[0]
    print(
        f"endpoints: {carried} of {len(ranked)} implementations delivered their file, the fastest was "
        f"{fastest.implementation.name} with "
        f"{fastest.delivery_bps / 1e6:.0f} Mbit/s; the ceiling was {before.delivery_bps / 1e6:.0f} before and "
        f"{after.delivery_bps / 1e6:.0f} after; not as wanted: {', '.join(bad) or 'none'}"
    )
    return int(bool(bad))


def performed(implementation: Implementation, directory: Path) -> Result:
    """One run of an implementation, alone on the machine."""
    if "real" not in implementation.clocks:
        return Result(implementation, why_not="does not work on the real clock")
    file_bytes = file_bytes_for(implementation)
    bounded = implementation.with_parameters(PARAMETERS.get(implementation.name, {})).model_copy(
        update={"time_limit": TimeLimit(rtts=0, file_times=0, extra_s=RUN_LIMIT_S)}
    )
    results = directory / implementation.name
    try:
        plan = plan_sweep(sweep_of(bounded, file_bytes), {implementation.name: bounded}, {})
        start = Start(plan, results, "make bench PART=endpoints")
        perform_plan(start, lambda _plan, _done: lambda _event: None)
    except OwltError as problem:
        return Result(implementation, why_not=str(problem))
    (run,) = recorded_runs(results)
    result = Result(
        implementation,
        run.record,
        load_summary(run.directory),
    )
    print(f"  {implementation.name:15} {result.delivery_bps / 1e6:7.1f} Mbit/s  {result.outcome}", flush=True)
    return result


def file_bytes_for(implementation: Implementation) -> int:
    """100 MB, or as much as the implementation carries."""
    largest = implementation.limits.largest_file_bytes or FILE_BYTES
    return min(FILE_BYTES, largest, SMALLER.get(implementation.name, FILE_BYTES))


def sweep_of(implementation: Implementation, file_bytes: int) -> Sweep:
    """One run over a plain bridge."""
    advertised: dict[str, Any] = (
        {implementation.name: {"rate": ADVERTISED[implementation.name]}} if implementation.name in ADVERTISED else {}
    )
    return Sweep.model_validate(
        {
            "name": "bench-endpoints",
            "seed": 1,
            "rig": "local",
            "clock": "real",
            "certify": False,
            "implementations": [implementation.name],
            "file_size": f"{file_bytes} B",
            "rate": "unlimited",
            "delay": "0 s",
            "packet_error_rate": 0,
            "keep_captures": "none",
            "advertised": advertised,
        }
    )


def table(ranked: list[Result], ceiling_bps: float) -> Iterator[str]:
    """A line an implementation, the fastest first; packets are those of its sender for each 1000 bytes of the file."""
    yield f"  {'':15} {'file':>6} {'to delivery':>12} {'session':>8} {'of the':>8} {'packets':>8}  the paper,"
    yield f"  {'name':15} {'MB':>6} {'Mbit/s':>12} {'Mbit/s':>8} {'ceiling':>8} {'a kB':>8}  {'Mbit/s':22} outcome"
    for result in ranked:
        packets = (
            result.summary.str_sent / (result.file_bytes / 1000) if result.delivery_bps and result.summary else 0.0
        )
        figures = (
            f"{result.delivery_bps / 1e6:12.1f} {result.session_bps / 1e6:8.1f} "
            f"{result.delivery_bps / ceiling_bps:8.0%} {packets:8.2f}"
            if result.delivery_bps
            else f"{'-':>12} {'-':>8} {'-':>8} {'-':>8}"
        )
        name, paper = result.implementation.name, PAPER.get(result.implementation.protocol, "-")
        yield f"  {name:15} {result.file_bytes / 1e6:6.0f} {figures}  {paper:22} {result.outcome}"


def _bar(result: Result) -> Bar:
    own = "{python}" in result.implementation.sender.command
    size = "" if result.file_bytes == FILE_BYTES else f"{result.file_bytes / 1e6:g} MB"
    note = size if result.delivery_bps else str(result.record.outcome if result.record else "").replace("_", " ")
    return Bar(result.implementation.title, result.delivery_bps / 1e6, own=own, note=note)
