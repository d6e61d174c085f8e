"""The errors that pydantic finds in a document, as a mistake for each key."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from owlt.inputs.mistake import Invalid, Key, Mistake, Place, did_you_mean, got, nearest, unexpected

Model = type[BaseModel]


def mistakes_in(problem: ValidationError, model: Model) -> list[Mistake]:
    """The mistakes in a document of `model`; a key that may be of several kinds has one mistake for all of them."""
    located = [(*_key(details["loc"], model), details) for details in problem.errors()]
    intended = {_beside(details, _intended(details, holder)) for _, holder, details in located} - {None}
    mistakes: dict[Key, list[Mistake]] = {}
    listed: set[Model] = set()
    for key, holder, details in located:
        if details["type"] == "missing" and details["loc"] in intended:
            continue
        if key not in mistakes:
            mistakes[key] = _mistakes_at(key, holder, details, listed)
        elif not _braces(details["input"]):
            mistakes[key] = [_either(mistakes[key][0], *_mistakes_at(key, holder, details, listed)), *mistakes[key][1:]]
    return [mistake for mistakes_of_key in mistakes.values() for mistake in mistakes_of_key]


def first_error(problem: ValidationError) -> tuple[str, str]:
    """The location of the first error, such as "links.0.delay" ("" for the whole document), and its message. For data
    that owlt wrote."""
    first = problem.errors()[0]
    return ".".join(map(str, first["loc"])), first["msg"]


def raised(details: ErrorDetails) -> Invalid | None:
    """The error that a validator of ours raised."""
    error = details.get("ctx", {}).get("error")
    return error if isinstance(error, Invalid) else None


def unknown_key(where: Place, known: Collection[str]) -> Mistake:
    """The mistake in a key that is not one of those `known`, with the nearest of them, or all."""
    fix = did_you_mean(str(where.key[-1]), known, f"known: {', '.join(known)}")
    return Mistake("is not a known key", fix=fix, where=where)


def _either(one: Mistake, *others: Mistake) -> Mistake:
    """A mistake in a value that may be of several kinds, and is of none."""
    return replace(one, expected=" or ".join([one.expected, *(other.expected for other in others)]))


def _mistakes_at(key: Key, holder: Model, details: ErrorDetails, listed: set[Model]) -> list[Mistake]:
    """The mistakes of one error of pydantic. `listed`: models whose keys an earlier mistake has listed."""
    match details["type"]:
        case "missing":
            meaning = _meaning(str(details["loc"][-1]), holder)
            return [Mistake("is missing", fix=f"add it ({meaning})", where=Place(key=key))]
        case "too_short" if details["input"]:  # pydantic does not count the elements that have mistakes of their own
            return []
        case "extra_forbidden":
            fix = _suggestion(str(details["loc"][-1]), holder, listed)
            return [Mistake("is not a known key", fix=fix, where=Place(key=key))]
    if braces := _braces(details["input"]):
        problem = f"got {braces} without quotes"
        return [Mistake(problem, f'"{braces}"', "braces need quotes in YAML", Place(key=key))]
    mistakes = error.mistakes if (error := raised(details)) else (_of_pydantic(key, holder, details),)
    unit = _unit(key, holder)
    return [
        _with_unit(replace(each, problem=each.problem or got(value)).below(*key), unit, value)
        for each in mistakes
        for value in [_value_at(details["input"], each.where.key)]
    ]


def _value_at(value: Any, key: Key) -> Any:
    """The value below another one at a key, or as far along the key as there is one."""
    for part in key:
        known = value if isinstance(value, Mapping) else range(len(value)) if isinstance(value, list) else ()
        value = value[part] if part in known else value
    return value


def _of_pydantic(key: Key, holder: Model, details: ErrorDetails) -> Mistake:
    """A mistake that pydantic itself found, with the value that it expected."""
    context = details.get("ctx", {})
    match details["type"]:
        case "value_error":
            return Mistake(expected=str(context["error"]))
        case "string_type":
            if isinstance(details["input"], dict | list):
                return Mistake(
                    expected=f"text, not {'keys and values' if isinstance(details['input'], dict) else 'a list'}"
                )
            return Mistake(expected="text", fix="put quotes around it")
        case "list_type" | "tuple_type":
            return Mistake(expected=_list_expected(key, holder))
        case "float_parsing" | "float_type":
            return Mistake(expected="a number")
        case "int_parsing" | "int_type" | "int_from_float":
            return Mistake(expected="a whole number")
        case "greater_than_equal":
            most = _limit("le", key, holder)
            return Mistake(expected=_range(context["ge"], most))
        case "less_than_equal":
            least = _limit("ge", key, holder)
            return Mistake(expected=_range(least, context["le"]))
        case "greater_than":
            return Mistake(expected=f"a number greater than {context['gt']:g}")
        case "bool_parsing" | "bool_type":
            return Mistake(expected="true or false")
        case "too_short":
            return Mistake(expected="at least one")
        case "string_too_short":
            return Mistake(expected="text that is not empty")
        case "string_pattern_mismatch":
            return Mistake(expected=f"text of the form {context['pattern']}")
        case "union_tag_invalid":
            return Mistake(expected=f"{context['discriminator']} to be one of {context['expected_tags']}")
        case "literal_error":
            values = [text or number for text, number in re.findall(r"'([^']*)'|(\d+)", context["expected"])]
            return Mistake(expected=f"one of {', '.join(values)}", fix=did_you_mean(str(details["input"]), values))
        case "model_type" | "dict_type":
            return Mistake(expected="keys and values")
        case _:
            return Mistake(expected=details["msg"].removeprefix("Input should be "))


def _range(least: float | None, most: float | None) -> str:
    """The numbers that a field accepts, in words; at least one of the limits is known."""
    if most is None:
        return f"a number of at least {_number(least)}"
    return (
        f"a number of at most {_number(most)}"
        if least is None
        else f"a number from {_number(least)} to {_number(most)}"
    )


def _number(value: float | None) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def _limit(bound: Literal["ge", "le"], key: Key, holder: Model) -> float | None:
    """The least or greatest value of a field that is a number; None if it has none."""
    field = holder.model_fields.get(str(key[-1])) if key else None
    bounds = [getattr(each, bound) for each in (field.metadata if field else ()) if hasattr(each, bound)]
    return bounds[0] if bounds else None


_UNITS = {"s": "seconds", "bps": "bit/s", "bytes": "bytes"}


def _unit(key: Key, holder: Model) -> str:
    """The unit of a field, which is the end of its name; "" if it has none."""
    name = str(key[-1]) if key else ""
    counted = re.search(r"_(s|bps|bytes)(_above)?$", name) if name in holder.model_fields else None
    return _UNITS[counted[1]] if counted else ""


def _with_unit(mistake: Mistake, unit: str, given: object) -> Mistake:
    """A mistake in a number with its unit; the file has the number alone."""
    if not unit:
        return mistake
    fix = "leave out the unit" if isinstance(given, str) and " " in given else mistake.fix
    return replace(mistake, expected=f"{mistake.expected}, in {unit}", fix=fix)


def _list_expected(key: Key, holder: Model) -> str:
    name = str(next(part for part in reversed(key) if isinstance(part, str)))
    values = holder.model_json_schema()["properties"].get(name, {}).get("items", {}).get("enum")
    if values:
        return f"a list of any of {', '.join(map(str, values))}, such as [{values[-1]}]"
    is_command = name.endswith("command") or (name == "prepare" and isinstance(key[-1], int))
    shell = ', or [sh, -c, "..."]' if is_command else ""
    return f"a list such as [one, two]{shell}"


def _braces(value: object) -> str | None:
    """The {name} that YAML reads as keys and values if it has no quotes."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    [(name, nothing)] = value.items()
    return f"{{{name}}}" if nothing is None and isinstance(name, str) and name.isidentifier() else None


