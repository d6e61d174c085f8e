"""What the dashboard costs: 10,000 cells in it and in chromium, and 50 open pages beside a sweep, as ratios.

Three limits are judged: how long a new run takes to appear among 10,000 cells, and how much processor time and wall
time 50 open pages cost a sweep. The latter is a median of pairs: the same sweep alone and with pages, in turn.
"""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from owlt.orchestrator.dashboard.app import POLL_S
from owlt.orchestrator.dashboard.sweep_pages import TAG
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.run.events import RunPublished
from owlt.orchestrator.sweep.journal import open_journal
from owlt.results.record import Outcome
from tests.chromium import CHROMIUM, MISSING, browser
from tests.unit.reports.conftest import plan_of, sweep, write_results, write_run

OWLT = str(Path(sys.executable).parent / "owlt")
PAGES = 50
LIMIT = 0.05
"""The largest share of a sweep's processor time, and of its wall time, that 50 pages may cost."""
PAIRS = 5
APPEARS_AFTER_S = 2 * POLL_S
"""The latest that a run may appear among 10,000 cells: two polls."""
NEW_RUNS = 5
WATCHED_S = 30.0
TEN_THOUSAND = sweep(
    implementations=["cfdp", "ltp", "norm", "saratoga"],
    file_size=[f"{number} kB" for number in range(1, 26)],
    delay=[f"{number} ms" for number in range(1, 11)],
    packet_error_rate=[number / 1000 for number in range(10)],
    repetitions=1,
)
SWEEP = """\
name: watched
seed: 1
clock: exact
implementations: [cfdp, ltp, norm, saratoga]
file_size: [100 kB, 1 MB]
rate: 10 Mbit/s
delay: [25 ms, 1250 ms]
packet_error_rate: [0, 0.01]
repetitions: 2
certify: false
"""


