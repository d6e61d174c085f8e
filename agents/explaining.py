"""What pydantic finds wrong with a file, as a line for each key: what was got, what was wanted, what to do next."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

Model = type[BaseModel]
Location = tuple[int | str, ...]

LONGEST_SHOWN = 60
"""Characters of a value with parts of its own."""


def explained(problem: ValidationError, model: Model) -> list[str]:
    """One line for each key of a `model` that is wrong; a key that may be of several kinds has one for all of them."""
    lines: dict[str, str] = {}
    for details in problem.errors():
        key, holder = _place(details["loc"], model)
        lines[key] = f"{lines[key]} or {_wanted(details)}" if key in lines else _explain(key, holder, details)
    return list(lines.values())


def _explain(key: str, holder: Model, details: ErrorDetails) -> str:
    location = details["loc"]
    match details["type"]:
        case "missing":
            return f"{key}: is missing; add it ({_meaning(str(location[-1]), holder)})"
        case "extra_forbidden":
            return f"{key}: is not a known key; {_suggestion(str(location[-1]), holder)}"
        case "value_error" if not location:
            return str(details["ctx"]["error"])  # about the file as a whole: names its place itself
        case _:
            return f"{key}: got {_short(details['input'])}, wanted {_wanted(details)}"


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
        case "union_tag_invalid":
            return f"{details['ctx']['discriminator']} to be one of {details['ctx']['expected_tags']}"
        case "model_type" | "dict_type":
            return "keys and values"
        case _:
            return details["msg"].removeprefix("Input should be ")


def _short(value: object) -> str:
    """A value as it was written, one of many parts cut to its begin."""
    text = repr(value)
    return text if isinstance(value, str) or len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


_UNION_BRANCHES = {"int", "float", "str"}


def _place(location: Location, root: Model) -> tuple[str, Model]:
    """sender.command[2], without the branches of unions that pydantic adds; and the model that has the last key."""
    text, holder = "", root
    branches: dict[int | str, Model] = {}
    for at, part in enumerate(location):
        if isinstance(part, int):
            text += f"[{part}]"
        elif part in branches:
            holder = branches[part]
        elif part not in _UNION_BRANCHES and not part.startswith("constrained-"):
            text += f".{part}" if text else part
            if at + 1 < len(location) and part in holder.model_fields:
                holder, branches = _below(part, holder)
    return text or "the file", holder


def _below(name: str, holder: Model) -> tuple[Model, dict[int | str, Model]]:
    """The model that a key holds; where it may be one of several, each by the value that tells which."""
    field = holder.model_fields[name]
    models = _models_in(field.annotation)
    if len(models) == 1:
        return models[0], {}
    tag = str(field.discriminator)
    return holder, {value: model for model in models for value in get_args(model.model_fields[tag].annotation)}


def _models_in(annotation: Any) -> list[Model]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _meaning(name: str, holder: Model) -> str:
    annotation = holder.model_json_schema()["properties"][name]
    return str(annotation.get("description") or annotation.get("type") or "keys and values")


def _suggestion(name: str, holder: Model) -> str:
    if " " in name:
        return "if it belongs to the text before it, put quotes around that: between { and } a comma begins another key"
    known = sorted(holder.model_fields)
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
