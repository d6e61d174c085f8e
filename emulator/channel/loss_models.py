"""Models of packet loss: in bursts (Gilbert and Elliott), and by the four states of tc-netem(8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from owlt.emulator.channel.text import Value
from owlt.inputs.mistake import unexpected


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


def loss_words(loss: Mapping[str, Any], share: Callable[[float], str]) -> str:
    """A written loss model in words; `share` writes a share."""
    if loss["model"] == "gilbert_elliott":
        return f"{share(loss['mean_rate'])} of the packets, in bursts of {loss['burst_packets']:g} on average"
    model = FourState.model_validate(loss)
    chances = [(name, getattr(model, name)) for name in FourState.model_fields if name != "model"]
    return "four states: " + ", ".join(f"{name} {value:g}" for name, value in chances)
