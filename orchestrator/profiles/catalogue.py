"""Finds implementations, channels and sweeps: those that come with owlt by name, a user's by the path of its file.

`implementations_of` and `channels_of` find those of a sweep. An implementation has a variant for each combination of
parameters that the sweep varies: "norm" with parity_segments 0 and 8 has two, each with its own name, colour and box.
A pair of two implementations that come with owlt has a name too: cfdp-to-cfdp-librecube.
`resolve` leads from a sweep file to its plan, and collects every mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import Any, Literal

from owlt import PACKAGE
from owlt.agents.contract.implementation import (
    ROLES,
    ContractError,
    Implementation,
    Parameter,
    Role,
    load_implementation,
)
from owlt.agents.contract.pairs import TO, CannotPair, pair_name, pair_of, with_parameters
from owlt.agents.contract.placeholders import as_text
from owlt.emulator.channel.channel_file import Changes, ChannelProfile, load_channel
from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.faults import InvalidChannel
from owlt.inputs.axes import base_name
from owlt.inputs.mistake import Mistake, Place, got
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.errors import NoSuchFile, NotFound, ProfileError, SweepMistake, did_you_mean
from owlt.orchestrator.planning.plan import Plan, plan_sweep
from owlt.orchestrator.profiles.load import as_written, read_document, read_sweep_document, refuse_other_kind, sweep_of
from owlt.orchestrator.profiles.pairs import Member, advertised_to_pairs, is_pair, pairs_of, read_pair

Parameters = Mapping[str, Parameter | Sequence[Parameter]]


def variants(implementation: Implementation, parameters: Parameters) -> list[Implementation]:
    """One implementation for each combination of the parameters for which a sweep has several values.

    Raises ValueError for a parameter that it does not have, CannotPair for values with which a pair cannot agree.
    """
    varied = {name: values for name, values in parameters.items() if isinstance(values, list)}
    fixed = {name: value for name, value in parameters.items() if not isinstance(value, list)}
    return [
        _variant(with_parameters(implementation, {**fixed, **dict(zip(varied, chosen, strict=True))}), list(varied))  # type: ignore[dict-item]
        for chosen in product(*varied.values())
    ]


def _variant(implementation: Implementation, varied: list[str]) -> Implementation:
    chosen = {name: as_text(implementation.parameters[name]) for name in varied}
    name = "+".join(
        [implementation.name, *(f"{key}={re.sub(r'[^A-Za-z0-9_.-]', '-', text)}" for key, text in chosen.items())]
    )
    title = ", ".join([implementation.title, *(f"{key} {text}" for key, text in chosen.items())])
    return implementation.model_copy(update={"name": name, "title": title})


PROFILES = (PACKAGE / "profiles").resolve()
ProfileKind = Literal["implementation", "channel"]
_KEYS = {"implementation": "implementations", "channel": "channel"}
"""The key of a sweep that names profiles, by their kind."""
_LISTS = {"implementation": "owlt implementations list", "channel": "owlt channel list"}


def profile_path(kind: ProfileKind, name: str) -> Path:
    """The file of a profile that comes with owlt, by its name, or a file of that path.

    Raises NotFound for a name, NoSuchFile for a path, ProfileError for a file of another kind.
    """
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
        refuse_other_kind(path, read_document(path).value, kind)
        return path
    known = {path.stem: path for path in (PROFILES / f"{kind}s").glob("*.yaml")}
    if name not in known:
        fix = did_you_mean(name, known, f"see '{_LISTS[kind]}'; a path ends with .yaml")
        if kind == "implementation" and TO in name:
            side = next((side for side in name.split(TO) if side not in known), name)
            of_a_file = f"{side!r} does not come with owlt; give the path of the pair's file, such as {name}.yaml"
            fix = did_you_mean(side, known, of_a_file)
        raise NotFound(Mistake(f"{kind} {name!r}: not found", fix=fix))
    return known[name]


def sweep_path(name: str) -> Path:
    """The file of a sweep that comes with owlt, by its name, or a file of that path. Raises NotFound for a name."""
    path = Path(name)
    if path.is_file() or path.suffix or len(path.parts) > 1:
        return path
    known = {path.stem: path for path in sweep_files()}
    if name not in known:
        fix = did_you_mean(name, known, "see 'owlt sweeps list'; a path ends with .yaml")
        raise NotFound(Mistake(f"sweep {name!r}: not found", fix=fix))
    return known[name]


def sweep_files() -> list[Path]:
    """The sweeps that come with owlt."""
    return sorted((PROFILES / "sweeps").glob("*.yaml"))


def implementation_files() -> list[Path]:
    """The implementation profiles that come with owlt."""
    return sorted((PROFILES / "implementations").glob("*.yaml"))


def find_implementation(name: str) -> Implementation:
    """The implementation or pair of that name, or in the file of that path.

    Raises NotFound for an unknown name, NoSuchFile for a path without a file, ProfileError for a file that breaks the
    contract, and for a pair whose sides cannot talk to each other.
    """
    if sides := _sides_in(name):
        sender, receiver = map(find_implementation, sides)
        try:
            return pair_of(sender, receiver)
        except CannotPair as reason:
            raise ProfileError(Mistake(f"{name} is not possible: {reason}")) from reason
    path = profile_path("implementation", name)
    if _is_pair(name):
        return _written_pair(path)
    try:
        implementation = load_implementation(path)
    except ContractError as problem:
        raise ProfileError(*problem.mistakes) from problem
    if name.endswith((".yaml", ".yml")) and (mistakes := list(_misspelt_terms(implementation))):
        raise ProfileError(*map(read_document(path).positions.located, mistakes))
    return implementation


def _misspelt_terms(implementation: Implementation) -> Iterator[Mistake]:
    """A mistake for each term under `pairing` that is spelled much like one of its family that it does not have."""
    pairing = implementation.pairing
    if pairing is None:
        return
    others = [each.pairing for each in map(load_implementation, implementation_files()) if each.pairing]
    of_family = {term for each in others if each.family == pairing.family for term in each.all_terms}
    for key in ("agree", *ROLES):
        for term in getattr(pairing, key):
            if term not in of_family and (fix := did_you_mean(term, of_family - pairing.all_terms)):
                problem = f"is not a term of the family {pairing.family!r}"
                yield Mistake(problem, fix=fix, where=Place(key=("pairing", key, term)))


def _sides_in(name: str) -> tuple[str, str] | None:
    """The names of sender and receiver in the name of a pair of implementations that come with owlt; or None."""
    if TO not in name or name.endswith((".yaml", ".yml")):
        return None
    known = {path.stem for path in implementation_files()}
    parts = name.split(TO)
    halves = ((TO.join(parts[:at]), TO.join(parts[at:])) for at in range(1, len(parts)))
    return None if name in known else next((each for each in halves if known.issuperset(each)), None)


def _is_pair(name: str) -> bool:
    """Whether a name, or the file of that path, is a pair's. Raises as `find_implementation`."""
    return bool(_sides_in(name)) or is_pair(read_document(profile_path("implementation", name)).value)


