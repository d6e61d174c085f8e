"""Goodput, one-way delays and the other measures of a transfer, from its packets' bytes and times.

docs/measures.md has each with its formula and source. Finding packets belongs to `captures.matches`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict


class Amounts(NamedTuple):
    """Bytes in Ethernet frames of the session, without preamble and checksum, by who sent them."""

    str_sent_bytes: int
    str_delivered_bytes: int
    rts_sent_bytes: int
    rts_delivered_bytes: int


class Measures(BaseModel):
    """The measures of one run; None if a time, a rate or bytes are missing that it needs.

    `goodput_bps` counts the file's bits over the session, from its first to its last packet at the sender's port;
    `goodput_to_delivery_bps` until the receiver's file was complete. Throughputs count delivered frames over the
    session, each way. `total_data_bytes` are the bytes that the sender sent, `normalized_goodput_bps` is the session's
    goodput times the share of the file in them. `efficiency` is goodput over the forward channel's rate, `utilisation`
    the share of that rate that the delivered frames filled.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    first_packet_ns: int | None
    last_packet_ns: int | None
    session_s: float | None
    goodput_bps: float | None
    goodput_to_delivery_bps: float | None
    throughput_forward_bps: float | None
    throughput_reverse_bps: float | None
    total_data_bytes: int
    data_ratio: float | None
    """`total_data_bytes` for each byte of the file."""
    normalized_goodput_bps: float | None
    efficiency: float | None
    utilisation: float | None


OF_A_DELIVERED_FILE = (
    "goodput_bps",
    "goodput_to_delivery_bps",
    "normalized_goodput_bps",
    "efficiency",
    "data_ratio",
)
"""The measures that are defined only if the receiver has a file equal to the sent one."""


class DelaySummary(BaseModel):
    """The least, the middle and the greatest one-way delay of `matched` packets, in ns; None if there is
    none.

    p50 and p99 are delays that some packet had (nearest rank; Hyndman and Fan's type 1), not interpolated.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    matched: int
    min_ns: int | None = None
    p50_ns: int | None = None
    p99_ns: int | None = None
    max_ns: int | None = None


def measure(
    amounts: Amounts,
    first_ns: int | None,
    last_ns: int | None,
    file_size_bytes: int | None,
    file_delivered_at_ns: int | None,
    rate_bps: float | None,
    duration_s: float | None = None,
) -> Measures:
    """The measures of a session that lasted from `first_ns` to `last_ns`; None, None: no packet was seen.

    `file_size_bytes` None: not known. `rate_bps` is the forward channel's; None: it has no limit, or one that changes.
    `duration_s` is given for a run for a duration: `file_size_bytes` are then the bytes received in that time, goodput
    is over that time, and measures that relate all packets to these bytes are not defined.
    """
    if duration_s is not None:
        return _of_duration(amounts, first_ns, last_ns, file_size_bytes, rate_bps, duration_s)
    goodput = rate_over(file_size_bytes, first_ns, last_ns)
    to_delivery = rate_over(file_size_bytes, first_ns, file_delivered_at_ns)
    forward = rate_over(amounts.str_delivered_bytes, first_ns, last_ns)
    sent = amounts.str_sent_bytes
    return Measures(
        first_packet_ns=first_ns,
        last_packet_ns=last_ns,
        session_s=seconds_between(first_ns, last_ns),
        goodput_bps=goodput,
        goodput_to_delivery_bps=to_delivery,
        throughput_forward_bps=forward,
        throughput_reverse_bps=rate_over(amounts.rts_delivered_bytes, first_ns, last_ns),
        total_data_bytes=sent,
        data_ratio=ratio(sent, file_size_bytes),
        normalized_goodput_bps=_product(goodput, ratio(file_size_bytes, sent)),
        efficiency=ratio(goodput, rate_bps),
        utilisation=ratio(forward, rate_bps),
    )


def _of_duration(
    amounts: Amounts,
    first_ns: int | None,
    last_ns: int | None,
    received_bytes: int | None,
    rate_bps: float | None,
    duration_s: float,
) -> Measures:
    goodput = None if received_bytes is None else 8 * received_bytes / duration_s
    of_packets = measure(amounts, first_ns, last_ns, None, None, rate_bps)
    return of_packets.model_copy(update={"goodput_bps": goodput, "efficiency": ratio(goodput, rate_bps)})


def summarise_delays(delay_ns: NDArray[np.int64]) -> DelaySummary:
    """The summary of the delays, one a packet, between two captures that were taken with one clock."""
    if not len(delay_ns):
        return DelaySummary(matched=0)
    least, middle, late, greatest = np.quantile(delay_ns, [0, 0.5, 0.99, 1], method="inverted_cdf").tolist()
    return DelaySummary(matched=len(delay_ns), min_ns=least, p50_ns=middle, p99_ns=late, max_ns=greatest)


def seconds_between(start_ns: int | None, end_ns: int | None) -> float | None:
    """The time from start to end, in s; None if one is missing."""
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) / 1e9


def rate_over(size_bytes: int | None, start_ns: int | None, end_ns: int | None) -> float | None:
    """The bits of so many bytes over the time from start to end, in bit/s; None if no time passed or one of them is
    missing."""
    if size_bytes is None or start_ns is None or end_ns is None or end_ns <= start_ns:
        return None
    return 8e9 * size_bytes / (end_ns - start_ns)


def _product(factor: float | None, other: float | None) -> float | None:
    return None if factor is None or other is None else factor * other


def ratio(part: float | None, whole: float | None) -> float | None:
    """A ratio; None if a value is missing or the denominator is 0."""
    return None if part is None or not whole else part / whole
