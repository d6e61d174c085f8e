"""The profiles that come with owlt, found by name; a path to a file of one's own does as well."""

from __future__ import annotations

from pathlib import Path

from agents.contract import Implementation
from agents.load import ContractError, load_implementation
from orchestrator.errors import ProfileError
from orchestrator.sweep import Sweep

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
    """The sweep's implementations by name.

    Raises ProfileError for one that is not found, that does not work on the sweep's clock, or that shares its
    name with another.
    """
    found: dict[str, Implementation] = {}
    for wanted in sweep.implementations:
        build = find_implementation(wanted)
        if build.name in found:
            raise ProfileError(f"implementations: {wanted!r} and another are both named {build.name!r}; rename one")
        if sweep.clock not in build.clocks:
            raise ProfileError(
                f"implementation {build.name!r} works on the clocks {', '.join(build.clocks)}; "
                f"the sweep asks for {sweep.clock!r}: change 'clock', or leave it out"
            )
        found[build.name] = _with_parameters(build, sweep.parameters.get(build.name, {}))
    if stranger := next((name for name in sweep.parameters if name not in found), None):
        raise ProfileError(f"parameters: {stranger!r} is not an implementation of this sweep ({', '.join(found)})")
    return found


def _with_parameters(build: Implementation, changes: dict[str, int | float | str]) -> Implementation:
    try:
        return build.with_parameters(changes)
    except ValueError as problem:
        raise ProfileError(f"parameters.{build.name}: {problem}") from problem
