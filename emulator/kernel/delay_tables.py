"""Jitter and reordering as netem knows them: a spread in ns and a table of which each value is as likely as the next.

netem (net/sched/sch_netem.c, tabledist) adds spread x value / 8192 to the delay of each packet. Its own tables are
files of iproute2's, and without one it draws uniformly from 2 x spread nanoseconds, in whole ones; a table of ours is
sent for every distribution, so that none is left over from before and all machines have the same.
"""

from functools import lru_cache
from math import sqrt
from statistics import NormalDist

from owlt.emulator.channel.impairments import Jitter, Reordering
from owlt.emulator.channel.text import WIDEST_TABLE_VALUE

ONE = 8192
"""NETEM_DIST_SCALE."""
QUANTILES = 4096
_NORMAL = NormalDist()
_PARETO_SHAPE = 3.0
_PARETO_MEAN = _PARETO_SHAPE / (_PARETO_SHAPE - 1)
_PARETO_DEVIATION = sqrt(_PARETO_SHAPE / ((_PARETO_SHAPE - 1) ** 2 * (_PARETO_SHAPE - 2)))


@lru_cache
def jitter_table(jitter: Jitter) -> tuple[int, ...]:
    """Return the table of a jitter, in rising order; its spread is `amount_ns`."""
    values = jitter.table if jitter.distribution == "table" else _quantiles(jitter.distribution)
    return tuple(sorted(round(max(-WIDEST_TABLE_VALUE, min(value, WIDEST_TABLE_VALUE)) * ONE) for value in values))


@lru_cache
def reordering_table(reordering: Reordering) -> tuple[int, ...]:
    """Return a table that adds its spread, `by_ns`, to the wanted share of packets and nothing to the others."""
    late = reordering.fraction
    return (0,) * (late.denominator - late.numerator) + (ONE,) * late.numerator


def offsets_ns(spread_ns: int, table: tuple[int, ...]) -> list[int]:
    """Return what netem adds to the delay for each value of a table, rounded as it rounds."""
    return [_rounded((spread_ns % ONE) * value) + (spread_ns // ONE) * value for value in table]


def _rounded(product: int) -> int:
    return (product + ONE // 2) // ONE if product >= 0 else -((-product + ONE // 2) // ONE)


@lru_cache
def _quantiles(distribution: str) -> tuple[float, ...]:
    shares = [(number + 0.5) / QUANTILES for number in range(QUANTILES)]
    if distribution == "uniform":
        return tuple(2 * share - 1 for share in shares)
    normal = [_NORMAL.inv_cdf(share) for share in shares]
    pareto = [((1 - share) ** (-1 / _PARETO_SHAPE) - _PARETO_MEAN) / _PARETO_DEVIATION for share in shares]
    return tuple(
        {
            "normal": normal,
            "pareto": pareto,
            "paretonormal": [0.25 * one + 0.75 * other for one, other in zip(normal, pareto, strict=True)],
        }[distribution]
    )
