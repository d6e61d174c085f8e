"""One direction of a channel in the kernel: apply its stages, change them, read them back, count, clear.

The pipe is a netem at the root of the port where packets leave. The bottleneck is a netem too, but on the
way *in*, where an interface has no queue: a filter redirects everything through an intermediate device (ifb)
of ours, whose root is that netem, and which puts the packets back where they came in. Gate and errors are
programs that the ports' clsact qdiscs run: the gate before that redirection, the errors before the pipe. A
capture at a port sees each packet once: on its way in before gate and bottleneck, on its way out after the pipe.

Which stages and whether they are right is decided in `stages`; whose interfaces these are, in `ports`.
"""

import errno
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from emulator.faults import ChannelRefused
from emulator.kernel.bpf import BpfError
from emulator.kernel.bpf_stages import ErrorStage, GateStage
from emulator.kernel.error_process import ErrorProcess
from emulator.kernel.netem import Netem
from emulator.kernel.netem_messages import counters_of, netem_of, options
from emulator.kernel.ports import IFB_PREFIX, Port
from emulator.kernel.rtnetlink import IPRoute, NetlinkError
from emulator.kernel.stages import MOST_PACKETS, Stages
from emulator.kernel.survey import EGRESS_FILTERS, HANDLE, INGRESS_FILTERS, OUR_FILTER, Survey, filter_handles

Program: TypeAlias = GateStage | ErrorStage

_ROOT = 0xFFFF_FFFF
_PROGRAM, _REDIRECT = 1, 2  # priorities: what comes first, comes first
_NO_AUTOMATIC_ADDRESS = 1  # IN6_ADDR_GEN_MODE_NONE
_MARKER = bytes(14)
"""The shortest Ethernet frame that a socket takes. The intermediate device drops what was not redirected to it."""


@dataclass(frozen=True)
class Direction:
    """The way of a packet through the emulator: the port where it comes in and the port where it goes out."""

    entrance: Port
    exit: Port


class Spare:
    """Error programs that are loaded and not in use: loading one takes as long as all else that a channel needs."""

    def __init__(self) -> None:
        self._stages: list[ErrorStage] = []

    def taken(self, process: ErrorProcess) -> ErrorStage:
        """Return a program with this process; load one if there is none to spare."""
        if not self._stages:
            return ErrorStage.load(process)
        stage = self._stages.pop()
        stage.begin_anew(process)
        return stage

    def keep(self, stage: ErrorStage) -> None:
        """Take in a program whose filter has gone."""
        self._stages.append(stage)


class InKernel:
    """A direction's stages as they are in the kernel: none when made, changed by `adapt`.

    A program lives as long as the filter that runs it; this object holds what reaches into it.
    """

    def __init__(self, direction: Direction, spare: Spare) -> None:
        self._direction = direction
        self._spare = spare
        self._programs: dict[str, Program] = {}
        self._markers = 0

    def adapt(self, netlink: IPRoute, found: Survey, present: Stages, wanted: Stages) -> None:
        """Give the kernel the wanted stages in place of those present; NetlinkError if it refuses, half-way.

        A netem that is there is told every attribute anew, and keeps what is in flight.
        """
        self._adapt_program(netlink, "gate", wanted.gate)
        self._adapt_program(netlink, "errors", wanted.errors)
        if wanted.bottleneck and present.bottleneck:
            _change_netem(netlink, self._ifb_index(found), wanted.bottleneck)
        elif wanted.bottleneck:
            _add_bottleneck(netlink, self._direction.entrance, wanted.bottleneck)
        if wanted.pipe and present.pipe:
            _change_netem(netlink, self._direction.exit.index, wanted.pipe)
        elif wanted.pipe:
            _add_netem(netlink, self._direction.exit.index, wanted.pipe)

    def hold_until(self, netlink: IPRoute, found: Survey, bottleneck: Netem, until_ns: int) -> None:
        """Keep what comes in the queue until a moment of the monotonic clock.

        netem sends each packet after the one before it, so a frame of ours that is to be sent at that moment holds
        up all that come after. It takes a place of the queue, which has one more as long as it is there.
        """
        index = self._ifb_index(found)
        roomier = replace(bottleneck, limit_packets=min(bottleneck.limit_packets + 1, MOST_PACKETS))
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as marker:
            marker.bind((self._direction.entrance.ifb_name, 0))
            _change_netem(netlink, index, replace(roomier, delay_ns=max(until_ns - time.monotonic_ns(), 0)))
            marker.send(_MARKER)
            _change_netem(netlink, index, roomier)
        self._markers += 1
        gate = self._programs.get("gate")
        if isinstance(gate, GateStage):
            gate.hold_until(until_ns)

    def read_back(self, netlink: IPRoute, found: Survey) -> Stages:
        """Return the stages that the kernel has."""
        stages: dict[str, Any] = {name: netem_of(qdisc) for name, qdisc in self._qdiscs(netlink, found)}
        for name, program in self._programs.items():
            if self._runs(netlink, name):
                stages[name] = program.read_back()
        return Stages(**stages)

    def count(self, netlink: IPRoute, found: Survey) -> dict[str, dict[str, int]]:
        """Return the counters of each stage that is there, by its name. They start at zero when it is applied."""
        counted = {name: counters_of(qdisc) for name, qdisc in self._qdiscs(netlink, found)}
        if "bottleneck" in counted:
            counted["bottleneck"]["packets"] -= self._markers
            counted["bottleneck"]["bytes"] -= self._markers * len(_MARKER)
        return counted | {name: program.counters() for name, program in self._programs.items()}

    def close(self) -> None:
        """Let go of the programs, whose filters `clear` has taken away."""
        for program in self._programs.values():
            self._let_go(program)
        self._programs = {}
        self._markers = 0

    def _let_go(self, program: Program) -> None:
        if isinstance(program, ErrorStage):
            self._spare.keep(program)
        else:
            program.close()

    def _adapt_program(self, netlink: IPRoute, name: str, wanted: Any) -> None:
        program = self._programs.get(name)
        index, parent = self._place(name)
        if program is not None and wanted is None:
            netlink.tc("del-filter", index=index, parent=parent, prio=_PROGRAM, kind="bpf")
            self._let_go(self._programs.pop(name))
            if not filter_handles(netlink, index):
                netlink.tc("del", "clsact", index=index)
        elif program is not None:
            if program.read_back() != wanted:
                program.replace(wanted)
        elif wanted is not None:
            _make_clsact(netlink, index)
            self._programs[name] = program = self._spare.taken(wanted) if name == "errors" else GateStage.load(wanted)
            program.attach(netlink, index, _PROGRAM, OUR_FILTER)

    def _place(self, name: str) -> tuple[int, int]:
        """The interface and the parent of a program's filter."""
        entrance, exit_ = self._direction.entrance.index, self._direction.exit.index
        return {"gate": (entrance, INGRESS_FILTERS), "errors": (exit_, EGRESS_FILTERS)}[name]

    def _runs(self, netlink: IPRoute, name: str) -> bool:
        index, parent = self._place(name)
        return any(
            message.get_attr("TCA_KIND") == "bpf" and message["handle"] == OUR_FILTER
            for message in netlink.get_filters(index=index, parent=parent)
        )

    def _ifb_index(self, found: Survey) -> int:
        return int(found.links[self._direction.entrance.ifb_name]["index"])

    def _qdiscs(self, netlink: IPRoute, found: Survey) -> Iterator[tuple[str, Any]]:
        """Yield the qdisc message of each netem; a bottleneck that nothing is led through is none."""
        entrance = self._direction.entrance
        device = found.links.get(entrance.ifb_name)
        if device is not None and _redirects(netlink, entrance, device["index"]):
            yield from _ours(found, "bottleneck", device["index"])
        yield from _ours(found, "pipe", self._direction.exit.index)


