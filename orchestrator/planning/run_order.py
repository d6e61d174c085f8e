"""The order of a sweep's runs: repetition by repetition, shuffled within each.

A sweep that ends early has almost the same number of runs of each permutation. The place of a run among the others is
drawn from its name, so runs that are added to a sweep do not move those that were there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from owlt.orchestrator.planning.seeds import order_seed
from owlt.orchestrator.planning.sweep import Permutation


class Place(NamedTuple):
    """What is performed at one place of the order: a repetition of a point, or the baseline again."""

    permutation: Permutation
    repetition: int
    """From 1; the runs of the baseline are counted on their own."""
    is_baseline: bool = False


def run_order(permutations: Sequence[Permutation], repetitions: int, seed: int) -> list[Place]:
    """Every permutation with every repetition number (from 1)."""
    runs = [Place(permutation, repetition) for permutation in permutations for repetition in range(1, repetitions + 1)]
    return sorted(runs, key=lambda run: (run[1], order_seed(seed, run[0].slug, run[1]), run[0].slug))


def with_baseline(order: Sequence[Place], baseline: Permutation, every: int) -> Iterator[Place]:
    """The order with a run of the baseline before the first run, after each `every` runs, and after the last."""
    for place, run in enumerate(order):
        if place % every == 0:
            yield Place(baseline, place // every + 1, is_baseline=True)
        yield run
    yield Place(baseline, -(-len(order) // every) + 1, is_baseline=True)
