"""The Bundle Protocol with custody: how long custody signals take on a slow return link."""

from __future__ import annotations

BITS = 8


def last_signal_s(delay_s: float, signals: int, signal_bytes: float, reverse_rate_bps: float) -> float:
    """When the last custody signal arrives, after the bundle was sent: 2 d + n 8 S / R_reverse. Derived.

    A sender that repeats bundles earlier repeats some without need.
    """
    return 2 * delay_s + signals * BITS * signal_bytes / reverse_rate_bps
