"""owlt dissect: the fields of a frame, as tshark and our layers show them."""

from __future__ import annotations

import json

from tests.conftest import require_command
from tests.unit.orchestrator.test_dissect_command import CAPTURE, dissect


def test_the_fields_of_a_frame_are_shown_by_layer() -> None:
    require_command("tshark")
    shown = json.loads(dissect(CAPTURE, 1, 2, "--implementation", "cfdp"))
    assert set(shown) == {"1", "2"}
    assert "cfdp" in shown["1"]
    assert shown["1"]["udp"]["udp.dstport"] == "2502"
