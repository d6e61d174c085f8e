"""Headers of every sort, as hypothesis's strategies: what the columns are read from."""

from __future__ import annotations

from functools import reduce
from ipaddress import IPv4Address
from operator import truediv

from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP, IPOption_NOP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting
from scapy.layers.l2 import Dot1AD, Dot1Q

from tests.unit.captures.making import ethernet

ports = st.integers(1, 65535)
addresses = st.integers(1, 2**32 - 1).map(lambda number: str(IPv4Address(number)))
headers = st.builds(
    lambda src, dst, number, options: IP(src=src, dst=dst, id=number, options=[IPOption_NOP()] * options),
    addresses,
    addresses,
    st.integers(0, 65535),
    st.sampled_from([0, 0, 4, 40]),
)
LAYERS = st.sampled_from(
    [
        ethernet(),
        ethernet(),
        ethernet() / Dot1Q(vlan=5),
        ethernet() / Dot1AD(vlan=7) / Dot1Q(vlan=5),
        ethernet() / Dot1Q(vlan=1) / Dot1Q(vlan=2) / Dot1Q(vlan=3),
    ]
)
ADDRESSES_6 = st.sampled_from(["2001:db8::1", "2001:db8::2", "fe80::1", "ff02::5"])
EXTENSIONS = st.lists(
    st.sampled_from([IPv6ExtHdrHopByHop(), IPv6ExtHdrDestOpt(), IPv6ExtHdrRouting(addresses=["2001:db8::3"])]),
    max_size=3,
    unique_by=type,  # tshark is asked for the first field of each kind
)
HEADERS_6 = st.builds(
    lambda src, dst, extensions: reduce(truediv, extensions, IPv6(src=src, dst=dst)),
    ADDRESSES_6,
    ADDRESSES_6,
    EXTENSIONS,
)
NUMBERS = st.integers(0, 2**32 - 1)
PORTS_OF_NO_PROTOCOL = st.integers(50_000, 51_000)
DATAGRAMS = st.builds(UDP, sport=PORTS_OF_NO_PROTOCOL, dport=PORTS_OF_NO_PROTOCOL)
SEGMENTS = st.builds(
    TCP,
    sport=PORTS_OF_NO_PROTOCOL,
    dport=PORTS_OF_NO_PROTOCOL,
    seq=NUMBERS,
    ack=NUMBERS,
    flags=st.integers(0, 0x1FF),
    window=ports,
    options=st.sampled_from([[], [("NOP", None)] * 2, [("Timestamp", (1, 2))], [("SAck", (1, 2, 3, 4))]]),
)
"""Whole frames, or cut within the payload; within the headers the golden captures are."""
