"""Fuzzes every decoder and every engine for a share of the time; ends with one line that counts it all.

python -m tests.fuzz [--seconds N] [--seed N] [--out DIRECTORY] [NAME...]. Exit status 1: there were findings, and the
inputs are below DIRECTORY; each is run again alone by `python -m tests.fuzz --again FILE NAME`.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.examining import arm, examine
from tests.fuzz.one import TARGETS

_PROGRESS = re.compile(r"cov: (\d+) ft: (\d+)")
_COUNTS = re.compile(r"(?:number_of_executed_units: |^done )(\d+)")
SPARE_S = 120
"""For imports, for instrumenting them, and for an input that computes for as long as it may."""


@dataclass
class Outcome:
    """What fuzzing one target came to. Without atheris there is no coverage to tell of."""

    name: str
    seconds: float
    executions: int = 0
    coverage: str = "-"
    findings: list[str] = field(default_factory=list)

    def row(self) -> str:
        """Of the table."""
        per_s = self.executions / self.seconds if self.seconds else 0.0
        return f"{self.name:26} {self.executions:>10} {per_s:>9.0f} {self.coverage:>12} {len(self.findings):>8}"


def main(names: list[str], seconds: float, seed: int, directory: Path) -> int:
    """Fuzz targets one after the other, print the table, return the exit status."""
    guided = importlib.util.find_spec("atheris") is not None
    print(f"{'target':26} {'executions':>10} {'a second':>9} {'cov/features':>12} {'findings':>8}")
    outcomes = []
    for name in names:
        outcomes.append(fuzzed(name, seconds / len(names), seed, directory))
        print("\n".join([outcomes[-1].row(), *outcomes[-1].findings]), flush=True)
    executions = sum(outcome.executions for outcome in outcomes)
    findings = sum(len(outcome.findings) for outcome in outcomes)
    by = "guided by coverage (atheris)" if guided else "by chance (atheris is not installed)"
    print(f"fuzzed {len(names)} targets {by}, seed {seed}: {executions} executions, {findings} findings")
    return 1 if findings else 0


def fuzzed(name: str, seconds: float, seed: int, directory: Path) -> Outcome:
    """Fuzz one target in a process of its own. One that dies is a finding too."""
    command = [sys.executable, "-m", "tests.fuzz.one", name, str(seconds), str(seed), str(directory)]
    begin_s = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds + SPARE_S, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(name, seconds, findings=["  it did not end"])
    outcome = Outcome(name, min(seconds, time.monotonic() - begin_s))
    said = (done.stdout + done.stderr).decode(errors="backslashreplace").splitlines()
    for line in said:
        if line.startswith("finding "):
            outcome.findings.append(f"  {line}")
        if found := _PROGRESS.search(line):
            outcome.coverage = f"{found[1]}/{found[2]}"
        if found := _COUNTS.search(line):
            outcome.executions = int(found[1])
    if done.returncode:
        outcome.findings.append(f"  ended with {done.returncode}: {' | '.join(said[-3:])}")
    return outcome


def again(file: Path, name: str) -> int:
    """Run one input that was kept, and tell its story."""
    arm()
    finding = examine(TARGETS[name](), file.read_bytes())
    print(finding.story if finding else "read, or refused as it should be")
    return 1 if finding else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.fuzz", description="hostile bytes for every decoder and engine")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *TARGETS], help="which (all)")
    parser.add_argument("--seconds", type=float, default=600, help="in all (600)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/fuzz"), help="where inputs of findings go")
    parser.add_argument("--again", type=Path, metavar="FILE", help="run this input of a finding, and nothing else")
    return parser


if __name__ == "__main__":
    chosen = _parser().parse_args()
    if chosen.again:
        sys.exit(again(chosen.again, chosen.names[0]))
    sys.exit(main(chosen.names or list(TARGETS), chosen.seconds, chosen.seed, chosen.out))
