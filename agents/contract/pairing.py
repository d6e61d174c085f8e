"""What an implementation must agree on with the other side of a transfer, stated once, in terms of its family.

Implementations of a family can talk to each other if each term that both name has one value. `agents.contract.pairs`
finds the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from owlt.agents.contract.placeholders import as_text
from owlt.agents.contract.side import Text, Value, one_of
from owlt.inputs.mistake import Invalid, Mistake, Place, unexpected
from owlt.inputs.validation import require_parameter

Parameter = Annotated[int | float | str, BeforeValidator(require_parameter)]


class Term(Value):
    """How an implementation takes one term of its family: a parameter of its profile, or a value that it always has."""

    model_config = one_of("parameter", "fixed")

    parameter: Text | None = Field(default=None, description="the parameter of the profile that has the value")
    fixed: Parameter | None = Field(default=None, description="the value, if the program has no other")
    values: dict[Text, Parameter] = Field(
        default={},
        description="the parameter's value for each value of the term, if they differ or not all are possible",
    )

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        if (self.parameter is None) == (self.fixed is None):
            raise unexpected("exactly one of parameter, fixed")
        if self.values and self.parameter is None:
            raise Invalid(Mistake("requires a parameter", fix="remove it", where=Place(key=("values",))))
        return self

    def of_parameter(self, value: Parameter) -> Parameter | None:
        """The value of the term that the parameter's value means; None: it means none of them."""
        if not self.values:
            return value
        return next((term for term, each in self.values.items() if as_text(each) == as_text(value)), None)

    def to_parameter(self, value: Parameter) -> Parameter | None:
        """The parameter's value for a value of the term; None: the implementation cannot have it."""
        return self.values.get(as_text(value)) if self.values else value


class Pairing(Value):
    """With whom an implementation can talk, and what must agree."""

    family: Annotated[
        Text, Field(description="text: its sender can talk to the receivers of this family, and the other way round")
    ]
    agree: Annotated[
        dict[Text, Term], Field(description="the terms of the family that it has in both roles; default: none")
    ] = {}
    sender: Annotated[dict[Text, Term], Field(description="further terms, of its sender alone; default: none")] = {}
    receiver: Annotated[dict[Text, Term], Field(description="further terms, of its receiver alone; default: none")] = {}

    @property
    def all_terms(self) -> set[str]:
        """The names of its terms, of either role."""
        return {*self.agree, *self.sender, *self.receiver}

    def terms(self, role: str) -> Mapping[str, Term]:
        """The terms that it has in a role."""
        return self.agree | (self.sender if role == "sender" else self.receiver)
