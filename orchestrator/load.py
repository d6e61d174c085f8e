"""Sweep files: YAML 1.2 in, a checked `Sweep` out, every mistake in one message.

Reading looks at the text only, never at the machine: a sweep that loads here loads anywhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agents.explaining import explained
from agents.places import Places, place
from agents.yaml_file import NotYaml, parse_yaml, read_text
from orchestrator.errors import ProfileError, SweepMistake
from orchestrator.kinds import refuse_missing, refuse_other_kind
from orchestrator.sweep import Sweep

KNOWN_KEYS = "; known here: "


def read_document(path: Path) -> Any:
    """The document in a YAML 1.2 file. Raises ProfileError when it is missing or not YAML."""
    refuse_missing(path)
    try:
        return parse_yaml(read_text(path), str(path))
    except NotYaml as problem:
        raise ProfileError(str(problem)) from problem


def placed(path: Path, mistakes: list[str]) -> ProfileError:
    """Mistakes in a file, each of the form "KEY: ...", with the file and the line of the key in front."""
    places = Places(read_text(path))
    return ProfileError("\n".join(place(str(path), places, mistake) for mistake in mistakes))


def load_sweep(path: Path) -> Sweep:
    """The sweep in a YAML file.

    Raises ProfileError naming every key that is unknown, missing or has a value that cannot be.
    """
    try:
        return sweep_of(load_keys(path))
    except SweepMistake as problem:
        raise placed(path, str(problem).splitlines()) from None


def load_keys(path: Path) -> dict[str, Any]:
    """The keys and values of a file that looks like a sweep. Raises ProfileError for any other."""
    document = read_document(path)
    if not isinstance(document, dict):
        raise ProfileError(
            f"{path}: got {type(document).__name__}, wanted keys and values as in profiles/sweeps/demo.yaml"
        )
    refuse_other_kind(path, "sweep")
    return document


def sweep_of(document: dict[str, Any]) -> Sweep:
    """The sweep of these keys. Raises SweepMistake for every one that is unknown, missing or cannot be."""
    try:
        return Sweep.model_validate(document)
    except ValidationError as problem:
        mistakes = _known_once([_as_written(line, document) for line in explained(problem, Sweep)])
        raise SweepMistake("\n".join(mistakes)) from None


def _as_written(line: str, document: dict[str, Any]) -> str:
    """A complaint about an axis of one value that is written without brackets: it has no number."""
    place, _, told = line.partition(": ")
    key = place.removesuffix("[0]")
    return line if isinstance(document.get(key), list) else f"{key}: {told}"


def _known_once(lines: list[str]) -> list[str]:
    """The complaints, each list of known keys only where it stands first."""
    told: set[str] = set()
    short = []
    for line in lines:
        complaint, mark, known = line.partition(KNOWN_KEYS)
        short.append(complaint if known in told else line)
        told |= {known} if mark else set()
    return short
