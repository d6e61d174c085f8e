"""Implementation files: YAML 1.2 in, a checked `Implementation` out, every mistake in one message."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from agents.contract import Implementation
from agents.explaining import explained


class ContractError(ValueError):
    """An implementation file that cannot be used. The text names file, key, what it got and what it wants."""


def load_implementation(path: Path) -> Implementation:
    """Read one implementation file. It must be named after the implementation.

    Raises:
        ContractError: no such file, not YAML, or not what the contract asks for.
    """
    tree = _read_yaml(path)
    try:
        implementation = Implementation.model_validate(tree)
    except ValidationError as error:
        raise ContractError("\n".join(f"{path}: {line}" for line in explained(error, Implementation))) from error
    if implementation.name != path.stem:
        raise ContractError(
            f"{path}: name: got {implementation.name!r}, wanted {path.stem!r} as the file is called; "
            "change the name or rename the file"
        )
    return implementation


def _read_yaml(path: Path) -> Mapping[str, Any]:
    yaml = YAML(typ="safe", pure=True)  # the C reader knows YAML 1.1 only, where `no` is false
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ContractError(f"{path}: cannot be read: {error.strerror}") from error
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise ContractError(f"{path}, line {line}: not YAML: {error.problem}") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise ContractError(f"{path}: not YAML: {error}") from error
    if not isinstance(tree, dict):
        raise ContractError(f"{path}: got {_kind(tree)}, wanted keys and values; start from another file of its folder")
    return tree


def _kind(tree: object) -> str:
    return "nothing" if tree is None else f"a {type(tree).__name__}"
