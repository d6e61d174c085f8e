"""The interfaces of this machine: what is there, what the emulator may shape, and that no other emulator serves it.

Shaping the interface of the management network or of the default route would lock all users out, and a queueing
discipline of another program must not be removed. `survey` reads the interfaces and queueing disciplines in two dumps:
in a guest each request to the kernel costs milliseconds, and values from a single moment are consistent.
"""

from __future__ import annotations

import errno
import socket
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from typing import Any

from owlt.emulator.faults import PortRefused
from owlt.emulator.kernel.rtnetlink import IPRoute
from owlt.inputs.mistake import Mistake

HANDLE = 0x4F57_0000
"""The handle of our qdiscs, 4f57: ("OW"), below 8000:, where the kernel begins to number those without."""
OUR_FILTER = HANDLE >> 16
INGRESS_FILTERS = 0xFFFF_FFF2
EGRESS_FILTERS = 0xFFFF_FFF3


@dataclass(frozen=True)
class KernelState:
    """Link messages by interface name, all qdisc messages, and the filter messages of each clsact by its interface's
    index and the parent; None if these were left out."""

    links: dict[str, Any]
    qdiscs: tuple[Any, ...]
    filters: Mapping[tuple[int, int], Sequence[Any]] | None = None

    @cached_property
    def our_clsacts(self) -> frozenset[int]:
        """The indices of interfaces whose clsact is ours.

        A clsact has a fixed handle: it is ours if there are filters in it, and all of them are.
        """
        handles: defaultdict[int, set[int]] = defaultdict(set)
        for (index, _), messages in (self.filters or {}).items():
            handles[index] |= set(_handles(messages))
        return frozenset(index for index, there in handles.items() if there == {OUR_FILTER})

    def filters_of(self, netlink: IPRoute, index: int, parent: int) -> Sequence[Any]:
        """Return the filter messages of an interface; from the kernel if they were left out."""
        if self.filters is None:
            return tuple(netlink.get_filters(index=index, parent=parent))
        return self.filters.get((index, parent), ())

    def qdiscs_of(self, index: int) -> list[Any]:
        """Return the qdisc messages of an interface."""
        return [qdisc for qdisc in self.qdiscs if qdisc["index"] == index]

    def name_of(self, index: int) -> str:
        """Return the name of an interface, or its index if it has gone."""
        return next((name for name, link in self.links.items() if link["index"] == index), f"number {index}")


NOTHING = KernelState({}, ())
"""The state without any of our stages."""


def survey(netlink: IPRoute, with_filters: bool = True) -> KernelState:
    """Read the state from the kernel; the filters of each clsact cost two more requests."""
    links = {link.get_attr("IFLA_IFNAME"): link for link in netlink.get_links()}
    qdiscs = tuple(netlink.get_qdiscs())
    if not with_filters:
        return KernelState(links, qdiscs)
    clsacts = [qdisc["index"] for qdisc in qdiscs if qdisc.get_attr("TCA_KIND") == "clsact"]
    return KernelState(links, qdiscs, {place: each for index in clsacts for place, each in _filters(netlink, index)})


def _filters(netlink: IPRoute, index: int) -> Iterator[tuple[tuple[int, int], Sequence[Any]]]:
    for parent in (INGRESS_FILTERS, EGRESS_FILTERS):
        yield (index, parent), tuple(netlink.get_filters(index=index, parent=parent))


def filter_handles(netlink: IPRoute, index: int) -> list[int]:
    """Return the handles of all filters in an interface's clsact."""
    return [handle for _, messages in _filters(netlink, index) for handle in _handles(messages)]


def _handles(messages: Sequence[Any]) -> list[int]:
    """The handles of filters. A message with the handle 0 is of a priority."""
    return [message["handle"] for message in messages if message["handle"]]


IFB_PREFIX = "owlt-ifb"
_LOOPBACK = 0x8  # IFF_LOOPBACK
_UPPER_KINDS = ("vlan", "macvlan", "ipvlan", "macsec")


@dataclass(frozen=True)
class Port:
    """An interface to shape. The kernel's index changes when the interface is created again."""

    name: str
    index: int

    @property
    def ifb_name(self) -> str:
        """The name of our intermediate device behind this port (at most 15 characters)."""
        return f"{IFB_PREFIX}{self.index}"


