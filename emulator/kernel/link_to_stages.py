"""The stages that each direction of a channel needs in the kernel, and the link that actual stages carry out.

A direction has at most four stages. Where packets come in, the *gate* (eBPF) drops frames that are too long or, unless
the queue is counted in packets, find it full, and the *bottleneck* (netem) holds the rate limit and its queue. Where
they go out, the *errors* stage (eBPF) flips random bits, or hits the bits or packets of a pattern, and the *pipe*
(netem) holds the delay, its jitter, and what netem can do to packets. In one netem, or one below the other, the queue
limit would count the packets in flight too, and a long pipe would overflow its queue. Because the stages are separate,
drops of gate and bottleneck are drops before the link (queue or MTU), and drops of errors and pipe are losses of the
link. A stage that is not needed is not there.
"""

from dataclasses import dataclass, replace
from typing import Any

from owlt.emulator.channel.link import Coding, Jitter, LinkSpec, Pattern
from owlt.emulator.channel.loss_models import FourState, GilbertElliott, Loss
from owlt.emulator.kernel import netem
from owlt.emulator.kernel.bpf_stages import ErrorProcess
from owlt.emulator.kernel.gate import Admission, fields_of_gate, gate_of, holds_the_queue
from owlt.emulator.kernel.netem import (
    FourStateThresholds,
    GilbertElliottThresholds,
    LossThresholds,
    Netem,
    jitter_table,
    reordering_table,
)

MOST_PACKETS = 2**31 - 1
"""A pipe's queue limit is never reached: a netem limit costs nothing until it is used, and no machine holds so many
packets."""


@dataclass(frozen=True)
class Stages:
    """The stages of one direction; None if there is none."""

    gate: Admission | None = None
    bottleneck: Netem | None = None
    errors: ErrorProcess | None = None
    pipe: Netem | None = None

    @property
    def named(self) -> dict[str, Admission | Netem | ErrorProcess | None]:
        """The stages by name, in the order in which a packet meets them."""
        return {"gate": self.gate, "bottleneck": self.bottleneck, "errors": self.errors, "pipe": self.pipe}


def stages_of(link: LinkSpec, rtt_ns: int = 0, drawn_seed: int = 0) -> Stages:
    """Return the stages that the kernel needs for a link. netem has the rate in whole bytes a second.

    A queue in bandwidth-delay products needs the round-trip propagation delay; programs of a link without a seed use
    the `drawn_seed`.
    """
    seed = link.seed if link.seed is not None else drawn_seed
    return Stages(gate_of(link, rtt_ns, seed), _bottleneck(link), _errors(link, seed), _pipe(link))


def retaining_netems(target: Stages, present: Stages, keeps_order: bool) -> Stages:
    """Return `target` with a netem that does nothing where one is present and none is needed.

    Removing a netem drops the packets in flight in it; one that does nothing lets them arrive.
    """
    return replace(
        target,
        bottleneck=target.bottleneck or (_neutral(True) if present.bottleneck else None),
        pipe=target.pipe or (_neutral(keeps_order) if present.pipe else None),
    )


def _neutral(keeps_order: bool) -> Netem:
    """A netem that does not change packets."""
    return Netem(MOST_PACKETS, rate_bytes_per_s=netem.NO_RATE_BYTES_PER_S if keeps_order else 0)


def link_of(actual: Stages, specified: LinkSpec) -> LinkSpec:
    """Return the link that the kernel's actual stages implement.

    Values that the kernel cannot show (a jitter's table, the unit of a queue) and fields without effect are those of
    `specified`; a seed that the kernel chose is missing.
    """
    return specified.model_copy(
        update=_rate_of(actual.bottleneck)
        | fields_of_gate(actual.gate, specified)
        | _errors_of(actual.errors)
        | _pipe_of(actual.pipe or _neutral(True), specified)
    )


def _rate_of(bottleneck: Netem | None) -> dict[str, Any]:
    if bottleneck is None or bottleneck.rate_bytes_per_s == netem.NO_RATE_BYTES_PER_S:
        return {"rate_bps": None}
    fields = {"rate_bps": bottleneck.rate_bytes_per_s * 8.0, "overhead_bytes": bottleneck.overhead_bytes}
    return fields | ({} if bottleneck.limit_packets == MOST_PACKETS else {"queue_packets": bottleneck.limit_packets})


def _errors_of(errors: ErrorProcess | None) -> dict[str, Any]:
    if errors is None:
        return {"bit_error_rate": 0.0, "pattern": None, "coding": None}
    if errors.unit == "block":
        coding = Coding(frame_bytes=errors.block_bytes, frame_error_rate=errors.rate)
        return {"bit_error_rate": 0.0, "pattern": None, "coding": coding}
    if errors.rate:
        return {"bit_error_rate": errors.rate, "pattern": None, "coding": None, "error_effect": errors.effect}
    pattern = Pattern(bits=errors.positions) if errors.unit == "bit" else Pattern(packets=errors.positions)
    return {"bit_error_rate": 0.0, "pattern": pattern, "coding": None, "error_effect": errors.effect}


