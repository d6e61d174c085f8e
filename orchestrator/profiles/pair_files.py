"""A pair written by hand: a YAML file with the names of the implementations whose sides it has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from owlt.agents.contract.implementation import ROLES, Name, Parameter
from owlt.agents.contract.side import Text, Value
from owlt.inputs.mistake import Mistake, got
from owlt.inputs.reader import Document
from owlt.inputs.validation import mistakes_in
from owlt.orchestrator.errors import ProfileError


class Member(Value):
    """The implementation that a side of a pair comes from."""

    from_: Annotated[
        Text,
        Field(
            alias="from",
            description="the implementation whose side it is: a name, or the path of a file, relative to this one",
        ),
    ]
    parameters: dict[str, Parameter] = Field(
        default={}, description="parameters of this implementation to change; default: none"
    )


class PairProfile(Value):
    """The sender of one implementation with the receiver of another."""

    name: Annotated[Name, Field(description="the file name without .yaml: lower-case letters, digits, . _ and -")]
    title: Annotated[Text | None, Field(description="text: its name in figures; default: both titles")] = None
    description: Annotated[
        Text | None, Field(description="text: what users must know about it; default: whose sides it has")
    ] = None
    sender: Annotated[Member, Field(description="whose sender it has")]
    receiver: Annotated[Member, Field(description="whose receiver it has")]

    @property
    def own(self) -> dict[str, str]:
        """What is written about the pair itself."""
        return self.model_dump(include={"name", "title", "description"}, exclude_none=True)


def is_pair(document: Any) -> bool:
    """Whether the document of a file is a pair: one of its sides comes from another file."""
    return isinstance(document, dict) and any(
        isinstance(side := document.get(role), dict) and "from" in side for role in ROLES
    )


def read_pair(path: Path, document: Document) -> PairProfile:
    """The pair in a file. Raises ProfileError with every mistake in it."""
    try:
        pair = PairProfile.model_validate(document.value)
    except ValidationError as problem:
        raise ProfileError(*map(document.positions.located, mistakes_in(problem, PairProfile))) from problem
    if pair.name != path.stem:
        where, fix = document.positions.place(("name",)), "change the name or rename the file"
        raise ProfileError(Mistake(got(pair.name), f"{path.stem!r}, the name of the file", fix, where))
    return pair
