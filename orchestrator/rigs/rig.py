"""A rig: a sender, an emulator and a receiver, with a test path through the emulator and a management
network beside it. The addresses are the same on every rig this project raises itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from owlt.emulator.service.client import EmulatorClient
from owlt.orchestrator.hosts.host import Host
from owlt.orchestrator.hosts.host_clock import HostClocks
from owlt.orchestrator.rigs.killed_programs import KilledPrograms
from owlt.orchestrator.rigs.timed_waits import WaitRecorder

SENDER_ADDRESS = "10.77.0.1"
RECEIVER_ADDRESS = "10.77.0.2"
TEST_PREFIX = 24
ADDRESSES_6 = {"sender": "fd4f:574c:54::1", "receiver": "fd4f:574c:54::2"}
"""Unique local addresses (RFC 4193) of the test path over IPv6, on every rig."""
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
    receiver, and raises HostError if it cannot. `wait_recorder` is that of a guest whose kernel has one.
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
    wait_recorder: WaitRecorder | None = None

    def ends(self, role: str) -> tuple[TestHost, TestHost]:
        """The host of a side, and that of the other one."""
        return (self.sender, self.receiver) if role == "sender" else (self.receiver, self.sender)

    def over(self, ip: int) -> Rig:
        """The rig with the addresses of this version of IP on its test path; `ipv6_command` gives them to its hosts."""
        if ip == 4:
            return self
        sender, receiver = (replace(end, address=ADDRESSES_6[end.host.role]) for end in (self.sender, self.receiver))
        return replace(self, sender=sender, receiver=receiver)

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


def ipv6_command(interface: str, address: str, peer_address: str) -> list[str]:
    """The command that gives a host an address of IPv6 and its peer's MAC address, which IPv4 has as a static one.

    The kernel sends nothing of its own afterwards: there is no link-local address, hence no router solicitation, the
    neighbour is static, and the reports of the multicast group of the address (RFC 3810) are sent before it returns.
    """
    script = r"""set -e
conf=/proc/sys/net/ipv6/conf/$1
[ -d $conf ] || { echo "the kernel of this host has no IPv6" >&2; exit 1; }
mac=$(ip -4 neigh show nud permanent dev $1 | sed -n 's/.* lladdr \([^ ]*\).*/\1/p')
ip link set dev $1 addrgenmode none
echo 0 >$conf/accept_ra
echo 1 >$conf/mldv2_unsolicited_report_interval
echo 0 >$conf/disable_ipv6
ip -6 addr replace $2/64 dev $1 nodad
ip -6 neigh replace $3 lladdr $mac dev $1 nud permanent
sleep 0.1"""
    return ["sh", "-c", script, "sh", interface, address, peer_address]


def no_ipv6_command(interface: str) -> list[str]:
    """The command that removes what `ipv6_command` has set up."""
    return ["sysctl", "-q", "-w", f"net.ipv6.conf.{interface}.disable_ipv6=1"]


def card_command(interface: str, rate_bps: float) -> list[str]:
    """The command that gives a host's interface the rate of a card (tc-tbf(8)).

    The limit is longer than the default socket buffer (net.core.wmem_default, 212,992 bytes), so that the socket fills
    and the program blocks, and nothing is dropped; the burst is ten full frames, or of a card that is faster than
    CARD_RATE_BPS as many as it sends in the same time.
    """
    burst_bytes = 15140 * max(rate_bps / CARD_RATE_BPS, 1)
    shape = ["tbf", "rate", f"{rate_bps:.0f}bit", "burst", f"{burst_bytes:.0f}", "limit", "1000000"]
    return ["tc", "qdisc", "replace", "dev", interface, "root", *shape]
