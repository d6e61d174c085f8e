"""What a report of 5,760 runs costs: CPU time by part, what a browser loads first, and when it shows it.

The records are derived from the main paper's grid, with a certificate for each channel and assertions. The time on two
idle cores follows from the CPU time of the process that makes the page and of those that draw the figures, so that
other work on the machine counts little.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from owlt.inputs.sweep import Sweep
from owlt.orchestrator.sweep.report import make_checked_report
from owlt.reports.comparison.stopping import load_due_results
from owlt.reports.results.rows import run_rows
from tests.bench.sweep import GRID
from tests.chromium import CHROMIUM, DESKTOP, MISSING, browser
from tests.unit.reports.conftest import RELIABLE_CHECK, plan_of, sweep_of, write_certificates, write_results

ASSERTIONS = [{"measure": "delivered", "at_least": 1}, {"measure": "goodput", "at_least": 0.5, "of": "capacity"}]
CORES = 2
LIMIT_S, FIRST_VIEW_S, FIRST_VIEW_BYTES = 30.0, 2.0, 3_000_000
LOADED = """
(() => {
  const entries = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
  const paint = performance.getEntriesByName('first-contentful-paint')[0];
  return {paint_ms: paint.startTime, ready_ms: entries[0].domContentLoadedEventEnd,
          files: entries.slice(1).map((entry) => entry.name)};
})()
"""


def main() -> int:
    """Print all figures. Exit status 1 if one is over its limit."""
    with tempfile.TemporaryDirectory(prefix="owlt-bench-") as name:
        results = Path(name, "results")
        asked = derived_sweep()
        write_results(results, asked)
        write_certificates(results, asked, RELIABLE_CHECK)
        print(f"report: {len(plan_of(asked).runs):,} runs derived from {GRID.stem}", flush=True)
        began, loaded = os.times(), load_due_results(results)
        read, _ = os.times(), run_rows(loaded)
        rows = os.times()
        print(f"  records read {read.user - began.user:.1f} s, table of runs {rows.user - read.user:.1f} s of CPU time")
        first_s, page = timed_report(results, "made from nothing")
        timed_report(results, "made again")
        folder_bytes = sum(path.stat().st_size for path in page.parent.rglob("*") if path.is_file())
        print(f"  page {page.stat().st_size / 1e6:.2f} MB, all files of the report {folder_bytes / 1e6:.0f} MB")
        is_quick = first_view(page, Path(name))
    verdict = "within" if first_s <= LIMIT_S else "OVER"
    print(f"report: {first_s:.1f} s on {CORES} idle cores, {verdict} {LIMIT_S:g} s")
    return int(first_s > LIMIT_S or not is_quick)


def derived_sweep() -> Sweep:
    """The grid with assertions."""
    return sweep_of(GRID, assertions=ASSERTIONS)


def timed_report(results: Path, what: str) -> tuple[float, Path]:
    """Make a report, and print its CPU time by process. Returns how long it takes on idle cores, and its page."""
    before, began_s = os.times(), time.perf_counter()
    page, _ = make_checked_report(results)
    after, wall_s = os.times(), time.perf_counter() - began_s
    own_s = after.user + after.system - before.user - before.system
    others_s = after.children_user + after.children_system - before.children_user - before.children_system
    idle_s = own_s + others_s / CORES
    print(
        f"  {what}: {wall_s:.1f} s; CPU time {own_s:.1f} s, and {others_s:.1f} s in processes that draw figures: "
        f"{idle_s:.1f} s on {CORES} idle cores",
        flush=True,
    )
    return idle_s, page


def first_view(page: Path, directory: Path) -> bool:
    """Print what chromium loads at first, and when it shows it. Returns whether both are within their limits."""
    if CHROMIUM is None:
        print(f"  {MISSING}")
        return True
    with browser(directory / "chromium") as new_page:
        tab = new_page()
        tab.look(DESKTOP)
        tab.open("about:blank")
        tab.open(page.as_uri())
        loaded = tab.evaluate(LOADED)
        files = [page, *(Path(name.removeprefix("file://")) for name in loaded["files"])]
        loaded_bytes = sum(path.stat().st_size for path in files if path.exists())
        print(
            f"  chromium: first paint {loaded['paint_ms'] / 1000:.2f} s, page ready {loaded['ready_ms'] / 1000:.2f} s, "
            f"{loaded_bytes / 1e6:.2f} MB in {len(files)} files; console: {tab.messages or 'nothing'}"
        )
    return loaded["paint_ms"] / 1000 <= FIRST_VIEW_S and loaded_bytes <= FIRST_VIEW_BYTES and not tab.messages
