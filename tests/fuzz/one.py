"""One target fuzzed for a while, in a process of its own: libFuzzer neither shares one nor returns.

python -m tests.fuzz.one NAME SECONDS SEED DIRECTORY. With atheris guided by coverage, without it by chance alone.
Prints a line for each finding, whose input it puts into DIRECTORY, and one with what was done.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.changes import changed_at_random
from tests.fuzz.decoders import DECODERS
from tests.fuzz.engines import ENGINES
from tests.fuzz.examining import Target, arm, examine, scratch_directory

TARGETS = {**DECODERS, **ENGINES}
LONGEST_BYTES = 4096
LIBRARIES = ["owlt.agents", "owlt.captures", "cfdp", "cfdppy", "spacepackets", "aioquic"]
"""What coverage is looked at of."""


class Examiner:
    """Examines inputs, counts them, and writes down the first finding of each place."""

    def __init__(self, name: str, target: Target, directory: Path) -> None:
        self._name = name
        self._target = target
        self._directory = directory
        self._places: set[str] = set()
        self.executions = 0

    def __call__(self, octets: bytes) -> None:
        self.executions += 1
        finding = examine(self._target, octets)
        if finding is not None and finding.place not in self._places:
            self._places.add(finding.place)
            print(f"finding {finding.write(self._directory, self._name)} {finding.place}", flush=True)


def by_chance(target: Target, examiner: Examiner, seconds: float, seed: int) -> None:
    """Change the seeds, and those that were read once changed, at random."""
    chance, ends_s = random.Random(seed), time.monotonic() + seconds
    for octets in target.seeds:
        examiner(octets)
    while time.monotonic() < ends_s:
        octets = changed_at_random(chance.choice(target.seeds), chance)
        examiner(octets[:LONGEST_BYTES] if chance.random() < 0.9 else chance.randbytes(chance.randrange(200)))
    print(f"done {examiner.executions} executions")


def guided(make: Callable[[], Target], name: str, seconds: float, seed: int, directory: Path) -> None:
    """Let libFuzzer choose the inputs by the coverage that they add. It ends the process."""
    import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]

    with atheris.instrument_imports(include=LIBRARIES):
        target = make()
        examiner = Examiner(name, target, directory)
        for octets in target.seeds:
            examiner(octets)
    corpus = scratch_directory()
    for number, octets in enumerate(target.seeds):
        (corpus / str(number)).write_bytes(octets)
    options = {
        "max_total_time": max(1, round(seconds)),
        "seed": seed,
        "max_len": LONGEST_BYTES,
        "timeout": 60,
        "rss_limit_mb": 2048,
        "print_final_stats": 1,
    }
    directory.mkdir(parents=True, exist_ok=True)
    arguments = [f"-{option}={value}" for option, value in options.items()]
    atheris.Setup([name, *arguments, f"-artifact_prefix={directory}/{name}-", str(corpus)], examiner)
    atheris.Fuzz()


def main(name: str, seconds: float, seed: int, directory: Path) -> None:
    """Fuzz one target."""
    arm()
    try:
        import atheris  # noqa: F401
    except ImportError:
        target = TARGETS[name]()
        by_chance(target, Examiner(name, target, directory), seconds, seed)
    else:
        guided(TARGETS[name], name, seconds, seed, directory)


if __name__ == "__main__":
    os.nice(10)
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
