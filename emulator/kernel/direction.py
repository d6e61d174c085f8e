"""One direction of a channel in the kernel: apply its stages, change them, read them back, count, clear.

The pipe is a netem at the root of the port where packets leave. The bottleneck is a netem too, but on the
way *in*, where an interface has no queue: a filter redirects everything through an intermediate device (ifb)
of ours, whose root is that netem, and which puts the packets back where they came in. Gate and errors are
programs that the ports' clsact qdiscs run: the gate before that redirection, the errors before the pipe. A
capture at a port sees each packet once: on its way in before gate and bottleneck, on its way out after the pipe.

`link_to_stages` decides which stages are needed and whether they are correct; `ports` checks the interfaces.
"""

import socket
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from owlt.emulator.kernel.bpf_stages import ErrorProcess, ErrorStage
from owlt.emulator.kernel.gate import GateStage
from owlt.emulator.kernel.kernel_requests import (
    PROGRAM,
    ROOT,
    add_netem,
    add_redirect,
    change_netem,
    clsact,
    redirects,
    remove_empty_clsact,
    silence,
)
from owlt.emulator.kernel.link_to_stages import MOST_PACKETS, Stages
from owlt.emulator.kernel.netem import Netem, differences
from owlt.emulator.kernel.netem_messages import counters_of, netem_of
from owlt.emulator.kernel.ports import EGRESS_FILTERS, HANDLE, INGRESS_FILTERS, OUR_FILTER, KernelState, Port
from owlt.emulator.kernel.rtnetlink import IPRoute

Program: TypeAlias = GateStage | ErrorStage

_ROOM_FOR_A_MARKER = 64
"""Additional places in the queue while a marker frame is sent, so that it finds one beside packets that arrive at the
same time."""
_MARKER = bytes(14)
"""The shortest Ethernet frame that a socket accepts.

The intermediate device drops frames that were not redirected to it.
"""


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
        """Keep a program whose filter has been removed."""
        self._stages.append(stage)


