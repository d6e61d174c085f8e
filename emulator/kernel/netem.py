"""One netem queueing discipline in the kernel's own units: shares as thresholds, jitter and reordering as tables.

netem (net/sched/sch_netem.c, tabledist) adds spread x value / 8192 to the delay of each packet. The standard tables are
files of iproute2. Without a table netem draws uniformly from 2 x spread nanoseconds, in whole ns. We send a table of
our own for every distribution, so that no earlier table stays in effect and all machines use the same one. Sending a
netem to the kernel belongs to `netem_messages`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from math import sqrt
from statistics import NormalDist

from owlt.emulator.channel.link import Jitter, Reordering
from owlt.emulator.channel.text import WIDEST_TABLE_VALUE

_DRAWS = 2**32
ALWAYS = _DRAWS - 1
"""The threshold that no draw exceeds."""
NO_RATE_BYTES_PER_S = 10**15
"""A rate at which each packet takes less than 1 ns: it limits nothing, but with a rate netem keeps packets in order."""


@dataclass(frozen=True)
class GilbertElliottThresholds:
    """The two states of netem's "gemodel", as shares of 2^32."""

    to_bad: int
    to_good: int


@dataclass(frozen=True)
class FourStateThresholds:
    """The transitions of netem's "state" model, as shares of 2^32."""

    p13: int
    p31: int
    p32: int
    p14: int
    p23: int


LossThresholds = GilbertElliottThresholds | FourStateThresholds


@dataclass(frozen=True)
class Netem:
    """The settings of a netem that this project uses; see tc-netem(8).

    The delay of each packet is `delay_ns` plus `jitter_ns` times a value of the `delay_table`, in 8192ths. The kernel
    does not show the table: read back it is empty. `extras` names further effects of a netem that was read from the
    kernel (slots, correlations, ...); we set none.
    """

    limit_packets: int
    delay_ns: int = 0
    jitter_ns: int = 0
    delay_table: tuple[int, ...] = ()
    rate_bytes_per_s: int = 0
    overhead_bytes: int = 0
    corrupt_threshold: int = 0
    loss_threshold: int = 0
    loss_model: LossThresholds | None = None
    duplicate_threshold: int = 0
    seed: int | None = None
    extras: tuple[str, ...] = ()


def threshold_of(probability: float) -> int:
    """Return the 32-bit threshold for a probability.

    The kernel (net/sched/sch_netem.c) acts on a packet when a 32-bit random number is *not above* the
    threshold, so a threshold t > 0 acts on (t + 1) / 2^32 of them, and 0 on none.
    """
    return max(round(probability * _DRAWS) - 1, 0)


def probability_of(threshold: int) -> float:
    """Return the share of packets that a threshold acts on."""
    return (threshold + 1) / _DRAWS if threshold else 0.0


def transition_of(probability: float) -> int:
    """Return the threshold for a loss model's change of state: one that a random number must be *below*."""
    return min(round(probability * _DRAWS), ALWAYS)


def differences(target: Netem, actual: Netem) -> list[str]:
    """Return where a netem read back differs from the one sent.

    An unspecified seed may have any value, and a delay table cannot be read.
    """
    return [
        f"{field.name}: expected {getattr(target, field.name)}, got {getattr(actual, field.name)}"
        for field in fields(Netem)
        if getattr(actual, field.name) != getattr(target, field.name)
        and field.name != "delay_table"
        and not (field.name == "seed" and target.seed is None)
    ]


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
