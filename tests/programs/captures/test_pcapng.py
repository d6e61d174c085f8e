"""A long pcapng file has the packets that capinfos counts."""

from __future__ import annotations

from pathlib import Path

from owlt.captures.files.pcap import read_frames
from tests.unit.captures.golden.pcapng import packet, section
from tests.unit.captures.making import capinfos, timed, udp_frame
from tests.unit.captures.test_pcapng import NANOSECONDS, columns_of


def test_packets_on_the_border_of_two_buffers_are_read_completely(tmp_path: Path) -> None:
    frames = timed([udp_frame(n.to_bytes(4, "big") * (353 if n % 7 else 2)) for n in range(4000)])
    columns = columns_of(tmp_path, section(), NANOSECONDS, *(packet(*each) for each in frames))
    assert read_frames(columns.path, columns.offset, columns.captured_bytes) == [frame for _, frame in frames]
    assert len(columns) == int(capinfos(columns.path, "-c"))
