"""Sweep files: YAML 1.2 in, a checked `Sweep` out, every mistake in one error.

Reading looks at the text only, never at the machine: a sweep that loads here loads anywhere.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from owlt.inputs.mistake import Mistake, Place, got
from owlt.inputs.reader import Document, NotYaml, read_yaml
from owlt.inputs.validation import mistakes_in
from owlt.orchestrator.errors import ProfileError, SweepMistake
from owlt.orchestrator.planning.sweep import Sweep
from owlt.orchestrator.profiles.kinds import refuse_missing, refuse_other_kind


def read_document(path: Path) -> Document:
    """The document in a YAML 1.2 file. Raises ProfileError if it is missing or not YAML."""
    refuse_missing(path)
    try:
        return read_yaml(path)
    except NotYaml as problem:
        raise ProfileError(*problem.mistakes) from problem


def load_sweep(path: Path) -> Sweep:
    """The sweep in a YAML file. Raises ProfileError with every key that is unknown, missing or invalid."""
    document = read_sweep_document(path)
    try:
        return sweep_of(document.value)
    except SweepMistake as problem:
        raise ProfileError(*map(document.positions.located, problem.mistakes)) from None


def read_sweep_document(path: Path) -> Document:
    """The keys and values of a file that looks like a sweep. Raises ProfileError for any other."""
    document = read_document(path)
    if not isinstance(document.value, dict):
        expected = "keys and values as in profiles/sweeps/demo.yaml"
        raise ProfileError(Mistake(got(document.value), expected, where=Place(str(path))))
    refuse_other_kind(path, document.value, "sweep")
    return document


def sweep_of(document: dict[str, Any]) -> Sweep:
    """The sweep of these keys. Raises SweepMistake with every key that is unknown, missing or invalid."""
    try:
        return Sweep.model_validate(document)
    except ValidationError as problem:
        mistakes = [as_written(mistake, document) for mistake in mistakes_in(problem, Sweep)]
        raise SweepMistake(*mistakes) from None


def as_written(mistake: Mistake, document: dict[str, Any]) -> Mistake:
    """A mistake in a list of one that is written without brackets: its key has no number."""
    match mistake.where.key:
        case (str(axis), 0, *rest) if not isinstance(document.get(axis), list):
            return mistake.at(replace(mistake.where, key=(axis, *rest)))
    return mistake
