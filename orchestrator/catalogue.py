"""The profiles that come with owlt, found by name; a path to a file of one's own does as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from agents.contract import Implementation
from agents.load import ContractError, load_implementation
from orchestrator.errors import NoSuchFile, NotFound, ProfileError, SweepMistake, did_you_mean
from orchestrator.kinds import refuse_missing, refuse_other_kind
from orchestrator.sweep import Sweep
from orchestrator.variants import variants

PROFILES = Path(__file__).parents[1] / "profiles"
ProfileKind = Literal["implementation", "channel"]
_KEYS = {"implementation": "implementations", "channel": "channel"}
"""Of a sweep, by what it names there."""
_LISTS = {"implementation": "owlt implementations", "channel": "owlt channel list"}


def profile_path(kind: ProfileKind, name: str) -> Path:
    """The file of a profile that comes with owlt, by its name, or a file of that path.

    Raises NotFound for a name, NoSuchFile for a path, ProfileError for a file of another kind.
    """
    if name.endswith((".yaml", ".yml")):
        refuse_missing(Path(name))
        refuse_other_kind(Path(name), kind)
        return Path(name)
    known = {path.stem: path for path in (PROFILES / f"{kind}s").glob("*.yaml")}
    if name not in known:
        raise NotFound(kind, name, did_you_mean(name, known, f"'{_LISTS[kind]}' lists them; a path ends with .yaml"))
    return known[name]


def implementation_files() -> list[Path]:
    """The implementation profiles that come with owlt."""
    return sorted((PROFILES / "implementations").glob("*.yaml"))


def find_implementation(name: str) -> Implementation:
    """The implementation of that name, or in the file of that path.

    Raises NotFound when there is none of that name, NoSuchFile when there is no such file, ProfileError when it is not
    as the contract wants it.
    """
    path = profile_path("implementation", name)
    try:
        return load_implementation(path)
    except ContractError as problem:
        raise ProfileError(str(problem)) from problem


def implementations_of(sweep: Sweep) -> dict[str, Implementation]:
    """The sweep's implementations by name, a variant for each combination of parameters that it varies.

    Raises SweepMistake for those that are not found, do not work on the sweep's clock, share a name or have no such
    parameter; ProfileError for one whose file is not as the contract wants it.
    """
    builds, mistakes = _builds(sweep)
    mistakes += [*_clock_mistakes(sweep, builds), *_naming_mistakes(sweep, builds, some_are_missing=bool(mistakes))]
    if mistakes:
        raise SweepMistake("\n".join(mistakes))
    found: dict[str, Implementation] = {}
    for name, plain in builds.items():
        for build in variants(plain, sweep.parameters.get(name, {})):
            if build.name in found:
                raise SweepMistake(f"parameters.{name}: two of its values make {build.name}; leave one of them out")
            found[build.name] = build
    return found


def not_found(kind: ProfileKind, document: Mapping[str, Any]) -> list[str]:
    """The mistakes in a sweep's names of implementations or channels: those that are no profile's, and no file's path.

    `document` is the sweep as it is written, whatever else is wrong with it.
    """
    key = _KEYS[kind]
    written = document.get(key)
    names = written if isinstance(written, list) else [written]
    return [mistake for name in names if isinstance(name, str) and (mistake := mistake_in_name(kind, name))]


def mistake_in_name(kind: ProfileKind, name: str) -> str:
    """What is wrong with a name in a sweep that no profile has, or a path where no file is; "" where nothing is."""
    try:
        profile_path(kind, name)
    except NotFound as problem:
        return f"{_KEYS[kind]}: got {name!r}, wanted a name or the path of a file; {problem.next_step}"
    except NoSuchFile as problem:
        return f"{_KEYS[kind]}: {problem}"
    except ProfileError:  # it is there; what is wrong with it is told when it is read
        pass
    return ""


def _builds(sweep: Sweep) -> tuple[dict[str, Implementation], list[str]]:
    """Those that are found, by name, and the mistakes in their names."""
    found: dict[str, Implementation] = {}
    mistakes = []
    for wanted in sweep.implementations:
        if mistake := mistake_in_name("implementation", wanted):
            mistakes.append(mistake)
            continue
        build = find_implementation(wanted)
        if build.name in found:
            mistakes.append(f"implementations: {wanted!r} and another are both named {build.name!r}; rename one")
        found[build.name] = build
    return found, mistakes


def _clock_mistakes(sweep: Sweep, builds: dict[str, Implementation]) -> Iterator[str]:
    for build in builds.values():
        if sweep.clock not in build.clocks:
            yield (
                f"clock: got {sweep.clock!r}, wanted one of {', '.join(build.clocks)}, on which {build.name} works; "
                f"change 'clock', or leave {build.name} out of 'implementations'"
            )


def _naming_mistakes(sweep: Sweep, builds: dict[str, Implementation], some_are_missing: bool) -> Iterator[str]:
    for key, names in (("parameters", sweep.parameters), ("told", sweep.told)):
        for name in names:
            if name not in builds and not some_are_missing:
                next_step = did_you_mean(name, builds, f"it has {', '.join(builds)}")
                yield f"{key}.{name}: is not an implementation of this sweep; {next_step}"
    for name, build in builds.items():
        for parameter in sweep.parameters.get(name, {}):
            if parameter not in build.parameters:
                known = f"it has {', '.join(sorted(build.parameters)) or 'none'}"
                yield (
                    f"parameters.{name}.{parameter}: is not a parameter of {name}; "
                    f"{did_you_mean(parameter, build.parameters, known)}"
                )
