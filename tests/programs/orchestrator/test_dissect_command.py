"""owlt dissect: the fields of a frame, as tshark and our layers show them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import require_command
from tests.unit.captures.making import timed, udp_frame, write_pcap
from tests.unit.orchestrator.test_dissect_command import CAPTURE, dissect


def test_a_frame_of_a_capture_without_a_transfer_is_shown_too(tmp_path: Path) -> None:
    require_command("tshark")
    to_itself = udp_frame(bytes(20), source="127.0.0.1", destination="127.0.0.1", port=9)
    shown = json.loads(dissect(write_pcap(tmp_path / "x.pcap", timed([to_itself])), 1))
    assert shown["1"]["ip"]["ip.dst"] == "127.0.0.1"


def test_the_fields_of_a_frame_are_shown_by_layer() -> None:
    require_command("tshark")
    shown = json.loads(dissect(CAPTURE, 1, 2, "--implementation", "cfdp"))
    assert set(shown) == {"1", "2"}
    assert "cfdp" in shown["1"]
    assert shown["1"]["udp"]["udp.dstport"] == "2502"
