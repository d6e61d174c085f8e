"""An implementation with another version of the third-party program that it starts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from owlt.agents.contract.implementation import Implementation
from owlt.agents.contract.requirements import Binary
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.orchestrator.profiles.installing import how_to_install
from owlt.orchestrator.profiles.third_party import (
    AT,
    Installable,
    at_version,
    find_installables,
    installed_versions,
    version_numbers,
)

NOT_PINNED = "not pinned by owlt"
_PLACE = re.compile(r"^\{third_party\}/([^/]+)/")
"""Start of the path of a program that owlt installs."""


def find_version(name: str) -> Implementation:
    """The implementation NAME, or NAME@VERSION with that version of its program. Raises OwltError."""
    base, has_version, version = name.partition(AT)
    if not has_version or base.endswith((".yaml", ".yml")) or "/" in name:
        return find_implementation(name)
    implementation = find_implementation(base)
    installed = at_version(_program_of(implementation), version)
    if installed.is_pinned:
        return implementation
    binary = {key: binary_of_version(binary, installed) for key, binary in implementation.binary.items()}
    title = f"{implementation.title}, version {version}, {NOT_PINNED}"
    return implementation.model_copy(update={"binary": binary, "title": title})


def binary_of_version(binary: Binary, installed: Installable) -> Binary:
    """The program in this version only: elsewhere, such as in PATH, may be any other."""
    places = [_PLACE.sub(f"{{third_party}}/{installed.name}/", place) for place in binary.search if _PLACE.match(place)]
    return binary.model_copy(update={"search": places, "fix": how_to_install(installed)}) if places else binary


def versions_between(name: str, good: str, bad: str) -> Sequence[str]:
    """The installed versions of an implementation from the good one to the bad one, each as NAME@VERSION.

    Raises OwltError if one of the two is not installed, or if they are equal.
    """
    program = _program_of(find_implementation(name))
    installed = [each.recipe_version for each in installed_versions(program)]
    for version in (good, bad):
        if version not in installed:
            problem = f"{name}{AT}{version}: is not installed"
            fix = f"run: {how_to_install(at_version(program, version))}"
            expected = f"one of the installed versions: {', '.join(installed)}" if installed else ""
            raise OwltError(Mistake(problem, expected, fix))
    if good == bad:
        raise OwltError(Mistake.of("--bad", f"got {bad}, as in --good", "another version"))
    first, last = sorted((good, bad), key=version_numbers)
    between = [each for each in installed if version_numbers(first) <= version_numbers(each) <= version_numbers(last)]
    return [f"{name}{AT}{each}" for each in (between if first == good else reversed(between))]


def _program_of(implementation: Implementation) -> Installable:
    """The third-party program that an implementation starts. Raises OwltError if it is not one that owlt installs."""
    places = [place for binary in implementation.binary.values() for place in binary.search]
    names = dict.fromkeys(match[1] for match in map(_PLACE.match, places) if match)
    if len(names) != 1:
        problem = f"{implementation.name}: has no other versions, because owlt does not install its program"
        raise OwltError(Mistake(problem, "an implementation whose program is in 'owlt third-party list'"))
    return find_installables(list(names))[0]
