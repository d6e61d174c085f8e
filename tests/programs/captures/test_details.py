"""The deep view: the fields of chosen frames, read by tshark and by our layers in a process of their own."""

from __future__ import annotations

import os
import struct
from asyncio import base_subprocess
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from owlt.captures.frames.columns import read_columns
from owlt.captures.protocols.details import _details, packet_details
from owlt.captures.protocols.tshark import NoDissection, parse_dissector
from tests.conftest import require_command
from tests.unit.captures.golden import pcapng
from tests.unit.captures.golden.made import blocks as blocks_of
from tests.unit.captures.golden.made import nanoseconds
from tests.unit.captures.making import SESSION, timed, write_pcap
from tests.unit.captures.octets import AGGREGATE, BUNDLES, CFDP, CFDP_RUN, SARATOGA, frame, saratoga_data


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


def test_a_tshark_that_ends_while_pyshark_stops_it_did_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = require_command("tshark")
    slow = tmp_path / "bin/tshark"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\n{real} "$@"\nexec >&- 2>&-\nsleep 0.3\n')  # ends after its output
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    capture = write_pcap(tmp_path / "x.pcap", timed(CFDP_RUN))
    with get_context("spawn").Pool(1) as child:  # as in the product
        assert set(child.apply(_details_with_an_ended_tshark, [str(capture)])) == {3, 5}


def test_frames_that_tshark_does_not_show_are_an_error(tmp_path: Path) -> None:
    require_command("tshark")
    capture = read_columns(write_pcap(tmp_path / "x.pcap", timed(CFDP_RUN)))
    with pytest.raises(NoDissection, match="frame 9000"):
        packet_details(capture, [3, 9000], SESSION, CFDP)


def _details_with_an_ended_tshark(capture: str) -> dict[int, dict[str, Any]]:
    """tshark has ended, and asyncio has not seen it, each time that pyshark stops it."""
    kill = getattr(base_subprocess.BaseSubprocessTransport, "kill")  # noqa: B009

    def late(transport: Any) -> None:
        os.waitid(os.P_PID, transport.get_pid(), os.WEXITED | os.WNOWAIT)
        kill(transport)

    setattr(base_subprocess.BaseSubprocessTransport, "kill", late)  # noqa: B010
    return _details(capture, (3, 5), SESSION, parse_dissector(CFDP))
