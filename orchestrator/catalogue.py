"""The profiles that come with owlt, found by name; a path to a file of one's own does as well."""

from __future__ import annotations

from pathlib import Path

from agents.contract import Implementation
from agents.load import ContractError, load_implementation
from orchestrator.errors import ProfileError
from orchestrator.sweep import Sweep
from orchestrator.variants import Parameters, variants

PROFILES = Path(__file__).parents[1] / "profiles"


def implementation_files() -> list[Path]:
    """The implementation profiles that come with owlt."""
    return sorted((PROFILES / "implementations").glob("*.yaml"))


def find_implementation(name: str) -> Implementation:
    """The implementation of that name, or in the file of that path.

    Raises ProfileError when there is none, or when its file is not as the contract wants it.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else PROFILES / "implementations" / f"{name}.yaml"
    if not path.exists():
        known = ", ".join(file.stem for file in implementation_files())
        raise ProfileError(f"implementation {name!r}: not found; wanted one of {known}, or the path of a YAML file")
    try:
        return load_implementation(path)
    except ContractError as problem:
        raise ProfileError(str(problem)) from problem


def implementations_of(sweep: Sweep) -> dict[str, Implementation]:
    """The sweep's implementations by name, a variant for each combination of parameters that it varies.

    Raises ProfileError for one that is not found, that does not work on the sweep's clock, or that shares its
    name with another.
    """
    found: dict[str, list[Implementation]] = {}
    for wanted in sweep.implementations:
        build = find_implementation(wanted)
        if build.name in found:
            raise ProfileError(f"implementations: {wanted!r} and another are both named {build.name!r}; rename one")
        if sweep.clock not in build.clocks:
            raise ProfileError(
                f"implementation {build.name!r} works on the clocks {', '.join(build.clocks)}; "
                f"the sweep asks for {sweep.clock!r}: change 'clock', or leave it out"
            )
        found[build.name] = _variants(build, sweep.parameters.get(build.name, {}))
    for key, names in (("parameters", sweep.parameters), ("told", sweep.told)):
        if stranger := next((name for name in names if name not in found), None):
            raise ProfileError(f"{key}: {stranger!r} is not an implementation of this sweep ({', '.join(found)})")
    return {build.name: build for builds in found.values() for build in builds}


def _variants(build: Implementation, parameters: Parameters) -> list[Implementation]:
    try:
        return variants(build, parameters)
    except ValueError as problem:
        raise ProfileError(f"parameters.{build.name}: {problem}") from problem
