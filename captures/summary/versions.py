"""Schema versions of JSON files: a file of an older version is upgraded as it is read, one small step for each version.

A step is a pure function from the values of one version to those of the next. It renames or converts and never looks at
anything but its argument. The steps of a kind of file stand beside the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Values = Mapping[str, Any]
Step = Callable[[Values], dict[str, Any]]
Steps = Mapping[int, Step]
"""By the version that the step starts from; the versions are consecutive."""

VERSION_KEY = "schema_version"


class NewerVersion(Exception):
    """A file of a schema version that this version of owlt does not know; the text names both versions."""

    def __init__(self, written: int, current: int) -> None:
        super().__init__(f"schema version {written}; this version of owlt reads up to {current}")


def current_version(steps: Steps) -> int:
    """The version that the last step leads to."""
    return max(steps) + 1


def upgraded(values: Any, steps: Steps) -> Any:
    """The values of a file as the current version has them; a file without a version is of the first one.

    What is not a mapping with a version is returned unchanged, for the check of its form to refuse, and so is a version
    that is older than the first step. Raises NewerVersion.
    """
    if not isinstance(values, Mapping):
        return values
    version = values.get(VERSION_KEY, 1)
    if type(version) is not int:
        return values
    if version > current_version(steps):
        raise NewerVersion(version, current_version(steps))
    if version < min(steps):
        return values
    for start in range(version, current_version(steps)):
        values = {**steps[start](values), VERSION_KEY: start + 1}
    return values


def renamed(values: Values, names: Mapping[str, str]) -> dict[str, Any]:
    """The same values in the same order, under new names where `names` has one."""
    return {names.get(name, name): value for name, value in values.items()}
