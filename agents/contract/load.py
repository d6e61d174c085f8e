"""Implementation files: YAML 1.2 in, a checked `Implementation` out, every mistake in one error."""

from pathlib import Path

from pydantic import ValidationError

from owlt.agents.contract.implementation import Implementation
from owlt.inputs.mistake import Invalid, Mistake, Place, got
from owlt.inputs.reader import NotYaml, read_yaml
from owlt.inputs.validation import mistakes_in


class ContractError(Invalid):
    """An implementation file that cannot be used, with every mistake in it."""


def load_implementation(path: Path) -> Implementation:
    """Read one implementation file. It must be named after the implementation.

    Raises:
        ContractError: no such file, not YAML, or not what the contract specifies.
    """
    try:
        document = read_yaml(path)
    except NotYaml as error:
        raise ContractError(*error.mistakes) from error
    if not isinstance(document.value, dict):
        fix = "start from another file of its folder"
        raise ContractError(Mistake(got(document.value), "keys and values", fix, Place(str(path))))
    try:
        implementation = Implementation.model_validate(document.value)
    except ValidationError as error:
        raise ContractError(*map(document.positions.located, mistakes_in(error, Implementation))) from error
    name, where = implementation.name, document.positions.place(("name",))
    if "+" in name:
        raise ContractError(Mistake(got(name), "a name without +, which separates parameters of a sweep", where=where))
    if name != path.stem:
        fix = "change the name or rename the file"
        raise ContractError(Mistake(got(name), f"{path.stem!r}, the name of the file", fix, where))
    return implementation