def side_files(name: str) -> dict[Role, Path]:
    """The profiles that sender and receiver of a pair come from. Raises as `find_implementation`."""
    sides = _sides_in(name)
    if sides is None:
        path = profile_path("implementation", name)
        profile = read_pair(path, read_document(path))
        sides = _member_name(path, profile.sender), _member_name(path, profile.receiver)
    return {role: profile_path("implementation", side) for role, side in zip(ROLES, sides, strict=True)}


def _member_name(path: Path, member: Member) -> str:
    """The name or the path of the implementation that a side of the pair in a file comes from."""
    return str(path.parent / member.from_) if member.from_.endswith((".yaml", ".yml")) else member.from_


def _written_pair(path: Path) -> Implementation:
    """The pair in a file. Raises ProfileError."""
    document = read_document(path)
    profile = read_pair(path, document)
    members, mistakes = {}, []
    for role in ROLES:
        named = getattr(profile, role)
        member_name = _member_name(path, named)
        where = document.positions.place((role, "from"))
        try:
            if _is_pair(member_name):  # it is not read: this file may be its side
                problem = f"{named.from_} is a pair itself"
                mistakes.append(Mistake(problem, "an implementation with both sides", where=where))
                continue
            member = find_implementation(member_name)
        except NotFound as missing:
            mistakes += [mistake.at(where) for mistake in missing.mistakes]
            continue
        except NoSuchFile as missing:
            fix = f"a relative path is resolved against the directory of {path.name}"
            mistakes += [replace(mistake, fix=fix, where=where) for mistake in missing.mistakes]
            continue
        for name, value in named.parameters.items():
            key = document.positions.place((role, "parameters", name))
            mistakes += [mistake.at(key) for mistake in _parameter_mistakes(member, name, value)]
        if not mistakes:
            members[role] = member.with_parameters(named.parameters)
    if mistakes:
        raise ProfileError(*mistakes)
    try:
        return pair_of(members["sender"], members["receiver"], profile.own, needs_family=False)
    except CannotPair as reason:
        fix = "change the parameters of a side, or take the side from another implementation"
        raise ProfileError(Mistake(f"is not possible: {reason}", fix=fix, where=Place(str(path)))) from reason


