"""Selective repeat in rounds: CFDP with deferred NAKs, LTP reports, Saratoga's holes, NORM's NACKs.

N packets are sent; each round repeats those that were lost, each packet with the probability p, independently. Derived
here and checked by Monte Carlo: every packet is there after m rounds with the probability (1 - p^m)^N.
"""

from __future__ import annotations

from math import ceil, expm1, inf, log, log2, sqrt

MOST_ROUNDS = 10_000
"""Limit of rounds: more are needed only for a loss probability of almost 1, where transfers do not end in practice."""
NEGLIGIBLE = 1e-12


def probability_of_rounds(rounds: int, packets: int, loss: float) -> float:
    """The probability that at most so many rounds are needed."""
    if rounds < 1:
        return 0.0
    missing = loss**rounds
    return 1.0 if missing == 0 else (1 - missing) ** packets


def expected_rounds(packets: int, loss: float) -> float:
    """The mean number of rounds: the sum over m >= 0 of 1 - (1 - p^m)^N. Raises ValueError for a loss of 1 or more."""
    _require_loss(loss)
    total = 0.0
    for rounds in range(MOST_ROUNDS):
        rest = 1 - probability_of_rounds(rounds, packets, loss)
        total += rest
        if rest < NEGLIGIBLE:
            break
    return total


def rounds_quantile(share: float, packets: int, loss: float) -> int:
    """The least number of rounds that suffices with the probability `share`. Raises ValueError as `expected_rounds`."""
    _require_loss(loss)
    if loss == 0:
        return 1
    # share = (1 - p^m)^N, solved for m; then corrected for rounding
    rounds = max(1, int(log(-expm1(log(share) / packets)) / log(loss)))
    while rounds > 1 and probability_of_rounds(rounds - 1, packets, loss) >= share:
        rounds -= 1
    while probability_of_rounds(rounds, packets, loss) < share:
        rounds += 1
    return rounds


def time_to_delivery_s(
    packets: int, packet_bits: float, rate_bps: float | None, delay_s: float, rtt_s: float, loss: float, rounds: float
) -> float:
    """The time from the first packet to the delivery of the file after so many rounds, without processing and timers.

    The transmission of all packets, lost ones again, N L / R / (1 - p); the one-way delay; and a round trip for each
    further round. `rate_bps` None: unlimited.
    """
    sending_s = 0.0 if rate_bps is None else packets * packet_bits / rate_bps / (1 - loss)
    return sending_s + delay_s + rtt_s * (rounds - 1)


def _require_loss(loss: float) -> None:
    if not 0 <= loss < 1:
        raise ValueError(f"a loss probability of {loss}: expected 0 or more and less than 1")


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
    """The rate with timeouts, for a receiver's window W.

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


def least_slow_start_s(segments: int, rtt_s: float) -> float:
    """The least time from the first packet to the delivery of so many segments, at any rate and without losses.

    A round trip for the handshake, a round trip for each window but the last, each twice the one before (RFC 5681,
    with an acknowledgement for every segment), and half a round trip for the last. Derived.
    """
    windows = ceil(log2(segments / INITIAL_WINDOW + 1))
    return rtt_s * (1 + max(0, windows - 1) + 0.5)


BITS = 8


def least_transfer_s(file_bytes: float, rate_bps: float | None, delay_s: float) -> float:
    """The least time to the delivery of a file: its transmission without any header, and the one-way delay."""
    return (0.0 if rate_bps is None else BITS * file_bytes / rate_bps) + delay_s
