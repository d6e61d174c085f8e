"""What the dashboard costs: 10,000 cells in it and in chromium, and 50 open pages beside a sweep, as ratios."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from orchestrator.dashboard.pages.app import POLL_S
from orchestrator.dashboard.pages.snapshots import TAG
from orchestrator.planning.plan import Run
from tests.chromium import CHROMIUM, MISSING, browser
from tests.unit.reports.conftest import plan_of, sweep, write_results, write_run

OWLT = str(Path(sys.executable).parent / "owlt")
PAGES = 50
LIMIT = 0.05
"""The largest share of a sweep's processor time that 50 pages may cost."""
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


def ten_thousand_cells(directory: Path) -> None:
    """Print how long 10,000 cells take to be shown and to be updated."""
    runs = plan_of(TEN_THOUSAND).runs
    last = runs[-1]
    results = write_results(directory / "cells", TEN_THOUSAND, skip=lambda run: run.run_id == last.run_id)
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
        in_chromium(page, results, directory, last)


def in_chromium(url: str, results: Path, directory: Path, last: Run) -> None:
    """Print how long a browser takes to show the page, and to show one more run."""
    if CHROMIUM is None:
        print(f"  {MISSING}")
        return
    with browser(directory / "chromium") as new_page:
        page = new_page()
        began_s = time.perf_counter()
        page.open(url)
        shown_s = time.perf_counter() - began_s
        key_s = page.evaluate(
            "new Promise(done => { const began = performance.now(); document.querySelector('.matrix-frame').scrollTop ="
            " 20000; requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began))); })"
        )
        write_run(results / "runs" / last.run_id, last, TEN_THOUSAND)
        began_s = time.perf_counter()
        page.wait_for(
            "document.querySelector('#live').textContent.includes('the sweep is complete') || "
            "/10.000 of 10.000/.test(document.querySelector('#live').textContent)",
            deadline_s=60,
        )
        updated_s = time.perf_counter() - began_s
        print(f"  chromium: shown after {shown_s:.2f} s, scrolled in {key_s:.0f} ms, a new run after {updated_s:.1f} s")
        print(f"  console: {page.messages or 'nothing'}")


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


def fifty_pages(directory: Path) -> float:
    """Print what 50 pages cost a sweep. Returns the dashboard's share of the sweep's processor time."""
    sweep_file = directory / "watched.yaml"
    sweep_file.write_text(SWEEP)
    alone_s = [perform(sweep_file, directory / "alone-1")[0]]
    wall_s, of_sweep_s, of_dashboard_s = watched(sweep_file, directory / "1")
    again_s, of_sweep_again_s, of_dashboard_again_s = watched(sweep_file, directory / "2")
    alone_s.append(perform(sweep_file, directory / "alone-2")[0])
    share = (of_dashboard_s + of_dashboard_again_s) / (of_sweep_s + of_sweep_again_s)
    slower = (wall_s + again_s) / sum(alone_s) - 1
    print(f"  sweep alone {alone_s[0]:.1f} and {alone_s[1]:.1f} s, with {PAGES} pages {wall_s:.1f} and {again_s:.1f} s")
    print(f"  wall time {100 * slower:+.1f} %; processor time {of_dashboard_s:.2f} and {of_dashboard_again_s:.2f} s")
    return share


def main() -> int:
    """Print the tables and the summary. Exit status 1 if 50 pages cost more than the limit."""
    with tempfile.TemporaryDirectory(prefix="owlt-bench-") as temporary:
        print("10,000 cells:")
        ten_thousand_cells(Path(temporary))
        print(f"{PAGES} open pages:")
        share = fifty_pages(Path(temporary))
    verdict = "within" if share <= LIMIT else "OVER"
    print(f"dashboard: {PAGES} pages cost {100 * share:.1f} % of a sweep's processor time, {verdict} {100 * LIMIT:g} %")
    return int(share > LIMIT)
