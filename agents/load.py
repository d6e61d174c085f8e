"""Implementation files: YAML 1.2 in, a checked `Implementation` out, every mistake in one message."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agents.contract import Implementation
from agents.explaining import explained
from agents.yaml_file import NotYaml, read_yaml


class ContractError(ValueError):
    """An implementation file that cannot be used. The text names file, key, what it got and what it wants."""


def load_implementation(path: Path) -> Implementation:
    """Read one implementation file. It must be named after the implementation.

    Raises:
        ContractError: no such file, not YAML, or not what the contract asks for.
    """
    tree = _tree(path)
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


def _tree(path: Path) -> Mapping[str, Any]:
    try:
        tree = read_yaml(path)
    except NotYaml as error:
        raise ContractError(str(error)) from error
    if not isinstance(tree, dict):
        raise ContractError(f"{path}: got {_kind(tree)}, wanted keys and values; start from another file of its folder")
    return tree


def _kind(tree: object) -> str:
    return "nothing" if tree is None else f"a {type(tree).__name__}"
