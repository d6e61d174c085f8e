"""What pydantic finds wrong with a file, as a line for each key: what was got, what was wanted, what to do next."""

from __future__ import annotations

import re
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
    found = [(*_place(details["loc"], model), details) for details in problem.errors()]
    meant = {_beside(details, _meant(details, holder)) for _, holder, details in found} - {None}
    lines: dict[str, str] = {}
    for key, holder, details in found:
        if details["type"] == "missing" and details["loc"] in meant:
            continue
        if key in lines:
            lines[key] = lines[key] if _braces(details["input"]) else f"{lines[key]} or {_wanted(key, holder, details)}"
        else:
            lines[key] = _explain(key, holder, details)
    return [line for lines_of_key in lines.values() for line in lines_of_key.splitlines()]


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
            return f"{key}: got {_short(details['input'])}, wanted {_wanted(key, holder, details)}"


def _wanted(key: str, holder: Model, details: ErrorDetails) -> str:
    given, context = details["input"], details.get("ctx", {})
    if braces := _braces(given):
        return f'"{braces}": braces need quotes in YAML'
    match details["type"]:
        case "value_error":
            return _with_unit(str(context["error"]), key, given)
        case "string_type":
            return "text; put quotes around a number"
        case "list_type":
            return _list_wanted(key, holder)
        case "float_parsing" | "float_type":
            return _with_unit("a number", key, given)
        case "int_parsing" | "int_type" | "int_from_float":
            return _with_unit("a whole number", key, given)
        case "greater_than_equal":
            return _with_unit(f"a number from {context['ge']:g} up", key, given)
        case "less_than_equal":
            return _with_unit(f"a number up to {context['le']:g}", key, given)
        case "too_short":
            return "at least one"
        case "string_too_short":
            return "text that is not empty"
        case "string_pattern_mismatch":
            return f"text of the form {context['pattern']}"
        case "union_tag_invalid":
            return f"{context['discriminator']} to be one of {context['expected_tags']}"
        case "literal_error":
            values = re.findall("'([^']*)'", context["expected"])
            return f"one of {', '.join(values)}"
        case "model_type" | "dict_type":
            return "keys and values"
        case _:
            return details["msg"].removeprefix("Input should be ")


_UNITS = {"s": "seconds", "bps": "bit/s", "bytes": "bytes"}


def _with_unit(wanted: str, key: str, given: object) -> str:
    """What a number counts, by the end of its key. No unit is written in the file."""
    counted = re.search(r"_(s|bps|bytes)(_above)?$", key)
    if not counted:
        return wanted
    of_what = re.sub(r"\bnumber\b", f"number of {_UNITS[counted[1]]}", wanted, count=1)
    return f"{of_what}; leave out the unit" if isinstance(given, str) and " " in given else of_what


def _list_wanted(key: str, holder: Model) -> str:
    name = key.rpartition(".")[2]
    values = holder.model_json_schema()["properties"].get(name, {}).get("items", {}).get("enum")
    if values:
        return f"a list of any of {', '.join(values)}, such as [{values[-1]}]"
    shell = ', or [sh, -c, "..."]' if re.search(r"command$|^prepare\[", name) else ""
    return f"a list such as [one, two]{shell}"


def _braces(value: object) -> str | None:
    """The {name} of which YAML has made keys and values, for want of quotes."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    [(name, nothing)] = value.items()
    return f"{{{name}}}" if nothing is None and isinstance(name, str) and name.isidentifier() else None


def _meant(details: ErrorDetails, holder: Model) -> str | None:
    """The key for which an unknown one was misspelt."""
    if details["type"] != "extra_forbidden":
        return None
    return next(iter(get_close_matches(str(details["loc"][-1]), sorted(holder.model_fields), n=1)), None)


def _beside(details: ErrorDetails, name: str | None) -> Location | None:
    return (*details["loc"][:-1], name) if name else None


def _short(value: object) -> str:
    """A value as it was written, one of many parts cut to its begin."""
    if value is None or isinstance(value, bool):
        return "nothing" if value is None else str(value).lower()
    if braces := _braces(value):
        return f"{braces} without quotes"
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
