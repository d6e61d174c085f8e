"""What no protocol exceeds on a channel, and the ratios of RFC 6349."""

from __future__ import annotations

BITS = 8


def greatest_goodput_bps(rate_bps: float, loss: float, payload_bytes: float, frame_bytes: float) -> float:
    """The goodput in the long run if nothing is sent without need: R (1 - p) payload / frame. Derived.

    An erasure channel passes at most the share 1 - p of what is sent.
    """
    return rate_bps * (1 - loss) * payload_bytes / frame_bytes


def least_time_s(file_bytes: float, rate_bps: float | None, delay_s: float) -> float:
    """The least time to the delivery of a file: its transmission without any header, and the one-way delay."""
    return (0.0 if rate_bps is None else BITS * file_bytes / rate_bps) + delay_s


def efficiency(sent: float, sent_again: float) -> float:
    """The share of what was sent that was not sent again: (sent - sent again) / sent (RFC 6349, section 4.2)."""
    return (sent - sent_again) / sent


def transfer_time_ratio(actual_s: float, ideal_s: float) -> float:
    """The actual over the ideal transfer time (RFC 6349, section 4.1)."""
    return actual_s / ideal_s
