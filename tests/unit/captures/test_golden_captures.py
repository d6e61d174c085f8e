"""The golden captures: what the columns say of each is what tshark, capinfos and scapy say."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from scapy.utils import RawPcapNgReader, RawPcapReader

from captures.files.pcap import read_frames
from captures.frames.columns import Columns, read_columns
from tests.conftest import require_command
from tests.tshark_frames import NUMBERS, Frame, differences, frames_of, read_with_tshark
from tests.unit.captures.golden.made import DAMAGED, MADE

GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.name for pattern in ("*.pcap", "*.pcapng") for path in GOLDEN.glob(pattern))
RUNS = [name for name in NAMES if name.startswith("run-")]

NO_CAPINFOS = {
    "damaged-length.pcap",
    "damaged-block-length.pcapng",
    "damaged-packet-length.pcapng",
    "garbage-behind.pcap",
    "garbage-behind.pcapng",
}
"""capinfos tells nothing of a file with an impossible length; tshark tells what comes before."""

WITHOUT_TIMES = {"no-packets.pcap", "no-packets.pcapng", "simple-packets.pcapng", "other-blocks.pcapng"}
"""For capinfos; blocks of another kind count among the records without a time."""

SCAPY_DIFFERS = {
    "two-sections.pcapng": "reads the second section with the first one's byte order",
    "other-blocks.pcapng": "knows no obsolete packet block",
    "simple-packets.pcapng": "gives simple packets no times",
}


@cache
def columns_of(name: str) -> Columns:
    return read_columns(GOLDEN / name)


@cache
def told_by_tshark(name: str) -> tuple[list[Frame], str]:
    return read_with_tshark(GOLDEN / name)


def assert_equal(name: str, *fields: str) -> None:
    found = differences(frames_of(columns_of(name)), told_by_tshark(name)[0], fields)
    assert not found, "\n".join(found[:40])


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_capture_here_is_made_by_a_function_or_cut_out_of_a_run() -> None:
    assert set(NAMES) == {*MADE, *RUNS}
    assert len(RUNS) >= 12


@pytest.mark.parametrize("name", MADE)
def test_a_made_capture_comes_out_the_same_each_time(name: str) -> None:
    assert (GOLDEN / name).read_bytes() == MADE[name]()


def test_each_is_small_and_all_together_are() -> None:
    sizes = [(GOLDEN / name).stat().st_size for name in NAMES]
    assert max(sizes) < 30_000
    assert sum(sizes) < 400_000


@pytest.mark.parametrize("name", sorted(set(NAMES) - NO_CAPINFOS))
def test_there_are_as_many_packets_and_bytes_as_capinfos_counts(name: str) -> None:
    columns = columns_of(name)
    assert [str(len(columns)), str(columns.wire_bytes.sum())] == capinfos(name, "-c", "-d")


@pytest.mark.parametrize("name", sorted(set(NAMES) - NO_CAPINFOS - WITHOUT_TIMES))
def test_the_first_and_the_last_time_are_those_of_capinfos(name: str) -> None:
    times_ns, told = columns_of(name).time_ns, capinfos(name, "-S", "-a", "-e")
    assert [told_ns(time) for time in told] == [
        at_ns - at_ns % unit_ns(time) for at_ns, time in zip((times_ns.min(), times_ns.max()), told, strict=True)
    ]


def told_ns(time: str) -> int:
    """Of seconds with as many digits as the packet's interface resolves."""
    seconds, _, rest = time.partition(".")
    return int(seconds + rest.ljust(9, "0"))


def unit_ns(time: str) -> int:
    return 10 ** int(9 - len(time.partition(".")[2]))


def capinfos(name: str, *options: str) -> list[str]:
    command = [require_command("capinfos"), "-T", "-r", "-M", *options, str(GOLDEN / name)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip().split("\t")[1:]


def test_there_are_as_many_rows_as_tshark_reads(name: str) -> None:
    assert len(columns_of(name)) == len(told_by_tshark(name)[0])


def test_times_are_those_of_tshark(name: str) -> None:
    assert_equal(name, "time_ns")


def test_lengths_are_those_of_tshark(name: str) -> None:
    assert_equal(name, "captured_bytes", "wire_bytes")


def test_addresses_are_those_of_tshark(name: str) -> None:
    assert_equal(name, "network", "source", "destination")


def test_protocols_and_identifications_are_those_of_tshark(name: str) -> None:
    assert_equal(name, "protocol", "identification")


def test_fragments_are_those_of_tshark(name: str) -> None:
    assert_equal(name, "is_fragment")


def test_ports_are_those_of_tshark(name: str) -> None:
    assert_equal(name, "source_port", "destination_port")


def test_payload_lengths_are_those_of_tshark(name: str) -> None:
    assert_equal(name, "payload_bytes")


def test_what_tcp_says_is_what_tshark_reads(name: str) -> None:
    assert_equal(name, "sequence", "acknowledgment", "tcp_flags", "window")


@pytest.mark.parametrize("field", NUMBERS)
def test_a_number_that_is_one_off_is_found(field: str) -> None:
    frames, _ = told_by_tshark("run-tcp.pcap")
    wrong = [*frames[:4], replace(frames[4], **{field: getattr(frames[4], field) + 1}), *frames[5:]]
    (difference,) = differences(wrong, frames)
    assert difference.startswith("frame 5 ") and f": {field} " in difference


@pytest.mark.parametrize("name", sorted(set(NAMES) - SCAPY_DIFFERS.keys() - DAMAGED.keys()))
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


@pytest.mark.parametrize("name", sorted(set(NAMES) & DAMAGED.keys()))
def test_damage_is_told_where_tshark_complains(name: str) -> None:
    assert columns_of(name).damage
    assert "cut short" in told_by_tshark(name)[1] or "damaged or corrupt" in told_by_tshark(name)[1]


@pytest.mark.parametrize("name", sorted(set(NAMES) - DAMAGED.keys()))
def test_no_damage_is_told_where_tshark_is_content(name: str) -> None:
    assert columns_of(name).damage == ""
    assert told_by_tshark(name)[1] == ""


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
