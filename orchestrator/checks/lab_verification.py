"""Whether a lab rig is as it was provisioned, and whether its test path is fit for runs.

The first is what Ansible's check mode would change. The second is what a playbook does not write, read from the hosts:
what a session sets up, and what their kernels have now (rates, MTUs, offloads, addresses, neighbours, bridge, clocks).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from owlt.orchestrator.checks.doctor import Requirement
from owlt.orchestrator.hosts.host import Host
from owlt.orchestrator.hosts.host_clock import Offset, clock_offset
from owlt.orchestrator.profiles.inventory import LabHostEntry, LabRig
from owlt.orchestrator.rigs.lab.playbooks import SYSCTLS, provisioned_hosts
from owlt.orchestrator.rigs.lab.ssh_hosts import ManagementHost
from owlt.orchestrator.rigs.rig import CARD_RATE_BPS, Rig

LEAST_MTU = 1500
LARGEST_OFFSET_NS = 10_000_000
"""The tolerance between the clocks of two hosts; NTP in a local network keeps clocks within a millisecond (RFC 5905,
section 1)."""
OFFLOADS = {
    "tx-checksumming": "tx",
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
    "large-receive-offload": "lro",
}
"""Offloads that change packets between a program and the cable, and their short names in ethtool(8)."""
_READ = """ethtool "$1" 2>/dev/null
echo "MTU: $(ip -oneline link show dev "$1" | sed -E 's/.* mtu ([0-9]+) .*/\\1/')"
ethtool -k "$1\""""

_READ_SYSCTLS = """for key; do
  file=/proc/sys/$(echo "$key" | tr . /)
  [ ! -r "$file" ] || echo "$key = $(cat "$file")"
done"""


@dataclass(frozen=True)
class Card:
    """An interface of the test path."""

    host: str
    name: str
    speed_mbps: int | None
    """None: its driver does not report it."""
    duplex: str
    mtu: int
    offloads: tuple[str, ...]
    """The offloads of OFFLOADS that are on."""


def read_card(host: Host, interface: str) -> Card:
    """An interface, as ethtool(8) and ip(8) show it. Raises HostError."""
    return parse_card(host.role, interface, host.check(["sh", "-c", _READ, "sh", interface]).decode(errors="replace"))


def parse_card(host: str, interface: str, text: str) -> Card:
    """Parse the output of ethtool and ip."""
    values = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    speed = re.match(r"(\d+)Mb/s", values.get("Speed", ""))
    return Card(
        host,
        interface,
        int(speed[1]) if speed else None,
        values.get("Duplex", "").lower(),
        int(values["MTU"]),
        tuple(name for name in OFFLOADS if values.get(name, "").startswith("on")),
    )


def check_path(rig: Rig, lab: LabRig) -> Iterator[Requirement]:
    """The cards at both ends of each cable, the addresses, the emulator's bridge, and the clocks. Raises HostError."""
    for end, port in ((rig.sender, rig.sender_port), (rig.receiver, rig.receiver_port)):
        yield from check_cable(read_card(end.host, end.interface), read_card(rig.emulator, port))
    sender, receiver = (read_address(end.host, end.interface) for end in (rig.sender, rig.receiver))
    yield check_address("sender", sender, lab.sender.test_address, receiver)
    yield check_address("receiver", receiver, lab.receiver.test_address, sender)
    ports = [each for port in (rig.sender_port, rig.receiver_port) for each in _shown(rig.emulator, "link", port)]
    bridges = dict.fromkeys(each["master"] for each in ports if "master" in each)
    yield check_bridge(ports, [each for bridge in bridges for each in _shown(rig.emulator, "link", bridge)])
    reference = clock_offset(rig.emulator)
    for host in (rig.sender.host, rig.receiver.host):
        yield check_clock(host.role, clock_offset(host), reference)


@dataclass(frozen=True)
class Addressed:
    """An interface of the test path in its session."""

    name: str
    mac: str
    addresses: tuple[str, ...]
    """With their prefixes."""
    neighbours: Mapping[str, str]
    """The MAC address of each permanent neighbour."""


def read_address(host: Host, interface: str) -> Addressed:
    """The addresses and static neighbours of an interface, as ip(8) shows them. Raises HostError."""
    return parse_address(_shown(host, "address", interface), _shown(host, "neigh", interface))


def _shown(host: Host, kind: str, interface: str) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = json.loads(
        host.check(["ip", "-details", "-json", kind, "show", "dev", interface]) or b"[]"
    )
    return shown


