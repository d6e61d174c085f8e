"""Assertions as they are written: {measure: goodput, at_least: 0.9, of: capacity, packet_error_rate: 0.0001}.

They are read into plain values. Checking them belongs to `reports.assertions`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from owlt.emulator.channel.quantities import format_rate, format_size, parse_rate_bps, parse_size_bytes
from owlt.inputs.mistake import Invalid, Mistake, Place, got, keys_below, unexpected
from owlt.inputs.validation import unknown_key
from owlt.orchestrator.planning.language.ranges import Quantity
from owlt.orchestrator.planning.language.rules import AXES, INTERVAL_SCHEMAS, listed_or_interval

STATISTICS = ("median", "mean", "minimum", "maximum")
BOUNDS = ("at_least", "at_most")
REFERENCES = ("capacity", "rate")
"""What a goodput can be a share of, beside that of another implementation."""


def _parse_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise unexpected("a number, 0 or more")
    return value


def _same(value: Any) -> Any:
    return value


NUMBER = Quantity(_parse_number, _same)
_RATE, _SIZE = Quantity(parse_rate_bps, format_rate), Quantity(parse_size_bytes, format_size)
MEASURES: dict[str, Quantity] = {
    "goodput": _RATE,
    "goodput_to_delivery": _RATE,
    "str": NUMBER,
    "rts": NUMBER,
    "total_data": _SIZE,
    "data_ratio": NUMBER,
    "efficiency": NUMBER,
    "utilisation": NUMBER,
    "delivered": NUMBER,
}
"""What can be asserted, and how a bound of it is written."""
SHARES = ("efficiency", "utilisation", "delivered")
OF_THE_CHANNEL = ("goodput", "goodput_to_delivery")
"""The measures that can be a share of a reference of REFERENCES."""
KEYS = ("measure", "statistic", *BOUNDS, "of", *AXES)


def _read_assertion(written: object) -> dict[str, Any]:
    if not isinstance(written, dict) or "measure" not in written:
        raise Invalid(Mistake(got(written), "'measure' and a bound, such as {measure: goodput, at_least: 1 Mbit/s}"))
    mistakes = [unknown_key(Place(key=(str(key),)), KEYS) for key in written if key not in KEYS]
    assertion: dict[str, Any] = {}
    for key, value in written.items():
        try:
            with keys_below(str(key)):
                if key in AXES:
                    assertion[key] = listed_or_interval(value, AXES[key])
                elif key in KEYS:
                    assertion[key] = _read_key(key, value, written)
        except Invalid as problem:
            mistakes += problem.mistakes
    if mistakes:
        raise Invalid(*mistakes)
    _require_one_bound(assertion)
    return assertion


def _read_key(key: str, value: object, written: dict[str, Any]) -> Any:
    measure, reference = written["measure"], written.get("of")
    match key:
        case "measure":
            return _one_of(value, tuple(MEASURES))
        case "statistic":
            if measure == "delivered":
                raise unexpected("no statistic: 'delivered' is the share of delivered files")
            return _one_of(value, STATISTICS)
        case "of":
            if not isinstance(value, str) or not value:
                raise unexpected(f"{' or '.join(REFERENCES)}, or the name of an implementation")
            if value in REFERENCES and measure not in OF_THE_CHANNEL:
                raise unexpected(f"the name of an implementation; only {' and '.join(OF_THE_CHANNEL)} have a {value}")
            return value
    quantity = NUMBER if reference is not None else MEASURES.get(str(measure), NUMBER)
    number = quantity.parse(value)
    if measure in SHARES and reference is None and number is not None and number > 1:
        raise unexpected("a share from 0 to 1")
    return quantity.write(number)


def _one_of(value: object, names: tuple[str, ...]) -> object:
    if value not in names:
        raise unexpected(f"one of {', '.join(names)}")
    return value


def _require_one_bound(assertion: dict[str, Any]) -> None:
    bounds = [bound for bound in BOUNDS if bound in assertion]
    if len(bounds) != 1:
        problem = f"got {' and '.join(bounds)}" if bounds else "has no bound"
        raise Invalid(Mistake(problem, "one of at_least and at_most", "write an assertion for each bound"))


_BOUND = {
    "anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}],
    "description": "with its unit; with 'of', and for counts and shares, a number",
}
_PROPERTIES: dict[str, Any] = {
    "measure": {"enum": [*MEASURES], "description": "what is asserted of each permutation"},
    "statistic": {"enum": [*STATISTICS], "default": "median", "description": "the number of its runs that is compared"},
    **dict.fromkeys(BOUNDS, _BOUND),
    "of": {"type": "string", "minLength": 1, "description": "capacity, rate, or the name of an implementation"},
    **INTERVAL_SCHEMAS,
}
Assertion = Annotated[
    dict[str, Any],
    BeforeValidator(_read_assertion),
    WithJsonSchema(
        {
            "type": "object",
            "properties": _PROPERTIES,
            "required": ["measure"],
            "oneOf": [{"required": [bound]} for bound in BOUNDS],
            "additionalProperties": False,
        }
    ),
]
"""Keys of KEYS; axes as in a rule that excludes."""
