"""What each direction of a channel needs of the kernel, and what a direction found there amounts to.

A direction has at most four stages. Where packets come in, the *gate* (eBPF) turns away frames that are too long or
find a queue full that is not counted in packets, and the *bottleneck* (netem) holds the rate limit and its queue.
Where they go out, the *errors* (eBPF) hit bits, or what a pattern lists, and the *pipe* (netem) holds the delay, its
jitter, and what netem can do to packets. In one netem, or one below the other, the queue limit would count the
packets in flight too, and a long pipe would overflow its queue. So apart, what gate and bottleneck drop are queue
drops, and what errors and pipe drop are losses of the link. A stage that is not needed is not there.
"""

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from emulator.impairments import GilbertElliott, Loss
from emulator.kernel import netem
from emulator.kernel.admission import Admission
from emulator.kernel.delay_tables import jitter_table, reordering_table
from emulator.kernel.error_process import ErrorProcess
from emulator.kernel.netem import FourStateThresholds, GilbertElliottThresholds, LossThresholds, Netem
from emulator.link import LinkSpec
from emulator.written import WIDEST_TABLE_VALUE

SMALLEST_FRAME_BYTES = 34
"""An Ethernet and an IPv4 header: veth does not pad to the 60 bytes of a cable."""
ASSUMED_RATE_BPS = 1e9
"""What can come in where no rate is asked for: the line rate of the hosts' interfaces."""
SPARE_PACKETS = 1000
MOST_PACKETS = 2**31 - 1
"""A netem limit costs nothing until it is used, and no machine holds more packets than this."""
NEUTRAL = Netem(limit_packets=MOST_PACKETS, rate_bytes_per_s=netem.NO_RATE_BYTES_PER_S)
"""A netem that lets packets pass as they come, in their order."""


@dataclass(frozen=True)
class Stages:
    """The stages of one direction; None where there is none."""

    gate: Admission | None = None
    bottleneck: Netem | None = None
    errors: ErrorProcess | None = None
    pipe: Netem | None = None

    @property
    def named(self) -> dict[str, Admission | Netem | ErrorProcess | None]:
        """The stages by name, in the order in which a packet meets them."""
        return {"gate": self.gate, "bottleneck": self.bottleneck, "errors": self.errors, "pipe": self.pipe}


def stages_of(link: LinkSpec, rtt_ns: int = 0, drawn_seed: int = 0) -> Stages:
    """Return what the kernel is to be given for a link. netem has the rate in whole bytes a second.

    A queue in bandwidth-delay products needs the round trip of light; bit errors of a link without a seed take
    the `drawn_seed`.
    """
    return Stages(_gate(link, rtt_ns), _bottleneck(link), _errors(link, drawn_seed), _pipe(link))


def kept(wanted: Stages, present: Stages) -> Stages:
    """Return `wanted` with a netem that does nothing where one is there and none is wanted.

    A netem that is taken away takes with it what is in flight; one that does nothing lets it arrive.
    """
    return replace(
        wanted,
        bottleneck=wanted.bottleneck or (NEUTRAL if present.bottleneck else None),
        pipe=wanted.pipe or (NEUTRAL if present.pipe else None),
    )


def link_of(found: Stages, asked: LinkSpec) -> LinkSpec:
    """Return the link that the stages found in the kernel make.

    What netem and the programs hold is theirs. Repeated from `asked` is what they cannot show or what means nothing
    to them: the form of a jitter, the queue's unit and the fields without effect; a seed of the kernel's own is left
    out.
    """
    bottleneck, pipe = found.bottleneck, found.pipe
    limited = bottleneck is not None and bottleneck.rate_bytes_per_s != netem.NO_RATE_BYTES_PER_S
    changed: dict[str, Any] = {
        "delay_ns": pipe.delay_ns if pipe else 0,
        "rate_bps": float(bottleneck.rate_bytes_per_s * 8) if limited and bottleneck else None,
        "packet_error_rate": _packet_error_rate(pipe, asked) if pipe else 0.0,
        "duplication_rate": netem.probability_of(pipe.duplicate_threshold) if pipe else 0.0,
        "seed": asked.seed if pipe is None or not asked.netem_draws or pipe.seed in (None, asked.seed) else None,
    }
    if limited and bottleneck and found.gate is None:
        changed["queue_packets"] = bottleneck.limit_packets
    return asked.model_copy(update=changed)


def differences(wanted: Stages, found: Stages) -> list[str]:
    """Return where the stages read back differ from those sent, in words."""
    return [
        f"{name} {difference}"
        for name, stage in wanted.named.items()
        for difference in _stage_differences(stage, found.named[name])
    ]