def parse_address(address: list[dict[str, Any]], neighbours: list[dict[str, Any]]) -> Addressed:
    """Parse the output of `ip -json address` and `ip -json neigh` about one interface."""
    (shown,) = (each for each in address if "ifname" in each)
    return Addressed(
        shown["ifname"],
        shown["address"],
        tuple(f"{each['local']}/{each['prefixlen']}" for each in shown["addr_info"] if "local" in each),
        {each["dst"]: each["lladdr"] for each in neighbours if "PERMANENT" in each["state"] and "lladdr" in each},
    )


def check_address(role: str, own: Addressed, expected: str, peer: Addressed) -> Requirement:
    """The address of an end of the test path, and its static neighbour: no packet of ARP may meet the channel."""
    peer_address = peer.addresses[0].partition("/")[0] if peer.addresses else ""
    found = own.addresses == (expected,) and own.neighbours == {peer_address: peer.mac}
    neighbours = ", ".join(f"{address} at {mac}" for address, mac in own.neighbours.items()) or "none"
    detail = f"{own.name}: {', '.join(own.addresses) or 'none'}; static neighbour: {neighbours}"
    fix = f"expected {expected}, and {peer_address} at {peer.mac}: stop other software that configures {own.name}"
    return _requirement(f"test address of the {role}", found, detail, "every run", fix)


def check_bridge(ports: list[dict[str, Any]], bridge: list[dict[str, Any]]) -> Requirement:
    """The bridge of the two ports, as `ip -details -json link` shows them: it neither sends nor holds back packets, and
    a forged address changes nothing.
    """
    masters = {each.get("master", "") for each in ports}
    settings: dict[str, Any] = next((each["linkinfo"]["info_data"] for each in bridge if "linkinfo" in each), {})
    learning = [each.get("linkinfo", {}).get("info_slave_data", {}).get("learning") for each in ports]
    values = {
        "spanning tree": settings.get("stp_state"),
        "multicast snooping": settings.get("mcast_snooping"),
        "learning of addresses": None if None in learning else int(any(learning)),
    }
    found = len(masters) == 1 and set(values.values()) == {0}
    words = {0: "off", None: "unknown"}
    detail = "; ".join([", ".join(sorted(masters)), *(f"{key} {words.get(on, 'on')}" for key, on in values.items())])
    name = bridge[0].get("ifname", "BRIDGE") if bridge else "BRIDGE"
    fix = (
        f"at the emulator: ip link set {name} type bridge stp_state 0 mcast_snooping 0, and for both ports "
        "ip link set PORT type bridge_slave learning off; or: owlt rig provision"
    )
    return _requirement("bridge of the emulator", found, detail, "every run", fix)


def check_sysctls(lab: LabRig, connect: Callable[[LabHostEntry], ManagementHost]) -> Iterator[Requirement]:
    """The present values in the kernel of each provisioned host of the settings that the playbook writes to a file.

    Raises HostError.
    """
    for entry in provisioned_hosts(lab):
        with closing(connect(entry)) as host:
            shown = host.check(["sh", "-c", _READ_SYSCTLS, "sh", *SYSCTLS]).decode(errors="replace")
        yield check_sysctl(entry.name, entry.role, shown)


def check_sysctl(name: str, role: str, shown: str) -> Requirement:
    """Compare the output of _READ_SYSCTLS. A namespace does not show all settings: those that it does are compared."""
    values = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in shown.splitlines())}
    wrong = {key: value for key, value in values.items() if value != str(SYSCTLS.get(key))}
    detail = ", ".join(f"{key} {value}" for key, value in values.items()) or "no setting is shown"
    fix = f"at the {role}: sysctl -w {' '.join(f'{key}={SYSCTLS[key]}' for key in wrong)}; or: sysctl --system"
    return _requirement(f"{name}: sysctls", bool(values) and not wrong, detail, f"the {role}", fix)


