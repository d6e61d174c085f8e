"""Sweep files: YAML 1.2 in, a checked `Sweep` out, every mistake in one error; and of which kind a user's file is.

Reading looks at the text only, never at the machine: a sweep that loads here loads anywhere. Finding files by name
belongs to `profiles.catalogue`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from owlt.inputs.axis_values import written_key
from owlt.inputs.mistake import Mistake, Place, got
from owlt.inputs.reader import Document, NotYaml, read_yaml
from owlt.inputs.sweep import Sweep
from owlt.inputs.validation import mistakes_in
from owlt.orchestrator.errors import NoSuchFile, ProfileError, SweepMistake
from owlt.results.recorded_runs import results_root

Kind = Literal["sweep", "implementation", "channel"]

_KEYS: dict[Kind, tuple[str, ...]] = {
    "sweep": ("implementations", "file_size", "seed", "repetitions", "rig", "clock"),
    "implementation": ("sender", "receiver", "protocol", "session", "time_limit"),
    "channel": ("forward", "reverse", "both", "timeline", "bypass"),
}
"""Top-level keys that files of other kinds do not have; the first ones tell people what such a file is like."""
_USE: dict[Kind, str] = {
    "sweep": "owlt run {}",
    "implementation": "owlt implementations check {}",
    "channel": "owlt channel show {}",
}


def existing_results(path: Path) -> Path:
    """A results directory that the user named, with the links in its path resolved. Raises NoSuchFile if there is
    nothing, ResultsConflict as `results_root` does."""
    refuse_missing(path, "directory", "a results directory that 'owlt run' made, such as results/demo")
    return results_root(path)


def refuse_missing(path: Path, thing: str = "file", expected: str = "") -> None:
    """Raises NoSuchFile for a path where there is nothing. A path that cannot be examined is left to its reader.

    `thing` is what the path would lead to, `expected` what its reader expects of it.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        problem = f"there is no such {thing}: {path.absolute()}"
        fix = "relative paths are resolved against the current directory"
        raise NoSuchFile(Mistake(problem, expected, fix)) from None
    except OSError:
        return


def refuse_other_kind(path: Path, document: Any, expected: Kind) -> None:
    """Raises ProfileError for a file whose document is clearly of another kind."""
    keys = set(document) if isinstance(document, dict) else set()
    matching = {kind: len(keys & set(known)) for kind, known in _KEYS.items()}
    likely = max(matching, key=lambda kind: matching[kind])
    if matching[likely] and not matching[expected]:
        fix = f"try: {_USE[likely].format(path)}"
        if likely != "sweep":
            fix += f", or name it under {likely}{'s' * (likely == 'implementation')} in a sweep"
        problem, keys_expected = (
            f"this is {_with_article(likely)}",
            f"{_with_article(expected)}, with {_keys_of(expected)}",
        )
        raise ProfileError(Mistake(problem, keys_expected, fix, Place(str(path))))


def _with_article(kind: Kind) -> str:
    return f"an {kind}" if kind == "implementation" else f"a {kind}"


def _keys_of(kind: Kind) -> str:
    first, second, third, *_ = _KEYS[kind]
    return f"{first}, {second} and {third}" if kind != "channel" else f"{first}, {second} or {third}"


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
        raise SweepMistake(*dict.fromkeys(mistakes)) from None


def as_written(mistake: Mistake, document: dict[str, Any]) -> Mistake:
    """A mistake at its key in the document."""
    return mistake.at(replace(mistake.where, key=written_key(mistake.where.key, document)))
