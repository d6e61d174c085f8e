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
    elif there != here:
        yield f"{key}: {_shown(there)} there, {_shown(here)} here"


def _shown(value: Any) -> str:
    if value is NOTHING or value is None:
        return "nothing"
    if isinstance(value, list) and len(value) == 1:
        return _shown(value[0])
    text = json.dumps(value, ensure_ascii=False).replace('"', "")
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
