"""Versions of an implementation: those that are installed, binary search for the first that behaves differently, and
where its packets diverge.

A version is the implementation with another version of the third-party program that it starts. The search assumes that
all versions from the first that differs on differ as well. Two versions are compared by what their programs send:
identification fields of IP and the times of whole runs follow from when a program starts, which differs by
microseconds between any two programs.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from owlt.agents.contract.implementation import Implementation
from owlt.agents.contract.requirements import Binary
from owlt.captures.accounting.derived_files import CAPTURES
from owlt.captures.frames.columns import Columns, Rows, by_time, read_columns
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
SAME_TIME_NS = 1_000_000
"""Packets of two versions whose times from their first packets differ by no more are sent at the same time."""


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


def first_bad(count: int, is_bad: Callable[[int], bool]) -> int:
    """The number, from 0, of the first bad one of so many versions, of which the first is good and the last bad."""
    return bisect_left(range(count - 1), True, lo=1, key=is_bad)


def first_divergence(run: Path, other: Path) -> str:
    """The first packet with payload at the sender's port in which two runs differ, as a phrase with its number among
    such packets of both directions; "" if there is none: in its direction, in the length or the octets of its payload,
    or in its time from the first one by more than 1 ms.

    Raises NotACapture, OSError.
    """
    captures = [read_columns(each / CAPTURES[0]) for each in (run, other)]
    rows = [_with_payload(each) for each in captures]
    count = min(map(len, rows))
    first, second = ((capture, own[:count]) for capture, own in zip(captures, rows, strict=True))
    differs = np.zeros(count, np.bool_)
    for name in ("source_port", "destination_port", "payload_bytes", "payload_hash"):
        differs |= getattr(first[0], name)[first[1]] != getattr(second[0], name)[second[1]]
    differs |= np.abs(_times(*first) - _times(*second)) > SAME_TIME_NS
    numbers = np.flatnonzero(differs)
    if numbers.size:
        number = int(numbers[0])
        return f"packet with payload {number + 1}: {_text(*first, number)} and {_text(*second, number)}"
    if len(rows[0]) == len(rows[1]):
        return ""
    return f"packet with payload {count + 1}: only in one run, of {len(rows[0])} and {len(rows[1])} packets"


def _with_payload(capture: Columns) -> Rows:
    rows = np.flatnonzero(capture.payload_bytes > 0)
    return by_time(capture, rows)


def _times(capture: Columns, rows: Rows) -> NDArray[np.int64]:
    times: NDArray[np.int64] = capture.time_ns[rows]
    return times - times[:1]


def _text(capture: Columns, rows: Rows, number: int) -> str:
    row = rows[number]
    ports = f"{capture.source_port[row]} to {capture.destination_port[row]}"
    return f"{capture.payload_bytes[row]} B from port {ports} at {_times(capture, rows)[number] / 1e9:.6f} s"
