"""Reading the pcapng format: units of time, sections, interfaces, what the file says of itself, and damage."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.utils import RawPcapNgReader

from owlt.captures.files.blocks import BLOCK_BYTES, NotACapture
from owlt.captures.files.pcap import read_frames, read_snaplen
from owlt.captures.files.pcapng import COMMENTS_BYTES, MOST_INTERFACES
from owlt.captures.frames.columns import Columns, read_columns
from tests.unit.captures.golden.pcapng import (
    COMMENT,
    NAMES,
    OFFSET,
    RESOLUTION,
    block,
    interface,
    old_packet,
    packet,
    section,
    simple_packet,
    statistics,
)
from tests.unit.captures.making import START_NS, timed, udp_frame

FRAMES = timed([udp_frame(bytes([n]) * (n + 1)) for n in range(50)], step_ns=1_234_567)
NANOSECONDS = interface([(RESOLUTION, b"\x09")])
PACKETS = b"".join(packet(*each) for each in FRAMES)
ANY_PATH = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
LATEST_NS = 2**63 - 1


def columns_of(directory: Path, *parts: bytes) -> Columns:
    path = directory / "x.pcapng"
    path.write_bytes(b"".join(parts))
    return read_columns(path)


@pytest.mark.parametrize("order", ["<", ">"])
def test_frames_and_times_are_those_that_were_written(tmp_path: Path, order: str) -> None:
    packets = b"".join(packet(*each, order=order) for each in FRAMES)
    columns = columns_of(tmp_path, section(order=order), interface([(RESOLUTION, b"\x09")], order), packets)
    assert columns.time_ns.tolist() == [time_ns for time_ns, _ in FRAMES]
    assert read_frames(columns.path, columns.offset, columns.captured_bytes) == [frame for _, frame in FRAMES]


@ANY_PATH
@given(st.integers(0, 255), st.none() | st.integers(-(2**63), 2**63 - 1), st.lists(st.integers(0, 2**64 - 1)))
def test_times_are_exact_in_any_unit_and_from_any_start(
    tmp_path: Path, resolution: int, offset_s: int | None, ticks: list[int]
) -> None:
    options = [(RESOLUTION, bytes([resolution]))]
    if offset_s is not None:
        options.append((OFFSET, struct.pack("<q", offset_s)))
    packets = [packet(tick, b"x") for tick in ticks]
    columns = columns_of(tmp_path, section(), interface(options), *packets)
    a_tick_ns = Fraction(10**9, (2 if resolution & 128 else 10) ** (resolution & 127))
    offset_ns = (offset_s or 0) * 10**9
    exact = [offset_ns + int(tick * a_tick_ns) for tick in ticks]
    fits = [
        abs(offset_ns) <= LATEST_NS // 2 and time_ns <= LATEST_NS and tick * a_tick_ns <= LATEST_NS
        for tick, time_ns in zip(ticks, exact, strict=True)
    ]
    assert columns.untimed_frames <= fits.count(False)
    assert columns.time_ns[fits].tolist() == [time_ns for time_ns, held in zip(exact, fits, strict=True) if held]
    assert set(columns.time_ns[[not held for held in fits]].tolist()) <= {0, *exact}


SOME_PACKETS = st.lists(
    st.tuples(
        st.integers(0, 2**42), st.binary(max_size=300), st.integers(0, 2), st.sampled_from([(), ((2, b"abcd"),)])
    ),
    max_size=40,
)


@ANY_PATH
@given(SOME_PACKETS, st.sampled_from("<>"))
def test_any_packets_are_those_that_scapy_reads(
    tmp_path: Path, told: list[tuple[int, bytes, int, tuple[tuple[int, bytes], ...]]], order: str
) -> None:
    units = [interface([(RESOLUTION, bytes([number]))], order) for number in (9, 6, 3)]
    packets = [packet(ticks, frame, number, options, order) for ticks, frame, number, options in told]
    columns = columns_of(tmp_path, section(order=order), *units, *packets)
    with RawPcapNgReader(str(columns.path)) as reader:
        records = list(reader)
    frames = read_frames(columns.path, columns.offset, columns.captured_bytes)
    assert frames == [data for data, _ in records]
    assert columns.wire_bytes.tolist() == [known.wirelen for _, known in records]
    ticks = [known.tshigh << 32 | known.tslow for _, known in records]
    in_ns = [10**9 // known.tsresol for _, known in records]
    assert columns.time_ns.tolist() == [tick * each for tick, each in zip(ticks, in_ns, strict=True)]


def test_blocks_of_other_kinds_are_skipped_however_long_they_are(tmp_path: Path) -> None:
    secrets = block(10, bytes(BLOCK_BYTES + 1000))
    columns = columns_of(tmp_path, section(), NANOSECONDS, PACKETS, secrets, PACKETS, block(NAMES, bytes(4)), PACKETS)
    assert (len(columns), columns.damage) == (150, "")


def test_a_long_block_that_is_cut_short_is_damage(tmp_path: Path) -> None:
    start = section() + NANOSECONDS + PACKETS
    columns = columns_of(tmp_path, start, block(10, bytes(BLOCK_BYTES + 1000))[:-5])
    assert len(columns) == 50
    assert columns.damage == f"the block at byte {len(start)} is incomplete: {BLOCK_BYTES + 1007} bytes of it are there"


def test_a_packet_of_an_interface_that_is_described_later_is_damage(tmp_path: Path) -> None:
    columns = columns_of(tmp_path, section(), NANOSECONDS, PACKETS, packet(1, b"x", 1), NANOSECONDS, PACKETS)
    assert len(columns) == 50
    assert "from an interface that the file does not describe" in columns.damage


def test_interfaces_of_the_section_before_are_not_those_of_this_one(tmp_path: Path) -> None:
    columns = columns_of(tmp_path, section(), NANOSECONDS, PACKETS, section(), PACKETS)
    assert len(columns) == 50
    assert "from an interface that the file does not describe" in columns.damage


def test_a_block_whose_lengths_differ_is_damage(tmp_path: Path) -> None:
    last = bytearray(packet(START_NS, b"abcd"))
    last[-4:] = struct.pack("<I", 40)
    start = section() + NANOSECONDS + PACKETS
    columns = columns_of(tmp_path, start, last, PACKETS)
    assert len(columns) == 50
    assert columns.damage == (
        f"the block at byte {len(start)} claims 36 bytes at its start and 40 at its end: "
        f"the file is damaged from there on"
    )


@pytest.mark.parametrize("cut", [1, 3, 4, 20, 31])
def test_the_whole_packets_of_a_truncated_capture_are_read_and_the_rest_reported(tmp_path: Path, cut: int) -> None:
    whole = section() + NANOSECONDS + PACKETS
    columns = columns_of(tmp_path, whole[:-cut])
    last = len(packet(*FRAMES[-1]))
    assert len(columns) == 49
    assert columns.damage == (
        f"the block at byte {len(whole) - last} is incomplete: {last - cut} bytes of it are there"
    )


def test_what_the_file_says_was_dropped_is_added_up_over_its_interfaces(tmp_path: Path) -> None:
    twice = statistics(1, 1, 0) + statistics(2, 5, 2) + statistics(2, 10, 0, number=1)
    columns = columns_of(tmp_path, section(), NANOSECONDS, NANOSECONDS, PACKETS, twice)
    assert columns.dropped == 17  # statistics count from the start, so the last ones hold


def test_drops_that_packets_tell_are_counted(tmp_path: Path) -> None:
    told = [packet(1, b"x", options=[(4, struct.pack("<Q", number))]) for number in (3, 0, 4)]
    assert columns_of(tmp_path, section(), NANOSECONDS, *told).dropped == 7


def test_comments_are_kept_up_to_a_limit(tmp_path: Path) -> None:
    told = [packet(1, b"x", options=[(COMMENT, b"y" * 60_000)]) for _ in range(30)]
    columns = columns_of(tmp_path, section([(COMMENT, "größer".encode())]), NANOSECONDS, *told)
    assert columns.comments[0] == "größer"
    assert sum(map(len, columns.comments)) <= COMMENTS_BYTES
    assert len(columns) == 30


def test_simple_packets_are_cut_at_the_snapshot_length_and_have_no_time(tmp_path: Path) -> None:
    body = struct.pack("<I", 500) + bytes(60)
    columns = columns_of(tmp_path, section(), interface(snaplen=60), block(3, body), packet(7, b"x"))
    assert (columns.captured_bytes[0], columns.wire_bytes[0], columns.time_ns[0]) == (60, 500, 0)
    assert columns.untimed_frames == 1


def test_old_packets_are_of_the_interface_that_they_name(tmp_path: Path) -> None:
    columns = columns_of(tmp_path, section(order=">"), interface(order=">"), old_packet(5, b"frame", ">"))
    assert (columns.time_ns[0], columns.captured_bytes[0], columns.dropped) == (5000, 5, None)


def test_the_smallest_snapshot_length_is_the_captures(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    path.write_bytes(section() + interface(snaplen=0) + interface(snaplen=96) + interface(snaplen=128))
    assert read_snaplen(path) == 96


def test_more_interfaces_than_any_machine_has_are_damage(tmp_path: Path) -> None:
    columns = columns_of(tmp_path, section(), *([NANOSECONDS] * (MOST_INTERFACES + 1)), PACKETS)
    assert len(columns) == 0
    assert "more than 4096 interfaces" in columns.damage


def test_frames_of_a_link_that_is_not_read_are_refused_by_its_number(tmp_path: Path) -> None:
    with pytest.raises(NotACapture, match="link type 105, expected 1"):
        columns_of(tmp_path, section(), interface(link=105), packet(1, b"x"))


def test_an_interface_without_packets_may_be_of_any_link(tmp_path: Path) -> None:
    columns = columns_of(tmp_path, section(), NANOSECONDS, interface(link=105), PACKETS)
    assert (len(columns), columns.damage) == (50, "")


@pytest.mark.parametrize("content", [b"\n\r\r\n", section()[:20], b"\n\r\r\n" + bytes(40)])
def test_what_has_no_section_header_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(NotACapture, match="expected a pcapng file"):
        columns_of(tmp_path, content)


FEW_PACKETS = b"".join(packet(*each) for each in FRAMES[:4])
SEED = b"".join(
    [
        *(section(), NANOSECONDS, interface(snaplen=60), FEW_PACKETS, statistics(1, 2, 3), block(0xBAD, b"any")),
        *(simple_packet(b"simple"), old_packet(7, b"old"), section(order=">"), interface(order=">")),
        packet(9, b"frame", options=[(COMMENT, b"hello")], order=">"),
    ]
)


@ANY_PATH
@given(st.lists(st.tuples(st.integers(4, len(SEED) - 1), st.sampled_from([0, 1, 4, 28, 127, 255])), max_size=6))
def test_whatever_bytes_are_changed_the_file_is_read_or_refused(tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    changed = bytearray(SEED)
    for place, value in changes:
        changed[place] = value
    try:
        columns = columns_of(tmp_path, bytes(changed))
    except NotACapture:
        return
    assert (columns.offset.astype(np.int64) + columns.captured_bytes <= len(SEED)).all()


def test_unchanged_they_are_read_to_their_end(tmp_path: Path) -> None:
    columns = columns_of(tmp_path, SEED)
    assert (columns.damage, columns.dropped, columns.comments, len(columns)) == ("", 5, ("hello",), 7)


def test_packets_are_found_in_runs_of_any_length_between_other_blocks(tmp_path: Path) -> None:
    """Runs shorter and longer than those after which blocks are read one by one, and more short ones than that."""
    other = [section(), NANOSECONDS, statistics(0, 0, 0), block(0x0BAD, b"abcd")]
    lengths = [1, 5, 0, 2, 4, 3, 200, *[1] * 150, 90, *[0] * 300, 7]
    parts, times = [section(), NANOSECONDS], []
    for number, length in enumerate(lengths):
        run = [(START_NS + 1000 * number + each, FRAMES[0][1]) for each in range(length)]
        times += [time_ns for time_ns, _ in run]
        parts += [packet(*each) for each in run]
        parts += other[:2] if number % 50 == 0 else [other[2 + number % 2]]

    columns = columns_of(tmp_path, *parts)

    assert columns.time_ns.tolist() == times
    assert not columns.damage
