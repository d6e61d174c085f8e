"""Implementation files: YAML 1.2 in, a checked `Implementation` out, every mistake in one message."""

from pathlib import Path

from pydantic import ValidationError

from agents.contract import Implementation
from agents.explaining import explained
from agents.places import Places, place
from agents.yaml_file import NotYaml, parse_yaml, read_text


class ContractError(ValueError):
    """An implementation file that cannot be used. Each line names file, line and key, what it got and what it wants."""


def load_implementation(path: Path) -> Implementation:
    """Read one implementation file. It must be named after the implementation.

    Raises:
        ContractError: no such file, not YAML, or not what the contract asks for.
    """
    try:
        text = read_text(path)
        tree = parse_yaml(text, str(path))
    except NotYaml as error:
        raise ContractError(str(error)) from error
    if not isinstance(tree, dict):
        raise ContractError(f"{path}: got {_kind(tree)}, wanted keys and values; start from another file of its folder")
    places = Places(text)
    try:
        implementation = Implementation.model_validate(tree)
    except ValidationError as error:
        mistakes = explained(error, Implementation)
        raise ContractError("\n".join(place(str(path), places, mistake) for mistake in mistakes)) from error
    if "+" in implementation.name:
        mistake = f"name: got {implementation.name!r}, wanted one without +, which a sweep puts before parameters"
        raise ContractError(place(str(path), places, mistake))
    if implementation.name != path.stem:
        mistake = (
            f"name: got {implementation.name!r}, wanted {path.stem!r} as the file is called; "
            "change the name or rename the file"
        )
        raise ContractError(place(str(path), places, mistake))
    return implementation


def _kind(tree: object) -> str:
    return "nothing" if tree is None else f"a {type(tree).__name__}"
