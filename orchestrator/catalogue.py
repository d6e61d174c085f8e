"""The profiles that come with owlt, found by name; a path to a file of one's own does as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from agents.contract import Implementation
from agents.load import ContractError, load_implementation
from orchestrator.errors import NoSuchFile, NotFound, ProfileError, SweepMistake, did_you_mean
from orchestrator.kinds import refuse_missing, refuse_other_kind
from orchestrator.sweep import Sweep
from orchestrator.variants import variants

PROFILES = Path(__file__).parents[1] / "profiles"
_LISTS = {"implementation": "owlt implementations", "channel": "owlt channel list"}


def profile_path(kind: Literal["implementation", "channel"], name: str) -> Path:
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
    builds = _builds(sweep)
    if mistakes := [*_clock_mistakes(sweep, builds), *_naming_mistakes(sweep, builds)]:
        raise SweepMistake("\n".join(mistakes))
    found: dict[str, Implementation] = {}
    for name, plain in builds.items():
        for build in variants(plain, sweep.parameters.get(name, {})):
            if build.name in found:
                raise SweepMistake(f"parameters.{name}: two of its values make {build.name}; leave one of them out")
            found[build.name] = build
    return found


def _builds(sweep: Sweep) -> dict[str, Implementation]:
    found: dict[str, Implementation] = {}
    mistakes = []
    for wanted in sweep.implementations:
        try:
            build = find_implementation(wanted)
        except NotFound as problem:
            mistakes.append(
                f"implementations: got {wanted!r}, wanted a name or the path of a file; {problem.next_step}"
            )
            continue
        except NoSuchFile as problem:
            mistakes.append(f"implementations: {problem}")
            continue
        if build.name in found:
            mistakes.append(f"implementations: {wanted!r} and another are both named {build.name!r}; rename one")
        found[build.name] = build
    if mistakes:
        raise SweepMistake("\n".join(mistakes))
    return found


def _clock_mistakes(sweep: Sweep, builds: dict[str, Implementation]) -> Iterator[str]:
    for build in builds.values():
        if sweep.clock not in build.clocks:
            yield (
                f"clock: got {sweep.clock!r}, wanted one of {', '.join(build.clocks)}, on which {build.name} works; "
                f"change 'clock', or leave {build.name} out of 'implementations'"
            )


def _naming_mistakes(sweep: Sweep, builds: dict[str, Implementation]) -> Iterator[str]:
    for key, names in (("parameters", sweep.parameters), ("told", sweep.told)):
        for name in names:
            if name not in builds:
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
