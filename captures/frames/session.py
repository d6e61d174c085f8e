"""The session: which packets of a capture belong to the run, and who sent them.

The same definition twice: as numpy masks over the columns, and as a display filter for tshark and Wireshark. Ports of a
session are numbers and ranges, as profiles and records write them: 5000, "6000-6999".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from owlt.captures.frames.columns import Columns
from owlt.captures.frames.decoding import KINDS, TRANSPORTS, Kind, Transport

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


def port_text(transport: Transport, port: int | str) -> str:
    """ "UDP 5000", "UDP 6000-6999", "any UDP port"."""
    name = transport.upper()
    return f"any {name} port" if port == ANY else f"{name} {port}"


Host = Literal["sender", "receiver"]
HOSTS: tuple[Host, ...] = ("sender", "receiver")
Address = IPv4Address | IPv6Address

_LINK = "^(((eth|sll):ethertype(:(vlan|ieee8021ad):ethertype)*|raw):)?"
_EXTENSIONS = "(:ipv6[.](hopopts|routing|dstopts))*"


class Session(BaseModel):
    """The packets that belong to a run: IP between the two test addresses, or from one of them to one of the multicast
    groups, with one of the ports as source or as destination. All addresses are IPv4, or all are IPv6.

    Tags of VLANs do not matter, nor do IPv6 extension headers (hop-by-hop and destination options, routing,
    fragment). Fragments belong with any port, since only the first of a packet has one: all UDP fragments
    between the addresses if the session has UDP ports, and so on. Packets in tunnels
    (PPP, MPLS, IP in IP) and packets quoted by ICMP errors do not belong, nor does a frame that ends within its
    IPv4 header (the one place where tshark differs: it passes a fragment of that sort if what is there of the
    options looks whole).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sender_address: Address
    receiver_address: Address
    udp_ports: Ports = ()
    tcp_ports: Ports = ()
    sctp_ports: Ports = ()
    multicast_groups: tuple[Address, ...] = ()

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.sender_address == self.receiver_address:
            raise ValueError(f"sender_address and receiver_address are both {self.sender_address}, expected two hosts")
        if not self.ports:
            raise ValueError(
                "no udp_ports, tcp_ports or sctp_ports: name those that the protocol uses on the test path"
            )
        for group in self.multicast_groups:
            if not group.is_multicast:
                raise ValueError(f"multicast_groups: got {group}, expected addresses in 224.0.0.0/4 or ff00::/8")
        versions = {address.version for address in (self.sender_address, *self.destinations("sender"))}
        if len(versions) > 1:
            raise ValueError("sender_address, receiver_address and multicast_groups: got IPv4 and IPv6, expected one")
        return self

    @property
    def network(self) -> int:
        """4 or 6."""
        return self.sender_address.version

    @property
    def port_texts(self) -> list[str]:
        """Each port or range in words: "UDP 5000", "any TCP port"."""
        return [port_text(transport, port) for transport, ports in self.ports.items() for port in ports]

    @property
    def ports(self) -> dict[Transport, Ports]:
        """The ports of each transport that has some."""
        named: dict[Transport, Ports] = {"udp": self.udp_ports, "tcp": self.tcp_ports, "sctp": self.sctp_ports}
        return {transport: ports for transport, ports in named.items() if ports}

    def address(self, host: Host) -> Address:
        """The test address of the host."""
        return self.sender_address if host == "sender" else self.receiver_address

    def destinations(self, host: Host) -> tuple[Address, ...]:
        """Where the host's packets of the session go: to the other host or to a group."""
        other = self.receiver_address if host == "sender" else self.sender_address
        return (other, *self.multicast_groups)


def sent_by(columns: Columns, session: Session, host: Host) -> NDArray[np.bool_]:
    """The rows of the session's packets that the host sent, by their source address."""
    is_from = np.isin(columns.source, _numbers(columns, (session.address(host),)))
    is_between = is_from & np.isin(columns.destination, _numbers(columns, session.destinations(host)))
    is_between &= columns.network == session.network
    belongs: NDArray[np.bool_] = np.zeros(len(columns), np.bool_)
    for transport, ports in session.ports.items():
        has_port = are_among(columns.source_port, ports) | are_among(columns.destination_port, ports)
        is_fragment = (columns.kind == Kind.FRAGMENT) & (columns.protocol == TRANSPORTS[transport])
        belongs |= ((columns.kind == KINDS[transport]) & has_port) | is_fragment
    belongs &= is_between
    return belongs


def _numbers(columns: Columns, addresses: tuple[Address, ...]) -> list[int]:
    """The numbers of these addresses in the capture's columns; IPv6 addresses that are not in it are omitted."""
    numbers = {address: number for number, address in enumerate(columns.addresses)}
    return [
        int(address) if address.version == 4 else numbers[address]
        for address in addresses
        if address.version == 4 or address in numbers
    ]


def summary_filter(session: Session, host: Host | None = None) -> str:
    """The tshark display filter that passes the session's packets, or those of them that the host sent.

    The layers before the transport are named, so that headers quoted by ICMP or carried in tunnels do not count; `#1`
    is the outermost layer of its kind (Wireshark has it since version 4.0). Fragments are named, so that tshark's
    setting for reassembly makes no difference.
    """
    senders: tuple[Host, ...] = (host,) if host else HOSTS
    name = "ip" if session.network == 4 else "ipv6"
    between = [
        f"({name}.src#1 == {session.address(sender)} && {name}.dst#1 in {_set(session.destinations(sender))})"
        for sender in senders
    ]
    protocols = [
        (_ipv4_filter if session.network == 4 else _ipv6_filter)(transport, TRANSPORTS[transport], ports)
        for transport, ports in session.ports.items()
    ]
    return f"{_layers(name)} && ({' || '.join(between)}) && ({' || '.join(protocols)})"


def _layers(names: str) -> str:
    return f'frame.protocols matches "{_LINK}{names}(:|$)"'


def _ipv4_filter(transport: str, number: int, ports: Ports) -> str:
    is_fragment = "ip.flags.mf#1 == 1 || ip.frag_offset#1 > 0"
    return f"(ip.proto#1 == {number} && ({transport}.port#1 in {_port_set(ports)} || {is_fragment}))"


def _ipv6_filter(transport: str, number: int, ports: Ports) -> str:
    fragment = (
        f"{_layers(f'ipv6{_EXTENSIONS}:ipv6[.]fraghdr')} && (ipv6.fraghdr.more#1 == 1 || ipv6.fraghdr.offset#1 > 0)"
    )
    whole = _layers(f"ipv6{_EXTENSIONS}(:ipv6[.]fraghdr{_EXTENSIONS})?:{transport}")
    has_port = f"{transport}.port#1 in {_port_set(ports)}"
    return f"(({fragment} && ipv6.fraghdr.nxt#1 == {number}) || (!({fragment}) && {whole} && {has_port}))"


def _port_set(ports: Ports) -> str:
    return _set(tuple(f"{first}..{last}" if last > first else first for first, last in map(bounds, ports)))


def _set(values: tuple[object, ...]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"
