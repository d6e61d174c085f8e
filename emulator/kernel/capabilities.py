"""What this kernel can do for a channel, determined by trying it on an interface of our own without traffic.

A kernel ignores attributes that it does not know, so those are tried by setting one and reading it back.
"""

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from owlt.emulator.channel.link import LinkSpec
from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.kernel.aims import aims_reason
from owlt.emulator.kernel.bpf.loading import bpf_reason
from owlt.emulator.kernel.kernel_requests import ROOT, add_redirect, refusal_text
from owlt.emulator.kernel.link_to_stages import stages_of
from owlt.emulator.kernel.netem import FourStateThresholds, GilbertElliottThresholds, Netem, differences
from owlt.emulator.kernel.netem_messages import counters_of, netem_of, options
from owlt.emulator.kernel.rtnetlink import IPRoute, NetlinkError

SCRATCH = "owlt-probe"
NEEDED_FOR = {
    "netem": "a delay, a rate, or packet errors, losses or duplicates",
    "ifb": "a rate",
    "redirect": "a rate",
    "delay_64bit": "a delay over 274 s",
    "rate_64bit": "a rate over 34 Gbit/s, or links that keep order",
    "loss_models": "losses in bursts",
    "seed": "a repeatable choice of the packets that netem hits",
    "programs": "what the stages gate and errors do, such as bit errors, an MTU, or queues not counted in packets",
    "faults": "aimed faults",
    "corruption_counter": "the number of packets damaged among the statistics",
}
"""The features of a channel that need each capability (`_needs` decides)."""
_LONGEST_32BIT_DELAY_NS = (2**32 - 1) * 64


@dataclass(frozen=True)
class Capability:
    """Whether the kernel has a capability, and if not, why."""

    available: bool
    reason: str = ""


def probe(netlink: IPRoute) -> dict[str, Any]:
    """Return the kernel's release and, for each capability, `available` and the `reason` if not. Removes the interfaces
    that it makes. NEEDED_FOR has the features that need each capability. `programs` are the eBPF programs.
    """
    trials: dict[str, Callable[[IPRoute, int], str]] = {
        "netem": _netem,
        "delay_64bit": _keeps(Netem(limit_packets=1, delay_ns=300 * 10**9 + 1)),
        "rate_64bit": _keeps(Netem(limit_packets=1, rate_bytes_per_s=2**33)),
        "loss_models": _keeps(
            Netem(limit_packets=1, loss_model=GilbertElliottThresholds(1, 2)),
            Netem(limit_packets=1, loss_model=FourStateThresholds(1, 2, 3, 4, 5)),
        ),
        "seed": _keeps(Netem(limit_packets=1, seed=2**53 - 1)),
        "corruption_counter": _counts_corruption,
        "redirect": _redirect,
        "programs": lambda netlink, index: bpf_reason(),
        "faults": aims_reason,
    }
    with _scratch(netlink) as (index, without_ifb, without_any):
        found = {"ifb": without_ifb} | {
            name: _tried(trial, netlink, index) if index else without_any for name, trial in trials.items()
        }
    return {"kernel": platform.release()} | {
        name: asdict(Capability(not reason, reason)) for name, reason in found.items()
    }


def missing_capabilities(channel: ChannelSpec, capabilities: dict[str, Any]) -> list[str]:
    """Return the capabilities that a channel needs and the kernel does not have, each with the reason, as text."""
    return [f"{name} ({reason})" for name, reason in missing_reasons(channel, capabilities).items()]


def missing_reasons(channel: ChannelSpec, capabilities: dict[str, Any]) -> dict[str, str]:
    """Return the capabilities that a channel needs and the kernel does not have, by name, each with the reason.

    Without netem nothing else is named: the others are of no use alone.
    """
    needed = set[str]().union(*(_needs(link) for links in channel.states for link in links.values()))
    needed |= {"programs", "faults"} if channel.faults else set()
    missing = {
        name: capability["reason"]
        for name, capability in capabilities.items()
        if name in needed and not capability["available"]
    }
    return {"netem": missing["netem"]} if "netem" in missing else missing


def _needs(link: LinkSpec) -> set[str]:
    stages = stages_of(link)
    netems = [netem for netem in (stages.bottleneck, stages.pipe) if netem is not None]
    needs = {
        "netem": bool(netems),
        "ifb": stages.bottleneck is not None,
        "redirect": stages.bottleneck is not None,
        "delay_64bit": link.delay_ns > _LONGEST_32BIT_DELAY_NS,
        "rate_64bit": any(netem.rate_bytes_per_s >= 2**32 for netem in netems),
        "loss_models": link.loss is not None,
        "seed": link.seed is not None and link.netem_draws,
        "programs": stages.gate is not None or stages.errors is not None,
    }
    return {name for name, needed in needs.items() if needed}


@contextmanager
def _scratch(netlink: IPRoute) -> Iterator[tuple[int, str, str]]:
    """Yield the index of an interface that is down (0: none could be made), why it is no ifb ("": it is one), and why
    there is none.
    """
    _remove(netlink)
    without_ifb = _made(netlink, "ifb")
    without_any = _made(netlink, "dummy") if without_ifb else ""
    try:
        yield next(iter(netlink.link_lookup(ifname=SCRATCH)), 0), without_ifb, without_any
    finally:
        _remove(netlink)


def _made(netlink: IPRoute, kind: str) -> str:
    try:
        netlink.link("add", ifname=SCRATCH, kind=kind)
    except NetlinkError as error:
        return refusal_text(error)
    return ""


def _remove(netlink: IPRoute) -> None:
    for index in netlink.link_lookup(ifname=SCRATCH):
        netlink.link("del", index=index)


def _tried(trial: Callable[[IPRoute, int], str], netlink: IPRoute, index: int) -> str:
    try:
        return trial(netlink, index)
    except NetlinkError as error:
        return refusal_text(error)


def _with_netem(netlink: IPRoute, index: int, netem: Netem) -> Any:
    netlink.tc("replace", "netem", index=index, parent=ROOT, handle=0x1_0000, options=options(netem))
    return next(qdisc for qdisc in netlink.get_qdiscs(index=index) if qdisc.get_attr("TCA_KIND") == "netem")


def _netem(netlink: IPRoute, index: int) -> str:
    _with_netem(netlink, index, Netem(limit_packets=1))
    return ""


def _keeps(*netems: Netem) -> Callable[[IPRoute, int], str]:
    def trial(netlink: IPRoute, index: int) -> str:
        pairs = [(netem, netem_of(_with_netem(netlink, index, netem))) for netem in netems]
        return "; ".join(difference for pair in pairs for difference in differences(*pair))

    return trial


def _counts_corruption(netlink: IPRoute, index: int) -> str:
    counted = counters_of(_with_netem(netlink, index, Netem(limit_packets=1)))
    return "" if "corrupted_packets" in counted else "this kernel's netem does not count damaged packets"


def _redirect(netlink: IPRoute, index: int) -> str:
    netlink.tc("add", "clsact", index=index)
    add_redirect(netlink, index, index)
    return ""
