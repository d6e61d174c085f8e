"""One netem queueing discipline in the kernel's own units, and what a probability is in them.

How it is sent to the kernel is left to `netem_messages`.
"""

from dataclasses import dataclass, fields

_DRAWS = 2**32


@dataclass(frozen=True)
class Netem:
    """The settings of a netem that this project uses; see tc-netem(8).

    `extras` names what a netem found in the kernel does beyond them (jitter, loss, ...); we ask for none.
    """

    limit_packets: int
    delay_ns: int = 0
    rate_bytes_per_s: int = 0
    corrupt_threshold: int = 0
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


def differences(wanted: Netem, found: Netem) -> list[str]:
    """Return where a netem read back differs from the one sent; a seed that nobody asked for may be anything."""
    return [
        f"{field.name}: got {getattr(found, field.name)}, wanted {getattr(wanted, field.name)}"
        for field in fields(Netem)
        if getattr(found, field.name) != getattr(wanted, field.name)
        and not (field.name == "seed" and wanted.seed is None)
    ]
