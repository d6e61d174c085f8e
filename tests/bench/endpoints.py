"""How fast every build that is here carries 100 MB over an unrestricted link: the main paper's baseline.

On the local rig and the real clock: a plain bridge between two gigabit cards, both captures running, and every program
of the run on this machine's own cores. So the figures are this machine's; what holds elsewhere is a build's share of
the ceiling, a blast of UDP that is measured first and last. Each build runs alone, on a rig of its own.
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

from agents.contract import Implementation, Parameter, TimeLimit
from captures.summary import CaptureSummary
from orchestrator.campaign import perform_plan
from orchestrator.catalogue import find_implementation, implementation_files
from orchestrator.doctor import lacks_for
from orchestrator.errors import OwltError
from orchestrator.plan import plan_sweep
from orchestrator.record import Outcome, RunRecord, read_record
from orchestrator.sweep import Sweep
from tests.bench.endpoints_figure import Bar, draw

CEILING = "udp-blast"
FILE_BYTES = 100_000_000
SMALLER = {"cfdp-librecube": 2_000_000}
"""Builds whose time grows with the square of the file."""

LEFT_OUT = ("ion-acs", "ion-ltp")
"""They pace themselves by a contact's rate, in steps of a second, and need one."""

TOLD = dict.fromkeys(("normcast", "nrl-norm", "udpcast"), "1 Gbit/s")
"""Builds that do nothing, or end by a signal, when they are told no rate: they are told the card's."""

PARAMETERS: dict[str, dict[str, Parameter]] = {"socat": {"congestion_control": "reno"}}
"""A namespace may set what the kernel lets everyone use; it always lets everyone use reno."""

RUN_LIMIT_S = 30
TIME_IS_OVER = "not begun: the bench's time was over"
BENCH_LIMIT_S = 300
"""No build is begun later than this."""

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
    """What became of one build."""

    build: Implementation
    record: RunRecord | None = None
    summary: CaptureSummary | None = None
    why_not: str = ""

    @property
    def file_bytes(self) -> int:
        """100 MB, or as much as the build carries."""
        return file_bytes_for(self.build)

    @property
    def whole_bps(self) -> float:
        """Goodput until the file was whole; 0 where it never was."""
        completed = self.record is not None and self.record.outcome is Outcome.COMPLETED
        return (self.summary.goodput_until_whole_bps or 0.0) if completed and self.summary else 0.0

    @property
    def session_bps(self) -> float:
        """Goodput over the whole session."""
        return (self.summary.goodput_bps or 0.0) if self.whole_bps and self.summary else 0.0

    @property
    def told(self) -> str:
        """The outcome, and why it is not a good one."""
        if self.record is None:
            return self.why_not
        suspect = [*self.record.suspect, *(self.summary.suspect if self.summary else ())]
        return ": ".join(filter(None, [self.record.outcome, self.record.reason, "; ".join(suspect)]))

    @property
    def is_bad(self) -> bool:
        """It ran, and carried no file, or its figures are suspect."""
        return self.record is not None and self.told != Outcome.COMPLETED


def main() -> int:
    """Print a table and draw it. Exit status 1 when a build that ran carried no file, or its figures are suspect."""
    if os.geteuid() != 0:
        sys.exit("bench: endpoints run on the local rig, which needs root")
    builds = [find_implementation(path.stem) for path in implementation_files()]
    here = {build.name: build for build in builds if build.name not in LEFT_OUT and not lacks_for(build)}
    ceiling = here.pop(CEILING)
    print(f"endpoints: {FILE_BYTES // 10**6} MB, no rate, delay or errors; load {os.getloadavg()[0]:.1f}", flush=True)
    end_s = time.monotonic() + BENCH_LIMIT_S
    with tempfile.TemporaryDirectory(prefix="owlt-bench-") as directory:
        before = performed(ceiling, Path(directory, "before"))
        results = [
            performed(build, Path(directory)) if time.monotonic() < end_s else Result(build, why_not=TIME_IS_OVER)
            for build in here.values()
        ]
        after = performed(ceiling, Path(directory, "after"))
    ceiling_bps = max(before.whole_bps, after.whole_bps)
    if not ceiling_bps:
        sys.exit(f"bench: there is no ceiling: {CEILING} {before.told}")
    ranked = sorted([before, *results], key=lambda result: result.whole_bps, reverse=True)
    for line in table(ranked, ceiling_bps):
        print(line)
    print(f"  not here: {', '.join(build.name for build in builds if lacks_for(build)) or 'none'}")
    OUT.mkdir(parents=True, exist_ok=True)
    draw([_bar(result) for result in ranked if result.record], ceiling_bps / 1e6, OUT / "endpoints.svg")
    print(f"figure: {OUT / 'endpoints.svg'}")
    bad = [result.build.name for result in [before, *results, after] if result.is_bad]
    carried, fastest = sum(result.whole_bps > 0 for result in ranked), ranked[0]
    print(
        f"endpoints: {carried} of {len(ranked)} builds carried their file, the fastest was {fastest.build.name} with "
        f"{fastest.whole_bps / 1e6:.0f} Mbit/s; the ceiling was {before.whole_bps / 1e6:.0f} before and "
        f"{after.whole_bps / 1e6:.0f} after; not as wanted: {', '.join(bad) or 'none'}"
    )
    return int(bool(bad))


