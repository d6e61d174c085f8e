"""Classes of packets in this machine's kernel: a translated program marks exactly the packets that libpcap passes."""

from __future__ import annotations

import ctypes
import os
import random
import struct
from collections.abc import Iterator

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.layers.sctp import SCTP
from scapy.packet import Packet, Raw

from owlt.emulator.channel.aimed_fault import compiled, named_classes, passes
from owlt.emulator.kernel.aims import as_classifier
from owlt.emulator.kernel.bpf.loading import BpfError, Classifier
from tests.conftest import require
from tests.system.guest_scripts.bpf_run import _Options

MARK = 1 << 5
BEFORE = 1 << 2
"""The mark of another class, which stays."""
CONTEXT_BYTES, MARK_AT = 192, 8
SCOPE = "ip and ((src host 10.0.0.1 and dst host 10.0.0.2) or dst host 10.0.0.1) and (udp portrange 1-2 or tcp port 9)"
CALCULATED = [
    "len > 100",
    "udp[8] * 3 - 2 > udp[9]",
    "udp[8] / udp[9] = 1",
    "udp[8] % 5 = udp[9] | 1",
    "udp[8:4] >> 3 & 0xff = 3",
    "ip[8:2] ^ 0x4011 = 0 and not udp[8] = 7",
    "udp[600] = 0",
]


def packets() -> Iterator[bytes]:
    """Frames whose payloads have the values by which classes decide more often than by chance."""
    drawn = random.Random(7)
    telling = [*range(16), 0x11, 0x13, 0x15, 0x20, 0x24, 0x30, 0x80, 0x9F, 0xC0, 0xFF]
    layers: list[Packet] = [
        IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1, dport=2),
        IP(src="10.0.0.2", dst="10.0.0.1", options=b"\1" * 8) / UDP(sport=1, dport=3),
        IPv6(src="fd00::1", dst="fd00::2") / UDP(sport=1, dport=2),
        IP(src="10.0.0.1", dst="10.0.0.2") / TCP(dport=9, flags="SA"),
        IPv6(src="fd00::1", dst="fd00::2") / TCP(dport=9, flags="A"),
        IP(src="10.0.0.1", dst="10.0.0.2") / SCTP(sport=1, dport=2),
        IPv6(src="fd00::1", dst="fd00::2") / SCTP(sport=1, dport=2),
        ARP(hwsrc="02:00:00:00:00:01", psrc="10.0.0.1", pdst="10.0.0.2"),
    ]
    for number in range(600):
        payload = bytes(drawn.choice(telling) for _ in range(drawn.randrange(60)))
        yield bytes(
            Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / layers[number % len(layers)] / Raw(payload)
        )


def mark_of(program: int, frame: bytes) -> int:
    """The mark of a frame behind a program, which always lets the next filter follow."""
    context = ctypes.create_string_buffer(struct.pack("=8xI", BEFORE), CONTEXT_BYTES)
    options = _Options(
        size=ctypes.sizeof(_Options),
        data_in=frame,
        data_size_in=len(frame),
        context_in=ctypes.addressof(context),
        context_out=ctypes.addressof(context),
        context_size_in=CONTEXT_BYTES,
        context_size_out=CONTEXT_BYTES,
        repeat=1,
    )
    code = ctypes.CDLL("libbpf.so.1").bpf_prog_test_run_opts(program, ctypes.byref(options))
    assert (code, options.verdict) == (0, 0)
    return int(struct.unpack_from("=I", context, MARK_AT)[0])


@pytest.mark.parametrize("scope", ["", SCOPE], ids=["any session", "a session"])
def test_a_program_of_the_kernel_marks_exactly_the_packets_of_its_class(scope: str) -> None:
    require(os.geteuid() == 0, "root, to load programs")
    frames = list(packets())
    for name in [*named_classes(), *CALCULATED, "any"]:
        code = compiled(name, scope)
        with Classifier(as_classifier(code, MARK)) as loaded:
            marked = [number for number, frame in enumerate(frames) if mark_of(loaded.program, frame) == MARK | BEFORE]
        assert marked == [number for number, frame in enumerate(frames) if passes(code, frame, len(frame))], name


def test_the_packets_of_most_classes_are_among_those_that_are_compared() -> None:
    frames = list(packets())
    seen = [name for name in named_classes() if any(passes(compiled(name), each, len(each)) for each in frames)]

    assert len(seen) > 0.6 * len(named_classes())


def test_instructions_that_the_kernel_refuses_are_an_error() -> None:
    require(os.geteuid() == 0, "root, to load programs")
    with pytest.raises(BpfError, match="class of packets"):
        Classifier(bytes(8))
