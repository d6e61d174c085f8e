"""One direction of a channel: what is asked of it, checked when it is made, in units that never change."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, model_validator

from emulator.impairments import Jitter, Loss, Pattern, Reordering
from emulator.quantities import format_delay, format_size, parse_queue
from emulator.written import (
    FORM,
    LARGEST_BIT_ERROR_RATE,
    QUEUE_UNITS,
    Delay,
    Probability,
    Rate,
    Size,
    Value,
    Whole,
    as_written,
)


class LinkSpec(Value):
    """One direction of a channel. As it stands it does nothing: no delay, no limit, no errors.

    A packet first meets the `mtu_bytes`, then the queue before the rate limit, then the errors, then the delay.
    """

    delay_ns: Annotated[Delay, as_written("delay")] = 0
    """Propagation delay: from the last bit into the link to the last bit out of it."""

    jitter: Jitter | None = None

    keeps_order: bool = True
    """Whether a packet whose own delay is shorter, drawn or changed, waits for those before it; else it overtakes."""

    rate_bps: Annotated[Rate | None, as_written("rate")] = None
    """Bit rate, counting whole Ethernet frames without the checksum, and the overhead; None: unlimited."""

    overhead_bytes: Annotated[Size, Field(ge=0, le=10_000), as_written("overhead")] = 0
    """What every frame takes of the rate beyond its own bytes, e.g. 24 for Ethernet's preamble, checksum and gap."""

    queue_packets: int = Field(default=1000, ge=1, le=2**31 - 1)
    """Places before the rate limit, the packet being sent included; without a rate it means nothing."""

    queue_bytes: Annotated[int, Field(ge=1)] | None = None
    """The queue in bytes of frames and their overhead instead."""

    queue_ns: Annotated[int, Field(ge=1)] | None = None
    """The queue as the time that it takes to send it instead."""

    queue_bdp: Annotated[float, Field(gt=0)] | None = None
    """The queue in multiples of rate x round trip (both directions' delays) instead."""

    mtu_bytes: Annotated[Annotated[Size, Field(ge=68, le=65_535)] | None, as_written("mtu")] = None
    """Frames with more than this behind their Ethernet header are dropped."""

    packet_error_rate: Probability = 0.0
    """Probability that a frame is hit: one of its bits, headers included, is flipped (see `error_effect`)."""

    bit_error_rate: Annotated[float, Field(ge=0, le=LARGEST_BIT_ERROR_RATE)] = 0.0
    """Probability that a bit of a frame is hit, each apart: a frame of L bytes is hit with 1-(1-BER)^(8L)."""

    error_effect: Literal["flip", "drop"] = "flip"
    """What becomes of what is hit: the bit is flipped, or its frame is dropped."""

    pattern: Pattern | None = None
    """What is hit, listed, instead of drawn."""

    loss: Loss | None = None
    """Packets lost in bursts, beside the errors. (Lost one by one: a packet error rate whose effect is to drop.)"""

    duplication_rate: Probability = 0.0
    """Probability that a packet arrives twice."""

    reordering: Reordering | None = None

    up: bool = True
    """False: an outage. What is in flight arrives; what comes meets `while_down`."""

    while_down: Literal["drop", "hold"] = "drop"
    """What comes during an outage is lost, or waits in the queue until the timeline ends it."""

    seed: Whole | None = None
    """Decides all that is drawn, but which bit of a packet is flipped: the same seed, the same packets.
    None: the kernel draws one."""

    @model_validator(mode="before")
    @classmethod
    def _queue_of_one_kind(cls, given: Any, info: ValidationInfo) -> Any:
        if info.context is not FORM or not isinstance(given, Mapping):
            return given
        fields = {name: value for name, value in given.items() if value not in ("none", "unlimited")}
        if "queue" in fields:
            fields |= parse_queue(fields.pop("queue"))
        return fields

    @model_validator(mode="after")
    def _without_contradiction(self) -> Self:
        queues = [name for name in ("queue_bytes", "queue_ns", "queue_bdp") if getattr(self, name) is not None]
        errors = [name for name in ("packet_error_rate", "bit_error_rate", "pattern") if getattr(self, name)]
        if len(queues) > 1:
            raise ValueError(f"one kind of queue, not {' and '.join(queues)}")
        if queues and self.rate_bps is None:
            raise ValueError(f"a rate, or no {queues[0]}: what is never sent slower than it comes does not queue")
        if len(errors) > 1:
            raise ValueError(f"one kind of error, not {' and '.join(errors)}")
        if self.loss is not None and self.packet_error_rate and self.error_effect == "drop":
            raise ValueError("losses drawn one by one (packet_error_rate) or in bursts (loss), not both")
        if self.reordering is not None and (self.jitter is not None or self.keeps_order):
            raise ValueError("with reordering: keeps_order: false, and no jitter (a jitter table can do both)")
        return self

    @property
    def unimpaired(self) -> bool:
        """True if packets pass as they come."""
        nothing = LinkSpec()
        meaningless = {"keeps_order", "overhead_bytes", "queue_packets", "error_effect", "while_down", "seed"}
        return all(
            getattr(self, name) == getattr(nothing, name) for name in LinkSpec.model_fields if name not in meaningless
        )

    @property
    def netem_draws(self) -> bool:
        """True if netem leaves anything to chance."""
        return bool(self.packet_error_rate or self.loss or self.jitter or self.reordering or self.duplication_rate)

    @property
    def draws(self) -> bool:
        """True if anything is left to chance, so that a seed means something."""
        flips_a_bit_somewhere = self.pattern and self.pattern.packets and self.error_effect == "flip"
        return bool(self.netem_draws or self.bit_error_rate or flips_a_bit_somewhere)

    def to_wire(self) -> dict[str, Any]:
        """Return the link as it is written; what is as in a link of nothing is left out."""
        written = self.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={*QUEUE_UNITS})
        return written | ({} if (queue := self._queue_as_written()) is None else {"queue": queue})

    def _queue_as_written(self) -> str | None:
        if self.queue_bytes is not None:
            return format_size(self.queue_bytes)
        if self.queue_ns is not None:
            return format_delay(self.queue_ns)
        if self.queue_bdp is not None:
            return f"{self.queue_bdp!r} BDP"
        return (
            None
            if self.queue_packets == LinkSpec.model_fields["queue_packets"].default
            else f"{self.queue_packets} packets"
        )
