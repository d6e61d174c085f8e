"""The frames that the tests make by hand are those that scapy makes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.packet import Raw

from tests.unit.captures.making import GROUP, RECEIVER, SENDER, ethernet, tcp_frame, udp_frame

WAYS = st.sampled_from([(SENDER, RECEIVER), (RECEIVER, SENDER), (SENDER, GROUP)])
PAYLOADS = st.binary(max_size=40)


@given(WAYS, PAYLOADS, st.integers(0, 2**16 - 1), st.integers(0, 2**16 - 1))
def test_udp_frames_are_scapys(way: tuple[str, str], payload: bytes, port: int, identification: int) -> None:
    header = IP(src=way[0], dst=way[1], id=identification, flags="DF") / UDP(sport=40000, dport=port)

    assert udp_frame(payload, *way, port, identification) == bytes(ethernet(way[0]) / header / Raw(payload))


@given(WAYS, PAYLOADS, st.integers(0, 2**32 - 1))
def test_tcp_frames_are_scapys(way: tuple[str, str], payload: bytes, sequence: int) -> None:
    header = IP(src=way[0], dst=way[1], flags="DF") / TCP(sport=40000, dport=5223, seq=sequence, flags="PA")

    assert tcp_frame(payload, *way, sequence) == bytes(ethernet(way[0]) / header / Raw(payload))
