"""Names of the frames that are of no session."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scapy.layers.dhcp6 import DHCP6_Solicit
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    ICMPv6MLReport2,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6ND_RA,
    ICMPv6ND_RS,
    IPv6,
    IPv6ExtHdrHopByHop,
    RouterAlert,
)
from scapy.layers.l2 import ARP, GRE, LLC, SNAP, STP, Dot1Q, Dot3, Ether
from scapy.packet import Packet, Raw

from owlt.captures.frames.background import count_background, name_background
from owlt.captures.frames.columns import read_columns
from owlt.captures.frames.decoding import Kind
from tests.unit.captures.making import DATA, ethernet, timed, write_pcap

ROUTER_ALERT = IPv6ExtHdrHopByHop(options=[RouterAlert()])


@pytest.mark.parametrize(
    ("packet", "name"),
    [
        (ethernet() / ARP(), "ARP"),
        (ethernet() / Dot1Q(vlan=5) / ARP(), "ARP"),
        (ethernet() / IP() / ICMP(), "ICMP"),
        (ethernet() / IP(proto=2) / Raw(bytes(8)), "IGMP"),
        (ethernet() / IP() / UDP(sport=5353, dport=5353), "mDNS"),
        (ethernet() / IPv6() / UDP(sport=5353, dport=5353), "mDNS"),
        (ethernet() / IPv6() / UDP(sport=546, dport=547) / DHCP6_Solicit(), "DHCPv6"),
        (ethernet() / IP() / UDP(sport=1, dport=2), "UDP"),
        (ethernet() / IP() / TCP(), "TCP"),
        (ethernet() / IP(flags="MF") / UDP() / Raw(bytes(8)), "fragment"),
        (ethernet() / IP() / GRE() / Raw(bytes(8)), "GRE"),
        (ethernet() / IP(proto=200) / Raw(bytes(8)), "other IPv4"),
        (ethernet() / IP(ihl=4) / UDP(), "malformed IPv4"),
        (ethernet() / IPv6() / ICMPv6ND_RS(), "router solicitation"),
        (ethernet() / IPv6() / ICMPv6ND_RA(), "router advertisement"),
        (ethernet() / IPv6() / ICMPv6ND_NS(), "neighbour solicitation"),
        (ethernet() / IPv6() / ICMPv6ND_NA(), "neighbour advertisement"),
        (ethernet() / IPv6() / ROUTER_ALERT / ICMPv6MLReport2(), "MLD report"),
        (ethernet() / Dot1Q(vlan=5) / IPv6() / ICMPv6ND_RS(), "router solicitation"),
        (ethernet() / IPv6() / ICMPv6EchoRequest(), "ICMPv6 echo"),
        (ethernet() / IPv6(nh=132) / Raw(bytes(12)), "SCTP"),
        (ethernet() / IPv6(version=4), "other IPv6"),
        (Ether(dst="01:80:c2:00:00:0e", type=0x88CC) / Raw(bytes(40)), "LLDP"),
        (ethernet() / Dot1Q(vlan=5, type=0x88CC) / Raw(bytes(40)), "LLDP"),
        (Dot3(dst="01:80:c2:00:00:00") / LLC() / STP(), "STP"),
        (Dot3() / LLC() / SNAP(OUI=0xC, code=0x2000) / Raw(bytes(8)), "CDP"),
        (Dot3() / LLC() / SNAP(OUI=0xC, code=0x7777) / Raw(bytes(8)), "SNAP"),
        (Ether(type=0x88B5) / Raw(bytes(40)), "Ethernet type 0x88b5"),
        (Raw(bytes(10)), "other"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_frame_has_the_name_that_a_person_knows(tmp_path: Path, packet: Packet, name: str) -> None:
    columns = read_columns(write_pcap(tmp_path / "x.pcap", timed([bytes(packet)])))
    assert name_background(columns, [0]) == [name]


def test_names_are_counted_over_the_rows_that_are_asked_for() -> None:
    columns = read_columns(DATA / "mixed-sender.pcap")
    counts = count_background(columns, np.flatnonzero(np.isin(columns.kind, (Kind.ARP, Kind.ICMP))))
    assert counts == {"ARP": 2, "ICMP": 2}


def test_no_rows_have_no_names() -> None:
    assert name_background(read_columns(DATA / "mixed-sender.pcap"), []) == []
