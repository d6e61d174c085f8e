"""What differs between the plan in a results directory and the one that is asked for, key by key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

MOST_TOLD = 5
LONGEST_SHOWN = 60
NOTHING = object()


def differences(there: Any, here: dict[str, Any]) -> str:
    """The keys of the sweep with both values; or, where the sweep is the same, those of its implementations.

    Both are plans as they are written into `plan.json`; `there` may be anything.
    """
    if not isinstance(there, dict) or "sweep" not in there:
        return "its plan.json is not a plan"
    for part in ("sweep", "implementations"):
        if found := list(_differing(there.get(part), here[part], "")):
            more = f"; and {len(found) - MOST_TOLD} more" if len(found) > MOST_TOLD else ""
            where = "" if part == "sweep" else "the same sweep with other implementations: "
            return where + "; ".join(found[:MOST_TOLD]) + more
    if there.get("channels") != here["channels"]:
        return "the same sweep with other channels: a channel profile has changed"
    return "the same sweep, planned by another version of owlt"


def _differing(there: Any, here: Any, key: str) -> Iterator[str]:
    if isinstance(there, dict) and isinstance(here, dict):
        for name in dict.fromkeys([*there, *here]):
            yield from _differing(there.get(name, NOTHING), here.get(name, NOTHING), f"{key}.{name}".lstrip("."))
    elif _value(there) != _value(here):
        begin = _first_difference(_text(there), _text(here))
        yield f"{key}: {_shown(_text(there), begin)} there, {_shown(_text(here), begin)} here"


def _value(value: Any) -> Any:
    """A key that is left out is one without a value."""
    return None if value is NOTHING else value


def _text(value: Any) -> str:
    if _value(value) is None:
        return "nothing"
    if isinstance(value, list) and len(value) == 1:
        return _text(value[0])
    return json.dumps(value, ensure_ascii=False).replace('"', "")


def _first_difference(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def _shown(text: str, difference: int) -> str:
    """A text, or so much of a long one that what differs is among it."""
    if len(text) <= LONGEST_SHOWN:
        return text
    begin = max(0, difference - LONGEST_SHOWN // 3) if difference >= LONGEST_SHOWN else 0
    end = begin + LONGEST_SHOWN
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"
