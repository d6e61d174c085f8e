"""The deep view: the fields of chosen frames, read by tshark and by our layers in a process of their own."""

from __future__ import annotations

from pathlib import Path

from captures.protocols.details import packet_details
from tests.conftest import require_command
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
    capture = write_pcap(tmp_path / "x.pcap", timed(CFDP_RUN))

    details = packet_details(capture, [3, 5], SESSION, CFDP)

    assert sorted(details) == [3, 5]
    assert details[3]["cfdp"]["CFDP File Data"]["cfdp.offset"] == "1000"
    assert details[5]["cfdp"]["CFDP File Directive"]["cfdp.file_size"] == "2500"


def test_the_deep_view_shows_saratoga_by_our_layer_and_bundles_by_tsharks(tmp_path: Path) -> None:
    require_command("tshark")
    capture = write_pcap(tmp_path / "x.pcap", timed([frame(saratoga_data(7000, 40)), frame(AGGREGATE)]))

    assert packet_details(capture, [1], SESSION, SARATOGA)[1]["saratoga"]["offset"] == "7000"
    assert "bundle" in packet_details(capture, [2], SESSION, BUNDLES)[2]
