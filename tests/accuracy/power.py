"""`make power`: whether certificates catch channels that are just as wrong as they are said to catch.

20 wrong channels, each off by a factor of 1.5 (a rate or delay by 0.1 %), and 20 right ones, certified again and again,
each time with another seed: in guests, with real netem, and more often with simulated packets (`simulated`), where the
same code chooses the samples and judges them. A rate is never simulated.

python -m tests.accuracy.power [--real SEEDS] [--simulated SEEDS] [OUT_DIRECTORY]. Exit status 1: fewer of the wrong
ones were caught than is likely if 99 % are, or more of the right ones failed than is likely if one in 1,000 does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from owlt.emulator.certification.certificate import Certificate
from owlt.emulator.certification.intervals import POWER, at_most
from owlt.emulator.channel.spec import ChannelSpec
from tests.accuracy.__main__ import in_guest
from tests.accuracy.simulated import certified

ALPHA = 0.001
"""With what probability at most a right channel fails."""
UNLIKELY = 0.001
"""A count that would be rarer than this fails the run."""
BUDGET_S = 50_000.0
GE = {"model": "gilbert_elliott", "mean_rate": 0.05, "burst_packets": 4}
FOUR = {"model": "four_state", "p13": 0.01, "p31": 0.3, "p32": 0.3, "p23": 0.5, "p14": 0.01}
LATE = {"keeps_order": False, "delay": "20 ms"}

Link = dict[str, Any]


@dataclass(frozen=True)
class Pair:
    """A link as asked for, and another that is to be caught in its place."""

    name: str
    asked: Link
    wrong: Link

    @property
    def can_be_simulated(self) -> bool:
        """A rate and a queue cannot."""
        return "rate" not in self.asked


def per(rate: float, effect: str = "flip") -> Link:
    """A packet error rate."""
    return {"packet_error_rate": rate, "error_effect": effect} if rate else {}


def ber(rate: float, effect: str = "flip") -> Link:
    """A bit error rate."""
    return {"bit_error_rate": rate, "error_effect": effect}


def bursts(**changes: float) -> Link:
    """Losses in bursts, with changes."""
    return {"loss": GE | changes}


PAIRS = [
    Pair("PER 0.1, more", per(0.1), per(0.15)),
    Pair("PER 0.1, less", per(0.1), per(0.1 / 1.5)),
    Pair("PER 0.01, more", per(0.01), per(0.015)),
    Pair("PER 0.01, less", per(0.01), per(0.01 / 1.5)),
    Pair("PER 0.05 dropped, more", per(0.05, "drop"), per(0.075, "drop")),
    Pair("PER 0.05 dropped, less", per(0.05, "drop"), per(0.05 / 1.5, "drop")),
    Pair("PER 0.01 dropped, none", per(0.01, "drop"), {}),
    Pair("BER 1e-4, more", ber(1e-4), ber(1.5e-4)),
    Pair("BER 1e-5, less", ber(1e-5), ber(1e-5 / 1.5)),
    Pair("BER 1e-5 dropped, more", ber(1e-5, "drop"), ber(1.5e-5, "drop")),
    Pair("BER 1e-4 dropped, less", ber(1e-4, "drop"), ber(1e-4 / 1.5, "drop")),
    Pair("bursts, more lost", bursts(), bursts(mean_rate=0.075)),
    Pair("bursts, less lost", bursts(), bursts(mean_rate=0.05 / 1.5)),
    Pair("bursts, longer", bursts(), bursts(burst_packets=6)),
    Pair("bursts, shorter", bursts(), bursts(burst_packets=4 / 1.5)),
    Pair("four states, more lost", {"loss": FOUR}, {"loss": FOUR | {"p13": 0.0155, "p14": 0.0155}}),
    Pair("duplicates, less", {"duplication_rate": 0.05}, {"duplication_rate": 0.05 / 1.5}),
    Pair(
        "reordering, more",
        LATE | {"reordering": {"rate": 0.05, "by": "5 ms"}},
        LATE | {"reordering": {"rate": 0.075, "by": "5 ms"}},
    ),
    Pair("rate, 0.1 % more", {"rate": "10 Mbit/s"}, {"rate": "10.01 Mbit/s"}),
    Pair("delay, 0.1 % less", {"delay": "25 ms"}, {"delay": "24.975 ms"}),
]


@dataclass(frozen=True)
class Tally:
    """How often a pair was certified and failed, as wrong and as right."""

    wrong: Counter[str]
    wrong_failed: Counter[str]
    right_failed: Counter[str]


def really(seeds: int) -> Tally:
    """In guests, a guest for each seed and half of the pairs."""
    tasks = [(seed, half) for seed in range(1, seeds + 1) for half in (PAIRS[::2], PAIRS[1::2])]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return _tally(pool.map(lambda task: _in_a_guest(*task), tasks))


def _in_a_guest(seed: int, pairs: list[Pair]) -> list[tuple[str, bool, bool]]:
    asked = [
        {
            "name": pair.name,
            "channel": {"forward": pair.asked},
            "truth": {"forward": link | {"seed": 1000 * seed + number}},
            "options": {"budget_s": BUDGET_S},
        }
        for number, pair in enumerate(pairs)
        for link in (pair.wrong, pair.asked)
    ]
    told = in_guest(json.dumps(asked), str(ALPHA))
    failed = [Certificate.from_wire(line["certificate"]).verdict == "failed" for line in told]
    return [(pair.name, failed[2 * place], failed[2 * place + 1]) for place, pair in enumerate(pairs)]


def simulated(seeds: int) -> Tally:
    """In this process and others like it."""
    pairs = [pair for pair in PAIRS if pair.can_be_simulated]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return _tally(pool.map(_simulated, pairs, [seeds] * len(pairs)))


def _simulated(pair: Pair, seeds: int) -> list[tuple[str, bool, bool]]:
    asked, wrong = (ChannelSpec.from_wire({"forward": link}) for link in (pair.asked, pair.wrong))
    return [
        (pair.name, *(_fails(asked, truth, 2 * seed + number) for number, truth in enumerate((wrong, asked))))
        for seed in range(seeds)
    ]


def _fails(asked: ChannelSpec, truth: ChannelSpec, seed: int) -> bool:
    return any(check.verdict == "failed" for check in certified(asked, truth, seed, ALPHA, BUDGET_S))


def _tally(batches: Any) -> Tally:
    tally = Tally(Counter(), Counter(), Counter())
    for batch in batches:
        for name, wrong_failed, right_failed in batch:
            tally.wrong[name] += 1
            tally.wrong_failed[name] += wrong_failed
            tally.right_failed[name] += right_failed
    return tally


def judged(what: str, tally: Tally) -> bool:
    """Print a line a pair and one for all; whether so many caught, and so few failed, are likely as stated."""
    print(f"{what:12} {'pair':28} {'seeds':>6} {'wrong: caught':>14} {'right: failed':>14}")
    good = True
    for pair in PAIRS:
        count = tally.wrong[pair.name]
        caught, failed = tally.wrong_failed[pair.name], tally.right_failed[pair.name]
        unlikely = at_most(caught, count, POWER) < UNLIKELY or 1 - at_most(failed - 1, count, ALPHA) < UNLIKELY
        good &= not unlikely
        mark = "" if count else "  not simulated"
        print(f"{'':12} {pair.name:28} {count:>6} {caught:>14} {failed:>14}{mark}{'  <-- UNLIKELY' * unlikely}")
    count, caught, failed = (sum(each.values()) for each in (tally.wrong, tally.wrong_failed, tally.right_failed))
    unlikely = at_most(caught, count, POWER) < UNLIKELY or 1 - at_most(failed - 1, count, ALPHA) < UNLIKELY
    print(
        f"power, {what}: {caught} of {count} certificates of wrong channels failed (99 % are to), "
        f"{failed} of {count} of right ones (0.1 % may){'  <-- UNLIKELY' * unlikely}"
    )
    return good and not unlikely


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--real", type=int, default=5, help="seeds in guests, with real netem")
    parser.add_argument("--simulated", type=int, default=100, help="seeds with simulated packets")
    parser.add_argument("out", type=Path, nargs="?", default=Path("results/accuracy"))
    options = parser.parse_args()
    good, found = True, {}
    for what, measure, seeds in (("simulated", simulated, options.simulated), ("real netem", really, options.real)):
        if not seeds:
            continue
        began_s = time.monotonic()
        tally = measure(seeds)
        good &= judged(what, tally)
        print(f"{what}: {time.monotonic() - began_s:.0f} s", flush=True)
        found[what] = {"seeds": tally.wrong, "caught": tally.wrong_failed, "false alarms": tally.right_failed}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "power.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
