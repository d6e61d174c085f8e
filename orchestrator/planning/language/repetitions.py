"""Adaptive repetitions as they are written: {at_least: 6, at_most: 40, until_interval_percent: 5}."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from owlt.inputs.mistake import Invalid, Mistake, Place, got, unexpected
from owlt.inputs.validation import mistakes_in

MOST = 10_000


def _require_whole(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise unexpected("a whole number")
    return value


def _require_number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise unexpected("a number of percent, such as 5")
    return value


Count = Annotated[int, BeforeValidator(_require_whole)]


class Adaptive(BaseModel):
    """Repetitions of a permutation end when the 95 % interval of its median goodput is narrow enough."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at_least: Annotated[Count, Field(ge=2, le=MOST, description="number of repetitions before the first decision")]
    at_most: Annotated[Count, Field(ge=2, le=MOST, description="largest number of repetitions")]
    until_interval_percent: Annotated[
        float,
        BeforeValidator(_require_number),
        Field(gt=0, le=100, description="width of the interval in percent of the median, at which repetitions end"),
    ]

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.at_most <= self.at_least:
            expected = f"more than {self.at_least}, the value of 'at_least'"
            raise Invalid(Mistake(got(self.at_most), expected, where=Place(key=("at_most",))))
        return self

    @property
    def text(self) -> str:
        """The rule in words."""
        return (
            f"{self.at_least} to {self.at_most} repetitions, until the interval of the median goodput is "
            f"{self.until_interval_percent:g} % wide"
        )


def parse_repetitions(written: object) -> object:
    """A number, or the keys of `Adaptive`. Raises Invalid for anything else."""
    if isinstance(written, Adaptive):
        return written
    if isinstance(written, dict):
        try:
            return Adaptive.model_validate(written)
        except ValidationError as problem:
            raise Invalid(*mistakes_in(problem, Adaptive)) from None
    if isinstance(written, bool) or not isinstance(written, int) or not 1 <= written <= MOST:
        raise unexpected(f"a whole number from 1 to {MOST}, or {{at_least: 6, at_most: 40, until_interval_percent: 5}}")
    return written
