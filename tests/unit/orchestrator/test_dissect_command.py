"""`owlt dissect`: every field of chosen frames; a frame that is not there is refused."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.errors import OwltError
from tests.unit.captures.making import DATA

CAPTURE = DATA.parent / "golden" / "run-cfdp.pcap"


def dissect(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["dissect", *map(str, arguments)], catch_exceptions=False, standalone_mode=False)
    return done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((CAPTURE, 0), "got frame 0, expected 1 to"),
        ((CAPTURE, 10_000), "got frame 10000, expected 1 to"),
        ((DATA / "README.md", 1), "README.md: is not a pcap or pcapng file"),
        ((DATA / "none.pcap", 1), "there is no such file: .*none.pcap, expected a capture: a pcap or pcapng file"),
        ((CAPTURE, 1, "--implementation", "cdfp"), "cdfp"),
    ],
)
def test_what_cannot_be_shown_is_refused(arguments: tuple[object, ...], said: str) -> None:
    with pytest.raises(OwltError, match=said):
        dissect(*arguments)