def clear(netlink: IPRoute, found: Survey, port: Port) -> None:
    """Take away what is ours at a port, whoever of us put it there. All that is in flight is lost.

    The redirection goes before the device that it leads to, so that no packet is led to nowhere.
    """
    for qdisc in found.qdiscs_of(port.index):
        if qdisc["handle"] == HANDLE:
            netlink.tc("del", index=port.index, parent=_ROOT, handle=HANDLE)
    if port.index in found.our_clsacts:
        netlink.tc("del", "clsact", index=port.index)
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
    except BpfError as error:
        raise ChannelRefused(f"{what}: {error}") from error


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


def add_redirect(netlink: IPRoute, entrance: int, device: int) -> None:
    """Lead all that comes in at an interface with a clsact qdisc to the way out of a device."""
    netlink.tc(
        "add-filter",
        "matchall",
        index=entrance,
        parent=INGRESS_FILTERS,
        handle=OUR_FILTER,
        prio=_REDIRECT,
        action={"kind": "mirred", "direction": "egress", "action": "redirect", "ifindex": device},
    )


def _add_bottleneck(netlink: IPRoute, entrance: Port, netem: Netem) -> None:
    netlink.link("add", ifname=entrance.ifb_name, kind="ifb")
    (index,) = netlink.link_lookup(ifname=entrance.ifb_name)
    silence(netlink, index)
    _add_netem(netlink, index, netem)
    netlink.link("set", index=index, state="up")
    _make_clsact(netlink, entrance.index)
    add_redirect(netlink, entrance.index, index)


def _make_clsact(netlink: IPRoute, index: int) -> None:
    try:
        netlink.tc("add", "clsact", index=index)
    except NetlinkError as error:
        if error.code != errno.EEXIST:
            raise


def silence(netlink: IPRoute, index: int) -> None:
    """Keep a device of ours from sending IPv6 discovery of its own, which would go through the channel too."""
    no_address = {"attrs": [["IFLA_INET6_ADDR_GEN_MODE", _NO_AUTOMATIC_ADDRESS]]}
    try:
        netlink.link("set", index=index, IFLA_AF_SPEC={"attrs": [["AF_INET6", no_address]]})
    except NetlinkError as error:
        if error.code != errno.EAFNOSUPPORT:  # a kernel without IPv6 is silent as it is
            raise


def _add_netem(netlink: IPRoute, index: int, netem: Netem) -> None:
    netlink.tc("add", "netem", index=index, parent=_ROOT, handle=HANDLE, options=options(netem))


def _change_netem(netlink: IPRoute, index: int, netem: Netem) -> None:
    netlink.tc("change", "netem", index=index, parent=_ROOT, handle=HANDLE, options=options(netem))


def _ours(found: Survey, stage: str, index: int) -> Iterator[tuple[str, Any]]:
    yield from ((stage, qdisc) for qdisc in found.qdiscs_of(index) if qdisc["handle"] == HANDLE)


def _redirects(netlink: IPRoute, entrance: Port, device: int) -> bool:
    for message in netlink.get_filters(index=entrance.index, parent=INGRESS_FILTERS):
        matched = message.get_attr("TCA_OPTIONS") if message.get_attr("TCA_KIND") == "matchall" else None
        action = matched and matched.get_nested("TCA_MATCHALL_ACT", "TCA_ACT_PRIO_1", "TCA_ACT_OPTIONS")
        if action and action.get_attr("TCA_MIRRED_PARMS")["ifindex"] == device:
            return True
    return False
