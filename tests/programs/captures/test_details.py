"""The deep view: the fields of chosen frames, read by tshark and by our layers in a process of their own."""

from __future__ import annotations

import struct
from pathlib import Path

from captures.frames.columns import read_columns
from captures.protocols.details import packet_details
from tests.conftest import require_command
from tests.unit.captures.golden import pcapng
from tests.unit.captures.golden.made import blocks as blocks_of
from tests.unit.captures.golden.made import nanoseconds
from tests.unit.captures.making import SESSION, timed, write_pcap
from tests.unit.captures.octets import (
    AGGREGATE,
    BUNDLES,
    CFDP,
    CFDP_RUN,
    SARATOGA,
    frame,
    saratoga_data,
)


def test_the_deep_view_shows_the_fields_of_chosen_frames(tmp_path: Path) -> None:
    require_command("tshark")
    capture = read_columns(write_pcap(tmp_path / "x.pcap", timed(CFDP_RUN)))

    details = packet_details(capture, [3, 5], SESSION, CFDP)

    assert sorted(details) == [3, 5]
    assert details[3]["cfdp"]["CFDP File Data"]["cfdp.offset"] == "1000"
    assert details[5]["cfdp"]["CFDP File Directive"]["cfdp.file_size"] == "2500"


def test_frames_beside_other_blocks_and_without_a_time_are_those_of_the_tables(tmp_path: Path) -> None:
    """tshark numbers custom blocks as frames; a simple packet block has no time."""
    require_command("tshark")
    blocks = [
        pcapng.block(0xBAD, struct.pack("<I", 32473) + b"anything") + blocks_of([each]) for each in timed(CFDP_RUN)
    ]
    blocks.insert(1, pcapng.simple_packet(CFDP_RUN[0]))
    (tmp_path / "x.pcapng").write_bytes(nanoseconds() + b"".join(blocks))

    details = packet_details(read_columns(tmp_path / "x.pcapng"), [2, 4], SESSION, CFDP)

    assert sorted(details) == [2, 4]
    assert "CFDP File Directive" in str(details[2])
    assert details[4]["cfdp"]["CFDP File Data"]["cfdp.offset"] == "1000"


def test_the_deep_view_shows_saratoga_by_our_layer_and_bundles_by_tsharks(tmp_path: Path) -> None:
    require_command("tshark")
    capture = read_columns(write_pcap(tmp_path / "x.pcap", timed([frame(saratoga_data(7000, 40)), frame(AGGREGATE)])))

    assert packet_details(capture, [1], SESSION, SARATOGA)[1]["saratoga"]["offset"] == "7000"
    assert "bundle" in packet_details(capture, [2], SESSION, BUNDLES)[2]
