"""What in a plan is for people, for what is made of captures, or for the sweep's course: it can change while results
stay the same.

Everything else decides what is sent, and makes another sweep.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

OF_A_SWEEP = ("title", "assertions", "keep_captures", "host_captures", "quarantine_after")
OF_AN_IMPLEMENTATION = ("title", "description", "known_limits", "not_repeatable", "dissector")
OF_A_NEED = ("fix",)


def without_presentation(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The values of plan.json that decide what is sent. Raises LookupError, TypeError or AttributeError if damaged."""
    implementations = {name: _implementation(values) for name, values in plan["implementations"].items()}
    return {**plan, "sweep": _without(plan["sweep"], OF_A_SWEEP), "implementations": implementations}


def _implementation(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **_without(values, OF_AN_IMPLEMENTATION),
        "binary": {name: _without(need, OF_A_NEED) for name, need in values.get("binary", {}).items()},
        "needs": [_without(need, OF_A_NEED) for need in values.get("needs", [])],
    }


def _without(values: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}
