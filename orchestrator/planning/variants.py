"""Variants of an implementation whose parameters a sweep varies: "norm" with parity_segments 0 and 8 has two.

Each variant is an implementation with its own name, colour and box.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product

from owlt.agents.contract.implementation import Implementation, Parameter
from owlt.agents.contract.placeholders import as_text

Parameters = Mapping[str, Parameter | Sequence[Parameter]]


def variants(implementation: Implementation, parameters: Parameters) -> list[Implementation]:
    """One implementation for each combination of the parameters for which a sweep has several values.

    Raises ValueError for a parameter that it does not have.
    """
    varied = {name: values for name, values in parameters.items() if isinstance(values, list)}
    fixed = {name: value for name, value in parameters.items() if not isinstance(value, list)}
    return [
        _variant(implementation.with_parameters({**fixed, **dict(zip(varied, chosen, strict=True))}), list(varied))  # type: ignore[dict-item]
        for chosen in product(*varied.values())
    ]


def base_name(name: str) -> str:
    """The name of the implementation of a variant."""
    return name.partition("+")[0]


def _variant(implementation: Implementation, varied: list[str]) -> Implementation:
    chosen = {name: as_text(implementation.parameters[name]) for name in varied}
    name = "+".join(
        [implementation.name, *(f"{key}={re.sub(r'[^A-Za-z0-9_.-]', '-', text)}" for key, text in chosen.items())]
    )
    title = ", ".join([implementation.title, *(f"{key} {text}" for key, text in chosen.items())])
    return implementation.model_copy(update={"name": name, "title": title})
