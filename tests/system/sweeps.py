"""Sweeps as a user runs them: a file, the `owlt` command, a results directory."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from owlt.captures.frames.columns import read_columns
from tests import commands
from tests.commands import PROJECT
from tests.load import load

IMPLEMENTATIONS = Path(__file__).parent / "implementations"


def copy_project(directory: Path) -> None:
    """The project's packages, profiles and environment in another directory, which the environment then imports."""
    linked = [path.name for path in (PROJECT / "owlt").iterdir() if path.is_symlink()]
    for part in ("owlt", *linked, ".venv"):
        shutil.copytree(PROJECT / part, directory / part, symlinks=True)
    for path in directory.glob(".venv/lib/*/site-packages/*owlt*.pth"):
        path.write_text(str(directory))


owlt = partial(commands.owlt, prepared=True)
"""The command of tests that perform runs in guests."""

RECORDED = (0, 3)
"""Exit statuses of `owlt run` if every run is recorded; 3: some did not complete, which is for a test to look at."""


def sweep_file(directory: Path, **changes: object) -> Path:
    """A small sweep: one implementation, 100 kB, once; 25 ms and no errors unless there is a channel; written as JSON,
    which is YAML."""
    sweep: dict[str, Any] = {
        "name": "small",
        "seed": 11,
        "implementations": ["cfdp"],
        "file_size": "100 kB",
    }
    if "channel" not in changes:
        sweep |= {"rate": "10 Mbit/s", "delay": "25 ms", "packet_error_rate": 0}
    path = directory / "sweep.yaml"
    path.write_text(json.dumps(sweep | changes))
    return path


def perform(directory: Path, results: Path, **changes: object) -> subprocess.CompletedProcess[str]:
    """Write a sweep and run it, without a report."""
    words = ("run", sweep_file(directory, **changes), "--results", results, "--no-report")
    return commands.owlt(*words, prepared=changes.keys().isdisjoint({"rig", "clock"}))


def records(results: Path) -> dict[str, dict[str, Any]]:
    """Every record of a results directory by run id."""
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(results.glob("runs/*/record.json"))}


LONGEST_LOAD_S = 240.0


def perform_beside_a_load(directory: Path, runs: int, **changes: object) -> subprocess.CompletedProcess[str]:
    """Perform a sweep of so many runs beside a load on all cores that ends with the last run: the analysis, which has
    the lowest priority on the real clock, would last as long as the load."""
    results = directory / "results"
    with ThreadPoolExecutor(1) as executor, load(LONGEST_LOAD_S):
        performing = executor.submit(perform, directory, results, **changes)
        while len(records(results)) < runs and not performing.done():
            time.sleep(0.1)
    return performing.result()


SAME_MOMENT_NS = 100_000
"""What repeated runs on the exact clock may differ by, a tenth of the time that a packet takes at 10 Mbit/s. A guest's
memory, and so how often its programs fault and are put off, depends on what the machine's files are like; a read of the
clock costs 256 ns there. 34 µs were seen once, in a run that began 29 µs later, beside much other work."""


def differences(run: Path, again: Path) -> list[str]:
    """In what a run that was repeated on the exact clock differs: its record, without whether it shared its beginning,
    and its packets, and their times where those differ by more than `SAME_MOMENT_NS`."""
    texts = ((directory / "record.json").read_text() for directory in (run, again))
    first, second = (json.loads(text.replace("/runs/shared-beginning/", f"/runs/{run.name}/")) for text in texts)
    found = [f"{key}: {first[key]} and {second[key]}" for key in first if not _is_same(key, first[key], second[key])]
    return found + capture_differences(run, again, SAME_MOMENT_NS)


def capture_differences(run: Path, again: Path, same_moment_ns: int) -> list[str]:
    """In what the captures of two runs differ: in their packets, or in their times by more than this."""
    found = []
    for name in ("sender.pcap", "receiver.pcap"):
        columns = read_columns(run / name), read_columns(again / name)
        frames = [np.stack([each.header_hash, each.body_hash, each.wire_bytes]) for each in columns]
        if not np.array_equal(*frames):
            found.append(f"{name}: other packets")
        elif np.abs(columns[0].time_ns - columns[1].time_ns).max(initial=0) > same_moment_ns:
            found.append(f"{name}: other times")
    return found


def _is_same(key: str, value: object, other: object) -> bool:
    if key.endswith("_at_ns") and isinstance(value, int) and isinstance(other, int):
        return abs(value - other) <= SAME_MOMENT_NS
    return value == other
