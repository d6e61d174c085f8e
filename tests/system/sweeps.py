"""Sweeps as a user runs them: a file, the `owlt` command, a results directory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
BUILDS = Path(__file__).parent / "builds"


def owlt(*arguments: object, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
    """The command, run to its end."""
    command = [str(Path(sys.executable).parent / "owlt"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=PROJECT)


def sweep_file(directory: Path, **changes: object) -> Path:
    """A small sweep: one build, 100 kB, 25 ms, no errors, once; written as JSON, which is YAML."""
    sweep: dict[str, Any] = {
        "name": "small",
        "seed": 11,
        "implementations": ["cfdp"],
        "file_size": "100 kB",
        "rate": "10 Mbit/s",
        "delay": "25 ms",
        "packet_error_rate": 0,
    }
    path = directory / "sweep.yaml"
    path.write_text(json.dumps(sweep | changes))
    return path


def perform(directory: Path, results: Path, **changes: object) -> subprocess.CompletedProcess[str]:
    """Write a sweep and run it, without a report."""
    return owlt("run", sweep_file(directory, **changes), "--results", results, "--no-report")


def records(results: Path) -> dict[str, dict[str, Any]]:
    """Every record of a results directory by run id."""
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(results.glob("runs/*/record.json"))}
