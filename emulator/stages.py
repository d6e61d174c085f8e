"""What each direction of a channel needs of the kernel, and what a direction found there amounts to.

A direction has at most two stages, each a netem of its own. The *bottleneck* holds the rate limit and its
queue, at the port where packets come in; the *pipe* holds the delay and the errors, at the port where they
go out. In one netem, or one below the other, the queue limit would count the packets in flight too, and a
long pipe would overflow its queue. So apart, what the bottleneck drops are queue drops, and the pipe drops
nothing. A stage that is not needed is not there.
"""

from dataclasses import dataclass
from math import ceil

from emulator import netem
from emulator.channel import LinkSpec
from emulator.netem import Netem

SMALLEST_FRAME_BYTES = 34
"""An Ethernet and an IPv4 header: veth does not pad to the 60 bytes of a cable."""
ASSUMED_RATE_BPS = 1e9
"""What can come in where no rate is asked for: the line rate of the hosts' interfaces."""
SPARE_PACKETS = 1000
MOST_PACKETS = 2**31 - 1
"""A netem limit costs nothing until it is used, and no machine holds more packets than this."""


@dataclass(frozen=True)
class Stages:
    """The two stages of one direction; None where there is none."""

    bottleneck: Netem | None = None
    pipe: Netem | None = None

    @property
    def named(self) -> dict[str, Netem | None]:
        """The stages by name, in the order in which a packet meets them."""
        return {"bottleneck": self.bottleneck, "pipe": self.pipe}


def stages_of(link: LinkSpec) -> Stages:
    """Return what the kernel is to be given for a link. netem has the rate in whole bytes a second."""
    return Stages(_bottleneck(link), _pipe(link))


def link_of(found: Stages, asked: LinkSpec) -> LinkSpec:
    """Return the link that the stages found in the kernel make.

    The queue and the seed that were `asked` for are repeated where they mean nothing to the kernel or, for
    the seed, where the kernel has just that one; a seed of the kernel's own is left out.
    """
    bottleneck, pipe = found.bottleneck, found.pipe
    return LinkSpec(
        delay_ns=pipe.delay_ns if pipe else 0,
        rate_bps=float(bottleneck.rate_bytes_per_s * 8) if bottleneck else None,
        packet_error_rate=netem.probability_of(pipe.corrupt_threshold) if pipe else 0.0,
        queue_packets=bottleneck.limit_packets if bottleneck else asked.queue_packets,
        seed=asked.seed if pipe is None or pipe.corrupt_threshold == 0 or pipe.seed == asked.seed else None,
    )


def differences(wanted: Stages, found: Stages) -> list[str]:
    """Return where the stages read back differ from those sent, in words."""
    return [
        f"{name} {difference}"
        for name, stage in wanted.named.items()
        for difference in _stage_differences(stage, found.named[name])
    ]


def _stage_differences(wanted: Netem | None, found: Netem | None) -> list[str]:
    if wanted is None or found is None:
        return [] if wanted is found else [f"got {found or 'none'}, wanted {wanted or 'none'}"]
    return netem.differences(wanted, found)


def _bottleneck(link: LinkSpec) -> Netem | None:
    if link.rate_bps is None:
        return None
    return Netem(limit_packets=link.queue_packets, rate_bytes_per_s=round(link.rate_bps / 8))


def _pipe(link: LinkSpec) -> Netem | None:
    if link.delay_ns == 0 and link.packet_error_rate == 0:
        return None
    return Netem(
        limit_packets=_most_in_flight(link),
        delay_ns=link.delay_ns,
        corrupt_threshold=netem.threshold_of(link.packet_error_rate),
        seed=link.seed if link.packet_error_rate else None,
    )


def _most_in_flight(link: LinkSpec) -> int:
    """A pipe must never drop: room for a pipe full of the smallest frames, a queue let go at once, and some more."""
    rate_bps = link.rate_bps if link.rate_bps is not None else ASSUMED_RATE_BPS
    in_flight = ceil(rate_bps * link.delay_ns / 1e9 / 8 / SMALLEST_FRAME_BYTES)
    return min(in_flight + link.queue_packets + SPARE_PACKETS, MOST_PACKETS)
