"""Sweep files: YAML 1.2 in, a checked `Sweep` out, every mistake in one message.

Reading looks at the text only, never at the machine: a sweep that loads here loads anywhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agents.yaml_file import NotYaml, read_yaml
from orchestrator.errors import ProfileError
from orchestrator.sweep import Sweep


def read_document(path: Path) -> Any:
    """The document in a YAML 1.2 file. Raises ProfileError when it is missing or not YAML."""
    try:
        return read_yaml(path)
    except NotYaml as problem:
        raise ProfileError(str(problem)) from problem


def load_sweep(path: Path) -> Sweep:
    """The sweep in a YAML file.

    Raises ProfileError naming every key that is unknown, missing or has a value that cannot be.
    """
    document = read_document(path)
    if not isinstance(document, dict):
        raise ProfileError(
            f"{path}: got {type(document).__name__}, wanted keys and values as in profiles/sweeps/demo.yaml"
        )
    try:
        return Sweep.model_validate(document)
    except ValidationError as problem:
        raise ProfileError("\n".join(_complaint(path, error) for error in problem.errors())) from None


def _complaint(path: Path, error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"])
    known = ", ".join(Sweep.model_fields)
    if error["type"] == "extra_forbidden":
        return f"{path}: {where}: unknown key; wanted one of {known}"
    if error["type"] == "missing":
        return f"{path}: {where}: missing; every sweep needs it"
    told = error["msg"].removeprefix("Value error, ")
    if not where:
        return f"{path}: {told}"
    return f"{path}: {where}: {told}" + ("" if "got" in told else f"; got {error['input']!r}")