class InKernel:
    """A direction's stages as they are in the kernel: none when made, changed by `adapt`.

    A program exists as long as the filter that runs it; this object has the maps for access to it.
    """

    def __init__(self, direction: Direction, spare: Spare) -> None:
        self._direction = direction
        self._spare = spare
        self._sent = Stages()
        self._programs: dict[str, Program] = {}
        self._gone: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """The counters of removed stages."""
        self._markers = 0
        self._held_until_ns = 0

    @property
    def _holds(self) -> bool:
        """Whether a frame of ours holds up the queue."""
        return time.monotonic_ns() < self._held_until_ns

    def adapt(self, netlink: IPRoute, state: KernelState, present: Stages, target: Stages, holds: bool = False) -> None:
        """Give the kernel the target stages instead of those present; NetlinkError if it refuses, half-way.

        A netem that is already correct is not changed; any other gets all attributes again, keeps packets in flight,
        and continues its random sequence unless the seed changes. Burst losses start again. Without `holds`, an outage
        that would last longer ends, and the packets that it held are lost.
        """
        self._adapt_program(netlink, "gate", target.gate)
        self._adapt_program(netlink, "errors", target.errors)
        if self._holds and not holds:
            self._end_hold(netlink, state)
            present = replace(present, bottleneck=None)
        if target.bottleneck and not present.bottleneck:
            self._add_bottleneck(netlink, state, target.bottleneck)
        elif target.bottleneck and self._is_news("bottleneck", present, target):
            self._change("bottleneck", netlink, self._ifb_index(state), self._with_room(target.bottleneck))
        if target.pipe and not present.pipe:
            add_netem(netlink, self._direction.exit.index, target.pipe)
        elif target.pipe and self._is_news("pipe", present, target):
            self._change("pipe", netlink, self._direction.exit.index, target.pipe)
        self._sent = target

    def hold_until(self, netlink: IPRoute, state: KernelState, bottleneck: Netem, until_ns: int) -> None:
        """Hold packets in the queue until a moment of the monotonic clock. netem sends each packet after the previous
        one, so a frame of ours that is due at that moment delays all later packets. It needs one place of the queue,
        which is enlarged by one for that time. Raises NetlinkError or OSError.
        """
        index, self._held_until_ns = self._ifb_index(state), until_ns
        marker_bytes = len(_MARKER) + bottleneck.overhead_bytes
        sent_from_ns = until_ns - marker_bytes * 10**9 // bottleneck.rate_bytes_per_s
        most_packets = min(bottleneck.limit_packets + _ROOM_FOR_A_MARKER, MOST_PACKETS)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as marker:
            marker.bind((self._direction.entrance.ifb_name, 0))
            delay_ns = max(sent_from_ns - time.monotonic_ns(), 0)
            try:
                change_netem(netlink, index, replace(bottleneck, limit_packets=most_packets, delay_ns=delay_ns))
                marker.send(_MARKER)
            finally:
                change_netem(netlink, index, self._with_room(bottleneck))
        self._markers += 1
        self._hold_gate(until_ns)

    def read_back(self, netlink: IPRoute, state: KernelState) -> Stages:
        """Return the stages that the kernel has, without the place of a frame of ours that holds the queue."""
        stages: dict[str, Any] = {name: netem_of(qdisc) for name, qdisc in self._qdiscs(netlink, state)}
        if "bottleneck" in stages and self._holds and stages["bottleneck"].limit_packets < MOST_PACKETS:
            limit_packets = stages["bottleneck"].limit_packets - 1
            stages["bottleneck"] = replace(stages["bottleneck"], limit_packets=limit_packets)
        for name, program in self._programs.items():
            if self._runs(netlink, state, name):
                stages[name] = program.read_back()
        return Stages(**stages)

    def count(self, netlink: IPRoute, state: KernelState) -> dict[str, dict[str, int]]:
        """Return the counters of each stage that is or was there, by its name, since the first was applied."""
        counted = self._count_netems(netlink, state)
        counted |= {name: Counter(program.counters()) for name, program in self._programs.items()}
        for name, counters in self._gone.items():
            counted.setdefault(name, Counter()).update(counters)
        return {name: dict(counters) for name, counters in counted.items()}

    def _count_netems(self, netlink: IPRoute, state: KernelState) -> dict[str, Counter[str]]:
        """The counters of the present netems, without the frames of ours that hold or held the queue."""
        counted = {name: Counter(counters_of(qdisc)) for name, qdisc in self._qdiscs(netlink, state)}
        if "bottleneck" in counted:
            waiting = int(self._holds)
            sent = self._markers - waiting
            ours = {"packets": sent, "bytes": sent * len(_MARKER)}
            ours |= {"waiting_packets": waiting, "waiting_bytes": waiting * len(_MARKER)}
            counted["bottleneck"].subtract(ours)
        return counted

    def close(self) -> None:
        """Release the programs, whose filters `clear` has removed."""
        for program in self._programs.values():
            self._let_go(program)

    def _is_news(self, name: str, present: Stages, target: Stages) -> bool:
        """Whether a netem has to be changed; settings that it does not show count as they were sent."""
        here, there = target.named[name], present.named[name]
        assert isinstance(here, Netem) and isinstance(there, Netem)
        return here != self._sent.named[name] or bool(differences(here, there))

    def _change(self, name: str, netlink: IPRoute, index: int, netem: Netem) -> None:
        sent = self._sent.named[name]
        seeded_so = isinstance(sent, Netem) and sent.seed == netem.seed
        change_netem(netlink, index, replace(netem, seed=None) if seeded_so else netem)

    def _with_room(self, bottleneck: Netem) -> Netem:
        """The netem with the additional place for a frame of ours."""
        room = 1 if self._holds and bottleneck.limit_packets < MOST_PACKETS else 0
        return replace(bottleneck, limit_packets=bottleneck.limit_packets + room)

    def _end_hold(self, netlink: IPRoute, state: KernelState) -> None:
        """Remove the netem that a frame of ours holds: it cannot be released in another way."""
        counted = self._count_netems(netlink, state).get("bottleneck", Counter())
        counted["dropped_packets"] += counted.pop("waiting_packets", 0)
        del counted["waiting_bytes"]
        self._gone["bottleneck"].update(counted)
        netlink.tc("del", index=self._ifb_index(state), parent=ROOT, handle=HANDLE)
        self._markers = self._held_until_ns = 0
        self._hold_gate(0)

    def _hold_gate(self, until_ns: int) -> None:
        gate = self._programs.get("gate")
        if isinstance(gate, GateStage):
            gate.hold_until(until_ns)

    def _let_go(self, program: Program) -> None:
        if isinstance(program, ErrorStage):
            self._spare.keep(program)
        else:
            program.close()

    def _adapt_program(self, netlink: IPRoute, name: str, target: Any) -> None:
        program = self._programs.get(name)
        index, parent = self._place(name)
        if program is not None and target is None:
            netlink.tc("del-filter", index=index, parent=parent, prio=PROGRAM, kind="bpf")
            self._gone[name].update(program.counters())
            self._let_go(self._programs.pop(name))
            remove_empty_clsact(netlink, index)
        elif program is not None:
            if program.read_back() != target:
                program.replace(target)
        elif target is not None:
            program = self._spare.taken(target) if name == "errors" else GateStage.load(target)
            self._programs[name] = program
            with clsact(netlink, index):
                program.attach(netlink, index)

    def _add_bottleneck(self, netlink: IPRoute, state: KernelState, netem: Netem) -> None:
        entrance = self._direction.entrance
        if entrance.ifb_name in state.links:
            add_netem(netlink, self._ifb_index(state), netem)
            return
        netlink.link("add", ifname=entrance.ifb_name, kind="ifb")
        (index,) = netlink.link_lookup(ifname=entrance.ifb_name)
        silence(netlink, index)
        add_netem(netlink, index, netem)
        netlink.link("set", index=index, state="up")
        with clsact(netlink, entrance.index):
            add_redirect(netlink, entrance.index, index)

    def _place(self, name: str) -> tuple[int, int]:
        """The interface and the parent of a program's filter."""
        entrance, exit_ = self._direction.entrance.index, self._direction.exit.index
        return {"gate": (entrance, INGRESS_FILTERS), "errors": (exit_, EGRESS_FILTERS)}[name]

    def _runs(self, netlink: IPRoute, state: KernelState, name: str) -> bool:
        return any(
            message["handle"] == OUR_FILTER and message["info"] >> 16 == PROGRAM
            for message in state.filters_of(netlink, *self._place(name))
        )

    def _ifb_index(self, state: KernelState) -> int:
        return int(state.links[self._direction.entrance.ifb_name]["index"])

    def _qdiscs(self, netlink: IPRoute, state: KernelState) -> Iterator[tuple[str, Any]]:
        """Yield the qdisc message of each netem, without a bottleneck to which no frames are redirected."""
        entrance = self._direction.entrance
        device = state.links.get(entrance.ifb_name)
        if device is not None:
            incoming = state.filters_of(netlink, entrance.index, INGRESS_FILTERS)
            if redirects(incoming, device["index"]):
                yield from _ours(state, "bottleneck", device["index"])
        yield from _ours(state, "pipe", self._direction.exit.index)


def _ours(state: KernelState, stage: str, index: int) -> Iterator[tuple[str, Any]]:
    yield from ((stage, qdisc) for qdisc in state.qdiscs_of(index) if qdisc["handle"] == HANDLE)