def _stage_differences(wanted: object, found: object) -> list[str]:
    if isinstance(wanted, Netem) and isinstance(found, Netem):
        return netem.differences(wanted, found)
    return [] if wanted == found else [f"got {found or 'none'}, wanted {wanted or 'none'}"]


def _gate(link: LinkSpec, rtt_ns: int) -> Admission | None:
    queue_ns = _queue_ns(link, rtt_ns)
    if link.mtu_bytes is None and queue_ns is None:
        return None
    rate = round(link.rate_bps / 8) if link.rate_bps is not None else 0
    return Admission(link.mtu_bytes, queue_ns, rate, link.overhead_bytes)


def _queue_ns(link: LinkSpec, rtt_ns: int) -> int | None:
    """The time that the queue takes to empty, where it is not counted in packets."""
    if link.queue_bytes is not None and link.rate_bps is not None:
        return round(link.queue_bytes * 8e9 / link.rate_bps)
    if link.queue_bdp is not None:
        return round(link.queue_bdp * rtt_ns)
    return link.queue_ns


def _bottleneck(link: LinkSpec) -> Netem | None:
    holds = not link.up and link.while_down == "hold"
    if link.rate_bps is None and not holds:
        return None
    counted = link.queue_bytes is None and link.queue_ns is None and link.queue_bdp is None
    return Netem(
        limit_packets=link.queue_packets if counted else MOST_PACKETS,
        rate_bytes_per_s=round(link.rate_bps / 8) if link.rate_bps is not None else netem.NO_RATE_BYTES_PER_S,
        overhead_bytes=link.overhead_bytes if link.rate_bps is not None else 0,
    )


def _errors(link: LinkSpec, drawn_seed: int) -> ErrorProcess | None:
    seed = link.seed if link.seed is not None else drawn_seed
    if link.bit_error_rate:
        return ErrorProcess("bit", link.error_effect, rate=link.bit_error_rate, seed=seed)
    if link.pattern is None:
        return None
    if link.pattern.bits:
        return ErrorProcess("bit", link.error_effect, positions=link.pattern.bits, seed=seed)
    return ErrorProcess("packet", link.error_effect, positions=link.pattern.packets, seed=seed)


def _pipe(link: LinkSpec) -> Netem | None:
    cut = not link.up and link.while_down == "drop"
    corrupt, lost = (0.0, link.packet_error_rate) if link.error_effect == "drop" else (link.packet_error_rate, 0.0)
    spread_ns, table = _spread(link)
    pipe = Netem(
        limit_packets=_most_in_flight(link, link.delay_ns + WIDEST_TABLE_VALUE * spread_ns),
        delay_ns=link.delay_ns,
        jitter_ns=spread_ns,
        delay_table=table,
        rate_bytes_per_s=netem.NO_RATE_BYTES_PER_S if link.keeps_order else 0,
        corrupt_threshold=netem.threshold_of(corrupt),
        loss_threshold=netem.ALWAYS if cut else netem.threshold_of(lost),
        loss_model=None if cut or link.loss is None else _thresholds(link.loss),
        duplicate_threshold=netem.threshold_of(link.duplication_rate),
        seed=link.seed if link.netem_draws else None,
    )
    idle = Netem(pipe.limit_packets, rate_bytes_per_s=pipe.rate_bytes_per_s, seed=pipe.seed)
    return None if pipe == idle else pipe


def _spread(link: LinkSpec) -> tuple[int, tuple[int, ...]]:
    if link.jitter is not None:
        return link.jitter.amount_ns, jitter_table(link.jitter)
    if link.reordering is not None:
        return link.reordering.by_ns, reordering_table(link.reordering)
    return 0, ()


def _thresholds(loss: Loss) -> LossThresholds:
    if isinstance(loss, GilbertElliott):
        return GilbertElliottThresholds(netem.transition_of(loss.to_bad), netem.transition_of(loss.to_good))
    return FourStateThresholds(
        *(netem.transition_of(getattr(loss, name)) for name in ("p13", "p31", "p32", "p14", "p23"))
    )


def _packet_error_rate(pipe: Netem, asked: LinkSpec) -> float:
    if asked.error_effect == "drop":
        return netem.probability_of(pipe.loss_threshold) if asked.up else asked.packet_error_rate
    return netem.probability_of(pipe.corrupt_threshold)


def _most_in_flight(link: LinkSpec, longest_ns: float) -> int:
    """A pipe must never drop for want of room: a pipe full of the smallest frames, a queue let go at once, and more."""
    rate_bps = link.rate_bps if link.rate_bps is not None else ASSUMED_RATE_BPS
    in_flight = ceil(rate_bps * longest_ns / 1e9 / 8 / SMALLEST_FRAME_BYTES)
    return min(in_flight + link.queue_packets + SPARE_PACKETS, MOST_PACKETS)
