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
from emulator.ports import HANDLE, IFB_PREFIX, Port
from emulator.rtnetlink import IPRoute, NetlinkError
from emulator.stages import Stages
from emulator.survey import Survey

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


def read_back(netlink: IPRoute, found: Survey, direction: Direction) -> Stages:
    """Return the stages that the kernel has."""
    return Stages(**{name: netem_of(qdisc) for name, qdisc in _stages(netlink, found, direction)})


def count(netlink: IPRoute, found: Survey, direction: Direction) -> dict[str, dict[str, int]]:
    """Return the counters of each stage that the kernel has, by its name. They start at zero when applied."""
    return {name: counters_of(qdisc) for name, qdisc in _stages(netlink, found, direction)}


def clear(netlink: IPRoute, found: Survey, port: Port) -> None:
    """Take away what is ours at a port, whoever of us put it there. All that is in flight is lost.

    The redirection goes before the device that it leads to, so that no packet is led to nowhere.
    """
    for qdisc in found.qdiscs_of(port.index):
        if qdisc["handle"] == HANDLE:
            netlink.tc("del", index=port.index, parent=_ROOT, handle=HANDLE)
        elif qdisc.get_attr("TCA_KIND") == "ingress" and port.ifb_name in found.links:
            netlink.tc("del", "ingress", index=port.index)
    if port.ifb_name in found.links:
        netlink.link("del", index=found.links[port.ifb_name]["index"])


def clear_orphans(netlink: IPRoute, found: Survey) -> None:
    """Take away our devices behind ports that are no more."""
    there = {f"{IFB_PREFIX}{link['index']}" for link in found.links.values()}
    for name, link in found.links.items():
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
    """Keep the device from sending IPv6 discovery of its own, which would wait in the bottleneck before the packets."""
    no_address = {"attrs": [["IFLA_INET6_ADDR_GEN_MODE", _NO_AUTOMATIC_ADDRESS]]}
    try:
        netlink.link("set", index=index, IFLA_AF_SPEC={"attrs": [["AF_INET6", no_address]]})
    except NetlinkError as error:
        if error.code != errno.EAFNOSUPPORT:  # a kernel without IPv6 is silent as it is
            raise


def _add_netem(netlink: IPRoute, index: int, netem: Netem) -> None:
    netlink.tc("add", "netem", index=index, parent=_ROOT, handle=HANDLE, options=options(netem))


def _stages(netlink: IPRoute, found: Survey, direction: Direction) -> Iterator[tuple[str, Any]]:
    """Yield the qdisc message of each stage; a bottleneck that nothing is led through is none."""
    device = found.links.get(direction.entrance.ifb_name)
    if device is not None and _redirects(netlink, direction.entrance, device["index"]):
        yield from _ours(found, "bottleneck", device["index"])
    yield from _ours(found, "pipe", direction.exit.index)


def _ours(found: Survey, stage: str, index: int) -> Iterator[tuple[str, Any]]:
    yield from ((stage, qdisc) for qdisc in found.qdiscs_of(index) if qdisc["handle"] == HANDLE)


def _redirects(netlink: IPRoute, entrance: Port, device: int) -> bool:
    for message in netlink.get_filters(index=entrance.index, parent=_INGRESS_FILTERS):
        matched = message.get_attr("TCA_OPTIONS")
        action = matched and matched.get_nested("TCA_MATCHALL_ACT", "TCA_ACT_PRIO_1", "TCA_ACT_OPTIONS")
        if action and action.get_attr("TCA_MIRRED_PARMS")["ifindex"] == device:
            return True
    return False
