"""The differences between values of the plan in a results directory and those of the requested plan, key by key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

MOST_SHOWN = 5
LONGEST_SHOWN = 60
NOTHING = object()


def differences(there: Mapping[str, Any], here: Mapping[str, Any], words: str = "{0} there, {1} here") -> list[str]:
    """The keys that differ, each with both values; a few of many. `words` puts the two values of a key together."""
    differing = [f"{key}: {words.format(*values)}" for key, *values in _differing(there, here, "")]
    more = [f"and {len(differing) - MOST_SHOWN} more"] if len(differing) > MOST_SHOWN else []
    return differing[:MOST_SHOWN] + more


def _differing(there: Any, here: Any, key: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for name in dict.fromkeys([*there, *here]):
            yield from _differing(there.get(name, NOTHING), here.get(name, NOTHING), f"{key}.{name}".lstrip("."))
    elif _value(there) != _value(here):
        begin = _first_difference(_text(there), _text(here))
        yield key, _shown(_text(there), begin), _shown(_text(here), begin)


def _value(value: Any) -> Any:
    """None for a missing key, which is equal to a key without a value."""
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
    """A text, or the part of a long text that contains the difference."""
    if len(text) <= LONGEST_SHOWN:
        return text
    begin = max(0, difference - LONGEST_SHOWN // 3) if difference >= LONGEST_SHOWN else 0
    end = begin + LONGEST_SHOWN
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"
