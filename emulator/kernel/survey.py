"""Which interfaces and queueing disciplines the kernel has at one moment.

Taken whole, in two dumps: in a guest every question to the kernel costs milliseconds, and an answer that is put
together from one moment cannot contradict itself.
"""

from dataclasses import dataclass
from typing import Any

from owlt.emulator.kernel.rtnetlink import IPRoute

HANDLE = 0x4F57_0000
"""The handle of our qdiscs, 4f57: ("OW"), below 8000:, where the kernel begins to number those without."""
OUR_FILTER = HANDLE >> 16
INGRESS_FILTERS = 0xFFFF_FFF2
EGRESS_FILTERS = 0xFFFF_FFF3


@dataclass(frozen=True)
class KernelState:
    """Link messages by interface name, all qdisc messages, and the indices of interfaces whose clsact is ours.

    A clsact has a fixed handle: it is ours if there are filters in it, and all of them are.
    """

    links: dict[str, Any]
    qdiscs: tuple[Any, ...]
    our_clsacts: frozenset[int] = frozenset()

    def qdiscs_of(self, index: int) -> list[Any]:
        """Return the qdisc messages of an interface."""
        return [qdisc for qdisc in self.qdiscs if qdisc["index"] == index]

    def name_of(self, index: int) -> str:
        """Return the name of an interface, or its index if it has gone."""
        return next((name for name, link in self.links.items() if link["index"] == index), f"number {index}")


NOTHING = KernelState({}, ())
"""As far as our own stages go, what is there once all is cleared."""


def survey(netlink: IPRoute, whose: bool = True) -> KernelState:
    """Ask the kernel; `whose` a clsact is costs two more questions for each."""
    links = {link.get_attr("IFLA_IFNAME"): link for link in netlink.get_links()}
    qdiscs = tuple(netlink.get_qdiscs())
    clsacts = [qdisc["index"] for qdisc in qdiscs if whose and qdisc.get_attr("TCA_KIND") == "clsact"]
    return KernelState(links, qdiscs, frozenset(index for index in clsacts if _only_ours(netlink, index)))


def _only_ours(netlink: IPRoute, index: int) -> bool:
    return set(filter_handles(netlink, index)) == {OUR_FILTER}


def filter_handles(netlink: IPRoute, index: int) -> list[int]:
    """Return the handles of all filters in an interface's clsact. (A message with the handle 0 is of a priority.)"""
    return [
        message["handle"]
        for parent in (INGRESS_FILTERS, EGRESS_FILTERS)
        for message in netlink.get_filters(index=index, parent=parent)
        if message["handle"]
    ]
