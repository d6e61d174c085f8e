"""Reading the pcap format: both byte orders, both resolutions, damage, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from owlt.captures.files.blocks import NotACapture
from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.columns import Columns, read_columns
from tests.unit.captures.making import DATA, START_NS, timed, udp_frame, write_pcap

FRAMES = timed([udp_frame(bytes([n]) * (n + 1)) for n in range(50)], step_ns=1_234_567)


def assert_same_frames(columns: Columns, tick_ns: int) -> None:
    assert columns.time_ns.tolist() == [time // tick_ns * tick_ns for time, _ in FRAMES]
    assert columns.wire_bytes.tolist() == [len(frame) for _, frame in FRAMES]
    assert read_frames(columns.path, columns.offset, columns.captured_bytes) == [frame for _, frame in FRAMES]


@pytest.mark.parametrize("tick_ns", [1, 1000])
@pytest.mark.parametrize("byte_order", ["<", ">"])
def test_both_byte_orders_and_both_resolutions_give_the_same_frames(
    tmp_path: Path, byte_order: str, tick_ns: int
) -> None:
    columns = read_columns(write_pcap(tmp_path / "x.pcap", FRAMES, byte_order, tick_ns))
    assert_same_frames(columns, tick_ns)
    assert columns.damage == ""


def test_two_captures_of_the_same_packets_agree_to_the_microsecond() -> None:
    nano, micro = (read_columns(DATA / f"mixed-sender{suffix}.pcap") for suffix in ("", "-us"))
    # Two taps see a packet one after the other, so their clocks are read a little apart.
    assert np.abs(nano.time_ns - micro.time_ns).max() < 1_000_000
    assert (micro.time_ns % 1000 == 0).all()
    assert (nano.body_hash == micro.body_hash).all()


def test_a_capture_without_packets_gives_no_rows(tmp_path: Path) -> None:
    columns = read_columns(write_pcap(tmp_path / "x.pcap", []))
    assert (len(columns), columns.damage) == (0, "")


@pytest.mark.parametrize("cut", [1, 15, 16, 40])
def test_the_whole_packets_of_a_truncated_capture_are_read_and_the_rest_reported(tmp_path: Path, cut: int) -> None:
    whole = write_pcap(tmp_path / "x.pcap", FRAMES)
    last_record = 16 + len(FRAMES[-1][1])
    size = whole.stat().st_size
    whole.write_bytes(whole.read_bytes()[:-cut])
    columns = read_columns(whole)
    assert len(columns) == len(FRAMES) - 1
    assert columns.damage == (
        f"the record at byte {size - last_record} is incomplete: {last_record - cut} bytes of it are there"
    )


def test_a_record_of_impossible_length_ends_the_reading_and_is_reported(tmp_path: Path) -> None:
    path = write_pcap(tmp_path / "x.pcap", FRAMES)
    data = bytearray(path.read_bytes())
    second_record = 24 + 16 + len(FRAMES[0][1])
    data[second_record + 8 : second_record + 12] = (300_000).to_bytes(4, "little")
    path.write_bytes(data)
    columns = read_columns(path)
    assert len(columns) == 1
    assert columns.damage == (
        f"the record at byte {second_record} claims 300000 bytes: the file is damaged from there on"
    )


def test_frames_on_the_border_of_two_blocks_are_read_completely(tmp_path: Path) -> None:
    # Three blocks' worth, each frame with its number, of a length that divides no block.
    frames = timed([udp_frame(n.to_bytes(4, "big") * 353) for n in range(4000)])
    columns = read_columns(write_pcap(tmp_path / "x.pcap", frames))
    assert read_frames(columns.path, columns.offset, columns.captured_bytes) == [frame for _, frame in frames]
    assert len(np.unique(columns.body_hash)) == 4000


def test_cut_frames_keep_their_length_on_the_wire(tmp_path: Path) -> None:
    columns = read_columns(write_pcap(tmp_path / "x.pcap", timed([udp_frame(bytes(500))]), snaplen=96))
    assert (columns.captured_bytes[0], columns.wire_bytes[0]) == (96, 542)


def test_times_have_all_their_nanoseconds(tmp_path: Path) -> None:
    columns = read_columns(write_pcap(tmp_path / "x.pcap", [(START_NS + 123_456_789, udp_frame(b""))]))
    assert columns.time_ns[0] == START_NS + 123_456_789


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "not a complete pcap file: it ends at byte 0, within its header; expected at least 24 bytes"),
        (
            b"\x1f\x8b\x08" + bytes(40),
            "expected a pcap or pcapng file, got a compressed one: unpack it first: gunzip -k",
        ),
        (b"PK\x03\x04" + bytes(40), r"is not a pcap or pcapng file \(it begins with 504b0304\)"),
        (bytes.fromhex("4d3cb2a1020004000000000000000000000004006900 0000"), "link type 105, expected 1"),
    ],
)
def test_what_is_no_pcap_of_ethernet_is_refused_with_the_reason(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(content)
    with pytest.raises(NotACapture, match=text):
        read_columns(path)
