"""Which interfaces and queueing disciplines the kernel has at one moment.

Taken whole, in two dumps: in a guest every question to the kernel costs milliseconds, and an answer that is put
together from one moment cannot contradict itself.
"""

from dataclasses import dataclass
from typing import Any

from emulator.rtnetlink import IPRoute


@dataclass(frozen=True)
class Survey:
    """Link messages by interface name, and all qdisc messages."""

    links: dict[str, Any]
    qdiscs: tuple[Any, ...]

    def qdiscs_of(self, index: int) -> list[Any]:
        """Return the qdisc messages of an interface."""
        return [qdisc for qdisc in self.qdiscs if qdisc["index"] == index]

    def name_of(self, index: int) -> str:
        """Return the name of an interface, or its index if it has gone."""
        return next((name for name, link in self.links.items() if link["index"] == index), f"number {index}")


def survey(netlink: IPRoute) -> Survey:
    """Ask the kernel."""
    links = {link.get_attr("IFLA_IFNAME"): link for link in netlink.get_links()}
    return Survey(links, tuple(netlink.get_qdiscs()))
