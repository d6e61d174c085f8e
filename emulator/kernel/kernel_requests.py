"""Requests to the kernel for our stages, one at a time: netems, filters, intermediate devices.

`direction` decides their order and what is already present; `ports` checks the interfaces.
"""

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from owlt.emulator.faults import ChannelRefused
from owlt.emulator.kernel.bpf.loading import BpfError
from owlt.emulator.kernel.netem import Netem
from owlt.emulator.kernel.netem_messages import options
from owlt.emulator.kernel.ports import (
    HANDLE,
    IFB_PREFIX,
    INGRESS_FILTERS,
    OUR_FILTER,
    KernelState,
    Port,
    filter_handles,
)
from owlt.emulator.kernel.rtnetlink import IPRoute, NetlinkError

ROOT = 0xFFFF_FFFF
FIRST_CLASS, AIMS, PROGRAM, REDIRECT = 1, 32, 33, 34
"""Priorities of filters; lower ones are applied first. Those of packet classes are numbered from FIRST_CLASS on."""
_NO_AUTOMATIC_ADDRESS = 1  # IN6_ADDR_GEN_MODE_NONE


def clear(netlink: IPRoute, state: KernelState, port: Port) -> None:
    """Remove what any emulator put at a port. All packets in flight are lost.

    The redirection is removed before its target device, so that no packet is redirected to a missing device.
    """
    for qdisc in state.qdiscs_of(port.index):
        if qdisc["handle"] == HANDLE:
            netlink.tc("del", index=port.index, parent=ROOT, handle=HANDLE)
    if port.index in state.our_clsacts:
        netlink.tc("del", "clsact", index=port.index)
    if port.ifb_name in state.links:
        netlink.link("del", index=state.links[port.ifb_name]["index"])


def clear_orphans(netlink: IPRoute, state: KernelState) -> None:
    """Remove our devices of ports that no longer exist."""
    there = {f"{IFB_PREFIX}{link['index']}" for link in state.links.values()}
    for name, link in state.links.items():
        if name.startswith(IFB_PREFIX) and name not in there:
            netlink.link("del", index=link["index"])


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Raise our exception for a refusal of the kernel."""
    try:
        yield
    except NetlinkError as error:
        raise ChannelRefused(f"{what}: {refusal_text(error)}") from error
    except (BpfError, OSError) as error:
        raise ChannelRefused(f"{what}: {error}") from error


def refusal_text(error: NetlinkError) -> str:
    """Return the kernel's reason, and the next step where it is known."""
    step = "load its module, or use a kernel that has it"
    steps = {
        errno.EPERM: "run the emulator as root or with CAP_NET_ADMIN",
        errno.ENOENT: f"this kernel does not have the queueing discipline or classifier: {step}",
        errno.EOPNOTSUPP: f"this kernel does not have the device or action: {step}",
    }
    code, text = error.args
    return f"the kernel says: {text}" + (f"; {steps[code]}" if code in steps else "")


def add_redirect(netlink: IPRoute, entrance: int, device: int) -> None:
    """Redirect all incoming frames of an interface with a clsact qdisc to the egress of a device."""
    netlink.tc(
        "add-filter",
        "matchall",
        index=entrance,
        parent=INGRESS_FILTERS,
        handle=OUR_FILTER,
        prio=REDIRECT,
        action={"kind": "mirred", "direction": "egress", "action": "redirect", "ifindex": device},
    )


def add_program(
    netlink: IPRoute, index: int, parent: int, program: int, name: str, priority: int = PROGRAM, decides: bool = True
) -> None:
    """Attach an eBPF program as a filter of an interface with a clsact qdisc. It decides what happens to the packet
    (direct action), or it only looks at it: then it has to return 0, and the next filter follows."""
    netlink.tc(
        "add-filter",
        "bpf",
        index=index,
        parent=parent,
        handle=OUR_FILTER,
        prio=priority,
        fd=program,
        name=name,
        **({"direct_action": True} if decides else {}),
    )


@contextmanager
def clsact(netlink: IPRoute, index: int) -> Iterator[None]:
    """Make a clsact for a filter that is added within the context, so that it is recognised as ours."""
    try:
        netlink.tc("add", "clsact", index=index)
    except NetlinkError as error:
        if error.code != errno.EEXIST:
            raise
    try:
        yield
    except BaseException:
        remove_empty_clsact(netlink, index)
        raise


def remove_empty_clsact(netlink: IPRoute, index: int) -> None:
    """Remove a clsact without filters."""
    if not filter_handles(netlink, index):
        netlink.tc("del", "clsact", index=index)


def silence(netlink: IPRoute, index: int) -> None:
    """Keep a device of ours from sending IPv6 discovery of its own, which would go through the channel too."""
    no_address = {"attrs": [["IFLA_INET6_ADDR_GEN_MODE", _NO_AUTOMATIC_ADDRESS]]}
    try:
        netlink.link("set", index=index, IFLA_AF_SPEC={"attrs": [["AF_INET6", no_address]]})
    except NetlinkError as error:
        if error.code != errno.EAFNOSUPPORT:  # a kernel without IPv6 is silent as it is
            raise


def add_netem(netlink: IPRoute, index: int, netem: Netem) -> None:
    """Make a netem an interface's root."""
    netlink.tc("add", "netem", index=index, parent=ROOT, handle=HANDLE, options=options(netem))


def change_netem(netlink: IPRoute, index: int, netem: Netem) -> None:
    """Give the netem at an interface's root all of its attributes again."""
    netlink.tc("change", "netem", index=index, parent=ROOT, handle=HANDLE, options=options(netem))


def redirects(filters: Iterable[Any], device: int) -> bool:
    """Return whether filters, of the incoming frames of a port, redirect these to a device."""
    for message in filters:
        matched = message.get_attr("TCA_OPTIONS") if message.get_attr("TCA_KIND") == "matchall" else None
        action = matched and matched.get_nested("TCA_MATCHALL_ACT", "TCA_ACT_PRIO_1", "TCA_ACT_OPTIONS")
        if action and action.get_attr("TCA_MIRRED_PARMS")["ifindex"] == device:
            return True
    return False
