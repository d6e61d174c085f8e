"""A rig: a sender, an emulator and a receiver, with a test path through the emulator and a management
network beside it. The addresses are the same on every rig this project raises itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, Protocol

from owlt.emulator.service.client import EmulatorClient
from owlt.orchestrator.hosts.host import Host
from owlt.orchestrator.hosts.host_clock import HostClocks
from owlt.orchestrator.rigs.killed_programs import KilledPrograms

SENDER_ADDRESS = "10.77.0.1"
RECEIVER_ADDRESS = "10.77.0.2"
TEST_PREFIX = 24
TEST_INTERFACE = "test0"
SENDER_PORT = "to-sender"
RECEIVER_PORT = "to-receiver"
EMULATOR_ADDRESS = "10.78.0.3"
ORCHESTRATOR_ADDRESS = "10.78.0.254"
EMULATOR_PORT = 8765
CARD_RATE_BPS = 1e9
"""The rate of a gigabit card, which limits a sender without pacing."""


@dataclass(frozen=True)
class TestHost:
    """One end of the test path. `clock_offset_ns` is how far its clock is ahead of the emulator's."""

    host: Host
    address: str
    interface: str
    clock_offset_ns: int = 0


class HostConditions(Protocol):
    """Conditions on the hosts of a rig that may make a run doubtful or impossible."""

    def begin(self) -> None:
        """Note the conditions at the beginning of a run."""

    def free_bytes(self) -> Mapping[str, int]:
        """The free disk space for the rig's files at that time, by the host's role."""

    def doubts(self) -> list[str]:
        """Sentences about what has happened since then."""

    def take_reconnections(self) -> Mapping[str, Sequence[int]]:
        """When SSH was connected again after it was lost, since the last call: times in ns since 1970, by role."""

    def port_drops(self) -> Mapping[str, Mapping[str, int]]:
        """Frames that the emulator's cards dropped until `doubts`, by the role of the host at the port and counter."""


def _nothing() -> None:
    """The `forget` of a rig on which runs leave nothing."""


@dataclass(frozen=True)
class Rig:
    """Three hosts and the channel between two of them, all reachable.

    `sender_port` and `receiver_port` are the emulator's interfaces towards each host: the capture points.
    `python` runs this project's endpoints on the hosts, `watch` is their copy of `agents/probes/watch.py`,
    `third_party` is where third-party implementations are installed on them. `killed_programs` names the
    programs that the rig's kernel or the guest's warden killed. `conditions` and `clocks` are those of hosts that are
    machines of their own, `has_machines`. `versions` are the hosts' own, by name, where they
    are not those of the machine that the worker runs on. `forget` removes what earlier runs left on the sender and the
    receiver, and raises HostError if it cannot.
    """

    sender: TestHost
    receiver: TestHost
    emulator: Host
    channel: EmulatorClient
    sender_port: str
    receiver_port: str
    python: str
    watch: str
    third_party: str
    killed_programs: KilledPrograms
    conditions: HostConditions | None = None
    clocks: HostClocks | None = None
    has_machines: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    forget: Callable[[], None] = _nothing

    def at_once(self, *calls: Callable[[], Any]) -> list[Any]:
        """The results of calls that do not depend on each other: made at the same time if the hosts are machines of
        their own, otherwise one after the other.

        Raises the exception of the first of them that fails; on machines, once all have ended. An interrupt of this
        process does not wait for them.
        """
        if not self.has_machines:
            return [call() for call in calls]
        results: list[Future[Any]] = [Future() for _ in calls]
        for call, result in zip(calls, results, strict=True):
            threading.Thread(target=_make, args=(call, result), daemon=True).start()
        wait(results)
        return [result.result() for result in results]


def _make(call: Callable[[], Any], result: Future[Any]) -> None:
    try:
        result.set_result(call())
    except BaseException as problem:
        result.set_exception(problem)


QUIET_KERNEL = """for setting in ipv6/conf/all/disable_ipv6 ipv6/conf/default/disable_ipv6 ipv4/igmp_qrv; do
  setting=/proc/sys/net/$setting
  [ ! -e $setting ] || echo 1 >$setting
done"""
"""Shell lines that limit what the kernel itself sends from a network namespace: the channel's errors would hit such
packets instead of those of the run. Without IPv6 there are no router solicitations and the like. A change of a
multicast group is reported once, at once; reports are repeated at random times, up to a second later, in the next run
too (RFC 3376, section 5.1)."""


def card_command(interface: str, rate_bps: float) -> list[str]:
    """The command that gives a host's interface the rate of a card (tc-tbf(8)).

    The limit is longer than the default socket buffer (net.core.wmem_default, 212,992 bytes), so that the socket fills
    and the program blocks, and nothing is dropped; the burst is ten full frames, or of a card that is faster than
    CARD_RATE_BPS as many as it sends in the same time.
    """
    burst_bytes = 15140 * max(rate_bps / CARD_RATE_BPS, 1)
    shape = ["tbf", "rate", f"{rate_bps:.0f}bit", "burst", f"{burst_bytes:.0f}", "limit", "1000000"]
    return ["tc", "qdisc", "replace", "dev", interface, "root", *shape]
