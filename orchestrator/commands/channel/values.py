"""Values on the command line of `owlt channel`: KEY=VALUE fields of links, and durations."""

from __future__ import annotations

from typing import Any

from owlt.inputs.mistake import Invalid, Mistake
from owlt.orchestrator.errors import OwltError


def fields_of(option: str, texts: list[str]) -> dict[str, Any]:
    """The keys and values of texts such as "delay=300ms"; "jitter.amount=5ms" is a key inside a key.

    `option` is where they were given. Raises OwltError for a text without "=", and for a key that appears twice.
    """
    fields: dict[str, Any] = {}
    for text in texts:
        key, equals, written = text.partition("=")
        if not key or not equals or not written:
            raise OwltError(Mistake.of(option, f"got {text!r}", "KEY=VALUE, such as delay=300ms"))
        *outer, last = key.split(".")
        inside = fields
        for part in outer:
            inside = inside.setdefault(part, {}) if isinstance(inside, dict) else inside
        if not isinstance(inside, dict) or last in inside:
            raise OwltError(Mistake.of(option, f"got {key!r} twice", "it once"))
        inside[last] = _value(key, written)
    return fields


def merged(shared: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """The fields of both, key by key; if both have one, that of `own`."""
    fields = shared | own
    for key, value in own.items():
        if isinstance(value, dict) and isinstance(shared.get(key), dict):
            fields[key] = merged(shared[key], value)
    return fields


def parse_tolerance_ns(text: str) -> int:
    """The value of --tolerance in ns. Raises OwltError if it is not a duration above 0 and at most 2 s."""
    tolerance_ns = _parse_duration_ns("--tolerance", text)
    if not 0 < tolerance_ns <= 2 * 10**9:
        raise OwltError(Mistake.of("--tolerance", f"got {text!r}", "more than 0 and at most 2 s, such as 200 us"))
    return tolerance_ns


def parse_budget_s(text: str) -> float:
    """The value of --budget in seconds. Raises OwltError if it is not a duration above 0."""
    budget_ns = _parse_duration_ns("--budget", text)
    if budget_ns <= 0:
        raise OwltError(Mistake.of("--budget", f"got {text!r}", "more than 0, such as 1 min"))
    return budget_ns / 1e9


def _parse_duration_ns(option: str, text: str) -> int:
    from owlt.inputs.quantities import parse_delay_ns

    try:
        return parse_delay_ns(text)
    except Invalid as problem:
        raise OwltError(*(mistake.below(option) for mistake in problem.mistakes)) from problem


def _value(key: str, written: str) -> Any:
    from ruamel.yaml.error import YAMLError

    from owlt.inputs.bounded_yaml import new_yaml
    from owlt.inputs.reader import VALUE_ERRORS

    try:
        value = new_yaml().load(written)
    except (Invalid, YAMLError, *VALUE_ERRORS):
        raise OwltError(
            Mistake.of(key, f"got {written!r:.200}", "a value as in a profile, such as 300ms or 0.01")
        ) from None
    beyond_xml_rpc = isinstance(value, int) and abs(value) >= 2**31
    return float(value) if beyond_xml_rpc else value
