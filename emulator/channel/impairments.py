"""Effects of a link on packets in addition to delay and rate: jitter, reordering, losses in bursts, listed errors."""

from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, FailFast, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from owlt.emulator.channel.text import (
    LARGEST_TABLE,
    WIDEST_TABLE_VALUE,
    Positions,
    Spread,
    Value,
    as_written,
    parse_list,
)
from owlt.inputs.mistake import unexpected

SMALLEST_SHARE = 1 / LARGEST_TABLE


class Jitter(Value):
    """A random addition to the delay of each packet; the sum is never negative.

    `uniform` lies within `amount_ns` of 0. `normal` has mean 0 and standard deviation `amount_ns`, and `pareto`
    (shape 3) would have, but a table reaches no further than four of them: its tail is cut off there, which leaves a
    deviation of 0.74. `paretonormal` is a quarter of the one and three quarters of the other, quantile by quantile.
    `table` draws one of the `table`'s values, each as likely as the next, times `amount_ns`.
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

    The share is met by the nearest fraction with a denominator of at most 16,384.
    """

    rate: Annotated[float, Field(ge=SMALLEST_SHARE, le=1)]
    by_ns: Annotated[Spread, as_written("by")]

    @property
    def fraction(self) -> Fraction:
        """The share as netem gets it."""
        return Fraction(self.rate).limit_denominator(LARGEST_TABLE)


class _LossModel(Value):
    @model_serializer(mode="wrap")
    def _with_its_name(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Written with its name even if default values are omitted."""
        return {"model": getattr(self, "model"), **serialize(self)}  # noqa: B009  # each model has its own


class GilbertElliott(_LossModel):
    """Losses in bursts: in a bad state, left with probability 1 / `burst_packets` a packet, every packet is lost.

    Gilbert, "Capacity of a burst-noise channel" (1960), with h = 0 and k = 1 in the names of tc-netem(8).
    """

    model: Literal["gilbert_elliott"] = "gilbert_elliott"
    mean_rate: Annotated[float, Field(gt=0, lt=1)]
    """Share of packets lost in the long run."""
    burst_packets: Annotated[float, Field(ge=1)]
    """Mean number of consecutive packets lost."""

    @model_validator(mode="after")
    def _check_probabilities(self) -> Self:
        if self.to_bad > 1:
            least = self.mean_rate / (1 - self.mean_rate)
            raise unexpected(f"bursts of {least:.3g} packets at least for a mean loss rate of {self.mean_rate:g}")
        return self

    @property
    def to_good(self) -> float:
        """Probability, with each packet, of leaving the bad state: r."""
        return 1 / self.burst_packets

    @property
    def to_bad(self) -> float:
        """Probability, with each packet, of leaving the good state: p."""
        return self.to_good * self.mean_rate / (1 - self.mean_rate)


class FourState(_LossModel):
    """Losses by the four states of tc-netem(8): received (1), or in a burst (2); lost in a burst (3), or alone (4).

    Salsano, Ludovici, Ordine, Giannuzzi, "Definition of a general and intuitive loss model for packet networks
    and its implementation in the Netem module in the Linux kernel" (2012).
    """

    model: Literal["four_state"] = "four_state"
    p13: Annotated[float, Field(gt=0, le=1)]
    p31: Annotated[float, Field(gt=0, le=1)]
    p32: Annotated[float, Field(ge=0, le=1)] = 0.0
    p23: Annotated[float, Field(ge=0, le=1)] = 1.0
    p14: Annotated[float, Field(ge=0, le=1)] = 0.0

    @model_validator(mode="after")
    def _check_probabilities(self) -> Self:
        if self.p13 + self.p14 > 1 or self.p31 + self.p32 > 1:
            raise unexpected("p13 + p14 and p31 + p32 of at most 1")
        return self


Loss = Annotated[GilbertElliott | FourState, Field(discriminator="model")]


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