def performed(build: Implementation, directory: Path) -> Result:
    """One run of a build, alone on the machine but for what else it does."""
    if "real" not in build.clocks:
        return Result(build, why_not="does not work on the real clock")
    file_bytes = file_bytes_for(build)
    bounded = build.with_parameters(PARAMETERS.get(build.name, {})).model_copy(
        update={"time_limit": TimeLimit(rtts=0, file_times=0, extra_s=RUN_LIMIT_S)}
    )
    results = directory / build.name
    try:
        perform_plan(
            plan_sweep(sweep_of(bounded, file_bytes), {build.name: bounded}, {}),
            results,
            None,
            lambda _plan, _done: lambda _event: None,
            "make bench PART=endpoints",
        )
    except OwltError as problem:
        return Result(build, why_not=str(problem))
    (run,) = (results / "runs").iterdir()
    summary = run / "summary.json"
    result = Result(
        build,
        read_record(run),
        CaptureSummary.model_validate_json(summary.read_text()) if summary.exists() else None,
    )
    print(f"  {build.name:15} {result.whole_bps / 1e6:7.1f} Mbit/s  {result.told}", flush=True)
    return result


def file_bytes_for(build: Implementation) -> int:
    """100 MB, or as much as the build carries."""
    largest = build.limits.largest_file_bytes or FILE_BYTES
    return min(FILE_BYTES, largest, SMALLER.get(build.name, FILE_BYTES))


def sweep_of(build: Implementation, file_bytes: int) -> Sweep:
    """One run over a plain bridge."""
    told: dict[str, Any] = {build.name: {"rate": TOLD[build.name]}} if build.name in TOLD else {}
    return Sweep.model_validate(
        {
            "name": "bench-endpoints",
            "seed": 1,
            "rig": "local",
            "clock": "real",
            "certify": False,
            "implementations": [build.name],
            "file_size": f"{file_bytes} B",
            "rate": "unlimited",
            "delay": "0 s",
            "packet_error_rate": 0,
            "keep_captures": "none",
            "told": told,
        }
    )


def table(ranked: list[Result], ceiling_bps: float) -> Iterator[str]:
    """A line a build, the fastest first; packets are those of its sender for each 1000 bytes of the file."""
    yield f"  {'':15} {'file':>6} {'until whole':>12} {'session':>8} {'of the':>8} {'packets':>8}  the paper,"
    yield f"  {'build':15} {'MB':>6} {'Mbit/s':>12} {'Mbit/s':>8} {'ceiling':>8} {'a kB':>8}  {'Mbit/s':22} outcome"
    for result in ranked:
        packets = result.summary.str_sent / (result.file_bytes / 1000) if result.whole_bps and result.summary else 0.0
        figures = (
            f"{result.whole_bps / 1e6:12.1f} {result.session_bps / 1e6:8.1f} {result.whole_bps / ceiling_bps:8.0%} "
            f"{packets:8.2f}"
            if result.whole_bps
            else f"{'-':>12} {'-':>8} {'-':>8} {'-':>8}"
        )
        name, paper = result.build.name, PAPER.get(result.build.protocol, "-")
        yield f"  {name:15} {result.file_bytes / 1e6:6.0f} {figures}  {paper:22} {result.told}"


def _bar(result: Result) -> Bar:
    own = "{python}" in result.build.sender.command
    size = "" if result.file_bytes == FILE_BYTES else f"{result.file_bytes / 1e6:g} MB"
    note = size if result.whole_bps else str(result.record.outcome if result.record else "").replace("_", " ")
    return Bar(result.build.title, result.whole_bps / 1e6, own=own, note=note)