def implementations_of(sweep: Sweep) -> dict[str, Implementation]:
    """The sweep's implementations by name, a variant for each combination of parameters that it varies; then its pairs.

    Raises SweepMistake for names that are not found, implementations that do not work on the sweep's clock, share a
    name or have no such parameter, pairs that are named and not possible; ProfileError for a file that breaks the
    contract.
    """
    return _contestants(sweep)[0]


def _contestants(sweep: Sweep) -> tuple[dict[str, Implementation], dict[str, str]]:
    """The implementations and pairs of a sweep by name, and why other pairs are left out."""
    implementations, mistakes = _implementations(sweep)
    mistakes += _clock_mistakes(sweep, implementations)
    mistakes += _naming_mistakes(sweep, implementations, some_are_missing=bool(mistakes))
    mistakes += _chosen_mistakes(sweep, implementations)
    if mistakes:
        raise SweepMistake(*mistakes)
    by_name = _with_variants(sweep, implementations)
    pairs, left_out = pairs_of(sweep.pairs, by_name)
    pairs = {name: pair for name, pair in pairs.items() if name not in by_name}
    of_pairs = {base_name(name): pair for name, pair in pairs.items()}
    if mistakes := [
        *_pair_mistakes(sweep, {**implementations, **of_pairs}, left_out),
        *_chosen_mistakes(sweep, of_pairs),
    ]:
        raise SweepMistake(*mistakes)
    return by_name | _with_variants(sweep, pairs), left_out


def _pair_mistakes(
    sweep: Sweep, implementations: Mapping[str, Implementation], left_out: Mapping[str, str]
) -> Iterator[Mistake]:
    """A mistake for each pair under `parameters` or `advertised` that the sweep does not make."""
    for key, names in (("parameters", sweep.parameters), ("advertised", sweep.advertised)):
        for name in names:
            if name not in implementations:
                reason = left_out.get(name, "they do not talk to each other, or 'pairs' does not name them")
                yield Mistake(f"is not a pair of this sweep: {reason}", fix="remove it", where=Place(key=(key, name)))


def _with_variants(sweep: Sweep, implementations: Mapping[str, Implementation]) -> dict[str, Implementation]:
    by_name: dict[str, Implementation] = {}
    for name, plain in implementations.items():
        where = Place(key=("parameters", base_name(name)))
        try:
            varied = variants(plain, sweep.parameters.get(base_name(name), {}))
        except CannotPair as reason:
            raise SweepMistake(Mistake(f"{name} is then not possible: {reason}", where=where)) from reason
        for variant in varied:
            if variant.name in by_name:
                raise SweepMistake(Mistake(f"two of its values make {variant.name}", fix="remove one", where=where))
            by_name[variant.name] = variant
    return by_name