@contextmanager
def dashboard(results: Path) -> Iterator[tuple[str, int]]:
    """A dashboard of a directory: its address and its process."""
    with subprocess.Popen(
        [OWLT, "dashboard", str(results), "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address
        yield address[0], server.pid
        server.terminate()


def cpu_s(pid: int) -> float:
    """The processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    """The memory that a process has now."""
    match = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(match[1]) / 1000 if match else 0.0


def answer_s(url: str, headers: dict[str, str]) -> tuple[float, http.client.HTTPResponse, bytes]:
    """How long an answer takes, and the answer."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    began_s = time.perf_counter()
    connection.request("GET", f"{parts.path}", headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return time.perf_counter() - began_s, answer, body


def ten_thousand_cells(directory: Path) -> float | None:
    """Print how long 10,000 cells take to be shown and to be updated. Returns the median time until a new run appears;
    None without chromium."""
    new = plan_of(TEN_THOUSAND).runs[-NEW_RUNS:]
    skipped = {run.run_id for run in new}
    results = write_results(directory / "cells", TEN_THOUSAND, skip=lambda run: run.run_id in skipped)
    with dashboard(results) as (url, pid):
        page = f"{url}sweeps/cells/"
        first_s, _, _ = answer_s(page, {})
        began_s = time.perf_counter()
        while b"reading:" in answer_s(f"{page}", {})[2]:
            time.sleep(0.1)
        print(f"  first answer {first_s:.2f} s, all records read {first_s + time.perf_counter() - began_s:.1f} s")
        page_s, _, body = answer_s(page, {})
        tag = re.search(rb'hx-ptag="([^"]+)"', body)
        assert tag
        _, live, _ = answer_s(f"{page}changes", {TAG: tag[1].decode()})
        poll_s, same, _ = answer_s(f"{page}changes", {TAG: live.headers[TAG]})
        print(
            f"  page {page_s:.3f} s, {len(body) / 1e6:.1f} MB; poll without news {1000 * poll_s:.1f} ms ({same.status})"
        )
        print(f"  memory {memory_mb(pid):.0f} MB")
        return in_chromium(page, results, directory, new, pid)


def publish(results: Path, run: Run) -> None:
    """Record a run as a sweep does: one rename, then an entry in the journal."""
    write_run(results / "draft", run, TEN_THOUSAND)
    (results / "draft").rename(results / "runs" / run.run_id)
    event = RunPublished(run_id=run.run_id, outcome=Outcome.COMPLETED)
    with open_journal(results, lambda entry: None) as journal:
        journal.note(0, event)


def in_chromium(url: str, results: Path, directory: Path, new: Sequence[Run], pid: int) -> float | None:
    """Print how long a browser takes to show the page and each new run. Returns the median of the latter."""
    if CHROMIUM is None:
        print(f"  {MISSING}")
        return None
    with browser(directory / "chromium") as new_page:
        page = new_page()
        began_s = time.perf_counter()
        page.open(url)
        shown_s = time.perf_counter() - began_s
        key_s = page.evaluate(
            "new Promise(done => { const began = performance.now(); document.querySelector('.matrix-frame').scrollTop ="
            " 20000; requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began))); })"
        )
        print(f"  chromium: shown after {shown_s:.2f} s, scrolled in {key_s:.0f} ms")
        before_s, began_s = cpu_s(pid), time.perf_counter()
        time.sleep(WATCHED_S)
        share = (cpu_s(pid) - before_s) / (time.perf_counter() - began_s)
        print(f"  server while the page is open: {100 * share:.1f} % of a processor")
        appeared_s = []
        for number, run in enumerate(new, start=1):
            recorded = 10_000 - len(new) + number
            publish(results, run)
            began_s = time.perf_counter()
            digits = "document.querySelector('#live').textContent.replace(/(\\d)\\D(?=\\d{3})/g, '$1')"
            page.wait_for(f"{digits}.includes('{recorded} of 10000')", deadline_s=60)
            appeared_s.append(time.perf_counter() - began_s)
        print(f"  a new run after {', '.join(f'{each:.1f}' for each in appeared_s)} s")
        print(f"  console: {page.messages or 'nothing'}")
    return median(appeared_s)


def poll(url: str, ended: threading.Event, after_s: float) -> None:
    """Do as an open page does."""
    tag = ""
    ended.wait(after_s)
    while not ended.is_set():
        try:
            if not tag:
                match = re.search(rb'hx-ptag="([^"]+)"', answer_s(url, {})[2])
                tag = match[1].decode() if match else ""
            else:
                _, answer, _ = answer_s(f"{url}changes", {"HX-Request": "true", TAG: tag})
                tag = answer.headers.get(TAG, "" if "HX-Refresh" in answer.headers else tag)
        except OSError:
            pass
        ended.wait(POLL_S)


def perform(sweep_file: Path, results: Path) -> tuple[float, float]:
    """Wall and processor time of a sweep."""
    began_s, before = time.perf_counter(), os.times()
    subprocess.run([OWLT, "-q", "run", str(sweep_file), "--results", str(results), "--no-report"], check=True)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began_s, cpu


def watched(sweep_file: Path, directory: Path) -> tuple[float, float, float]:
    """Wall and processor time of a sweep with 50 open pages, and the processor time of the dashboard."""
    (directory / "watched").mkdir(parents=True)
    with dashboard(directory / "watched") as (url, pid):
        ended = threading.Event()
        pages = [
            threading.Thread(target=poll, args=(f"{url}sweeps/watched/", ended, number * POLL_S / PAGES))
            for number in range(PAGES)
        ]
        before_s = cpu_s(pid)
        for page in pages:
            page.start()
        wall_s, of_sweep_s = perform(sweep_file, directory / "watched")
        of_dashboard_s = cpu_s(pid) - before_s
        ended.set()
        for page in pages:
            page.join()
    return wall_s, of_sweep_s, of_dashboard_s


def fifty_pages(directory: Path) -> tuple[float, float]:
    """Print what 50 pages cost a sweep. Returns medians of pairs: the dashboard's share of the sweep's processor time,
    and by how much longer the sweep takes."""
    sweep_file = directory / "watched.yaml"
    sweep_file.write_text(SWEEP)
    perform(sweep_file, directory / "warm")
    shares, slower = [], []
    for pair in range(PAIRS):
        alone, beside = directory / f"alone-{pair}", directory / f"beside-{pair}"
        if pair % 2:
            wall_s, of_sweep_s, of_dashboard_s = watched(sweep_file, beside)
            alone_s, _ = perform(sweep_file, alone)
        else:
            alone_s, _ = perform(sweep_file, alone)
            wall_s, of_sweep_s, of_dashboard_s = watched(sweep_file, beside)
        shares.append(of_dashboard_s / of_sweep_s)
        slower.append(wall_s / alone_s - 1)
        print(
            f"  sweep alone {alone_s:.1f} s, with {PAGES} pages {wall_s:.1f} s ({100 * slower[-1]:+.1f} %); "
            f"processor time {of_sweep_s:.1f} s and {of_dashboard_s:.2f} s"
        )
    return median(shares), median(slower)


def main() -> int:
    """Print the tables and the summary. Exit status 1 if a limit is exceeded."""
    with tempfile.TemporaryDirectory(prefix="owlt-bench-") as temporary:
        print("10,000 cells:")
        appears_s = ten_thousand_cells(Path(temporary))
        print(f"{PAGES} open pages, {PAIRS} pairs:")
        share, slower = fifty_pages(Path(temporary))
    verdicts = [
        (f"{PAGES} pages cost {100 * share:.1f} % of a sweep's processor time", share <= LIMIT, f"{100 * LIMIT:g} %"),
        (f"{PAGES} pages make it {100 * slower:+.1f} % longer", slower <= LIMIT, f"{100 * LIMIT:g} %"),
    ]
    if appears_s is not None:
        appeared = f"a new run of 10,000 appears after {appears_s:.1f} s"
        verdicts.append((appeared, appears_s <= APPEARS_AFTER_S, f"{APPEARS_AFTER_S:g} s"))
    for text, is_within, limit in verdicts:
        print(f"dashboard: {text}, {'within' if is_within else 'OVER'} {limit}")
    return int(not all(is_within for _, is_within, _ in verdicts))
