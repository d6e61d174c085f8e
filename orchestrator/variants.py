"""A build whose parameters a sweep varies, as so many builds: "norm" with parity_segments 0 and 8 is two.

Each has a name, a colour and a box of its own in whatever comes after.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product

from agents.contract import Implementation, Parameter
from agents.placeholders import as_text

Parameters = Mapping[str, Parameter | Sequence[Parameter]]


def variants(build: Implementation, parameters: Parameters) -> list[Implementation]:
    """The build with the parameters that a sweep gives: one for each combination of those that have several values.

    Raises ValueError on a parameter that it does not have.
    """
    varied = {name: values for name, values in parameters.items() if isinstance(values, list)}
    fixed = {name: value for name, value in parameters.items() if not isinstance(value, list)}
    return [
        _variant(build.with_parameters({**fixed, **dict(zip(varied, chosen, strict=True))}), list(varied))  # type: ignore[dict-item]
        for chosen in product(*varied.values())
    ]


def base_name(name: str) -> str:
    """The name of the build that a variant is of."""
    return name.partition("+")[0]


def _variant(build: Implementation, varied: list[str]) -> Implementation:
    chosen = {name: as_text(build.parameters[name]) for name in varied}
    name = "+".join([build.name, *(f"{key}={re.sub(r'[^A-Za-z0-9_.-]', '-', text)}" for key, text in chosen.items())])
    title = ", ".join([build.title, *(f"{key} {text}" for key, text in chosen.items())])
    return build.model_copy(update={"name": name, "title": title})