def not_found(kind: ProfileKind, document: Mapping[str, Any]) -> list[Mistake]:
    """The mistakes in a sweep's names of implementations or channels: neither a profile's name nor a file's path.

    `document` is the sweep as it is written; the rest of it may be wrong.
    """
    key = _KEYS[kind]
    written = document.get(key)
    names = written if isinstance(written, list) else [written]
    return [mistake for name in names if isinstance(name, str) and (mistake := mistake_in_name(kind, name))]


def mistake_in_name(kind: ProfileKind, name: str) -> Mistake | None:
    """The mistake in a name in a sweep that no profile has, or in a path where there is no file."""
    where = Place(key=(_KEYS[kind],))
    if kind == "implementation" and _sides_in(name):
        return None
    try:
        profile_path(kind, name)
    except NotFound as problem:
        [mistake] = problem.mistakes
        return Mistake(f"{name!r} is not a known {kind}", fix=mistake.fix, where=where)
    except NoSuchFile as problem:
        [mistake] = problem.mistakes
        return mistake.at(where)
    except ProfileError:  # the file is there; its mistakes are reported when it is read
        pass
    return None


def _implementations(sweep: Sweep) -> tuple[dict[str, Implementation], list[Mistake]]:
    """The implementations that exist, by name, and the mistakes in the other names."""
    by_name: dict[str, Implementation] = {}
    mistakes = []
    for name in sweep.implementations:
        if mistake := mistake_in_name("implementation", name):
            mistakes.append(mistake)
            continue
        try:
            implementation = find_implementation(name)
        except ProfileError as impossible:
            if not _sides_in(name):
                raise
            mistakes += [mistake.at(Place(key=("implementations",))) for mistake in impossible.mistakes]
            continue
        if implementation.name in by_name:
            problem = f"{name!r} and another are both named {implementation.name!r}"
            mistakes.append(Mistake(problem, fix="rename one", where=Place(key=("implementations",))))
        by_name[implementation.name] = implementation
    return by_name, mistakes


def _clock_mistakes(sweep: Sweep, implementations: dict[str, Implementation]) -> Iterator[Mistake]:
    for name, implementation in implementations.items():
        if sweep.clock not in implementation.clocks:
            fix = f"change 'clock', or remove {name} from 'implementations'"
            problem = f"{got(sweep.clock)}, but {name} works only on {' and '.join(implementation.clocks)}"
            yield Mistake(problem, fix=fix, where=Place(key=("clock",)))


def _naming_mistakes(
    sweep: Sweep, implementations: dict[str, Implementation], some_are_missing: bool
) -> Iterator[Mistake]:
    known = {*implementations, *(pair_name(*sides) for sides in permutations(implementations, 2) if sweep.pairs)}
    for key, names in (("parameters", sweep.parameters), ("advertised", sweep.advertised)):
        for name in names:
            if name not in known and not some_are_missing:
                fix = did_you_mean(name, implementations, f"it has {', '.join(implementations)}")
                yield Mistake("is not an implementation of this sweep", fix=fix, where=Place(key=(key, name)))


def _chosen_mistakes(sweep: Sweep, implementations: Mapping[str, Implementation]) -> Iterator[Mistake]:
    """A mistake for each parameter under `parameters` that an implementation does not have, and for each value that a
    parameter cannot have."""
    for name, implementation in implementations.items():
        for parameter, written in sweep.parameters.get(name, {}).items():
            values = written if isinstance(written, list) else [written]
            mistakes = (each for value in values for each in _parameter_mistakes(implementation, parameter, value))
            yield from (each.at(Place(key=("parameters", name, parameter))) for each in dict.fromkeys(mistakes))


def _parameter_mistakes(implementation: Implementation, parameter: str, value: Parameter) -> Iterator[Mistake]:
    """The mistakes in one value of a parameter; the caller adds their place."""
    if not implementation.allows(parameter, value):
        choices = list(map(as_text, implementation.choices[parameter]))
        yield Mistake(got(value), f"one of {', '.join(choices)}", did_you_mean(as_text(value), choices, ""))
    if parameter not in implementation.parameters:
        known = f"it has {', '.join(sorted(implementation.parameters)) or 'none'}"
        fix = did_you_mean(parameter, implementation.parameters, known)
        yield Mistake(f"is not a parameter of {implementation.name}", fix=fix)