def _pipe_of(pipe: Netem, specified: LinkSpec) -> dict[str, Any]:
    spread_ns, _ = _spread(specified)
    cut = pipe.loss_threshold == netem.ALWAYS and not specified.up
    lost = 0.0 if cut else netem.probability_of(pipe.loss_threshold)
    return {
        "delay_ns": pipe.delay_ns,
        "jitter": specified.jitter if pipe.jitter_ns == spread_ns else _jitter_of(pipe),
        "reordering": specified.reordering if pipe.jitter_ns == spread_ns else None,
        "packet_error_rate": specified.packet_error_rate
        if cut
        else netem.probability_of(pipe.corrupt_threshold) or lost,
        "loss": specified.loss if cut or pipe.loss_model == _model(specified) else _loss_of(pipe.loss_model),
        "duplication_rate": specified.duplication_rate if cut else netem.probability_of(pipe.duplicate_threshold),
        "up": specified.up or not (cut or specified.while_down == "hold"),
        "seed": specified.seed if not specified.netem_draws or pipe.seed in (None, specified.seed) else None,
    }


def _jitter_of(pipe: Netem) -> Jitter | None:
    return Jitter(amount_ns=pipe.jitter_ns) if pipe.jitter_ns else None


def _loss_of(model: LossThresholds | None) -> Loss | None:
    if isinstance(model, GilbertElliottThresholds):
        share = model.to_bad / max(model.to_bad + model.to_good, 1)
        return GilbertElliott(mean_rate=share, burst_packets=2**32 / model.to_good)
    if model is None:
        return None
    return FourState(**{name: getattr(model, name) / 2**32 for name in ("p13", "p31", "p32", "p23", "p14")})


def _model(link: LinkSpec) -> LossThresholds | None:
    return None if link.loss is None else _thresholds(link.loss)


def differences(target: Stages, actual: Stages) -> list[str]:
    """Return where the stages read back differ from those sent, in words."""
    return [
        f"{name} {difference}"
        for name, stage in target.named.items()
        for difference in _stage_differences(stage, actual.named[name])
    ]


def _stage_differences(target: object, actual: object) -> list[str]:
    if isinstance(target, Netem) and isinstance(actual, Netem):
        return netem.differences(target, actual)
    return [] if target == actual else [f"expected {target or 'none'}, got {actual or 'none'}"]


def _bottleneck(link: LinkSpec) -> Netem | None:
    holds = not link.up and link.while_down == "hold"
    if link.rate_bps is None and not holds:
        return None
    return Netem(
        limit_packets=MOST_PACKETS if holds_the_queue(link) else link.queue_packets,
        rate_bytes_per_s=round(link.rate_bps / 8) if link.rate_bps is not None else netem.NO_RATE_BYTES_PER_S,
        overhead_bytes=link.overhead_bytes if link.rate_bps is not None else 0,
    )


def _errors(link: LinkSpec, seed: int) -> ErrorProcess | None:
    if link.coding is not None:
        rate, block_bytes = link.coding.frame_error_rate, link.coding.frame_bytes
        return ErrorProcess("block", "drop", rate=rate, seed=seed, block_bytes=block_bytes)
    if link.bit_error_rate:
        return ErrorProcess("bit", link.error_effect, rate=link.bit_error_rate, seed=seed)
    if link.pattern is None:
        return None
    if link.pattern.bits:
        return ErrorProcess("bit", link.error_effect, positions=link.pattern.bits, seed=seed)
    return ErrorProcess("packet", link.error_effect, positions=link.pattern.packets, seed=seed)


def _pipe(link: LinkSpec) -> Netem | None:
    """The pipe of a link. During an outage that drops, netem loses all packets, and duplicates none."""
    cut = not link.up and link.while_down == "drop"
    corrupt, lost = (0.0, link.packet_error_rate) if link.error_effect == "drop" else (link.packet_error_rate, 0.0)
    spread_ns, table = _spread(link)
    pipe = Netem(
        limit_packets=MOST_PACKETS,
        delay_ns=link.delay_ns,
        jitter_ns=spread_ns,
        delay_table=table,
        rate_bytes_per_s=netem.NO_RATE_BYTES_PER_S if link.keeps_order else 0,
        corrupt_threshold=netem.threshold_of(corrupt),
        loss_threshold=netem.ALWAYS if cut else netem.threshold_of(lost),
        loss_model=None if cut else _model(link),
        duplicate_threshold=0 if cut else netem.threshold_of(link.duplication_rate),
        seed=link.seed if link.netem_draws else None,
    )
    return None if pipe == replace(_neutral(link.keeps_order), seed=pipe.seed) else pipe


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
