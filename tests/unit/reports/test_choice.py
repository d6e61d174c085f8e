"""The choice in a cell, held against situations whose answer a statistician wrote down, and against simulated sweeps.

The table was written before the rule. `values(centre, percent, n)` are n runs at the quantiles of a log-normal
distribution, so that every situation is the same in each test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from owlt.reports.answer.answer import answer_of
from owlt.reports.answer.cell_verdicts import Verdict, verdicts
from owlt.reports.comparison.cells import CRITERIA, GOODPUT, Cell, Criterion, Point, Sample
from owlt.reports.comparison.choice import DEFAULT_RULE, ERROR, Contestant, Rule, Standpoint, choose, ratios
from owlt.reports.comparison.estimates import levels
from tests.unit.reports.conftest import measured_row

Runs = Sequence[float | None]
"""The values of the runs of an implementation; None: the file was not delivered."""
PACKETS_BACK, TIME_TO_DELIVERY = (
    next(each for each in CRITERIA if each.slug == slug) for slug in ("rts", "time-to-delivery")
)


def values(centre: float, percent: float, n: int) -> list[float]:
    quantiles = stats.norm.ppf((np.arange(n) + 0.5) / n)
    return [float(centre * np.exp(percent / 100 * each)) for each in quantiles]


def failed(number: int) -> list[None]:
    return [None] * number


@dataclass(frozen=True)
class Situation:
    """`take`: shown to be the best, or within the margin of it. `open`: not decided. All others are excluded."""

    name: str
    runs: Mapping[str, Runs]
    take: str = ""
    open: str = ""
    margin: float = 0.01
    criterion: Criterion = GOODPUT
    has_chance: bool = True
    """Whether the channel has random errors; without, identical runs are all that there is."""


def same(*names: str, runs: Runs) -> dict[str, Runs]:
    return dict.fromkeys(names, runs)


TEN, THIRTY = 10, 30
SITUATIONS = (
    # One is better
    Situation("one far ahead", {"a": values(1, 1, TEN), "b": values(0.7, 1, TEN)}, take="a"),
    Situation("1.5 % ahead, narrow", {"a": values(1, 0.05, TEN), "b": values(0.985, 0.05, TEN)}, take="a"),
    Situation("30 % ahead, wide", {"a": values(1, 20, TEN), "b": values(0.7, 20, TEN)}, take="a"),
    Situation("20 % ahead, wide, many runs", {"a": values(1, 20, THIRTY), "b": values(0.8, 20, THIRTY)}, take="a"),
    Situation("one run as rule, the other wide and far", {"a": [1.0] * TEN, "b": values(0.5, 20, TEN)}, take="a"),
    Situation(
        "one after the other", {"a": values(1, 1, TEN), "b": values(0.9, 1, TEN), "c": values(0.8, 1, TEN)}, take="a"
    ),
    Situation(
        "ten, one of them best", {"a": values(1, 1, 12), **same(*"bcdefghij", runs=values(0.8, 1, 12))}, take="a"
    ),
    Situation(
        "two levels apart, the runs at a level differ by microseconds, one run of the better at the lower level",
        {
            "a": [0.946, 1.365, *[1.366] * 7, *[1.367] * 4, 1.368],
            "b": [*[0.939] * 8, *[0.94] * 6],
            **same(*"cdefghi", runs=values(0.307, 0.04, 14)),
        },
        take="a",
        margin=0.05,
    ),
    # Ties
    Situation("the same runs", same("a", "b", runs=values(1, 0.5, THIRTY)), take="ab"),
    Situation(
        "Mars, 1 MB: the medians differ by 0.04 %",
        {"cfdp": [2773.30] * TEN, "ltp": [2772.25] * TEN, "saratoga": [2773.38] * TEN},
        take="cfdp ltp saratoga",
        has_chance=False,
    ),
    Situation(
        "Mars with a spread of 0.001 %: a significant difference that nobody notices",
        {"cfdp": values(2773.3, 0.001, TEN), "ltp": values(2772.25, 0.001, TEN)},
        take="cfdp ltp",
    ),
    Situation("half a percent apart, narrow", {"a": values(1, 0.05, TEN), "b": values(0.995, 0.05, TEN)}, take="ab"),
    Situation(
        "two tie and one is far",
        {"a": values(1, 0.1, TEN), "b": values(0.999, 0.1, TEN), "c": values(0.5, 0.1, TEN)},
        take="ab",
    ),
    Situation("ten tie", same(*"abcdefghij", runs=values(1, 0.2, THIRTY)), take="abcdefghij"),
    Situation("all four tie", same(*"abcd", runs=values(2, 0.1, TEN)), take="abcd"),
    # Near-ties
    Situation(
        "one percent apart, on the margin: the better one is safe, the other is not shown to be as good",
        {"a": values(1, 0.1, TEN), "b": values(0.99, 0.1, TEN)},
        take="a",
        open="b",
    ),
    Situation("5 % apart, wide", {"a": values(1, 20, TEN), "b": values(0.95, 20, TEN)}, open="ab"),
    Situation("5 % apart, wide, 30 runs", {"a": values(1, 20, THIRTY), "b": values(0.95, 20, THIRTY)}, open="ab"),
    Situation(
        "two near each other, one far",
        {"a": values(1, 5, TEN), "b": values(0.98, 5, TEN), "c": values(0.5, 5, TEN)},
        open="ab",
    ),
    Situation("same median, one of them wide", {"a": [1.0] * TEN, "b": values(1, 20, TEN)}, open="ab"),
    Situation(
        "wide, tied with one that excludes a third",
        {"a": values(1, 40, TEN), "b": values(1, 0.5, TEN), "c": values(0.9, 0.5, TEN)},
        open="ab",
    ),
    # Few runs
    Situation("one run of each", {"a": [1.0], "b": [0.1]}, open="ab"),
    Situation("two runs of each", {"a": [1.0, 1.1], "b": [0.1, 0.11]}, open="ab"),
    Situation("391 times as much after two runs", {"a": [391.0, 390.0], "b": [1.0, 1.0]}, open="ab"),
    Situation("three runs of each", {"a": values(1, 1, 3), "b": values(0.7, 1, 3)}, open="ab"),
    Situation("four runs of each of two", {"a": values(1, 1, 4), "b": values(0.7, 1, 4)}, open="ab"),
    Situation("five runs of each of two", {"a": values(1, 1, 5), "b": values(0.7, 1, 5)}, open="ab"),
    Situation("six runs of each of two", {"a": values(1, 1, 6), "b": values(0.7, 1, 6)}, take="a"),
    Situation("six of each of three", {"a": values(1, 1, 6), **same("b", "c", runs=values(0.7, 1, 6))}, open="abc"),
    Situation("seven of each of three", {"a": values(1, 1, 7), **same("b", "c", runs=values(0.7, 1, 7))}, take="a"),
    Situation("nine of each of six", {"a": values(1, 1, 9), **same(*"bcdef", runs=values(0.7, 1, 9))}, open="abcdef"),
    Situation("ten of each of six", {"a": values(1, 1, TEN), **same(*"bcdef", runs=values(0.7, 1, TEN))}, take="a"),
    Situation("20 runs against 6", {"a": values(1, 1, 20), "b": values(0.5, 1, 6)}, take="a"),
    Situation("20 runs against 2", {"a": values(1, 1, 20), "b": values(0.5, 1, 2)}, open="ab"),
    # Deterministic cells
    Situation("no errors, identical runs, two of each", {"a": [1.0] * 2, "b": [0.9] * 2}, take="a", has_chance=False),
    Situation("no errors, 0.5 % apart", {"a": [1.0] * 2, "b": [0.995] * 2}, take="ab", has_chance=False),
    Situation("no errors, one run of each", {"a": [1.0], "b": [0.9]}, open="ab", has_chance=False),
    Situation("identical runs of a channel with errors", {"a": [1.0] * 2, "b": [0.9] * 2}, open="ab"),
    Situation("identical ten times in spite of errors", {"a": [1.0] * TEN, "b": [0.9] * TEN}, take="a"),
    # Quantised values and rare slow runs
    Situation(
        "rounds: 6 of 10 in the first against 4 of 10",
        {"a": [1.0] * 6 + [0.83] * 4, "b": [1.0] * 4 + [0.83] * 6},
        open="ab",
    ),
    Situation(
        "rounds: 8 of 10 in the first against 2 of 10: shown not to be worse, but not by how much it is better",
        {"a": [1.0] * 8 + [0.83] * 2, "b": [1.0] * 2 + [0.83] * 8},
        take="a",
        open="b",
    ),
    Situation(
        "rounds: 27 of 30 in the first against 3 of 30",
        {"a": [1.0] * 27 + [0.83] * 3, "b": [1.0] * 3 + [0.83] * 27},
        take="a",
    ),
    Situation("one slow run in ten", {"a": [1.0] * 9 + [0.4], "b": [1.0] * TEN}, open="ab"),
    # Failures
    Situation("one delivers nothing", {"a": values(1, 1, TEN), "b": failed(TEN)}, take="a"),
    Situation("none delivers anything", {"a": failed(TEN), "b": failed(TEN)}),
    Situation(
        "one delivers half of its files", {"a": values(1, 1, TEN), "b": [*values(2, 1, 5), *failed(5)]}, take="a"
    ),
    Situation("one delivers none of two files", {"a": [1.0, 1.1], "b": failed(2)}, open="a"),
    Situation(
        "as fast, but 2 of 10 not delivered",
        {"a": values(1, 0.1, TEN), "b": [*values(1, 0.1, 8), *failed(2)]},
        take="a",
        open="b",
    ),
    Situation("both as fast, both fail 3 of 30", same("a", "b", runs=[*values(1, 0.1, 27), *failed(3)]), take="ab"),
    Situation(
        "30 % faster, 1 of 10 not delivered",
        {"a": values(1, 1, TEN), "b": [*values(1.3, 1, 9), *failed(1)]},
        take="b",
    ),
    Situation(
        "30 % faster when it delivers, 4 of 10 not delivered",
        {"a": values(1, 1, TEN), "b": [*values(1.3, 1, 6), *failed(4)]},
        open="ab",
    ),
    # Margins
    Situation("3 % apart, margin 5 %", {"a": values(1, 0.1, TEN), "b": values(0.97, 0.1, TEN)}, "ab", margin=0.05),
    Situation("3 % apart, margin 1 %", {"a": values(1, 0.1, TEN), "b": values(0.97, 0.1, TEN)}, "a"),
    Situation("no margin: any difference", {"a": values(1, 0.01, TEN), "b": values(0.999, 0.01, TEN)}, "a", margin=0),
    Situation("no margin: identical", same("a", "b", runs=[1.0] * TEN), "ab", margin=0),
    # Other criteria
    Situation("fewest packets", {"a": [9.0] * TEN, "b": [2.0] * TEN}, "b", criterion=PACKETS_BACK),
    Situation("no packets at all against some", {"a": [0.0] * TEN, "b": [12.0] * TEN}, "a", criterion=PACKETS_BACK),
    Situation("no packets at all, both", {"a": [0.0] * TEN, "b": [0.0] * TEN}, "ab", criterion=PACKETS_BACK),
    Situation(
        "time: half a percent apart",
        {"a": values(1, 0.05, TEN), "b": values(0.995, 0.05, TEN)},
        "ab",
        criterion=TIME_TO_DELIVERY,
    ),
    Situation("time: 30 % apart", {"a": values(1, 1, TEN), "b": values(0.7, 1, TEN)}, "a", criterion=TIME_TO_DELIVERY),
)


def row(value: float | None, criterion: Criterion, has_chance: bool, seed: int) -> dict[str, Any]:
    channel = {"forward_packet_error_rate": 0.01 if has_chance else 0.0}
    if criterion == PACKETS_BACK:
        return measured_row(1.0, seed, rts_sent=value, **channel)
    return measured_row(value, seed, **channel)


def verdict_of(
    runs: Mapping[str, Runs], criterion: Criterion = GOODPUT, margin: float = 0.01, has_chance: bool = True
) -> Verdict:
    samples = {
        name: Sample(tuple(row(value, criterion, has_chance, seed) for seed, value in enumerate(of_name)))
        for name, of_name in runs.items()
    }
    (verdict,) = verdicts([Cell(Point("", 1e6, 10**9, 10**6, 0.01), samples)], criterion, Rule(margin))
    return verdict


def names_in(text: str) -> set[str]:
    """The names in a text: "ab" are two of one letter."""
    return set(text.split() if " " in text else text)


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.name)
def test_the_choice_is_that_of_the_table(situation: Situation) -> None:
    verdict = verdict_of(situation.runs, situation.criterion, situation.margin, situation.has_chance)

    assert (set(verdict.leaders), set(verdict.undecided)) == (names_in(situation.take), names_in(situation.open))


def test_the_table_has_at_least_forty_situations_with_names_of_their_own() -> None:
    assert len({each.name for each in SITUATIONS}) == len(SITUATIONS) >= 40


# Simulated sweeps


@dataclass(frozen=True)
class Shape:
    """A distribution of the logarithm of a value, with the median 0."""

    name: str
    draw: Callable[[np.random.Generator, int], NDArray[np.float64]]


SHAPES = (
    Shape("no spread", lambda rng, n: np.zeros(n)),
    Shape("1 %", lambda rng, n: rng.normal(0, 0.01, n)),
    Shape("20 %", lambda rng, n: rng.normal(0, 0.2, n)),
    Shape("to one side", lambda rng, n: (np.log(2) - rng.exponential(1, n)) * 0.15),
    Shape("rounds", lambda rng, n: -np.log1p(rng.binomial(3, 0.3, n) / 5)),
    Shape(
        "two levels and microseconds",
        lambda rng, n: np.where(rng.random(n) < 0.2, -0.37, 0.0) + rng.normal(0, 0.0003, n),
    ),
    Shape("rare slow runs", lambda rng, n: np.where(rng.random(n) < 0.15, -0.9, 0.0)),
)
RATIOS = (1.0, 1.0, 0.995, 0.98, 0.95, 0.8, 0.6)
SWEEPS = 2000


def is_wrong(positions: Mapping[str, str], behind: Mapping[str, float]) -> bool:
    """Whether any statement about a cell is wrong; `behind`: the true ratio to the best of the others."""
    edge = 1 - DEFAULT_RULE.margin
    return any(
        (position == "take" and behind[name] < edge - 1e-4) or (position == "excluded" and behind[name] > edge + 1e-4)
        for name, position in positions.items()
    )


def wrong_cells(
    shapes: Sequence[Shape], choose_in: Callable[..., Mapping[str, Standpoint]], seed: int
) -> tuple[int, int]:
    """The numbers of simulated cells in which something is wrong, and in which something may be taken."""
    rng = np.random.default_rng(seed)
    large = {shape: shape.draw(rng, 2001) for shape in shapes}
    typical = {
        (one, other): float(np.median(np.subtract.outer(large[one], large[other])))
        for one, other in product(shapes, repeat=2)
    }
    wrong = decided = 0
    for _ in range(SWEEPS):
        names = "abcde"[: rng.integers(2, 6)]
        n = int(rng.choice([5, 6, 8, 10, 20]))
        truth = {name: (shapes[rng.integers(len(shapes))], np.log(rng.choice(RATIOS))) for name in names}
        runs = {name: np.exp(shape.draw(rng, n) + centre) for name, (shape, centre) in truth.items()}
        best = max(names, key=lambda name: np.median(runs[name]))
        contestants = {name: Contestant(each, is_at_levels=bool(levels(each.tolist()))) for name, each in runs.items()}
        found = choose_in(contestants, best, DEFAULT_RULE)
        behind = {
            name: min(
                float(np.exp(own[1] - other[1] + typical[own[0], other[0]]))
                for rival, other in truth.items()
                if rival != name
            )
            for name, own in truth.items()
        }
        wrong += is_wrong({name: each.position for name, each in found.items()}, behind)
        decided += any(each.position == "take" for each in found.values())
    return wrong, decided


def most_wrong(sweeps: int) -> int:
    """The most wrong cells that a probability of 5 % gives in all but one of 1,000 tests."""
    return int(stats.binom.ppf(0.999, sweeps, 0.05))


def test_at_most_five_percent_of_the_choices_in_simulated_sweeps_are_wrong() -> None:
    wrong, decided = wrong_cells(SHAPES, choose, seed=30)

    assert wrong <= most_wrong(SWEEPS)
    assert decided > SWEEPS / 8


@pytest.mark.parametrize(
    ("spreads", "n"),
    [((1.0, 1.0), 10), ((0.0, 0.2), 15), ((0.01, 0.2), 20), ((1.0, 1.0, 1.0, 1.0), 20), ((0.2, 0.2, 0.2), 10)],
    ids=str,
)
def test_of_equal_implementations_at_most_five_percent_are_excluded(spreads: tuple[float, ...], n: int) -> None:
    """The worst case: spreads far wider than the margin, equal or not, and no difference."""
    rng = np.random.default_rng(n)
    sweeps = 1000
    wrong = 0
    for _ in range(sweeps):
        runs = {str(place): np.exp(rng.normal(0, spread, n)) for place, spread in enumerate(spreads)}
        found = choose({name: Contestant(each) for name, each in runs.items()}, "0", DEFAULT_RULE)
        wrong += any(each.position == "excluded" for each in found.values())

    assert 0 < wrong <= most_wrong(sweeps)


def test_of_implementations_that_beat_each_other_in_a_circle_none_is_to_be_taken_and_not_all_are_excluded() -> None:
    dice = {"a": [4, 4, 4, 4, 1, 1], "b": [3] * 6, "c": [6, 6, 2, 2, 2, 2], "d": [5, 5, 5, 1, 1, 1]}  # Efron's
    found = choose({name: Contestant(np.array(each * 60, float)) for name, each in dice.items()}, "a", DEFAULT_RULE)

    assert {each.position for each in found.values()} <= {"excluded", "undecided"}
    assert "undecided" in {each.position for each in found.values()}


def test_choosing_by_medians_alone_would_be_wrong_far_more_often() -> None:
    def by_median(contestants: Mapping[str, Contestant], best: str, rule: Rule) -> dict[str, Standpoint]:
        medians = {name: float(np.median(each.scores)) for name, each in contestants.items()}
        return {
            name: Standpoint(
                "take" if medians[name] >= (1 - rule.margin) * medians[best] else "excluded", 1, 1, 1, None
            )
            for name in contestants
        }

    wrong, _ = wrong_cells(SHAPES, by_median, seed=30)

    assert wrong > 4 * most_wrong(SWEEPS)


@pytest.mark.parametrize("n", [6, 10, 20])
@pytest.mark.parametrize(
    "spreads",
    [(0.2, 0.2), (0.001, 0.2), (1e-6, 3e-4)],
    ids=["equal spreads", "unequal spreads", "unequal spreads of microseconds"],
)
def test_the_interval_of_a_ratio_contains_it_with_the_stated_confidence(n: int, spreads: tuple[float, float]) -> None:
    rng = np.random.default_rng(n)
    draws = 2000
    missed = 0
    for _ in range(draws):
        one, other = (Contestant(np.exp(rng.normal(0, spread, n))) for spread in spreads)
        found, _ = ratios(one, other, ERROR / 2)
        missed += not found.low <= 1 <= found.high

    assert missed <= stats.binom.ppf(0.999, draws, ERROR)
    assert missed > 0


def test_the_p_value_belongs_to_the_bound() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        one, other = (Contestant(np.exp(rng.normal(centre, 0.2, 9))) for centre in (0, rng.choice([0, 0.2, 0.4])))
        found, _ = ratios(one, other, 0.02)

        assert (found.high < 1) == (found.p_behind is not None and found.p_behind <= 0.02)


def test_if_every_file_was_delivered_no_difference_is_seen() -> None:
    samples = {name: Sample(tuple(measured_row(1.0, seed) for seed in range(6))) for name in "ab"}
    answer = answer_of([Cell(Point("", 1e6, 10**9, 10**6, 0.01), samples)])
    assert answer is not None

    assert answer.by_criterion[-1].headline.text == "Each implementation delivered every file: no difference is seen."
