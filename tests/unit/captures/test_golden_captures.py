"""The golden captures are those that their functions make, and their records those that scapy reads."""

from __future__ import annotations

from functools import cache

import pytest
from scapy.utils import RawPcapNgReader, RawPcapReader

from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.columns import Columns, read_columns
from tests.unit.captures.golden.made import DAMAGED, MADE
from tests.unit.captures.making import GOLDEN, GOLDEN_NAMES

RUNS = [name for name in GOLDEN_NAMES if name.startswith("run-")]

"""capinfos tells nothing of a file with an impossible length; tshark tells what comes before."""

"""For capinfos; blocks of another kind count among the records without a time."""

SCAPY_DIFFERS = {
    "two-sections.pcapng": "reads the second section with the first one's byte order",
    "other-blocks.pcapng": "knows no obsolete packet block",
    "simple-packets.pcapng": "gives simple packets no times",
}


@cache
def columns_of(name: str) -> Columns:
    return read_columns(GOLDEN / name)


@pytest.fixture(params=GOLDEN_NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_capture_here_is_made_by_a_function_or_cut_out_of_a_run() -> None:
    assert set(GOLDEN_NAMES) == {*MADE, *RUNS}
    assert len(RUNS) >= 12


@pytest.mark.parametrize("name", MADE)
def test_a_made_capture_comes_out_the_same_each_time(name: str) -> None:
    assert (GOLDEN / name).read_bytes() == MADE[name]()


def test_each_is_small_and_all_together_are() -> None:
    sizes = [(GOLDEN / name).stat().st_size for name in GOLDEN_NAMES]
    assert max(sizes) < 30_000
    assert sum(sizes) < 400_000


@pytest.mark.parametrize("name", sorted(set(GOLDEN_NAMES) - SCAPY_DIFFERS.keys() - DAMAGED.keys()))
def test_the_raw_records_are_those_of_scapy(name: str) -> None:
    columns = columns_of(name)
    reader = (RawPcapNgReader if name.endswith("ng") else RawPcapReader)(str(GOLDEN / name))
    with reader:
        records = list(reader)
    frames = read_frames(columns.path, columns.offset, columns.captured_bytes)
    assert frames == [data for data, _ in records]
    assert columns.wire_bytes.tolist() == [told.wirelen for _, told in records]
    if name.endswith(".pcap"):
        tick_ns = 1 if reader.nano else 1000
        assert columns.time_ns.tolist() == [told.sec * 10**9 + told.usec * tick_ns for _, told in records]


def test_comments_and_drops_are_those_that_the_file_names() -> None:
    columns = columns_of("comments-and-drops.pcapng")
    assert set(columns.comments) == {"a golden capture", "packet 1", "packet 4"}
    assert columns.dropped == 3 + 4


def test_a_file_that_names_no_drops_is_not_said_to_have_none() -> None:
    assert columns_of("simplest.pcapng").dropped is None
    assert columns_of("other-blocks.pcapng").dropped == 0


def test_frames_of_other_headers_are_counted_as_slow() -> None:
    assert columns_of("run-tcp.pcap").slow_frames == 0
    assert columns_of("vlan.pcap").slow_frames == 6
    assert columns_of("ipv6.pcap").slow_frames == 7
