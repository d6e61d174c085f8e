"""The points of a sweep's grid: the product of its axes, those that vary together, less `exclude`, plus `include`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.axes import (
    AXES,
    BOTH_WAYS,
    LOADS,
    OF_THE_LINK,
    QUANTITIES,
    Axis,
    base_name,
    fields_of,
    is_among,
    matches,
    selected,
)
from owlt.inputs.mistake import Mistake, Place, got
from owlt.inputs.rules import REFERENCES, AxisValues
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.errors import SweepMistake, did_you_mean
from owlt.results.permutation import Permutation

Point = dict[str, Any]
"""A value for each axis; rate, delay and packet error rate only if the sweep gives them."""


def permutations(
    sweep: Sweep, implementations: Iterable[str], channels: Mapping[str, ChannelSpec]
) -> list[Permutation]:
    """Every point of the grid once, in the order of the file.

    `implementations` are names, each variant has its own; `channels` has those of the sweep by their own names. Raises
    SweepMistake for a rule that names what the sweep does not have, or that excludes nothing or everything.
    """
    names = list(implementations)
    _require_known_names(sweep, names, channels)
    whole = [_permutation(point, channels) for point in _points(sweep, names, channels, {})]
    left = _without_excluded(sweep, whole)
    for rule in sweep.include:
        left += [_permutation(point, channels) for point in _points(sweep, names, channels, rule)]
    return list(dict.fromkeys(left))


def baseline_of(sweep: Sweep, points: Sequence[Permutation]) -> Permutation | None:
    """The point that is performed again and again; None if the sweep has none.

    Raises SweepMistake if its values are not those of exactly one point of the grid.
    """
    if sweep.baseline is None:
        return None
    values = {axis: selected(axis, written) for axis, written in sweep.baseline.items() if axis != "every"}
    matching = [point for point in points if all(_matches(axis, point, values[axis]) for axis in values)]
    if len(matching) != 1:
        several = f"{len(matching)} points, such as {matching[0].slug}" if matching else "no point of this sweep"
        fix = "give a value for each axis that has several"
        raise SweepMistake(Mistake(f"names {several}", "exactly one point", fix, Place(key=("baseline",))))
    return matching[0]


def require_points_of_assertions(sweep: Sweep, points: Sequence[Permutation]) -> None:
    """Raise SweepMistake for each assertion that no point of the grid meets, or whose reference is not in it."""
    mistakes = [
        mistake for place, rule in enumerate(sweep.assertions) for mistake in _assertion_mistakes(place, rule, points)
    ]
    if mistakes:
        raise SweepMistake(*mistakes)


def _assertion_mistakes(place: int, rule: Mapping[str, Any], points: Sequence[Permutation]) -> Iterator[Mistake]:
    values = {axis: selected(axis, rule[axis]) for axis in AXES if axis in rule}
    names = list(dict.fromkeys(point.implementation for point in points))
    reference = rule.get("of")
    if reference is not None and reference not in (*REFERENCES, *names):
        expected = f"{', '.join(REFERENCES)}, or an implementation of this sweep: {', '.join(names)}"
        fix = did_you_mean(reference, [*REFERENCES, *names], "")
        yield Mistake(got(reference), expected, fix, Place(key=("assertions", place, "of")))
    unmet = [
        Mistake(
            got(written),
            f"a value of this sweep: {values_text(AXES[axis], points)}",
            _line_with(axis, written, points),
            _at(place, axis, key="assertions"),
        )
        for axis, parsed in values.items()
        for written, value in zip(rule[axis], parsed, strict=True)
        if not any(_matches(axis, point, [value]) for point in points)
    ]
    yield from unmet
    if not unmet and not any(all(_matches(axis, point, values[axis]) for axis in values) for point in points):
        yield Mistake("is about no point", "values that meet in this sweep", where=_at(place, key="assertions"))


def _points(
    sweep: Sweep, implementations: Sequence[str], channels: Mapping[str, ChannelSpec], rule: AxisValues
) -> Iterator[Point]:
    """The points of the grid whose axes in `rule` have its values instead of the sweep's."""
    chosen = {axis: selected(axis, values) for axis, values in rule.items()}
    names = chosen.pop("implementations", None)
    dimensions = [
        [{"implementations": name} for name in implementations if names is None or is_among(name, names)],
        *_dimensions(sweep, {"channel": list(channels) or [""]} | chosen),
    ]
    for parts in product(*dimensions):
        yield {axis: value for part in parts for axis, value in part.items()}


