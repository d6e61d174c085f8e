"""Which interfaces the emulator may shape: two ports of a test path, never one that somebody else lives on.

Shaping the interface of the management network or of the default route would lock everybody out, and a
queueing discipline that somebody else put there is not ours to remove.
"""

import socket
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from emulator.faults import PortRefused
from emulator.rtnetlink import IPRoute

HANDLE = 0x4F57_0000
"""The handle of our qdiscs, 4f57: ("OW"), below 8000:, where the kernel begins to number those without."""
IFB_PREFIX = "owlt-ifb"
_LOOPBACK = 0x8  # IFF_LOOPBACK


@dataclass(frozen=True)
class Port:
    """An interface that may be shaped. The index is the kernel's and changes when the interface is made
    anew.
    """

    name: str
    index: int

    @property
    def ifb_name(self) -> str:
        """The name of our intermediate device behind this port (at most 15 characters)."""
        return f"{IFB_PREFIX}{self.index}"


def find_port(netlink: IPRoute, name: str) -> Port | None:
    """Return the port, whatever lives on it; None if there is no such interface."""
    link = find_link(netlink, name)
    return None if link is None else Port(name, link["index"])


def checked_port(netlink: IPRoute, name: str) -> Port:
    """Return the port, or raise PortRefused with everything that speaks against shaping it."""
    link = find_link(netlink, name)
    if link is None:
        known = ", ".join(sorted(link.get_attr("IFLA_IFNAME") for link in netlink.get_links()))
        raise PortRefused(f"port {name}: got no such interface, wanted one of: {known}")
    port = Port(name, link["index"])
    bridge = link.get_attr("IFLA_MASTER")
    lived_on = {port.index: name} | ({bridge: f"its bridge {_name(netlink, bridge)}"} if bridge else {})
    objections = [
        *(["it is the loopback interface"] if link["flags"] & _LOOPBACK else []),
        *_addresses(netlink, lived_on),
        *_default_routes(netlink, lived_on),
        *_foreign_qdiscs(netlink, port),
    ]
    if objections:
        raise PortRefused(
            f"port {name}: {'; '.join(objections)}; wanted an interface of the test path without address, "
            "route or queueing discipline: name another, or take these away"
        )
    return port


def find_link(netlink: IPRoute, name: str) -> Any | None:
    """Return the link message of the interface, None if there is none."""
    return next((link for link in netlink.get_links() if link.get_attr("IFLA_IFNAME") == name), None)


def _name(netlink: IPRoute, index: int) -> str:
    return str(next(iter(netlink.get_links(index))).get_attr("IFLA_IFNAME"))


def _addresses(netlink: IPRoute, lived_on: dict[int, str]) -> list[str]:
    """IPv6 link-local addresses are let pass: the kernel gives one to any interface that is up."""
    return [
        f"{lived_on[message['index']]} has the address {address}"
        for message in netlink.get_addr()
        if message["index"] in lived_on
        and (address := message.get_attr("IFA_LOCAL") or message.get_attr("IFA_ADDRESS"))
        and not (ip_address(address).version == 6 and ip_address(address).is_link_local)
    ]


def _default_routes(netlink: IPRoute, lived_on: dict[int, str]) -> list[str]:
    return [
        f"{lived_on[index]} carries a default route"
        for family in (socket.AF_INET, socket.AF_INET6)
        for route in netlink.get_routes(family=family)
        if route["dst_len"] == 0
        for index in _outgoing(route)
        if index in lived_on
    ]


def _outgoing(route: Any) -> list[int]:
    hops = route.get_attr("RTA_MULTIPATH") or []
    return [route.get_attr("RTA_OIF"), *(hop["oif"] for hop in hops)]


def _foreign_qdiscs(netlink: IPRoute, port: Port) -> list[str]:
    """The kernel's own defaults (noqueue, pfifo_fast, fq_codel, mq and its leaves) have the handle 0:."""
    return [
        f"it has the queueing discipline {qdisc.get_attr('TCA_KIND')} {qdisc['handle'] >> 16:x}:"
        for qdisc in netlink.get_qdiscs(index=port.index)
        if qdisc["handle"] not in (0, HANDLE) and not _is_our_ingress(netlink, port, qdisc)
    ]


def _is_our_ingress(netlink: IPRoute, port: Port, qdisc: Any) -> bool:
    """An ingress qdisc has a fixed handle; it is ours if our intermediate device is there too."""
    return qdisc.get_attr("TCA_KIND") == "ingress" and find_link(netlink, port.ifb_name) is not None
