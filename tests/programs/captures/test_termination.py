"""The last lines of a session, with the names that tshark's dissectors give them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from owlt.captures.frames.columns import read_columns
from owlt.captures.protocols.ladder import termination_lines
from owlt.captures.protocols.messages import messages
from tests.unit.captures.making import SESSION, timed, write_pcap
from tests.unit.captures.octets import CFDP, CFDP_RUN


def lines(tmp_path: Path, frames: Sequence[bytes], **more: int) -> list[str]:
    columns = read_columns(write_pcap(tmp_path / "x.pcap", timed(frames)))
    return termination_lines(columns, messages(columns, SESSION, CFDP), **more)


def test_lines_are_those_of_tcpdump_and_the_name_of_the_message(tmp_path: Path) -> None:
    printed = lines(tmp_path, CFDP_RUN, lead=0)

    assert printed[0] == ("22:13:20.003000 IP 10.77.0.1.40000 > 10.77.0.2.5222: UDP, length 514  data: bytes 2000-2499")
    assert printed[2].endswith("IP 10.77.0.2.40000 > 10.77.0.1.5222: UDP, length 13  ACK of EOF")
    assert len(printed) == 7
    assert all(re.match(r"\d\d:\d\d:\d\d\.\d{6} IP ", line) for line in printed)


def test_a_flood_is_cut_short_and_counted(tmp_path: Path) -> None:
    printed = lines(tmp_path, [*CFDP_RUN, *[CFDP_RUN[-1]] * 50], lead=0, alike=3)

    assert "... 47 more like these: ACK of Finished" in printed
    assert len(printed) == 11
