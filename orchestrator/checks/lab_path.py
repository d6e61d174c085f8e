"""The test path of a lab rig as its cards show it: rates, MTUs, offloads; how far the clocks of its hosts differ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.checks.doctor import Requirement
from orchestrator.hosts.host import Host
from orchestrator.rigs.lab.clocks import Offset, clock_offset
from orchestrator.rigs.rig import CARD_RATE_BPS, Rig

LEAST_MTU = 1500
LARGEST_OFFSET_NS = 10_000_000
"""Between two hosts; NTP in a local network keeps clocks within a millisecond (RFC 5905, section 1)."""
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
    """Those of OFFLOADS that are on."""


def read_card(host: Host, interface: str) -> Card:
    """An interface, as ethtool(8) and ip(8) show it. Raises HostError."""
    return parse_card(host.role, interface, host.check(["sh", "-c", _READ, "sh", interface]).decode(errors="replace"))


def parse_card(host: str, interface: str, text: str) -> Card:
    """What ethtool and ip have printed."""
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


def check_path(rig: Rig) -> Iterator[Requirement]:
    """The cards at both ends of each cable, and the clocks. Raises HostError."""
    for end, port in ((rig.sender, rig.sender_port), (rig.receiver, rig.receiver_port)):
        yield from check_cable(read_card(end.host, end.interface), read_card(rig.emulator, port))
    reference = clock_offset(rig.emulator)
    for host in (rig.sender.host, rig.receiver.host):
        yield check_clock(host.role, clock_offset(host), reference)


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
