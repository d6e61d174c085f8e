"""Performs the sweeps of the validation, and writes the page: python -m tests.validation [--for DURATION] [--judge].

With `--shards N --guests 1`, N guests perform a sweep in real time side by side: they wait most of the time.

Runs that have a record are not repeated, so it resumes where it stopped. Exit status: 0 if no statement failed,
1 if one did, 2 if a sweep could not be performed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.validation.lab_rig import perform_on_lab_rig
from tests.validation.page import counts_text, make_page

PROJECT = Path(__file__).parents[2]
PROFILES = PROJECT / "profiles" / "validation"
SWEEPS = ("custody", "rounds", "padhye", "clocks-exact", "clocks-skip", "clocks-real", "clocks-lab")
IN_REAL_TIME = ("clocks-real", "clocks-lab")
"""They take as long as their transfers, and come last."""
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
    parser.add_argument("--shards", type=int, default=1, help="shards of a sweep in real time, performed side by side")
    parser.add_argument("--judge", action="store_true", help="judge the results that exist, and perform nothing")
    given = parser.parse_args(arguments)
    results = given.results.resolve()
    limit = ["--for", given.duration] if given.duration else []
    guests = ["--guests", given.guests] if given.guests else []
    for name in () if given.judge else given.sweep or SWEEPS:
        options = limit if name == "clocks-lab" else [*limit, *guests]  # a lab rig is one guest
        if name in IN_REAL_TIME and given.shards > 1:
            status = perform_in_shards(name, results / name, given.shards, options)
        else:
            status = perform(name, results / name, options)
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


def perform(name: str, results: Path, options: Sequence[str]) -> int:
    """Perform the runs of a sweep that are missing; return the exit status of `owlt run`."""
    sweep = PROFILES / f"{name}.yaml"
    if name == "clocks-lab":
        return perform_on_lab_rig(sweep, results, options)
    command = [OWLT, "run", sweep, "--results", results, "--no-report", *options]
    return subprocess.run(command, check=False, cwd=PROJECT).returncode


def perform_in_shards(name: str, results: Path, shards: int, options: Sequence[str]) -> int:
    """Perform a sweep as shards side by side, and merge their results.

    Returns the first exit status that means missing runs, or that of `owlt merge`.
    """
    places = [results.with_name(f"{results.name}-{number}") for number in range(1, shards + 1)]

    def perform_shard(number: int) -> int:
        return perform(name, places[number - 1], [*options, "--shard", f"{number}/{shards}"])

    with ThreadPoolExecutor(shards) as at_once:
        statuses = list(at_once.map(perform_shard, range(1, shards + 1)))
    if failed := [status for status in statuses if status not in RECORDED]:
        return failed[0]
    return subprocess.run([OWLT, "merge", results, *places, "--no-report"], check=False, cwd=PROJECT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