def _dimensions(sweep: Sweep, chosen: Mapping[str, list[Any]]) -> Iterator[list[Point]]:
    """A list of alternatives for each axis, or for several axes that vary together."""
    together = [
        {axis: selected(axis, values) for axis, values in axes.items() if axis not in chosen} for axes in sweep.together
    ]
    for axis in AXES:
        if axis == "implementations":
            continue
        if axis in chosen:
            yield [{axis: value} for value in chosen[axis]]
        elif values := getattr(sweep, axis):
            yield [{axis: value} for value in values]
        for axes in together:
            if axis == next(iter(sorted(axes, key=list(AXES).index)), None):
                yield [dict(zip(axes, row, strict=True)) for row in zip(*axes.values(), strict=True)]


def _permutation(point: Point, channels: Mapping[str, ChannelSpec]) -> Permutation:
    link = channels.get(point["channel"], ChannelSpec()).forward
    return Permutation(**fields_of({key: getattr(link, AXES[key].field) for key in BOTH_WAYS} | point))


def _without_excluded(sweep: Sweep, points: list[Permutation]) -> list[Permutation]:
    left = points
    for place, rule in enumerate(sweep.exclude):
        values = {axis: selected(axis, written) for axis, written in rule.items()}
        mistakes = [
            Mistake(
                got(written),
                f"a {axis} of this sweep: {values_text(AXES[axis], points)}",
                _line_with(axis, written, points),
                _at(place, axis),
            )
            for axis in QUANTITIES
            if axis in rule
            for written, value in zip(rule[axis], values[axis], strict=True)
            if not any(_matches(axis, point, [value]) for point in points)
        ]
        if mistakes:
            raise SweepMistake(*mistakes)
        matching = {point for point in points if all(_matches(axis, point, values[axis]) for axis in values)}
        if not matching:
            raise SweepMistake(Mistake("excludes nothing", "values that meet in this sweep", where=_at(place)))
        left = [point for point in left if point not in matching]
    if not left and not sweep.include:
        raise SweepMistake(Mistake("excludes every point of the grid", where=Place(key=("exclude",))))
    return left


def _matches(axis: str, point: Permutation, values: Sequence[Any]) -> bool:
    return matches(axis, AXES[axis].of(point), values)


def values_text(axis: Axis, points: Iterable[Permutation]) -> str:
    """The values that points have on an axis of a sweep, each once, as in a sweep file."""
    values = dict.fromkeys(axis.of(point) for point in points)
    return ", ".join(map(axis.quantity.text, values))


def _line_with(axis: str, written: Any, points: Iterable[Permutation]) -> str:
    """The line of a sweep with one more value on an axis; for a range, which cannot be added, what to do instead."""
    if not isinstance(written, str | int | float):
        return "write a range that contains one of them"
    line = f"{axis}: [{values_text(AXES[axis], points)}, {written}]"
    return f"write one of them here, or '{line}' in the sweep"


def _require_known_names(sweep: Sweep, names: Sequence[str], channels: Mapping[str, ChannelSpec]) -> None:
    """Raise SweepMistake for names of implementations and channels that the sweep does not have."""
    known = {"implementations": [*dict.fromkeys([*map(base_name, names), *names])], "channel": list(channels)}
    mistakes = []
    for key, rules in (("exclude", sweep.exclude), ("include", sweep.include)):
        for place, rule in enumerate(rules):
            for axis, allowed in known.items():
                for name in (name for name in rule.get(axis, ()) if name not in allowed):
                    line = ", ".join([*dict.fromkeys(map(base_name, allowed)), name])
                    fix = did_you_mean(name, allowed, f"add it to '{axis}': write '{axis}: [{line}]' in the sweep")
                    expected = f"one of this sweep's: {', '.join(allowed)}" if allowed else f"a sweep with '{axis}'"
                    mistakes.append(Mistake(got(name), expected, fix, Place(key=(key, place, axis))))
    mistakes += [
        _own_value(place, axis)
        for place, rule in enumerate(sweep.include)
        for axis in OF_THE_LINK
        if axis in rule and not sweep.gives(axis)
    ]
    mistakes += [
        _other_load(key, place, axis)
        for key, rules in (("exclude", sweep.exclude), ("include", sweep.include))
        for place, rule in enumerate(rules)
        for axis in LOADS
        if axis in rule and not sweep.gives(axis)
    ]
    if mistakes:
        raise SweepMistake(*mistakes)


def _other_load(key: str, place: int, axis: str) -> Mistake:
    other = next(each for each in LOADS if each != axis)
    where = Place(key=(key, place, axis))
    return Mistake(f"this sweep has {other!r}", f"a sweep with {axis!r}", "write a sweep of its own for it", where)


def _own_value(place: int, axis: str) -> Mistake:
    fix = f"add '{axis}' to the sweep, or write another channel profile"
    return Mistake("each channel has its own value", f"a sweep with '{axis}'", fix, Place(key=("include", place, axis)))


def _at(place: int, *axis: str, key: str = "exclude") -> Place:
    return Place(key=(key, place, *axis))
