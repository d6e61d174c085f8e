"""A capture has as many packets and bytes as capinfos counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.captures.frames.columns import read_columns
from tests.unit.captures.making import DATA, capinfos


@pytest.mark.parametrize("capture", sorted(DATA.glob("*.pcap")), ids=lambda path: path.stem)
def test_a_real_capture_has_as_many_packets_as_capinfos_counts(capture: Path) -> None:
    assert len(read_columns(capture)) == int(capinfos(capture, "-c"))


@pytest.mark.parametrize("capture", sorted(DATA.glob("*.pcap")), ids=lambda path: path.stem)
def test_a_real_capture_has_as_many_bytes_as_capinfos_counts(capture: Path) -> None:
    assert read_columns(capture).wire_bytes.sum() == int(capinfos(capture, "-d"))
