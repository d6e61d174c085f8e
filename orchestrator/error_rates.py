"""A link's errors as one bit error rate, which is what most builds that ask for an error rate take."""

from __future__ import annotations

import math

from emulator.certification.bursts import BurstLoss
from emulator.link import LinkSpec


def equivalent_bit_error_rate(link: LinkSpec, frame_bytes: int) -> float:
    """The bit error rate at which a frame of `frame_bytes` is damaged or lost as often as on this link.

    Counted are its bit error rate, its packet error rate and the mean rate of its losses in bursts, each drawn apart. A
    link with bit errors alone has its own rate, whatever the frame; 1 where no frame arrives. A list of errors
    (`pattern`) has no rate, and is not counted.
    """
    if not (link.packet_error_rate or link.loss):
        return link.bit_error_rate
    hit = [link.packet_error_rate, BurstLoss.of(link.loss).mean_rate]
    if max(hit) >= 1:
        return 1.0
    intact = sum(math.log1p(-rate) for rate in hit) / (8 * frame_bytes) + math.log1p(-link.bit_error_rate)
    return -math.expm1(intact)
