"""TCP: its rate in the steady state under losses, and the time that slow start takes.

Rates are in segments per second; times in seconds; `loss` is the probability that a segment is lost.
"""

from __future__ import annotations

from math import ceil, inf, log2, sqrt

DELAYED_ACK = 2
"""Segments that one acknowledgement covers."""
CUBIC_C, CUBIC_BETA = 0.4, 0.7
"""RFC 8312, sections 5.1 and 4.5."""
INITIAL_WINDOW = 10
"""Segments (RFC 6928)."""


def mathis_rate(rtt_s: float, loss: float, segments_per_ack: int = DELAYED_ACK) -> float:
    """The rate without timeouts: C / (RTT sqrt(p)), C = sqrt(3 / 2 b).

    Mathis, Semke, Mahdavi and Ott 1997: C is sqrt(3/2) if every segment is acknowledged, sqrt(3/4) if every second.
    """
    return inf if loss == 0 or rtt_s == 0 else sqrt(3 / (2 * segments_per_ack)) / (rtt_s * sqrt(loss))


def padhye_rate(
    rtt_s: float, loss: float, timeout_s: float, window: float = inf, segments_per_ack: float = DELAYED_ACK
) -> float:
    """The rate with timeouts, of a receiver's window W.

    min(W / RTT, 1 / (RTT sqrt(2 b p / 3) + T0 min(1, 3 sqrt(3 b p / 8)) p (1 + 32 p^2))): Padhye et al. 1998, as
    equation 1 of Akan, Fang and Akyildiz 2002 has it.
    """
    limit = window / rtt_s if rtt_s else inf
    if loss == 0:
        return limit
    b = segments_per_ack
    fast = rtt_s * sqrt(2 * b * loss / 3)
    timeouts = timeout_s * min(1, 3 * sqrt(3 * b * loss / 8)) * loss * (1 + 32 * loss**2)
    return min(limit, 1 / (fast + timeouts))


def cubic_window(rtt_s: float, loss: float) -> float:
    """The average window of CUBIC, in segments: [C (3 + beta) / (4 (1 - beta))]^(1/4) (RTT / p)^(3/4).

    RFC 8312, equation 5; with its values of C and beta the factor is 1.054.
    """
    if loss == 0:
        return inf
    factor = (CUBIC_C * (3 + CUBIC_BETA) / (4 * (1 - CUBIC_BETA))) ** 0.25
    return float(factor * (rtt_s / loss) ** 0.75)


def cubic_rate(rtt_s: float, loss: float) -> float:
    """The rate of CUBIC: its average window in each round trip."""
    return inf if rtt_s == 0 else cubic_window(rtt_s, loss) / rtt_s


def slow_start_s(rtt_s: float, threshold: int) -> float:
    """The time until the window, from one segment, reaches a threshold: (ceil(log2(ssthresh)) + 1) RTT.

    Akan, Fang and Akyildiz 2002, equation 2.
    """
    return (ceil(log2(threshold)) + 1) * rtt_s


def least_time_s(segments: int, rtt_s: float, initial_window: int = INITIAL_WINDOW) -> float:
    """The least time from the first packet to the delivery of so many segments, at any rate and without losses.

    A round trip for the handshake, a round trip for each window but the last, each twice the one before (RFC 5681,
    with an acknowledgement for every segment), and half a round trip for the last. Derived.
    """
    windows = ceil(log2(segments / initial_window + 1))
    return rtt_s * (1 + max(0, windows - 1) + 0.5)