def channel_files() -> list[Path]:
    """The channel profiles that come with owlt."""
    return sorted((PROFILES / "channels").glob("*.yaml"))


def find_channel(name: str, changes: Changes | None = None) -> ChannelProfile:
    """The channel of that name, or in the file of that path, with `changes` made to its links.

    Raises NotFound for an unknown name, NoSuchFile for a path without a file, ProfileError with every mistake in it.
    """
    path = profile_path("channel", name)
    try:
        return load_channel(path, changes)
    except InvalidChannel as problem:
        raise ProfileError(*problem.mistakes) from problem


def channels_of(sweep: Sweep) -> dict[str, ChannelSpec]:
    """The channels of a sweep by their own names, in the order of the sweep.

    Raises SweepMistake for names that are not found or shared, ProfileError for a file that is not a channel.
    """
    channels: dict[str, ChannelSpec] = {}
    files: dict[str, Path] = {}
    mistakes = []
    for name in sweep.channel or []:
        if mistake := mistake_in_name("channel", name):
            mistakes.append(mistake)
            continue
        path, profile = profile_path("channel", name), find_channel(name)
        if twin := files.get(profile.name):
            problem = f"{twin} and {path} are both named {profile.name!r}"
            where = Place(key=("channel",))
            mistakes.append(Mistake(problem, "a name for each", "change 'name:' in one of them", where))
        channels[profile.name], files[profile.name] = profile.channel, path
    if mistakes:
        raise SweepMistake(*mistakes)
    return channels


LAB = {"rig": "lab", "clock": "real"}
"""Values that every sweep has on a lab rig; they override the sweep file."""


def resolve(sweep_file: Path, in_lab: bool = False, host_captures: bool = False) -> Plan:
    """The plan of a sweep file. Raises ProfileError, with every mistake, for files that cannot be used as written.

    `in_lab`: on a lab rig, which a user names beside the file; `host_captures`: with captures at its hosts.
    """
    document = read_sweep_document(sweep_file)
    if in_lab:
        document = replace(document, value=document.value | LAB)
    if host_captures:
        document = replace(document, value=document.value | {"host_captures": True})
    located = document.positions.located
    try:
        sweep = sweep_of(document.value)
    except SweepMistake as problem:
        names = [*not_found("implementation", document.value), *not_found("channel", document.value)]
        raise ProfileError(*map(located, [*problem.mistakes, *names])) from None
    mistakes: list[Mistake] = []
    if sweep.rig != "virtual" and sweep.clock != "real":
        expected = f"real, the only clock of the {sweep.rig} rig"
        mistakes.append(Mistake(got(sweep.clock), expected, "write 'clock: real'", Place(key=("clock",))))
    if sweep.host_captures and sweep.rig != "lab":
        fix = "leave it out, or name the rig: owlt run SWEEP --rig INVENTORY"
        mistakes.append(Mistake(got(True), "a lab rig, whose hosts are machines", fix, Place(key=("host_captures",))))
    implementations: dict[str, Implementation] = {}
    left_out: dict[str, str] = {}
    channels: dict[str, ChannelSpec] = {}
    try:
        implementations, left_out = _contestants(sweep)
        sweep = sweep.model_copy(update={"advertised": advertised_to_pairs(sweep.advertised, implementations)})
    except SweepMistake as problem:
        mistakes += problem.mistakes
    try:
        channels = channels_of(sweep)
    except SweepMistake as problem:
        mistakes += problem.mistakes
    if mistakes:
        raise ProfileError(*map(located, mistakes))
    try:
        return plan_sweep(sweep, implementations, channels).model_copy(update={"left_out_pairs": left_out})
    except SweepMistake as problem:
        raise ProfileError(*(located(as_written(each, document.value)) for each in problem.mistakes)) from None
    except ProfileError as problem:
        raise ProfileError(*(mistake.at(Place(str(sweep_file))) for mistake in problem.mistakes)) from None
