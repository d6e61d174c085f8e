"""`owlt dissect`: every field of chosen frames; a frame that is not there is refused."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.errors import OwltError
from tests.conftest import require_command
from tests.unit.captures.making import DATA

CAPTURE = DATA.parent / "golden" / "run-cfdp.pcap"


def dissect(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["dissect", *map(str, arguments)], catch_exceptions=False, standalone_mode=False)
    return done.output


def test_the_fields_of_a_frame_are_shown_by_layer() -> None:
    require_command("tshark")
    shown = json.loads(dissect(CAPTURE, 1, 2, "--implementation", "cfdp"))
    assert set(shown) == {"1", "2"}
    assert "cfdp" in shown["1"]
    assert shown["1"]["udp"]["udp.dstport"] == "2502"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((CAPTURE, 0), "got frame 0, wanted one of 1 to"),
        ((CAPTURE, 10_000), "got frame 10000, wanted one of 1 to"),
        ((DATA / "README.md", 1), "README.md: begins with"),
        ((DATA / "none.pcap", 1), "there is no such file: .*none.pcap .*wanted a capture: a pcap or pcapng file"),
        ((CAPTURE, 1, "--implementation", "cdfp"), "cdfp"),
    ],
)
def test_what_cannot_be_shown_is_refused(arguments: tuple[object, ...], said: str) -> None:
    with pytest.raises(OwltError, match=said):
        dissect(*arguments)
