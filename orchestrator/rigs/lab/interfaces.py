"""The interfaces of a lab host, found by name or MAC address, and the shell lines that set one up for tests."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from owlt.orchestrator.hosts.host import Host, HostError
from owlt.orchestrator.rigs import rig

LINK_S = 15
"""How long a link may take to come up: a card that negotiates takes a few seconds."""


@dataclass(frozen=True)
class Interface:
    """An interface as `ip address` shows it."""

    name: str
    mac: str
    addresses: tuple[str, ...]
    """The global addresses."""
    link_addresses: tuple[str, ...]
    """The link-local addresses, which an interface with IPv6 assigns itself; its kernel then sends packets of its
    own."""
    is_up: bool
    """Whether its administrator has set it up; only then it can have a carrier."""
    has_carrier: bool
    mtu: int
    bridge: str
    """The bridge that it is a port of; "": none."""


def interfaces_of(host: Host) -> list[Interface]:
    """All interfaces of the host's own network namespace, except for the loopback. Raises HostError."""
    shown = json.loads(host.check(["ip", "-json", "address", "show"]) or b"[]")
    return [
        Interface(
            each["ifname"],
            each.get("address", ""),
            _addresses(each, "global"),
            _addresses(each, "link"),
            "UP" in each["flags"],
            "LOWER_UP" in each["flags"],
            each["mtu"],
            each.get("master", ""),
        )
        for each in shown
        if "ifname" in each and "LOOPBACK" not in each["flags"]
    ]


def _addresses(shown: dict[str, Any], scope: str) -> tuple[str, ...]:
    return tuple(each["local"] for each in shown["addr_info"] if each.get("scope") == scope)


def find_interface(host: Host, wanted: str) -> Interface:
    """The interface of this name or MAC address. Raises HostError with those that there are."""
    known = interfaces_of(host)
    for each in known:
        if wanted in (each.name, each.mac):
            return each
    names = ", ".join(f"{each.name} ({each.mac})" for each in known)
    raise HostError(
        f"the {host.role} has no interface {wanted}; it has {names}; an open session has its test interface for itself"
    )


def forget(interface: str, address: str, peer_address: str, peer_mac: str) -> str:
    """Shell lines for a network namespace with only this interface, after `set_up`: they remove what programs left in
    it and set up the interface again. The link stays up, because a new negotiation of the card takes seconds.

    Connections are ended if the kernel can (CONFIG_INET_DIAG_DESTROY), and filters removed if nft is installed.
    """
    return f"""attempt() {{ "$@" >/dev/null 2>&1 || :; }}
attempt ss --kill --all --tcp --udp
attempt ip address flush dev {interface}
attempt ip address flush dev lo
attempt ip route flush table all
attempt ip route flush cache
attempt ip rule flush
attempt ip rule add pref 32766 lookup main
attempt ip rule add pref 32767 lookup default
attempt ip neigh flush all
attempt ip neigh flush nud permanent
attempt ip tcp_metrics flush
attempt tc qdisc del dev {interface} clsact
attempt nft flush ruleset
for other in $(ip -oneline link | sed -E 's/^[0-9]+: ([^:@ ]+).*/\\1/' | grep -vx -e lo -e {interface}); do
  attempt ip link del $other
done
ip link set {interface} promisc off allmulticast off multicast on arp on
ip address add 127.0.0.1/8 dev lo
{set_up(interface, address, peer_address, peer_mac)}"""


def set_up(interface: str, address: str, peer_address: str, peer_mac: str) -> str:
    """Shell lines for a network namespace of its own: the address, a static neighbour, no offloads, the card's rate."""
    return f"""{rig.QUIET_KERNEL}
ip -batch - <<END
link set lo up
addr add {address} dev {interface}
link set {interface} up
neigh add {peer_address} lladdr {peer_mac} dev {interface} nud permanent
route add 224.0.0.0/4 dev {interface}
END
for offload in tx rx tso gso gro lro; do
  ethtool -K {interface} $offload off >/dev/null 2>&1 || echo "offload $offload stays as it is"
done
{shlex.join(rig.card_command(interface, rig.CARD_RATE_BPS))}
left={LINK_S * 10}
while ! ip link show dev {interface} | grep -q LOWER_UP; do
  [ $left -gt 0 ] || {{ echo "{interface} has no link after {LINK_S} s: is the cable plugged in?" >&2; exit 1; }}
  left=$((left - 1))
  sleep 0.1
done
"""
