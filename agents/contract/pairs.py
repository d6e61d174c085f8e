"""Pairs: the sender of one implementation with the receiver of another, which is an implementation to everything else.

`pair_of` makes one: it gives both the same value for each term of their family (`agents.contract.pairing`), and the
pair the stricter limits, the longer time limit, and both sides' ports. A pair's parameters are those of its sides, as
`sender.NAME` and `receiver.NAME`, without those that follow from the other side.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from owlt.agents.contract.implementation import ROLES, Duration, Implementation, Pair, Parameter, Role
from owlt.agents.contract.limits import KnownLimit, Limits, Space, TimeLimit
from owlt.agents.contract.pairing import Term
from owlt.agents.contract.placeholders import as_text
from owlt.agents.contract.session_ports import SessionPorts
from owlt.inputs.axes import VARIANT, base_name

TO = "-to-"
"""Between the names of a pair's sides, the sender's first."""


class CannotPair(Exception):
    """Two implementations that cannot be the sides of a pair; the text is the reason."""


def pair_name(sender: str, receiver: str) -> str:
    """The name of a pair. The parameters that a variant changes follow, with the side that has them."""
    varied = [
        f"{VARIANT}{role}.{part}"
        for role, name in zip(ROLES, (sender, receiver), strict=True)
        for part in name.split(VARIANT)[1:]
    ]
    return base_name(sender) + TO + base_name(receiver) + "".join(varied)


def pair_of(
    sender: Implementation, receiver: Implementation, own: Mapping[str, str] = {}, needs_family: bool = True
) -> Implementation:
    """The pair of two implementations. `own` has its name, title and description where they are written by hand.

    Without `needs_family`, whoever names the sides knows that they can talk; they agree on the terms of the family that
    they share. Raises CannotPair.
    """
    families = [each.pairing.family if each.pairing else None for each in (sender, receiver)]
    if needs_family and (families[0] is None or families[0] != families[1]):
        raise CannotPair(_no_family(sender, receiver))
    sides: Mapping[Role, Implementation] = {"sender": sender, "receiver": receiver}
    for role, each in sides.items():
        if not each.has(role):
            raise CannotPair(f"no such side: {each.name} has no {role}, its command only exits")
    derived: set[str] = set()
    if families[0] == families[1]:
        agreement = _Agreement(sides)
        agreement.reach()
        sides, derived = agreement.agreed(), agreement.derived
    pair = Pair(family=families[0] or sender.protocol, sender=sides["sender"], receiver=sides["receiver"])
    return _merged(pair, dict(own), derived)


def with_parameters(implementation: Implementation, changes: Mapping[str, Parameter]) -> Implementation:
    """An implementation or a pair with other parameters.

    Raises ValueError for a name that it does not have, CannotPair if the sides of a pair then cannot agree.
    """
    pair = implementation.pair
    if pair is None:
        return implementation.with_parameters(dict(changes))
    if unknown := sorted(changes.keys() - implementation.parameters.keys()):
        known = ", ".join(sorted(implementation.parameters)) or "none"
        raise ValueError(f"{implementation.name} has no parameter {unknown[0]!r}; it has: {known}")
    sides = {
        role: pair.side(role).with_parameters(
            {name.removeprefix(f"{role}."): value for name, value in changes.items() if name.startswith(f"{role}.")}
        )
        for role in ROLES
    }
    own = {key: getattr(implementation, key) for key in ("name", "title", "description")}
    return pair_of(sides["sender"], sides["receiver"], own, needs_family=False)


def _no_family(sender: Implementation, receiver: Implementation) -> str:
    if missing := [each.name for each in (sender, receiver) if each.pairing is None]:
        return f"the profile of {missing[0]} has no 'pairing', which states with whom it can talk"
    assert sender.pairing and receiver.pairing, "checked"
    return f"{sender.name} talks {sender.pairing.family}, {receiver.name} talks {receiver.pairing.family}"


@dataclass
class _Agreement:
    """The search for one value of each term that both sides name."""

    sides: Mapping[Role, Implementation]
    values: dict[str, Parameter] = field(default_factory=dict)
    """Of the terms."""
    chosen: dict[Role, dict[str, Parameter]] = field(default_factory=lambda: {"sender": {}, "receiver": {}})
    """Of the parameters of each side."""
    derived: set[str] = field(default_factory=set)
    """The parameters, as those of a pair, whose values follow from the other side."""

    def reach(self) -> None:
        """Fixed values first; then those that the names of variants state; then the sender's.

        Raises CannotPair if a term would have two values.
        """
        terms = [term for term in self._terms("sender") if term in self._terms("receiver")]
        for role in ROLES:
            for term in terms:
                if (value := self._terms(role)[term].fixed) is not None:
                    self._set(term, value)
        fixed = set(self.values)
        stated = {role: {term for term in terms if self._is_stated(role, term)} for role in ROLES}
        for role in ROLES:
            for term in terms:
                if term in stated[role]:
                    self._set(term, self._current(role, term))
        for term in terms:
            if term not in self.values:
                self._set(term, self._current("sender", term))
        for role in ROLES:
            for term in terms:
                parameter = self._terms(role)[term].parameter
                of_receiver = term in stated["receiver"] - stated["sender"]
                if parameter and (term in fixed or (role == "sender") == of_receiver):
                    self.derived.add(f"{role}.{parameter}")

    def agreed(self) -> dict[Role, Implementation]:
        """The sides with the values found."""
        return {role: each.with_parameters(self.chosen[role]) for role, each in self.sides.items()}

    def _terms(self, role: Role) -> Mapping[str, Term]:
        pairing = self.sides[role].pairing
        return pairing.terms(role) if pairing else {}

    def _is_stated(self, role: Role, term: str) -> bool:
        """Whether the name of a variant has the value: one of another value would be called by a wrong name."""
        varied = {part.partition("=")[0] for part in self.sides[role].name.split(VARIANT)[1:]}
        return self._terms(role)[term].parameter in varied

    def _set(self, term: str, value: Parameter) -> None:
        """Give a term its value, and with it the parameters, and the other terms that have the same parameter."""
        if term in self.values:
            if as_text(self.values[term]) != as_text(value):
                raise CannotPair(self._difference(term, self.values[term], value))
            return
        self.values[term] = value
        for role in ROLES:
            each = self._terms(role).get(term)
            if each is None:
                continue
            if each.fixed is None:
                self._set_parameter(role, term, each, value)
            elif as_text(each.fixed) != as_text(value):
                raise CannotPair(self._difference(term, value, each.fixed))

    def _set_parameter(self, role: Role, term: str, how: Term, value: Parameter) -> None:
        implementation, parameter = self.sides[role], str(how.parameter)
        written = how.to_parameter(value)
        if written is None or not implementation.allows(parameter, written):
            possible = ", ".join(how.values) or ", ".join(map(as_text, implementation.choices.get(parameter, ())))
            raise CannotPair(
                f"{term} would be {as_text(value)}, which {implementation.name} cannot have as the {role}: its "
                f"{parameter} has values for {possible}"
            )
        before = self.chosen[role].setdefault(parameter, written)
        if as_text(before) != as_text(written):
            raise CannotPair(
                f"{parameter} of {implementation.name} would be {as_text(before)} and, for {term}, {as_text(written)}"
            )
        for other, each in self._terms(role).items():
            if each.parameter == parameter and other in self._terms("receiver" if role == "sender" else "sender"):
                self._set(other, self._meant(role, other, written))

    def _current(self, role: Role, term: str) -> Parameter:
        return self._meant(role, term, self.sides[role].parameters[str(self._terms(role)[term].parameter)])

    def _meant(self, role: Role, term: str, written: Parameter) -> Parameter:
        how = self._terms(role)[term]
        value = how.of_parameter(written)
        if value is None:
            raise CannotPair(
                f"{self.sides[role].name} has {how.parameter} {as_text(written)}, and its pairing has no {term} for it"
            )
        return value

    def _difference(self, term: str, one: Parameter, other: Parameter) -> str:
        """A term with two values, and whose they are if each side has no other."""
        own = [
            f"{self.sides[role].name} has {as_text(fixed)}"
            for role in ROLES
            if (fixed := self._terms(role)[term].fixed) is not None
        ]
        if len(own) == len(ROLES):
            return f"{term} must agree, and neither can change it: {', '.join(own)}"
        return f"{term} must agree, and would have to be {as_text(one)} and {as_text(other)}"


def _merged(pair: Pair, own: dict[str, str], derived: Iterable[str]) -> Implementation:
    """The pair as an implementation."""
    sender, receiver = pair.sender, pair.receiver
    clocks = [clock for clock in sender.clocks if clock in receiver.clocks]
    if not clocks:
        raise CannotPair(f"{sender.name} works on {_all(sender.clocks)}, {receiver.name} on {_all(receiver.clocks)}")
    if not set(sender.limits.ip_versions) & set(receiver.limits.ip_versions):
        raise CannotPair(f"{sender.name} and {receiver.name} have no version of IP in common")
    if sender.starts_first != receiver.starts_first:
        raise CannotPair(
            f"{sender.name} starts its {sender.starts_first} first, {receiver.name} its {receiver.starts_first}: both "
            "would wait for the other, or both would call"
        )
    parameters = _parameters(pair, set(derived))
    values: dict[str, Any] = {
        "name": own.get("name") or pair_name(sender.name, receiver.name),
        "title": own.get("title") or _title(sender.title, receiver.title),
        "protocol": sender.protocol
        if sender.protocol == receiver.protocol
        else f"{sender.protocol}, {receiver.protocol}",
        "description": own.get("description") or f"The sender of {sender.name} with the receiver of {receiver.name}.",
        "clocks": clocks,
        "limits": _stricter(sender.limits, receiver.limits),
        "known_limits": [each for role in ROLES for each in _limits_of(pair.side(role), role, parameters)],
        "run_directory": Space(
            file_sizes=max(sender.run_directory.file_sizes, receiver.run_directory.file_sizes),
            extra_bytes=max(sender.run_directory.extra_bytes, receiver.run_directory.extra_bytes),
        ),
        "capabilities": list(dict.fromkeys([*sender.capabilities, *receiver.capabilities])),
        "starts_first": sender.starts_first,
        "sender": sender.sender,
        "receiver": receiver.receiver,
        "duration": _duration(sender, receiver),
        "received_file": receiver.received_file,
        "parameters": parameters,
        "choices": {
            of_side: each
            for role in ROLES
            for name, each in pair.side(role).choices.items()
            if (of_side := f"{role}.{name}") in parameters
        },
        "session": _session(sender, receiver),
        "done": _done(sender, receiver),
        "time_limit": TimeLimit(
            **{
                key: max(getattr(sender.time_limit, key), getattr(receiver.time_limit, key))
                for key in TimeLimit.model_fields
            }
        ),
        "hang_s": max(sender.hang_s, receiver.hang_s),
        "keep": list(dict.fromkeys([*sender.keep, *receiver.keep])),
        "not_repeatable": _not_repeatable(sender, receiver),
        "deterministic": sender.deterministic is True and receiver.deterministic is True,
        "dissector": _dissector(sender.dissector, receiver.dissector),
        "pair": pair,
    }
    return Implementation.model_construct(**values)


def _all(words: Iterable[str]) -> str:
    return " and ".join(words)


def _title(sender: str, receiver: str) -> str:
    """CFDP (cfdp-py to LibreCube) for CFDP (cfdp-py) and CFDP (LibreCube)."""
    form = r"(?P<protocol>[^()]+) \((?P<program>[^()]+)\)"
    one, other = re.fullmatch(form, sender), re.fullmatch(form, receiver)
    if one and other and one["protocol"] == other["protocol"]:
        return f"{one['protocol']} ({one['program']} to {other['program']})"
    return f"{sender} to {receiver}"


def _stricter(one: Limits, other: Limits) -> Limits:
    strictest = {"largest_file_bytes": min, "slowest_rate_bps": max, "longest_one_way_delay_s": min}
    values = {key: [value for each in (one, other) if (value := getattr(each, key)) is not None] for key in strictest}
    common = tuple(version for version in one.ip_versions if version in other.ip_versions)
    return Limits(ip_versions=common, **{key: strictest[key](each) for key, each in values.items() if each})


def _limits_of(side: Implementation, role: Role, parameters: Mapping[str, Parameter]) -> Iterator[KnownLimit]:
    """The known limits that a side has in a pair with these parameters."""
    for limit in side.known_limits:
        names = {name: f"{role}.{name}" for name in limit.parameters}
        decided = {name for name, of_side in names.items() if of_side not in parameters}
        always = limit.model_copy(update={"parameters": {name: limit.parameters[name] for name in decided}})
        if limit.side in (None, role) and always.applies_to(side.parameters):
            changing = {of_side: limit.parameters[name] for name, of_side in names.items() if name not in decided}
            yield limit.model_copy(update={"why": f"{side.name}: {limit.why}", "parameters": changing, "side": None})


def _duration(sender: Implementation, receiver: Implementation) -> Duration | None:
    if sender.duration is None or receiver.duration is None:
        return None
    return receiver.duration.model_copy(update={"sender": sender.duration.sender})


def _parameters(pair: Pair, derived: set[str]) -> dict[str, Parameter]:
    """The parameters of the sides that have an effect there, without those that follow from the other side."""
    return {
        name: value
        for role in ROLES
        for each, value in pair.side(role).parameters.items()
        if each in pair.side(role).used_by(role) and (name := f"{role}.{each}") not in derived
    }


def _session(sender: Implementation, receiver: Implementation) -> SessionPorts:
    """The ports of both by default; any if they depend on the run. A run has those of its own parameters."""
    try:
        return sender.session_by_default.joined(receiver.session_by_default)
    except KeyError:
        return SessionPorts(ports="any")


def _done(
    sender: Implementation, receiver: Implementation
) -> Literal["both_exit", "receiver_exits", "sender_exits", "file_delivered"]:
    """The end of a run: the exits that mean something, by the profile of each side."""
    of_sender = sender.done in ("both_exit", "sender_exits")
    of_receiver = receiver.done in ("both_exit", "receiver_exits")
    if of_sender and of_receiver:
        return "both_exit"
    return "sender_exits" if of_sender else "receiver_exits" if of_receiver else "file_delivered"


def _not_repeatable(sender: Implementation, receiver: Implementation) -> str | None:
    reasons = [f"{each.name}: {each.not_repeatable}" for each in (sender, receiver) if each.not_repeatable]
    return "; ".join(dict.fromkeys(reasons)) or None


def _dissector(one: list[str], other: list[str]) -> list[str]:
    """The options of both, each pair of words once; a dissector of one word stands for itself."""
    if len(one) % 2 or len(other) % 2:
        return one
    words = dict.fromkeys(zip([*one, *other][::2], [*one, *other][1::2], strict=True))
    return [word for option in words for word in option]
