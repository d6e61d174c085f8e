"""A link's errors as one bit error rate, the form that most implementations accept."""

from __future__ import annotations

import math

from owlt.emulator.channel.link import LinkSpec


def equivalent_bit_error_rate(link: LinkSpec, frame_bytes: int) -> float:
    """The bit error rate at which a frame of `frame_bytes` is damaged or lost as often as on this link.

    It includes the bit error rate, the packet error rate, lost coded frames and the mean rate of burst losses, all
    independent. A link with bit errors alone has its own rate, for any frame size; 1 if no frame arrives. A list of
    errors (`pattern`) has no rate and is not included.
    """
    if not (link.packet_error_rate or link.loss or link.coding):
        return link.bit_error_rate
    hit = [link.packet_error_rate, *_hit_in_bursts(link, frame_bytes)]
    if max(hit) >= 1:
        return 1.0
    intact = sum(math.log1p(-rate) for rate in hit) / (8 * frame_bytes) + math.log1p(-link.bit_error_rate)
    return -math.expm1(intact)


def _hit_in_bursts(link: LinkSpec, frame_bytes: int) -> list[float]:
    """How often lost coded frames and burst losses hit a frame."""
    if not (link.loss or link.coding):
        return []
    # imported here because they load numpy, which would enlarge the memory of every guest
    from owlt.emulator.certification.bursts import BurstLoss
    from owlt.emulator.certification.expectations import Expectations

    coded = Expectations(link, 0).dropped_probability(frame_bytes) if link.coding else 0.0
    return [coded, BurstLoss.of(link.loss).mean_rate]
