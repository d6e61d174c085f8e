"""One direction of a channel in the kernel: apply its stages, read them back, count, clear.

The pipe is a netem at the root of the port where packets leave. The bottleneck is a netem too, but on the
way *in*, where an interface has no queue: an ingress qdisc redirects everything through an intermediate
device (ifb) of ours, whose root is that netem, and which puts the packets back where they came in. A
capture at a port sees each packet once: on its way in before the bottleneck, on its way out after the pipe.

Which stages and whether they are right is decided in `stages`; whose interfaces these are, in `ports`.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from emulator.faults import ChannelRefused
from emulator.netem import Netem
from emulator.netem_messages import counters_of, netem_of, options
from emulator.ports import HANDLE, IFB_PREFIX, Port, find_link
from emulator.rtnetlink import IPRoute, NetlinkError
from emulator.stages import Stages

_INGRESS_FILTERS = 0xFFFF_0000
_ROOT = 0xFFFF_FFFF
_NO_AUTOMATIC_ADDRESS = 1  # IN6_ADDR_GEN_MODE_NONE


@dataclass(frozen=True)
class Direction:
    """The way of a packet through the emulator: the port where it comes in and the port where it goes out."""

    entrance: Port
    exit: Port


def apply(netlink: IPRoute, direction: Direction, stages: Stages) -> None:
    """Give the kernel the stages of a direction that has none; NetlinkError if it refuses, perhaps half-way."""
    if stages.pipe:
        _add_netem(netlink, direction.exit.index, stages.pipe)
    if stages.bottleneck:
        _add_bottleneck(netlink, direction.entrance, stages.bottleneck)


def read_back(netlink: IPRoute, direction: Direction) -> Stages:
    """Return the stages that the kernel has."""
    return Stages(**{name: netem_of(qdisc) for name, qdisc in _found(netlink, direction)})


def count(netlink: IPRoute, direction: Direction) -> dict[str, dict[str, int]]:
    """Return the counters of each stage that the kernel has, by its name. They start at zero when applied."""
    return {name: counters_of(qdisc) for name, qdisc in _found(netlink, direction)}


def clear(netlink: IPRoute, port: Port) -> None:
    """Take away what is ours at a port, whoever of us put it there. All that is in flight is lost.

    The redirection goes before the device that it leads to, so that no packet is led to nowhere.
    """
    if _netem_on(netlink, port.index) is not None:
        netlink.tc("del", index=port.index, parent=_ROOT, handle=HANDLE)
    device = find_link(netlink, port.ifb_name)
    if device is not None:
        with _if_there():
            netlink.tc("del", "ingress", index=port.index)
        netlink.link("del", index=device["index"])


def clear_orphans(netlink: IPRoute) -> None:
    """Take away our devices behind ports that are no more."""
    links = list(netlink.get_links())
    there = {IFB_PREFIX + str(link["index"]) for link in links}
    for link in links:
        name = link.get_attr("IFLA_IFNAME")
        if name.startswith(IFB_PREFIX) and name not in there:
            netlink.link("del", index=link["index"])


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Turn the kernel's refusal into ours."""
    try:
        yield
    except NetlinkError as error:
        raise ChannelRefused(f"{what}: {told(error)}") from error


def told(error: NetlinkError) -> str:
    """Return the kernel's reason, and the next step where it is known."""
    lacking = "load the module that has it or use a kernel that does"
    steps = {
        errno.EPERM: "run the emulator as root or with CAP_NET_ADMIN",
        errno.ENOENT: f"this kernel lacks the queueing discipline or classifier: {lacking}",
        errno.EOPNOTSUPP: f"this kernel lacks the device or action: {lacking}",
    }
    code, text = error.args
    return f"the kernel says: {text}" + (f"; {steps[code]}" if code in steps else "")


def _add_bottleneck(netlink: IPRoute, entrance: Port, netem: Netem) -> None:
    netlink.link("add", ifname=entrance.ifb_name, kind="ifb")
    (index,) = netlink.link_lookup(ifname=entrance.ifb_name)
    _silence(netlink, index)
    _add_netem(netlink, index, netem)
    netlink.link("set", index=index, state="up")
    netlink.tc("add", "ingress", index=entrance.index)
    add_redirect(netlink, entrance.index, index)


def add_redirect(netlink: IPRoute, entrance: int, device: int) -> None:
    """Lead all that comes in at an interface with an ingress qdisc to the way out of a device."""
    netlink.tc(
        "add-filter",
        "matchall",
        index=entrance,
        parent=_INGRESS_FILTERS,
        handle=HANDLE >> 16,
        prio=1,
        action={"kind": "mirred", "direction": "egress", "action": "redirect", "ifindex": device},
    )


def _silence(netlink: IPRoute, index: int) -> None:
    """Keep the device from sending IPv6 discovery of its own, which would wait in the bottleneck before the
    packets.
    """
    with _if_there(errno.EAFNOSUPPORT):  # a kernel without IPv6 is silent as it is
        netlink.link(
            "set",
            index=index,
            IFLA_AF_SPEC={"attrs": [["AF_INET6", {"attrs": [["IFLA_INET6_ADDR_GEN_MODE", _NO_AUTOMATIC_ADDRESS]]}]]},
        )


def _add_netem(netlink: IPRoute, index: int, netem: Netem) -> None:
    netlink.tc("add", "netem", index=index, parent=_ROOT, handle=HANDLE, options=options(netem))


def _found(netlink: IPRoute, direction: Direction) -> Iterator[tuple[str, Any]]:
    """Yield the qdisc message of each stage; a bottleneck that nothing is led through is none."""
    device = find_link(netlink, direction.entrance.ifb_name)
    if device is not None and _redirects(netlink, direction.entrance, device["index"]):
        bottleneck = _netem_on(netlink, device["index"])
        if bottleneck is not None:
            yield "bottleneck", bottleneck
    pipe = _netem_on(netlink, direction.exit.index)
    if pipe is not None:
        yield "pipe", pipe


def _netem_on(netlink: IPRoute, index: int) -> Any | None:
    return next((qdisc for qdisc in netlink.get_qdiscs(index=index) if qdisc["handle"] == HANDLE), None)


def _redirects(netlink: IPRoute, entrance: Port, device: int) -> bool:
    for found in netlink.get_filters(index=entrance.index, parent=_INGRESS_FILTERS):
        options = found.get_attr("TCA_OPTIONS")
        action = options.get_nested("TCA_MATCHALL_ACT", "TCA_ACT_PRIO_1", "TCA_ACT_OPTIONS") if options else None
        if action is not None and action.get_attr("TCA_MIRRED_PARMS")["ifindex"] == device:
            return True
    return False


@contextmanager
def _if_there(*codes: int) -> Iterator[None]:
    """Let pass that something is not there (ENOENT, EINVAL as the kernel has it for a missing qdisc) or
    `codes`.
    """
    try:
        yield
    except NetlinkError as error:
        if error.code not in (codes or (errno.ENOENT, errno.EINVAL)):
            raise