def _intended(details: ErrorDetails, holder: Model) -> str | None:
    """The key that an unknown one misspells."""
    if details["type"] != "extra_forbidden":
        return None
    return nearest(str(details["loc"][-1]), sorted(holder.model_fields))


def _beside(details: ErrorDetails, name: str | None) -> Key | None:
    return (*details["loc"][:-1], name) if name else None


_UNION_BRANCHES = {"int", "float", "str"}


def _key(location: Key, root: Model) -> tuple[Key, Model]:
    """A location without the branches of unions that pydantic adds; and the model that has the last key."""
    key: list[str | int] = []
    holder = root
    branches: dict[int | str, Model] = {}
    for at, part in enumerate(location):
        if isinstance(part, int):
            key.append(part)
        elif part in branches:
            holder = branches[part]
        elif part not in _UNION_BRANCHES and not part.startswith("constrained-") and "[" not in part:
            key.append(part)
            if at + 1 < len(location) and part in holder.model_fields:
                holder, branches = _below(part, holder)
    return tuple(key), holder


def _below(name: str, holder: Model) -> tuple[Model, dict[int | str, Model]]:
    """The model of a key's value; if there are several, each by the value that distinguishes them."""
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


def _suggestion(name: str, holder: Model, listed: set[Model]) -> str:
    if " " in name:
        return "if it belongs to the text before it, put quotes around that: between { and } a comma begins another key"
    known = sorted(holder.model_fields)
    if suggestion := did_you_mean(name, known):
        return suggestion
    if holder in listed:
        return ""
    listed.add(holder)
    return f"known: {', '.join(known)}"


Clock = Literal["exact", "skip", "real"]
"""The clock of a rig, as in a sweep and in the list of clocks that an implementation supports."""


def require_parameter(value: object) -> object:
    """The value of a parameter. Raises Invalid for a value that cannot be one."""
    if isinstance(value, list):
        raise unexpected(
            "a single value here",
            fix="to try several, put the list under parameters in a sweep, where it becomes another axis of the grid",
        )
    if value is None:
        raise unexpected("a number or text", fix='write "" for an empty string')
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise unexpected("a number or text", fix="put quotes around it")
    if isinstance(value, float) and not math.isfinite(value):
        raise unexpected("a finite number or text")
    return value
