"""What this kernel can do for a channel, found by trying it on an interface of our own that nothing runs over.

A kernel ignores attributes that it does not know, so those are tried by setting one and reading it back.
"""

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from emulator.netem import Netem, differences
from emulator.netem_messages import counters_of, netem_of, options
from emulator.qdiscs import add_redirect, told
from emulator.rtnetlink import IPRoute, NetlinkError

SCRATCH = "owlt-probe"


@dataclass(frozen=True)
class Capability:
    """Whether something can be had, and if not, why."""

    available: bool
    reason: str = ""


def probe(netlink: IPRoute) -> dict[str, Any]:
    """Return the kernel's release and, for each capability, `available` and the `reason` if not. Leaves nothing.

    `ifb` and `redirect` are what a rate needs; `netem` what any impairment needs; `delay_64bit` a delay
    over 274 s; `rate_64bit` a rate over 34 Gbit/s; `seed` a repeatable choice of damaged packets;
    `corruption_counter` the number of packets damaged among the statistics.
    """
    trials: dict[str, Callable[[IPRoute, int], str]] = {
        "netem": _netem,
        "delay_64bit": _keeps(Netem(limit_packets=1, delay_ns=300 * 10**9 + 1)),
        "rate_64bit": _keeps(Netem(limit_packets=1, rate_bytes_per_s=2**33)),
        "seed": _keeps(Netem(limit_packets=1, seed=2**53 - 1)),
        "corruption_counter": _counts_corruption,
        "redirect": _redirect,
    }
    with _scratch(netlink) as (index, without_ifb):
        found = {"ifb": without_ifb} | {
            name: _tried(trial, netlink, index) if index else "no interface to try it on"
            for name, trial in trials.items()
        }
    return {"kernel": platform.release()} | {
        name: asdict(Capability(not reason, reason)) for name, reason in found.items()
    }


@contextmanager
def _scratch(netlink: IPRoute) -> Iterator[tuple[int, str]]:
    """Yield the index of an interface that is down (0: none could be made), and why it is no ifb ("": it is one)."""
    _remove(netlink)
    without_ifb = _made(netlink, "ifb")
    if without_ifb:
        _made(netlink, "dummy")
    try:
        yield next(iter(netlink.link_lookup(ifname=SCRATCH)), 0), without_ifb
    finally:
        _remove(netlink)


def _made(netlink: IPRoute, kind: str) -> str:
    try:
        netlink.link("add", ifname=SCRATCH, kind=kind)
    except NetlinkError as error:
        return told(error)
    return ""


def _remove(netlink: IPRoute) -> None:
    for index in netlink.link_lookup(ifname=SCRATCH):
        netlink.link("del", index=index)


def _tried(trial: Callable[[IPRoute, int], str], netlink: IPRoute, index: int) -> str:
    try:
        return trial(netlink, index)
    except NetlinkError as error:
        return told(error)


def _with_netem(netlink: IPRoute, index: int, netem: Netem) -> Any:
    netlink.tc("replace", "netem", index=index, parent=0xFFFF_FFFF, handle=0x1_0000, options=options(netem))
    return next(qdisc for qdisc in netlink.get_qdiscs(index=index) if qdisc.get_attr("TCA_KIND") == "netem")


def _netem(netlink: IPRoute, index: int) -> str:
    _with_netem(netlink, index, Netem(limit_packets=1))
    return ""


def _keeps(wanted: Netem) -> Callable[[IPRoute, int], str]:
    def trial(netlink: IPRoute, index: int) -> str:
        found = netem_of(_with_netem(netlink, index, wanted))
        return "; ".join(differences(wanted, found))

    return trial


def _counts_corruption(netlink: IPRoute, index: int) -> str:
    counted = counters_of(_with_netem(netlink, index, Netem(limit_packets=1)))
    return "" if "corrupted_packets" in counted else "this kernel's netem keeps no count"


def _redirect(netlink: IPRoute, index: int) -> str:
    netlink.tc("add", "ingress", index=index)
    add_redirect(netlink, index, index)
    return ""
