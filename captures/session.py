"""The session: which packets of a capture belong to the run, and who sent them.

The same definition twice: as numpy masks over the columns, and as a display filter for tshark and Wireshark.
"""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from captures.columns import Columns, Kind

Port = Annotated[int, Field(ge=1, le=65535)]
Host = Literal["sender", "receiver"]

_UDP, _TCP = 17, 6


class Session(BaseModel):
    """What belongs to a run: IPv4 between the two test addresses, or from one of them to one of the multicast
    groups, with one of the ports as source or as destination.

    Fragments belong whatever their port, since only the first of a packet has one: all UDP fragments
    between the addresses if the session has UDP ports, all TCP fragments if it has TCP ports. VLAN-tagged
    frames and packets quoted by ICMP errors do not belong, nor does a frame that ends within its IPv4
    header (the one place where tshark differs: it passes a fragment of that sort if what is there of the
    options looks whole).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sender_address: IPv4Address
    receiver_address: IPv4Address
    udp_ports: tuple[Port, ...] = ()
    tcp_ports: tuple[Port, ...] = ()
    multicast_groups: tuple[IPv4Address, ...] = ()

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.sender_address == self.receiver_address:
            raise ValueError(f"sender_address and receiver_address are both {self.sender_address}, wanted two hosts")
        if not self.udp_ports and not self.tcp_ports:
            raise ValueError("neither udp_ports nor tcp_ports: name the ports that the protocol uses on the test path")
        for group in self.multicast_groups:
            if not group.is_multicast:
                raise ValueError(f"multicast_groups: got {group}, wanted addresses in 224.0.0.0/4")
        return self

    def address(self, host: Host) -> IPv4Address:
        """The test address of the host."""
        return self.sender_address if host == "sender" else self.receiver_address

    def destinations(self, host: Host) -> tuple[IPv4Address, ...]:
        """Where the host's packets of the session go: to the other host or to a group."""
        other = self.receiver_address if host == "sender" else self.sender_address
        return (other, *self.multicast_groups)


def sent_by(columns: Columns, session: Session, host: Host) -> NDArray[np.bool_]:
    """The rows of the session's packets that the host sent, by their source address."""
    destinations = [int(address) for address in session.destinations(host)]
    is_between = (columns.source == int(session.address(host))) & np.isin(columns.destination, destinations)
    belongs: NDArray[np.bool_] = np.zeros(len(columns), np.bool_)
    for kind, number, ports in ((Kind.UDP, _UDP, session.udp_ports), (Kind.TCP, _TCP, session.tcp_ports)):
        if ports:
            has_port = np.isin(columns.source_port, ports) | np.isin(columns.destination_port, ports)
            is_fragment = (columns.kind == Kind.FRAGMENT) & (columns.protocol == number)
            belongs |= ((columns.kind == kind) & has_port) | is_fragment
    belongs &= is_between
    return belongs


def summary_filter(session: Session, host: Host | None = None) -> str:
    """The tshark display filter that passes the session's packets, or those of them that the host sent.

    `#1` is the outermost layer of its kind, so that headers quoted by ICMP or carried in tunnels do not
    count; Wireshark has it since version 4.0. Fragments are named, so that it makes no difference whether
    tshark is told to reassemble them.
    """
    senders: tuple[Host, ...] = (host,) if host else ("sender", "receiver")
    between = [
        f"(ip.src#1 == {session.address(sender)} && ip.dst#1 in {_set(session.destinations(sender))})"
        for sender in senders
    ]
    is_fragment = "ip.flags.mf#1 == 1 || ip.frag_offset#1 > 0"
    protocols = [
        f"(ip.proto#1 == {number} && ({name}.port#1 in {_set(ports)} || {is_fragment}))"
        for name, number, ports in (("udp", _UDP, session.udp_ports), ("tcp", _TCP, session.tcp_ports))
        if ports
    ]
    return f"eth.type#1 == 0x0800 && ({' || '.join(between)}) && ({' || '.join(protocols)})"


def _set(values: tuple[object, ...]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"
