"""Captures cut to headers are what editcap makes of them, and tshark and the summary read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from owlt.captures.accounting.cutting import write_cut
from owlt.captures.accounting.summary import CaptureSummary, Transfer
from owlt.captures.files.pcap import FILE_HEADER_BYTES
from owlt.captures.frames.columns import read_columns
from tests.conftest import require_command
from tests.unit.captures.making import DATA, SESSION, timed, tshark_rows, udp_frame, write_headers, write_pcap
from tests.unit.captures.summarising import summarise

FILE_BYTES = 6000
ARGUMENTS = (SESSION, Transfer(FILE_BYTES))


@pytest.fixture
def editcap() -> str:
    return require_command("editcap")


def test_a_cut_capture_is_what_editcap_makes_of_it(tmp_path: Path, editcap: str) -> None:
    capture = read_columns(DATA / "mixed-sender.pcap")
    write_cut(capture, np.arange(len(capture)), tmp_path / "cut.pcap")
    other = write_headers(capture.path, tmp_path / "editcap.pcap")
    ours, theirs = (tmp_path / "cut.pcap").read_bytes(), other.read_bytes()
    assert ours[FILE_HEADER_BYTES:] == theirs[FILE_HEADER_BYTES:]


def test_tshark_reads_a_capture_of_which_some_frames_are_cut(tmp_path: Path) -> None:
    capture = read_columns(write_pcap(tmp_path / "x.pcap", timed([udp_frame(bytes(300))] * 3)))
    write_cut(capture, np.array([1]), tmp_path / "cut.pcap")
    assert tshark_rows(tmp_path / "cut.pcap", "frame.cap_len < frame.len") == [1]


@pytest.mark.parametrize("name", ["netem-all", "netem-half", "netem-tcp", "mixed"])
def test_a_summary_from_headers_differs_only_in_the_bit_errors_that_were_cut_away(
    tmp_path: Path, name: str, editcap: str
) -> None:
    pairs = [(DATA / f"{name}-{side}.pcap", tmp_path / f"{side}.pcap") for side in ("sender", "receiver")]
    for whole, cut in pairs:
        write_headers(whole, cut)
    from_whole = summarise(pairs[0][0], pairs[1][0], *ARGUMENTS)
    from_headers = summarise(pairs[0][1], pairs[1][1], *ARGUMENTS)
    assert comparable(from_headers) == comparable(from_whole)
    assert from_headers.ledger_forward.corrupted <= from_whole.ledger_forward.corrupted


def test_a_summary_from_headers_says_so(tmp_path: Path, editcap: str) -> None:
    write_headers(DATA / "mixed-sender.pcap", tmp_path / "cut.pcap")
    whole, cut = DATA / "mixed-receiver.pcap", tmp_path / "cut.pcap"
    assert summarise(cut, whole, *ARGUMENTS).headers_only
    assert not summarise(whole, whole, *ARGUMENTS).headers_only


def comparable(summary: CaptureSummary) -> dict[str, object]:
    damage = {"delivered", "corrupted"}
    without = {"headers_only": True}
    return summary.model_dump(exclude=without | {"ledger_forward": damage, "ledger_reverse": damage})
