"""The profiles that come with owlt, found by name; or in a file of the user's, by its path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from owlt import PACKAGE
from owlt.agents.contract.implementation import ContractError, Implementation, load_implementation
from owlt.inputs.mistake import Mistake, Place, got
from owlt.orchestrator.errors import NoSuchFile, NotFound, ProfileError, SweepMistake, did_you_mean
from owlt.orchestrator.planning.sweep import Sweep
from owlt.orchestrator.planning.variants import variants
from owlt.orchestrator.profiles.kinds import refuse_other_kind
from owlt.orchestrator.profiles.load import read_document

PROFILES = (PACKAGE / "profiles").resolve()
ProfileKind = Literal["implementation", "channel"]
_KEYS = {"implementation": "implementations", "channel": "channel"}
"""Of a sweep, by what it names there."""
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
    """The implementation of that name, or in the file of that path.

    Raises NotFound for an unknown name, NoSuchFile for a path without a file, ProfileError for a file that breaks the
    contract.
    """
    path = profile_path("implementation", name)
    try:
        return load_implementation(path)
    except ContractError as problem:
        raise ProfileError(*problem.mistakes) from problem


def implementations_of(sweep: Sweep) -> dict[str, Implementation]:
    """The sweep's implementations by name, a variant for each combination of parameters that it varies.

    Raises SweepMistake for names that are not found, implementations that do not work on the sweep's clock, share a
    name or have no such parameter; ProfileError for a file that breaks the contract.
    """
    implementations, mistakes = _implementations(sweep)
    mistakes += _clock_mistakes(sweep, implementations)
    mistakes += _naming_mistakes(sweep, implementations, some_are_missing=bool(mistakes))
    if mistakes:
        raise SweepMistake(*mistakes)
    by_name: dict[str, Implementation] = {}
    for name, plain in implementations.items():
        for variant in variants(plain, sweep.parameters.get(name, {})):
            if variant.name in by_name:
                where = Place(key=("parameters", name))
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
    """What is wrong with a name in a sweep that no profile has, or with a path where there is no file."""
    where = Place(key=(_KEYS[kind],))
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
        implementation = find_implementation(name)
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
    for key, names in (("parameters", sweep.parameters), ("advertised", sweep.advertised)):
        for name in names:
            if name not in implementations and not some_are_missing:
                fix = did_you_mean(name, implementations, f"it has {', '.join(implementations)}")
                yield Mistake("is not an implementation of this sweep", fix=fix, where=Place(key=(key, name)))
    for name, implementation in implementations.items():
        for parameter in sweep.parameters.get(name, {}):
            if parameter not in implementation.parameters:
                known = f"it has {', '.join(sorted(implementation.parameters)) or 'none'}"
                fix = did_you_mean(parameter, implementation.parameters, known)
                where = Place(key=("parameters", name, parameter))
                yield Mistake(f"is not a parameter of {name}", fix=fix, where=where)
