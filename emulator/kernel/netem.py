"""One netem queueing discipline in the kernel's own units, and what a probability is in them.

How it is sent to the kernel belongs to `netem_messages`; what a jitter is in its table, to `delay_tables`.
"""

from dataclasses import dataclass, fields

_DRAWS = 2**32
ALWAYS = _DRAWS - 1
"""The threshold that every draw meets."""
NO_RATE_BYTES_PER_S = 10**15
"""A rate at which no packet takes a nanosecond: it limits nothing, but with a rate netem keeps packets in order."""


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
    does not show the table: read back it is empty. `extras` names what a netem found in the kernel does beyond all
    this (slots, correlations, ...); we ask for none.
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
