"""One direction of a channel: its specification and its impairments, checked on construction, in fixed units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, FailFast, Field, ValidationInfo, model_validator

from owlt.emulator.channel.impairment import Impairment, RunColumn
from owlt.emulator.channel.loss_models import Loss, loss_words
from owlt.emulator.channel.text import (
    FORM,
    LARGEST_BIT_ERROR_RATE,
    LARGEST_TABLE,
    QUEUE_UNITS,
    WIDEST_TABLE_VALUE,
    Delay,
    Positions,
    Probability,
    Rate,
    Size,
    Spread,
    Value,
    Whole,
    as_written,
    parse_list,
    unit_text,
)
from owlt.inputs.mistake import Invalid, Mistake, keys_below, unexpected
from owlt.inputs.quantities import format_delay, format_size, parse_queue

SMALLEST_SHARE = 1 / LARGEST_TABLE
LONGEST_COUNTED_QUEUE = 16_384
"""Packets that the gate can count in a queue: MOST_COUNTED in gate.bpf.c."""


class Jitter(Value):
    """A random addition to the delay of each packet; the sum is never negative.

    `uniform` lies within `amount_ns` of 0. `normal` has mean 0 and standard deviation `amount_ns`. So has `pareto`
    (shape 3), but a table ends at four times `amount_ns`: the tail is cut off there, which leaves a standard deviation
    of 0.74 x `amount_ns` and a mean slightly below 0. `paretonormal` is a quarter of `normal` plus three quarters of
    `pareto`, quantile by quantile. `table` draws one of the `table`'s values, each as likely as the next, times
    `amount_ns`.
    """

    amount_ns: Annotated[Spread, as_written("amount")]
    distribution: Literal["uniform", "normal", "pareto", "paretonormal", "table"] = "normal"
    table: Annotated[
        tuple[Annotated[float, Field(ge=-WIDEST_TABLE_VALUE, le=WIDEST_TABLE_VALUE)], ...],
        FailFast(),
        BeforeValidator(parse_list),
        Field(max_length=LARGEST_TABLE),
    ] = ()

    @model_validator(mode="after")
    def _check_table(self) -> Self:
        if (self.distribution == "table") != bool(self.table):
            raise unexpected("a table of values with 'distribution: table', and only with it")
        return self


class Coding(Value):
    """Coded frames of the link layer, such as TM transfer frames in Reed-Solomon codewords: a frame that cannot be
    decoded is lost with every packet that has a byte in it.

    Packets follow each other in the frames without gaps, wherever these begin and end.
    """

    frame_bytes: Annotated[int, Field(ge=32, le=65_535)]
    """Bytes of packets in each frame."""
    frame_error_rate: Annotated[float, Field(ge=1e-12, lt=1)]
    """Probability that a frame is lost, independent of others."""


class Reordering(Value):
    """A random share of the packets is delayed by `by_ns` more, so that others overtake them.

    The share is rounded to the nearest fraction with a denominator of at most 16,384.
    """

    rate: Annotated[float, Field(ge=SMALLEST_SHARE, le=1)]
    by_ns: Annotated[Spread, as_written("by")]

    @property
    def fraction(self) -> Fraction:
        """The share as netem gets it."""
        return Fraction(self.rate).limit_denominator(LARGEST_TABLE)


class Pattern(Value):
    """The packets or the bits to hit, by their numbers from 0 since the channel was applied.

    Bits are counted along the frames in order, header first, the most significant bit of a byte first.
    """

    packets: Positions = ()
    bits: Positions = ()

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        if bool(self.packets) == bool(self.bits):
            raise unexpected("either packets or bits, at least one")
        return self


def _jitter_words(amount: str, distribution: str = "normal", **_: Any) -> str:
    meaning = {"uniform": "at most", "table": "times the table,"}.get(distribution, "standard deviation")
    return f"{distribution}, {meaning} {amount}"


@dataclass(frozen=True)
class QueueLevel:
    """How much waits or is being sent before a rate limit: packets, bytes of frames and overhead, or ns of sending."""

    amount: int
    unit: Literal["packets", "bytes", "ns"]

    @classmethod
    def parse(cls, text: Any) -> Self:
        """Return the level that is written, such as "20 packets", "30 kB" or "5 ms". Raises Invalid."""
        ((kind, amount),) = parse_queue(text).items()
        if kind == "queue_bdp" or amount < 1:
            raise unexpected("at least 1 packet, 1 B or 1 ns, such as 20 packets, 30 kB or 5 ms")
        return cls(int(amount), kind.removeprefix("queue_"))  # type: ignore[arg-type]  # the three that are left

    def __str__(self) -> str:
        """Return it as it is written."""
        if self.unit == "packets":
            return f"{self.amount} packets"
        return format_size(self.amount) if self.unit == "bytes" else format_delay(self.amount)


class EcnMarking(Value):
    """Packets with the codepoint ECT(0) or ECT(1) get the codepoint CE (RFC 3168), IPv4 and IPv6; others do not change.

    Each is marked with the probability `probability`. In addition, every such packet that arrives when the queue holds
    at least `queue_threshold` is marked.
    """

    probability: Annotated[float, Field(ge=0, le=1)] = 0.0
    queue_threshold: Annotated[QueueLevel | None, *unit_text(QueueLevel.parse, str, "20 packets", "30 kB", "5 ms")] = (
        None
    )

    @model_validator(mode="after")
    def _check_marks(self) -> Self:
        if not self.probability and self.queue_threshold is None:
            raise unexpected("a probability above 0, or a queue_threshold")
        return self

    @property
    def draws(self) -> bool:
        """True if there are random choices."""
        return bool(self.probability)


class LinkSpec(Value):
    """One direction of a channel. By default it has no effect: no delay, no limit, no errors.

    A packet passes the MTU check, then the queue before the rate limit (where it is marked), then the errors, then the
    delay.
    """

    delay_ns: Annotated[
        Delay,
        as_written("delay"),
        Impairment(
            "time",
            "pipe",
            "one-way propagation delay, from the last bit in to the last bit out",
            "delay: 1250 ms",
            label="delay",
            column=RunColumn("one-way delay of the link"),
            in_theory=True,
        ),
    ] = 0

    jitter: Annotated[
        Jitter | None,
        Impairment(
            "jitter",
            "pipe",
            "random addition to each packet's delay",
            "jitter: {amount: 5 ms, distribution: pareto}",
            label="jitter",
            drawn_by="netem",
            words=lambda jitter, _: _jitter_words(**jitter),
            column=RunColumn("jitter, as JSON"),
        ),
    ] = None

    keeps_order: Annotated[
        bool,
        Impairment(
            "switch",
            "pipe",
            "whether packets stay in order: each one waits for those before it",
            "keeps_order: false",
            label="order",
            alone=False,
            column=RunColumn("whether jitter keeps packets in order; empty: default", with_default=False),
            in_theory=True,
        ),
    ] = True

    reordering: Annotated[
        Reordering | None,
        Impairment(
            "rule",
            "pipe",
            "a share of the packets is delayed further",
            "reordering: {rate: 0.01, by: 20 ms}",
            label="reordering",
            drawn_by="netem",
            words=lambda late, share: f"{share(late['rate'])} of the packets delayed by a further {late['by']}",
            column=RunColumn("packets that are delayed further, as JSON", "reordering_rule"),
        ),
    ] = None

    rate_bps: Annotated[
        Rate | None,
        as_written("rate"),
        Impairment(
            "rate",
            "bottleneck",
            "bit rate, counting whole Ethernet frames without their checksum",
            "rate: 10 Mbit/s",
            label="rate",
            column=RunColumn("rate of the link; empty: unlimited"),
            in_theory=True,
        ),
    ] = None
    """None: unlimited."""

    queue_packets: Annotated[
        int,
        Field(ge=1, le=2**31 - 1),
        Impairment(
            "queue",
            "bottleneck",
            "capacity of the queue before the rate limit",
            "queue: 50 ms",
            label="queue",
            alone=False,
            column=RunColumn("capacity of the queue, with its unit; empty: default", "queue_limit", with_default=False),
            in_theory=True,
        ),
    ] = 1000
    """Including the packet being sent; without a rate it has no effect."""

    queue_bytes: Annotated[int, Field(ge=1)] | None = None
    """The capacity in bytes of frames and their overhead instead."""

    queue_ns: Annotated[int, Field(ge=1)] | None = None
    """The capacity as the time to send a full queue instead."""

    queue_bdp: Annotated[float, Field(gt=0)] | None = None
    """The capacity in multiples of rate x round trip (both directions' delays) instead."""

    overhead_bytes: Annotated[
        Size,
        Field(ge=0, le=10_000),
        as_written("overhead"),
        Impairment(
            "size",
            "bottleneck",
            "bytes added to each frame when its transmission time is computed",
            "overhead: 24 B",
            label="overhead",
            alone=False,
            words=lambda size, _: f"{size} per frame",
            column=RunColumn("bytes of each frame that count towards the rate in addition"),
        ),
    ] = 0
    """For example 24 for Ethernet's preamble, checksum and gap."""

    ecn_marking: Annotated[
        EcnMarking | None,
        Impairment(
            "rule",
            "gate",
            "ECN-capable packets are marked CE, with a probability or from a length of the queue on",
            "ecn_marking: {queue_threshold: 20 packets}",
            label="ECN marking",
            drawn_by="program",
            column=RunColumn("rule by which ECN-capable packets are marked CE, as JSON"),
            certified_by="ecn_marking",
        ),
    ] = None

    mtu_bytes: Annotated[
        Annotated[Size, Field(ge=68, le=65_535)] | None,
        as_written("mtu"),
        Impairment(
            "size",
            "gate",
            "longer frames are dropped; the Ethernet header does not count",
            "mtu: 1500 B",
            label="MTU",
            column=RunColumn("largest packet without Ethernet header; empty: no limit"),
            in_theory=True,
        ),
    ] = None

    packet_error_rate: Annotated[
        Probability,
        Impairment(
            "share",
            "pipe",
            "probability that a frame has an error",
            "packet_error_rate: 0.01",
            label="errors",
            drawn_by="netem",
            column=RunColumn("packet error rate of the link"),
            in_theory=True,
        ),
    ] = 0.0

    bit_error_rate: Annotated[
        float,
        Field(ge=0, le=LARGEST_BIT_ERROR_RATE),
        Impairment(
            "share",
            "errors",
            "probability that a bit has an error, at most 0.01",
            "bit_error_rate: 1.0e-6",
            label="errors",
            drawn_by="program",
            column=RunColumn("bit error rate of the link"),
        ),
    ] = 0.0
    """Bits are hit independent of each other: a frame of L bytes is hit with 1-(1-BER)^(8L)."""

    pattern: Annotated[
        Pattern | None,
        Impairment(
            "rule",
            "errors",
            "list of the packets or bits with errors",
            "pattern: {packets: [0, 7, 42]}",
            label="errors",
            column=RunColumn("packets or bits with errors that are listed one by one, as JSON", "error_pattern"),
            drawn_by="program",
        ),
    ] = None

    coding: Annotated[
        Coding | None,
        Impairment(
            "rule",
            "errors",
            "coded frames, which are lost with every packet in them",
            "coding: {frame_bytes: 1115, frame_error_rate: 0.001}",
            label="errors",
            drawn_by="program",
            column=RunColumn("coded frames, as JSON"),
        ),
    ] = None

    error_effect: Annotated[
        Literal["flip", "drop"],
        Impairment(
            "rule",
            "errors",
            "the effect of an error: `flip` a bit, or `drop` the frame",
            "error_effect: drop",
            label="errors",
            alone=False,
            column=RunColumn("effect of an error: flip or drop"),
            in_theory=True,
        ),
    ] = "flip"

    loss: Annotated[
        Loss | None,
        Impairment(
            "rule",
            "pipe",
            "losses in bursts",
            "loss: {model: gilbert_elliott, mean_rate: 0.01, burst_packets: 5}",
            label="loss",
            drawn_by="netem",
            words=lambda loss, share: loss_words(loss, share),
            column=RunColumn("model of losses in bursts, as JSON"),
        ),
    ] = None
    """In addition to errors. (Single losses: a packet error rate with the effect drop.)"""

    duplication_rate: Annotated[
        Probability,
        Impairment(
            "share",
            "pipe",
            "probability that a packet arrives twice",
            "duplication_rate: 0.001",
            label="duplication",
            drawn_by="netem",
            words=lambda rate, share: f"{share(rate)} of the packets",
            column=RunColumn("probability that a packet is duplicated"),
        ),
    ] = 0.0

    up: Annotated[
        bool, Impairment("switch", "pipe", "`false`: an outage", "up: false", label="outage", column=None)
    ] = True
    """Packets in flight arrive; `while_down` applies to new packets."""

    while_down: Annotated[
        Literal["drop", "hold"],
        Impairment(
            "rule",
            "pipe",
            "what happens to packets that enter during an outage: `drop` or `hold`",
            "while_down: hold",
            label="outage",
            alone=False,
            column=RunColumn("packets during an outage: drop or hold; empty: default", with_default=False),
            in_theory=True,
        ),
    ] = "drop"

    seed: Whole | None = None
    """Determines all random choices except which bit of a packet is flipped: the same seed hits the same packets.
    None: the kernel chooses one."""

    @model_validator(mode="before")
    @classmethod
    def _parse_queue(cls, given: Any, info: ValidationInfo) -> Any:
        if info.context is not FORM or not isinstance(given, Mapping):
            return given
        fields = {name: value for name, value in given.items() if value not in ("none", "unlimited")}
        if "queue" in fields:
            with keys_below("queue"):
                fields |= parse_queue(fields.pop("queue"))
        return fields

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        queues = [name for name in ("queue_bytes", "queue_ns", "queue_bdp") if getattr(self, name) is not None]
        errors = [name for name in ("packet_error_rate", "bit_error_rate", "pattern", "coding") if getattr(self, name)]
        if len(queues) > 1:
            raise unexpected(f"only one kind of queue, not both {' and '.join(queues)}")
        if queues and self.rate_bps is None:
            raise unexpected("a rate, or no queue: packets queue only before a rate limit")
        if len(errors) > 1:
            raise unexpected(f"only one kind of error, not both {' and '.join(errors)}")
        if self.loss is not None and self.packet_error_rate and self.error_effect == "drop":
            raise unexpected("single losses (packet_error_rate) or losses in bursts (loss), not both")
        if self.coding is not None and self.loss is not None:
            raise unexpected("lost frames (coding) or losses in bursts (loss), not both")
        self._check_queue_threshold()
        if self.reordering is not None and (self.jitter is not None or self.keeps_order):
            problem = "reordering requires keeps_order: false and cannot be combined with jitter"
            raise Invalid(Mistake(problem, fix="a jitter table can do both"))
        return self

    def _check_queue_threshold(self) -> None:
        level = self.ecn_marking.queue_threshold if self.ecn_marking else None
        if level is None:
            return
        if self.rate_bps is None:
            raise unexpected("a rate, or no queue_threshold of ecn_marking: packets queue only before a rate limit")
        in_packets = self.queue_bytes is None and self.queue_ns is None and self.queue_bdp is None
        capacity = self.queue_packets if in_packets else None
        if max(capacity or 0, level.amount if level.unit == "packets" else 0) > LONGEST_COUNTED_QUEUE:
            most = f"{LONGEST_COUNTED_QUEUE} packets"
            raise unexpected(f"a queue and a queue_threshold of at most {most}: with ecn_marking, the gate counts them")
        capacity = {"packets": capacity, "bytes": self.queue_bytes, "ns": self.queue_ns}[level.unit]
        if capacity is not None and level.amount >= capacity:
            raise unexpected("a queue_threshold of ecn_marking below the capacity of the queue")

    @property
    def unimpaired(self) -> bool:
        """True if packets pass unchanged."""
        changed = any(self.has(name) for name, row in impairments().items() if row.alone)
        other_queue = any(self.has(name) for name in ("queue_bytes", "queue_ns", "queue_bdp"))
        return not changed and not other_queue

    @property
    def without_rate(self) -> LinkSpec:
        """The link without its rate limit, and so without its queue."""
        of_a_rate = ("rate_bps", "queue_packets", "queue_bytes", "queue_ns", "queue_bdp", "ecn_marking")
        return self.model_copy(update={name: LinkSpec.model_fields[name].default for name in of_a_rate})

    @property
    def netem_draws(self) -> bool:
        """True if netem makes random choices."""
        return self._drawn_by("netem")

    @property
    def draws(self) -> bool:
        """True if there are random choices, so that a seed has an effect."""
        return self._drawn_by("netem", "program")

    def has(self, name: str) -> bool:
        """Return whether a field has another value than its default."""
        return bool(getattr(self, name) != LinkSpec.model_fields[name].default)

    def _drawn_by(self, *sources: str) -> bool:
        return any(impairments()[name].drawn_by in sources for name in self.drawn)

    @property
    def drawn(self) -> list[str]:
        """The fields whose values make random choices."""
        return [name for name, row in impairments().items() if row.drawn_by and self.has(name) and self._draws(name)]

    def _draws(self, name: str) -> bool:
        """Whether the value of a field that may make random choices does. A listed packet is dropped, or has a bit
        flipped that the seed chooses; a listed bit is flipped."""
        if name == "pattern":
            return bool(self.pattern and self.pattern.packets and self.error_effect == "flip")
        return bool(getattr(getattr(self, name), "draws", True))

    def to_wire(self) -> dict[str, Any]:
        """Return the link as it is written; default values are omitted."""
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


@cache
def impairments() -> dict[str, Impairment]:
    """Return the row of each field of a link that has one; a queue has its in the field for packets."""
    return {
        name: row
        for name, field in LinkSpec.model_fields.items()
        for row in field.metadata
        if isinstance(row, Impairment)
    }


def key_of(field: str) -> str:
    """Return the key by which a field of a link is written."""
    return "queue" if field == "queue_packets" else LinkSpec.model_fields[field].serialization_alias or field
