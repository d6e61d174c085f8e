"""What the columns say of each golden capture is what tshark and capinfos say."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import cache

import pytest

from owlt.captures.frames.columns import Columns, read_columns
from tests.conftest import require_command
from tests.tshark_frames import NUMBERS, Frame, differences, frames_of, read_with_tshark
from tests.unit.captures.golden.made import DAMAGED
from tests.unit.captures.making import GOLDEN, GOLDEN_NAMES


@cache
def columns_of(name: str) -> Columns:
    return read_columns(GOLDEN / name)


@pytest.fixture(params=GOLDEN_NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


NO_CAPINFOS = {
    "damaged-length.pcap",
    "damaged-block-length.pcapng",
    "damaged-packet-length.pcapng",
    "garbage-behind.pcap",
    "garbage-behind.pcapng",
}

WITHOUT_TIMES = {"no-packets.pcap", "no-packets.pcapng", "simple-packets.pcapng", "other-blocks.pcapng"}


@cache
def told_by_tshark(name: str) -> tuple[list[Frame], str]:
    return read_with_tshark(GOLDEN / name)


def assert_equal(name: str, *fields: str) -> None:
    found = differences(frames_of(columns_of(name)), told_by_tshark(name)[0], fields)
    assert not found, "\n".join(found[:40])


@pytest.mark.parametrize("name", sorted(set(GOLDEN_NAMES) - NO_CAPINFOS))
def test_there_are_as_many_packets_and_bytes_as_capinfos_counts(name: str) -> None:
    columns = columns_of(name)
    assert [str(len(columns)), str(columns.wire_bytes.sum())] == capinfos(name, "-c", "-d")


@pytest.mark.parametrize("name", sorted(set(GOLDEN_NAMES) - NO_CAPINFOS - WITHOUT_TIMES))
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


@pytest.mark.parametrize("name", sorted(set(GOLDEN_NAMES) & DAMAGED.keys()))
def test_damage_is_reported_where_tshark_complains(name: str) -> None:
    assert columns_of(name).damage
    assert "cut short" in told_by_tshark(name)[1] or "damaged or corrupt" in told_by_tshark(name)[1]


@pytest.mark.parametrize("name", sorted(set(GOLDEN_NAMES) - DAMAGED.keys()))
def test_no_damage_is_reported_where_tshark_is_content(name: str) -> None:
    assert columns_of(name).damage == ""
    assert told_by_tshark(name)[1] == ""
