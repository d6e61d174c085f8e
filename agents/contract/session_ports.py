"""Which packets of a capture belong to a run: the ports and groups that a profile names."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from owlt.agents.contract.side import PortsText, Text, Value
from owlt.inputs.mistake import unexpected

EVERY_PORT = "1-65535"
PORT_KEYS = ("udp_ports", "tcp_ports", "sctp_ports")


class SessionPorts(Value):
    """The packets of a run in a capture, between the two test addresses: ports as numbers, ranges or {placeholders}."""

    ports: Literal["any"] | None = Field(
        default=None,
        description="any: every UDP, TCP and SCTP port, for an implementation whose ports the kernel chooses; "
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
    sctp_ports: Annotated[
        list[PortsText],
        Field(description='SCTP ports of either side; numbers, ranges such as "6000-6999", or {placeholders}'),
    ] = []
    multicast_groups: Annotated[
        list[Text], Field(description="IPv4 addresses or {placeholders} of the destination groups; default: none")
    ] = []

    @model_validator(mode="after")
    def _check_one_way_of_naming_ports(self) -> Self:
        if self.ports is not None and any(getattr(self, kind) for kind in PORT_KEYS):
            raise unexpected(f"either ports: any, or {', '.join(PORT_KEYS)}", fix="remove one of them")
        return self

    @property
    def in_captures(self) -> dict[str, list[int | str]]:
        """The fields of `captures.frames.session.Session`; any port becomes the range of all ports."""
        every: list[int | str] = [EVERY_PORT] if self.ports is not None else []
        ports = {kind: every or list(getattr(self, kind)) for kind in PORT_KEYS}
        return {**ports, "multicast_groups": list(self.multicast_groups)}

    def joined(self, other: SessionPorts) -> SessionPorts:
        """The packets of either."""
        kinds = ("multicast_groups",) if self.ports or other.ports else (*PORT_KEYS, "multicast_groups")
        lists = {kind: list(dict.fromkeys([*getattr(self, kind), *getattr(other, kind)])) for kind in kinds}
        return SessionPorts.model_validate({"ports": self.ports or other.ports, **lists})
