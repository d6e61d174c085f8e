"""A sweep's rules for points of its grid: axes that vary together, rules that exclude or include points, the baseline,
and assertions such as {measure: goodput, at_least: 0.9, of: capacity, packet_error_rate: 0.0001}.

They are read into plain values: for each axis, its values as they are written, ranges expanded. Applying the rules
belongs to `orchestrator.planning.grid`, checking assertions to `reports.answer.assertions`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, TypeAdapter, WithJsonSchema

from owlt.inputs.axes import AXES, QUANTITIES, Axis
from owlt.inputs.axis_values import (
    DelayAxis,
    DelayOneWay,
    DurationAxis,
    IpAxis,
    ProbabilityAxis,
    ProbabilityOneWay,
    RateAxis,
    RateOneWay,
    SizeAxis,
    in_directions,
    is_range,
    one_or_many,
    repeated_at,
    with_ranges_expanded,
)
from owlt.inputs.mistake import Invalid, Mistake, Place, did_you_mean, got, keys_below, unexpected
from owlt.inputs.quantities import (
    DELAY,
    DURATION,
    IP,
    NAME,
    PROBABILITY,
    RATE,
    SIZE,
    Quantity,
    format_rate,
    parse_rate_bps,
)
from owlt.inputs.validation import unknown_key

AxisValues = dict[str, list[Any]]
"""For each axis, values as they are written; in rules that exclude, also {from: ..., to: ...}."""


def _read_together(written: object) -> AxisValues:
    axes = _read_axes(written, QUANTITIES, _values)
    lengths = {axis: len(values) for axis, values in axes.items()}
    counted = ", ".join(f"{count} of {axis}" for axis, count in lengths.items())
    if len(axes) < 2:
        raise Invalid(Mistake(f"got {', '.join(axes) or 'nothing'} alone", "two or more axes that vary together"))
    if len(set(lengths.values())) > 1:
        raise Invalid(Mistake(f"got {counted}", "the same number of values for each axis"))
    with keys_below(next(iter(axes))):
        _require_distinct([", ".join(map(str, row)) for row in zip(*axes.values(), strict=True)])
    return axes


def _read_include(written: object) -> AxisValues:
    return _read_axes(written, AXES, _listed)


def _read_exclude(written: object) -> AxisValues:
    return _read_axes(written, AXES, listed_or_interval)


def _read_baseline(written: object) -> dict[str, Any]:
    every = written.get("every") if isinstance(written, dict) else None
    if not isinstance(written, dict) or "every" not in written or len(written) < 2:
        expected = "'every' and the values of one point, such as {every: 50, implementations: tcp}"
        raise Invalid(Mistake(got(written), expected))
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise Invalid(Mistake(got(every), "a whole number of runs, from 1 up", where=Place(key=("every",))))
    axes = {axis: values for axis, values in written.items() if axis != "every"}
    return {"every": every, **_read_axes(axes, AXES, _listed)}


def _read_axes(written: object, known: Collection[str], read: Callable[[object, Quantity], list[Any]]) -> AxisValues:
    if not isinstance(written, dict) or not written:
        raise Invalid(Mistake(got(written), "axes with their values, such as {delay: 25 ms}"))
    axes: AxisValues = {}
    mistakes: list[Mistake] = []
    for axis, values in _with_directions(written, vary_together=read is _values).items():
        if axis not in known:
            mistakes.append(unknown_key(Place(key=(str(axis),)), known))
            continue
        try:
            with keys_below(axis):
                axes[axis] = read(values, AXES[axis].quantity)
        except Invalid as problem:
            mistakes += problem.mistakes
    if mistakes:
        raise Invalid(*mistakes)
    return axes


def _with_directions(written: Mapping[str, Any], vary_together: bool = False) -> dict[str, Any]:
    """Axes with those of the two directions instead of pairs; a list of pairs only in a group that varies together."""
    axes, groups = in_directions(written)
    for pairs in groups:
        if not vary_together:
            problem, place = f"a list of pairs for {' and '.join(pairs)}", Place(key=(next(iter(pairs)),))
            expected, fix = "one value {forward: ..., reverse: ...}", "write a rule for each of them"
            raise Invalid(Mistake(problem, expected, fix, place))
        axes |= pairs
    return axes


def _values(written: object, quantity: Quantity) -> list[Any]:
    """Values as they are written in plan.json, ranges expanded."""
    values = list(_each(with_ranges_expanded(written, quantity), quantity))
    if not values:
        raise Invalid(Mistake(got(written), "at least one value"))
    return values


def _listed(written: object, quantity: Quantity) -> list[Any]:
    """The same, each value once."""
    values = _values(written, quantity)
    _require_distinct(values)
    return values


def _require_distinct(values: Sequence[Any]) -> None:
    if (place := repeated_at(values)) is not None:
        raise Invalid(Mistake(f"{values[place]} is listed twice", "each value once", where=Place(key=(place,))))


def listed_or_interval(written: object, quantity: Quantity) -> list[Any]:
    """Values as they are written in plan.json, and intervals: {from: ..., to: ...}."""
    if not isinstance(written, list):
        return [_bounds(written, quantity)] if is_range(written) else _listed(written, quantity)
    if not any(map(is_range, written)):
        return _listed(written, quantity)
    values = []
    for place, item in enumerate(written):
        with keys_below(place):
            values.append(_bounds(item, quantity) if is_range(item) else quantity.write(quantity.parse(item)))
    return values


def _bounds(written: object, quantity: Quantity) -> dict[str, Any]:
    """The ends of an interval."""
    assert isinstance(written, dict)
    if quantity is NAME or set(written) - {"from", "to"}:
        raise Invalid(Mistake(got(written), "a value, or an interval with one or both of 'from' and 'to'"))
    bounds = {}
    for end, value in written.items():
        with keys_below(end):
            bounds[end] = quantity.write(quantity.parse(value))
    return bounds


def _each(written: object, quantity: Quantity) -> Iterator[Any]:
    values = one_or_many(written)
    assert isinstance(values, list)
    for place, value in enumerate(values):
        if isinstance(written, list):
            with keys_below(place):
                yield quantity.write(quantity.parse(value))
        else:
            yield quantity.write(quantity.parse(value))


_TYPES: dict[Quantity, Any] = {
    SIZE: SizeAxis,
    DURATION: DurationAxis,
    IP: IpAxis,
    RATE: RateAxis,
    DELAY: DelayAxis,
    PROBABILITY: ProbabilityAxis,
}
_ONE_WAY: dict[Quantity, Any] = {RATE: RateOneWay, DELAY: DelayOneWay, PROBABILITY: ProbabilityOneWay}


def _axis_schema(axis: Axis) -> dict[str, Any]:
    if axis.quantity is NAME:
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
    return TypeAdapter((_ONE_WAY if axis.way else _TYPES)[axis.quantity]).json_schema()


def _schema(axes: Mapping[str, Any], least: int = 1) -> WithJsonSchema:
    return WithJsonSchema(
        {"type": "object", "properties": dict(axes), "additionalProperties": False, "minProperties": least}
    )


def _with_interval(axis: dict[str, Any]) -> dict[str, Any]:
    one, _, many, *pairs = axis["anyOf"]
    ends = {"from": one | {"description": "the least value"}, "to": one | {"description": "the greatest value"}}
    interval = {"type": "object", "properties": ends, "additionalProperties": False, "minProperties": 1}
    return {"anyOf": [one, interval, many, *pairs]}


AXIS_SCHEMAS = {key: _axis_schema(axis) for key, axis in AXES.items()}
_OF_QUANTITIES = {axis: AXIS_SCHEMAS[axis] for axis in QUANTITIES}
INTERVAL_SCHEMAS = AXIS_SCHEMAS | {axis: _with_interval(schema) for axis, schema in _OF_QUANTITIES.items()}
"""The values and intervals of each axis, as `listed_or_interval` reads them."""
Together = Annotated[AxisValues, BeforeValidator(_read_together), _schema(_OF_QUANTITIES, least=2)]
Include = Annotated[AxisValues, BeforeValidator(_read_include), _schema(AXIS_SCHEMAS)]
Exclude = Annotated[
    AxisValues,
    BeforeValidator(_read_exclude),
    _schema(INTERVAL_SCHEMAS),
]
_EVERY = {"type": "integer", "minimum": 1, "description": "number of runs between two runs of the baseline"}
Baseline = Annotated[
    dict[str, Any],
    BeforeValidator(_read_baseline),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {"every": _EVERY, **AXIS_SCHEMAS},
            "required": ["every"],
            "minProperties": 2,
            "additionalProperties": False,
        }
    ),
]
"""`every`, and the axes of one point."""


STATISTICS = ("median", "mean", "minimum", "maximum")
BOUNDS = ("at_least", "at_most")
REFERENCES = ("capacity", "rate")
"""The references of which a goodput can be a share, beside the goodput of another implementation."""


def _parse_amount(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise unexpected("a number, 0 or more")
    return value


AMOUNT = Quantity(_parse_amount)
_RATE = Quantity(parse_rate_bps, format_rate)
MEASURES: dict[str, Quantity] = {
    "goodput": _RATE,
    "goodput_to_delivery": _RATE,
    "str": AMOUNT,
    "rts": AMOUNT,
    "total_data": SIZE,
    "data_ratio": AMOUNT,
    "efficiency": AMOUNT,
    "utilisation": AMOUNT,
    "delivered": AMOUNT,
}
"""The measures that can be asserted, and how a bound of each is written."""
SHARES = ("efficiency", "utilisation", "delivered")
OF_THE_CHANNEL = ("goodput", "goodput_to_delivery")
"""The measures that can be a share of a reference of REFERENCES."""
ASSERTION_KEYS = ("measure", "statistic", *BOUNDS, "of", *AXES)


def _read_assertion(written: object) -> dict[str, Any]:
    if not isinstance(written, dict) or "measure" not in written:
        raise Invalid(Mistake(got(written), "'measure' and a bound, such as {measure: goodput, at_least: 1 Mbit/s}"))
    written = _with_directions(written)
    mistakes = [unknown_key(Place(key=(str(key),)), ASSERTION_KEYS) for key in written if key not in ASSERTION_KEYS]
    assertion: dict[str, Any] = {}
    for key, value in written.items():
        try:
            with keys_below(str(key)):
                if key in AXES:
                    assertion[key] = listed_or_interval(value, AXES[key].quantity)
                elif key in ASSERTION_KEYS:
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
    quantity = AMOUNT if reference is not None else MEASURES.get(str(measure), AMOUNT)
    number = quantity.parse(value)
    if measure in SHARES and reference is None and number is not None and number > 1:
        raise unexpected("a share from 0 to 1")
    return quantity.write(number)


def _one_of(value: object, names: tuple[str, ...]) -> object:
    if value not in names:
        raise unexpected(f"one of {', '.join(names)}", did_you_mean(str(value), names))
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
"""Keys of ASSERTION_KEYS; axes as in a rule that excludes."""
