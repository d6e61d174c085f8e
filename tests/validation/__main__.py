"""Performs the sweeps of the validation, and writes the page: python -m tests.validation [--for DURATION] [--judge].

Runs that have a record are not repeated, so it resumes where it stopped. Exit status: 0 if no statement failed,
1 if one did, 2 if a sweep could not be performed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from reports.validation.page import counts_text, make_page
from tests.validation.lab_rig import perform_on_lab_rig

PROJECT = Path(__file__).parents[2]
PROFILES = PROJECT / "profiles" / "validation"
SWEEPS = ("custody", "rounds", "padhye", "clocks-exact", "clocks-skip", "clocks-real", "clocks-lab")
"""Those in virtual time first; the last two take as long as their transfers."""
OWLT = Path(sys.executable).parent / "owlt"
RECORDED = (0, 1, 3)
"""Exit statuses of `owlt run` if runs are recorded, or the time is over."""


def main(arguments: list[str]) -> int:
    """Perform what is missing, judge, print; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.validation")
    parser.add_argument("--results", type=Path, default=PROJECT / "results/validation", help="where the results are")
    parser.add_argument("--sweep", action="append", choices=SWEEPS, help="only this sweep; repeatable")
    parser.add_argument("--for", dest="duration", help="limit for each sweep, such as '1 h'")
    parser.add_argument("--guests", help="guests that run in parallel")
    parser.add_argument("--judge", action="store_true", help="judge the results that exist, and perform nothing")
    given = parser.parse_args(arguments)
    results = given.results.resolve()
    limit = ["--for", given.duration] if given.duration else []
    guests = ["--guests", given.guests] if given.guests else []
    for name in () if given.judge else given.sweep or SWEEPS:
        sweep = PROFILES / f"{name}.yaml"
        if name == "clocks-lab":
            status = perform_on_lab_rig(sweep, results / name, limit)
        else:
            status = perform(sweep, results / name, limit + guests)
        if status not in RECORDED:
            return 2
    statements = make_page(
        PROFILES / "page.md",
        [results / name for name in SWEEPS if (results / name / "plan.json").exists()],
        results / "page",
    )
    for statement in statements:
        print(f"{statement.verdict:12} {statement.states}: {statement.numbers}")
    print(f"{counts_text(statements)}; page: {results / 'page' / 'validation.md'}")
    return 1 if any(statement.verdict == "failed" for statement in statements) else 0


def perform(sweep: Path, results: Path, options: list[str]) -> int:
    """Perform the runs of a sweep that are missing; return the exit status of `owlt run`."""
    command = [OWLT, "run", sweep, "--results", results, "--no-report", *options]
    return subprocess.run(command, check=False, cwd=PROJECT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
