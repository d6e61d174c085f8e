"""Implementation files: YAML 1.2 in, a checked `Implementation` out, every mistake in one message."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from agents.contract import Binary, Implementation, KnownLimit, Limits, Need, SessionPorts, Space, TimeLimit
from agents.side import Exchange, Ready, Side, Stop


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
        raise ContractError("\n".join(f"{path}: {line}" for line in _explained(error.errors()))) from error
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


def _explained(errors: list[ErrorDetails]) -> list[str]:
    """One line for each key. A key that may be of several kinds has one error for each of them."""
    lines: dict[str, str] = {}
    for details in errors:
        key = _key(details["loc"])
        lines[key] = f"{lines[key]} or {_wanted(details)}" if key in lines else _explain(key, details)
    return list(lines.values())


def _explain(key: str, details: ErrorDetails) -> str:
    location = details["loc"]
    match details["type"]:
        case "missing":
            return f"{key}: is missing; add it ({_meaning(location)})"
        case "extra_forbidden":
            return f"{key}: is not a key of the contract; {_suggestion(location)}"
        case "value_error" if not location:
            return str(details["ctx"]["error"])  # about the file as a whole: names its place itself
        case _:
            return f"{key}: got {details['input']!r}, wanted {_wanted(details)}"


def _wanted(details: ErrorDetails) -> str:
    match details["type"]:
        case "value_error":
            return str(details["ctx"]["error"])
        case "string_type":
            return "text; put quotes around a number"
        case "list_type":
            return "a list such as [one, two]"
        case "too_short" | "string_too_short":
            return "at least one"
        case "string_pattern_mismatch":
            return f"text of the form {details['ctx']['pattern']}"
        case _:
            return details["msg"].removeprefix("Input should be ")


def _key(location: tuple[int | str, ...]) -> str:
    """sender.command[2], without the branches of unions that pydantic adds to its locations."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part not in _UNION_BRANCHES and not part.startswith("constrained-"):
            text += f".{part}" if text else part
    return text or "the file"


_UNION_BRANCHES = {"int", "float", "str"}
_MODELS: dict[str, type[BaseModel]] = {
    "sender": Side,
    "receiver": Side,
    "ready": Ready,
    "dialogue": Exchange,
    "stop": Stop,
    "session": SessionPorts,
    "time_limit": TimeLimit,
    "limits": Limits,
    "known_limits": KnownLimit,
    "run_directory": Space,
    "binary": Binary,
    "needs": Need,
}


def _model_of(location: tuple[int | str, ...]) -> type[BaseModel]:
    return next((_MODELS[part] for part in reversed(location[:-1]) if part in _MODELS), Implementation)


def _meaning(location: tuple[int | str, ...]) -> str:
    annotation = _model_of(location).model_json_schema()["properties"][str(location[-1])]
    return str(annotation.get("description") or annotation.get("type") or "keys and values")


def _suggestion(location: tuple[int | str, ...]) -> str:
    known = sorted(_model_of(location).model_fields)
    near = get_close_matches(str(location[-1]), known, n=1)
    return f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"


def _kind(tree: object) -> str:
    return "nothing" if tree is None else f"a {type(tree).__name__}"
