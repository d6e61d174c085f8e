"""The columns of frames with any headers are what tshark reads."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6ExtHdrFragment
from scapy.packet import Raw

from owlt.captures.frames.columns import read_columns
from tests.tshark_frames import differences, frames_of, read_with_tshark
from tests.unit.captures.any_headers import DATAGRAMS, HEADERS_6, LAYERS, SEGMENTS, addresses, headers
from tests.unit.captures.making import timed, write_pcap

WITH_TSHARK = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, phases=(Phase.explicit, Phase.generate)
)

FRAGMENTS_6 = st.builds(
    lambda header, offset: header / IPv6ExtHdrFragment(offset=offset, m=1), HEADERS_6, st.sampled_from([0, 0, 20])
)

FRAGMENTS = st.builds(
    lambda src, dst, offset, more: IP(src=src, dst=dst, frag=offset, flags=more),
    addresses,
    addresses,
    st.sampled_from([0, 0, 20]),
    st.sampled_from(["", "MF", "DF"]),
)

SIZES = st.sampled_from([0, 1, 2, 7, 8, 9, 40, 200, 1400])

SNAPLENS = st.sampled_from([262_144, 262_144, 220])

FRAMES = st.builds(
    lambda lower, header, segment, size, seed, padding: (
        bytes(lower / header / segment / Raw(random.Random(seed).randbytes(size))) + bytes(padding)
    ),
    LAYERS,
    headers | HEADERS_6 | FRAGMENTS | FRAGMENTS_6,
    DATAGRAMS | SEGMENTS,
    SIZES,
    st.integers(0, 5),
    st.sampled_from([0, 0, 0, 6]),
)


@settings(parent=WITH_TSHARK, max_examples=6)
@given(st.lists(FRAMES, min_size=40, max_size=80), SNAPLENS, st.sampled_from("<>"), st.sampled_from([1, 1000]))
def test_frames_with_any_headers_are_read_as_tshark_reads_them(
    tmp_path: Path, frames: list[bytes], snaplen: int, byte_order: str, tick_ns: int
) -> None:
    path = write_pcap(tmp_path / "x.pcap", timed(frames, step_ns=1_234_567), byte_order, tick_ns, snaplen)
    assert differences(frames_of(read_columns(path)), read_with_tshark(path)[0]) == []
