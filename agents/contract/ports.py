"""Ports as profiles and command lines write them (5000, "5000" or a range, "6000-6999"), and the packets of a run by port.

`captures.session.ports` reads those of a record; `tests/unit/test_ports.py` keeps the two readers equal.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from owlt.agents.contract.side import PortsText, Text, Value
from owlt.inputs.mistake import unexpected

LOWEST, HIGHEST = 1, 65535


def parse_ports(written: object) -> range:
    """The ports of a number or a range. Raises Invalid if it is neither, or if a range ends before it begins."""
    match = re.fullmatch("([0-9]{1,5})(?:-([0-9]{1,5}))?", str(written)) if _may_be_ports(written) else None
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not LOWEST <= first <= last <= HIGHEST:
        raise unexpected(f'a port from {LOWEST} to {HIGHEST}, or a range such as "6000-6999"')
    return range(first, last + 1)


def _may_be_ports(written: object) -> bool:
    return isinstance(written, (int, str)) and not isinstance(written, bool)


EVERY_PORT = "1-65535"


class SessionPorts(Value):
    """The packets of a run in a capture, between the two test addresses: ports as numbers, ranges or {placeholders}."""

    ports: Literal["any"] | None = Field(
        default=None,
        description="any: every UDP and TCP port, for an implementation whose ports the kernel chooses; "
        "default: those listed here",
    )
    udp_ports: Annotated[
        list[PortsText],
        Field(description='UDP ports of either side; numbers, ranges such as "6000-6999", or {placeholders}'),
    ] = []
    tcp_ports: Annotated[
        list[PortsText],
        Field(description='TCP ports of either side; numbers, ranges such as "6000-6999", or {placeholders}'),
    ] = []
    multicast_groups: Annotated[
        list[Text], Field(description="IPv4 addresses or {placeholders} of the destination groups; default: none")
    ] = []

    @model_validator(mode="after")
    def _check_one_way_of_naming_ports(self) -> Self:
        if self.ports is not None and (self.udp_ports or self.tcp_ports):
            raise unexpected("either ports: any, or udp_ports and tcp_ports", fix="remove one of them")
        return self

    @property
    def in_captures(self) -> dict[str, list[int | str]]:
        """The fields of `captures.session.session.Session`; any port becomes the range of all ports."""
        every: list[int | str] = [EVERY_PORT] if self.ports is not None else []
        return {
            "udp_ports": every or list(self.udp_ports),
            "tcp_ports": every or list(self.tcp_ports),
            "multicast_groups": list(self.multicast_groups),
        }