def find_port(state: KernelState, name: str) -> Port | None:
    """Return the port, even if it is used for something else; None if there is no such interface."""
    link = state.links.get(name)
    return None if link is None else Port(name, link["index"])


def checked_port(state: KernelState, residents: Mapping[int, Sequence[str]], name: str) -> Port:
    """Return the port, or raise PortRefused with all reasons against shaping it.

    Addresses and routes of its bridge count as its own.
    """
    port = find_port(state, name)
    if port is None:
        raise PortRefused(
            Mistake.of(f"port {name}", "got no such interface", f"one of: {', '.join(sorted(state.links))}")
        )
    link = state.links[name]
    bridge = link.get_attr("IFLA_MASTER")
    uppers = _uppers(state, {port.index, bridge})
    objections = [
        *(["is the loopback interface"] if link["flags"] & _LOOPBACK else []),
        *residents.get(port.index, []),
        *(f"belongs to {state.name_of(bridge)}, which {reason}" for reason in residents.get(bridge, [])),
        *(f"carries {upper}, which {reason}" for upper, index in uppers for reason in residents.get(index, [])),
        *_foreign_qdiscs(state, port),
    ]
    if objections:
        expected = "an interface of the test path without address, default route or queueing discipline"
        raise PortRefused(
            Mistake.of(f"port {name}", "; ".join(objections), expected, "name another interface, or remove these")
        )
    return port


def _uppers(state: KernelState, below: set[int | None]) -> list[tuple[str, int]]:
    """The interfaces whose packets pass one of those below: VLANs and the like. (A veth names its peer so, too.)"""
    return [
        (name, link["index"])
        for name, link in state.links.items()
        if link.get_attr("IFLA_LINK") in below and link.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") in _UPPER_KINDS
    ]


def residents(netlink: IPRoute) -> Mapping[int, list[str]]:
    """Return the users of each interface, by its index: addresses and default routes, in words."""
    reasons: defaultdict[int, list[str]] = defaultdict(list)
    for message in netlink.get_addr():
        address = message.get_attr("IFA_LOCAL") or message.get_attr("IFA_ADDRESS")
        if not _automatic(address):
            reasons[message["index"]].append(f"has the address {address}")
    for family in (socket.AF_INET, socket.AF_INET6):
        for route in netlink.get_routes(family=family):
            for index in _outgoing(route) if route["dst_len"] == 0 else ():
                reasons[index].append("carries a default route")
    return reasons


def _automatic(address: str) -> bool:
    """The kernel gives an IPv6 link-local address to any interface that is up: that alone is no other use."""
    parsed = ip_address(address)
    return parsed.version == 6 and parsed.is_link_local


def _outgoing(route: Any) -> list[int]:
    hops = route.get_attr("RTA_MULTIPATH") or []
    return [index for index in (route.get_attr("RTA_OIF"), *(hop["oif"] for hop in hops)) if index]


def _foreign_qdiscs(state: KernelState, port: Port) -> list[str]:
    """The kernel's own defaults (noqueue, pfifo_fast, fq_codel, mq and its leaves) have the handle 0:."""
    return [
        f"has the queueing discipline {qdisc.get_attr('TCA_KIND')} {qdisc['handle'] >> 16:x}:"
        for qdisc in state.qdiscs_of(port.index)
        if qdisc["handle"] not in (0, HANDLE)
        and not (qdisc.get_attr("TCA_KIND") == "clsact" and port.index in state.our_clsacts)
    ]


def take(ports: Sequence[Port]) -> list[socket.socket]:
    """Return sockets that are to be kept as long as the ports are served.

    Raises PortRefused if another emulator serves one.
    """
    return [_taken(port) for port in ports]


def _taken(port: Port) -> socket.socket:
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        held.bind(f"\0owlt-emulator-{port.index}")
    except OSError as error:
        held.close()
        if error.errno != errno.EADDRINUSE:
            raise
        problem, fix = "got an emulator that serves it already", "end that one first, or use it"
        raise PortRefused(Mistake.of(f"port {port.name}", problem, "none", fix)) from None
    return held