def check_cable(end: Card, port: Card) -> Iterator[Requirement]:
    """The interface of a host and the emulator's at the other end of the cable."""
    cable, needed_by = f"cable of the {end.host}", "every run"
    speeds = [card.speed_mbps for card in (end, port)]
    known = [speed for speed in speeds if speed is not None]
    is_fast = all(speed * 1e6 >= CARD_RATE_BPS for speed in known) and len(set(known)) <= 1
    is_full = all(card.duplex in ("full", "", "unknown!") for card in (end, port))
    detail = "; ".join(f"{_place(card)}: {_speed(card)}" for card in (end, port))
    fix = "check cable and card with ethtool; both ends need the same rate, 1 Gbit/s or more, and full duplex"
    yield _requirement(f"{cable}: rate and duplex", is_fast and is_full, detail, needed_by, fix)

    has_mtu = end.mtu == port.mtu >= LEAST_MTU
    detail = "; ".join(f"{_place(card)}: {card.mtu} bytes" for card in (end, port))
    fix = f"set the same MTU, {LEAST_MTU} bytes or more, at both ends: ip link set dev INTERFACE mtu {LEAST_MTU}"
    yield _requirement(f"{cable}: MTU", has_mtu, detail, needed_by, fix)

    detail = "; ".join(f"{_place(card)}: {', '.join(card.offloads) or 'all off'}" for card in (end, port))
    commands = [
        f"at the {card.host}: ethtool -K {card.name} {' '.join(f'{OFFLOADS[name]} off' for name in card.offloads)}"
        for card in (end, port)
        if card.offloads
    ]
    fix = f"{'; '.join(commands)}; if the driver refuses, use another card"
    yield _requirement(f"{cable}: offloads", not commands, detail, "captures of single packets", fix)


def check_clock(role: str, offset: Offset, reference: Offset) -> Requirement:
    """How far the clock of a host is ahead of the emulator's."""
    ahead_ns, error_ns = offset.ahead_ns - reference.ahead_ns, offset.error_ns + reference.error_ns
    detail = f"{ahead_ns / 1e6:+.1f} ms from the emulator's, to {error_ns / 1e6:.1f} ms"
    found = abs(ahead_ns) <= LARGEST_OFFSET_NS + error_ns
    fix = "synchronise the clocks of all hosts with chrony or PTP"
    return _requirement(f"clock of the {role}", found, detail, "times of delivery", fix)


def _requirement(name: str, found: bool, detail: str, needed_by: str, fix: str) -> Requirement:
    return Requirement(name, found, detail, needed_by, "" if found else fix)


def _place(card: Card) -> str:
    return f"{card.host} {card.name}"


def _speed(card: Card) -> str:
    speed = "rate not reported" if card.speed_mbps is None else f"{card.speed_mbps} Mbit/s"
    return f"{speed}, {card.duplex} duplex" if card.duplex in ("full", "half") else speed


_TASK = re.compile(r"^(?P<kind>TASK|RUNNING HANDLER) \[(?:\w+ : )?(?P<name>.*?)\] \*+$")
_RESULT = re.compile(r"^(?P<kind>changed|fatal): \[(?P<host>[^\]\s]+)\S*\](?P<text>.*)$")
_RECAP = re.compile(r"^(?P<host>\S+) +: ok=\d+ ", re.MULTILINE)
SHOWN_TASKS = 5


@dataclass(frozen=True)
class Difference:
    """A task that would change a host, or that failed there with a `problem`."""

    host: str
    task: str
    problem: str = ""


def read_differences(output: str) -> list[Difference]:
    """The differences in the output of `ansible-playbook --check`, each task of a host once.

    A handler that would run follows from a task that is among them.
    """
    found: dict[tuple[str, str], Difference] = {}
    task, is_handler = "", False
    for line in output.splitlines():
        if heading := _TASK.match(line):
            task, is_handler = heading["name"], heading["kind"] == "RUNNING HANDLER"
        elif (result := _RESULT.match(line)) and not (is_handler and result["kind"] == "changed"):
            problem = result["text"].strip() if result["kind"] == "fatal" else ""
            found.setdefault((result["host"], task), Difference(result["host"], task, problem))
    return list(found.values())


def check_settings(rig: LabRig, output: str) -> Iterator[Requirement]:
    """For each host, whether the playbook in check mode would change nothing."""
    differences = read_differences(output)
    reached = set(_RECAP.findall(output))
    for entry in rig.hosts:
        if not entry.provision:
            yield Requirement(
                f"{entry.name}: settings", True, "not compared: owlt_provision is false", f"the {entry.role}"
            )
            continue
        own = [each for each in differences if each.host == entry.name]
        texts = [f"{each.task} ({each.problem[:200]})" if each.problem else each.task for each in own]
        if entry.name not in reached:
            texts = texts or [f"ansible-playbook did not reach it: {last_text(output)}"]
        more = f", and {len(texts) - SHOWN_TASKS} more" if len(texts) > SHOWN_TASKS else ""
        detail = f"differs: {'; '.join(texts[:SHOWN_TASKS])}{more}" if texts else "as provisioned"
        fix = "run: owlt rig provision; --check shows each difference" if texts else ""
        yield Requirement(f"{entry.name}: settings", not texts, detail, f"the {entry.role}", fix)


def last_text(output: str) -> str:
    """The last line with text."""
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "it printed nothing")
