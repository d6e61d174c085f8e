"""Pairs, the sender of one implementation with the receiver of another: those of a sweep, by its key `pairs`, and those
that a user writes as files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import permutations, product
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from owlt.agents.contract.implementation import ROLES, Implementation, Name, Parameter
from owlt.agents.contract.pairs import CannotPair, pair_name, pair_of
from owlt.agents.contract.side import Text, Value
from owlt.inputs.axes import base_name, is_among
from owlt.inputs.mistake import Mistake, Place, got
from owlt.inputs.reader import Document
from owlt.inputs.sweep import Advertised, EachAgainst, Pairs
from owlt.inputs.validation import mistakes_in
from owlt.orchestrator.errors import ProfileError, SweepMistake, did_you_mean


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
        Text | None,
        Field(description="text: what users must know about it; default: the names of both implementations"),
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


def pairs_of(
    written: Pairs | None, implementations: Mapping[str, Implementation]
) -> tuple[dict[str, Implementation], dict[str, str]]:
    """The pairs of a sweep's implementations by name, and why others of the same family are left out, by name.

    A pair that is named has to be possible, in one variant at least. Raises SweepMistake.
    """
    plain = {name: each for name, each in implementations.items() if each.pair is None}
    if isinstance(written, list):
        return _named(written, plain)
    against = written.each_against if isinstance(written, EachAgainst) else None
    if against is not None and not _variants_of(against, plain):
        where = Place(key=("pairs", "each_against"))
        raise SweepMistake(_unknown(against, plain, where))
    meant = [
        (sender, receiver)
        for sender, receiver in (permutations(plain.values(), 2) if written else ())
        if (against is None or any(is_among(each.name, [against]) for each in (sender, receiver)))
        and base_name(sender.name) != base_name(receiver.name)
        and _are_related(sender, receiver)
    ]
    pairs, left_out = _possible(meant)
    return pairs, left_out | (_alone(plain) if written == "all" else {})


def advertised_to_pairs(
    advertised: Mapping[str, Advertised], implementations: Mapping[str, Implementation]
) -> dict[str, Advertised]:
    """What a sweep advertises, also to the pairs with the sender of an implementation to which it does."""
    senders = {base_name(each.name): base_name(each.pair.sender.name) for each in implementations.values() if each.pair}
    return {name: advertised[sender] for name, sender in senders.items() if sender in advertised} | dict(advertised)


def _named(
    written: list[list[str]], implementations: Mapping[str, Implementation]
) -> tuple[dict[str, Implementation], dict[str, str]]:
    """The pairs with these sides, and the variants of them that are left out. A name stands for all variants of an
    implementation."""
    pairs: dict[str, Implementation] = {}
    left_out: dict[str, str] = {}
    for place, (sender, receiver) in enumerate(written):
        for at, name in enumerate((sender, receiver)):
            if not _variants_of(name, implementations):
                raise SweepMistake(_unknown(name, implementations, Place(key=("pairs", place, at))))
        where = Place(key=("pairs", place))
        if sender == receiver:
            fix = "remove it: 'implementations' has it"
            raise SweepMistake(Mistake(f"{sender} with itself is no pair", fix=fix, where=where))
        if (first := written.index([sender, receiver])) != place:
            problem = f"{sender} to {receiver} is already there: pairs[{first}]"
            raise SweepMistake(Mistake(problem, fix="remove one of them", where=where))
        sides = product(_variants_of(sender, implementations), _variants_of(receiver, implementations))
        possible, reasons = _possible(sides)
        if not possible:
            name, reason = next(iter(reasons.items()))
            raise SweepMistake(Mistake(f"{name} is not possible: {reason}", where=where))
        pairs |= possible
        left_out |= reasons
    return pairs, left_out


def _possible(
    sides: Iterable[tuple[Implementation, Implementation]],
) -> tuple[dict[str, Implementation], dict[str, str]]:
    """The pairs of these senders and receivers by name, and why others are not possible, by name."""
    pairs: dict[str, Implementation] = {}
    reasons: dict[str, str] = {}
    for sender, receiver in sides:
        try:
            pair = pair_of(sender, receiver)
            pairs[pair.name] = pair
        except CannotPair as reason:
            reasons[pair_name(sender.name, receiver.name)] = str(reason)
    return pairs, reasons


def _variants_of(name: str, implementations: Mapping[str, Implementation]) -> list[Implementation]:
    return [each for each in implementations.values() if is_among(each.name, [name])]


def _unknown(name: str, implementations: Mapping[str, Implementation], where: Place) -> Mistake:
    known = list(dict.fromkeys(map(base_name, implementations)))
    fix = did_you_mean(name.rpartition("/")[2].removesuffix(".yaml"), known, "add it to 'implementations'")
    return Mistake(got(name), f"an implementation of this sweep: {', '.join(known)}", fix, where)


def _are_related(one: Implementation, other: Implementation) -> bool:
    return bool(one.pairing and other.pairing and one.pairing.family == other.pairing.family)


def _alone(implementations: Mapping[str, Implementation]) -> dict[str, str]:
    """The implementations that have no other of their family, and why."""
    alone = {}
    for each in implementations.values():
        others = [other for other in implementations.values() if base_name(other.name) != base_name(each.name)]
        if not any(_are_related(each, other) for other in others):
            families = [other.pairing.family for other in others if other.pairing]
            alone[base_name(each.name)] = (
                str(
                    Mistake(
                        f"no other implementation of this sweep talks {each.pairing.family}",
                        fix=did_you_mean(each.pairing.family, families),
                    )
                )
                if each.pairing
                else "its profile has no 'pairing', which states with whom it can talk"
            )
    return alone
