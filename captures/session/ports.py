"""Ports of a session: numbers and ranges, as profiles and records write them: 5000, "6000-6999"."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

LOWEST, HIGHEST = 1, 65535
ANY = f"{LOWEST}-{HIGHEST}"
"""Every port."""
_RANGE = re.compile("([0-9]{1,5})-([0-9]{1,5})")


def bounds(port: int | str) -> tuple[int, int]:
    """The first and the last port of a number or a range. Raises ValueError for what is neither."""
    if isinstance(port, int):
        return port, port
    match = _RANGE.fullmatch(port)
    first, last = (int(match[1]), int(match[2])) if match else (1, 0)
    if not LOWEST <= first <= last <= HIGHEST:
        raise ValueError(f'got {port!r}, expected a port from {LOWEST} to {HIGHEST}, or a range such as "6000-6999"')
    return first, last


def _require_ports(port: int | str) -> int | str:
    bounds(port)
    return port


Port = Annotated[
    Annotated[int, Field(ge=LOWEST, le=HIGHEST)] | Annotated[str, AfterValidator(_require_ports)],
    Field(union_mode="left_to_right"),
]
Ports = tuple[Port, ...]


def are_among(numbers: NDArray[np.integer], ports: Ports) -> NDArray[np.bool_]:
    """For each number of a column whether it is one of the ports."""
    is_listed: NDArray[np.bool_] = np.isin(numbers, [port for port in ports if isinstance(port, int)])
    for first, last in (bounds(port) for port in ports if isinstance(port, str)):
        is_listed |= (numbers >= first) & (numbers <= last)
    return is_listed


def is_among(number: int, ports: Ports) -> bool:
    """Whether a number is one of the ports."""
    return any(first <= number <= last for first, last in map(bounds, ports))


def some_are_among(numbers: Iterable[int], ports: Ports) -> bool:
    """Whether one of the numbers is one of the ports."""
    return any(is_among(number, ports) for number in numbers)


def port_text(transport: str, port: int | str) -> str:
    """ "UDP 5000", "UDP 6000-6999", "any UDP port"."""
    return f"any {transport} port" if port == ANY else f"{transport} {port}"
