"""The counts of a summary are those of tshark and capinfos."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.captures.accounting.summary import Transfer
from owlt.captures.frames.columns import read_columns
from owlt.captures.frames.session import Host, summary_filter
from tests.conftest import require_command
from tests.unit.captures.making import DATA, SESSION, capinfos, tshark_rows, write_headers
from tests.unit.captures.summarising import summarise
from tests.unit.captures.test_capture_summary import FILE_BYTES, GOLDEN, summary_of


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize(
    ("field", "side", "host"),
    [
        ("str_sent", "sender", "sender"),
        ("str_delivered", "receiver", "sender"),
        ("rts_sent", "receiver", "receiver"),
        ("rts_delivered", "sender", "receiver"),
    ],
)
def test_a_count_of_a_real_run_is_what_tshark_counts(name: str, field: str, side: str, host: Host) -> None:
    passing = len(tshark_rows(DATA / f"{name}-{side}.pcap", summary_filter(SESSION, host)))
    assert getattr(summary_of(name), field) == passing > 0


def test_the_frames_of_a_real_run_are_the_sessions_or_counted_as_background() -> None:
    summary = summary_of("netem-all")
    session = summary.str_sent + summary.str_delivered + summary.rts_sent + summary.rts_delivered
    outside = summary.ledger_forward.corrupted_outside + summary.ledger_reverse.corrupted_outside
    frames = sum(int(capinfos(DATA / f"netem-all-{side}.pcap", "-c")) for side in ("sender", "receiver"))
    assert session + outside + sum(summary.background_packets.values()) == frames


@pytest.mark.parametrize("name", GOLDEN)
def test_captures_with_unlike_snapshot_lengths_are_matched_all_the_same(tmp_path: Path, name: str) -> None:
    require_command("editcap")
    whole, cut = DATA / f"{name}-sender.pcap", tmp_path / "receiver.pcap"
    write_headers(DATA / f"{name}-receiver.pcap", cut)
    assert (read_columns(cut).captured_bytes <= 96).all()
    summary = summarise(whole, cut, SESSION, Transfer(FILE_BYTES))
    assert summary.suspect == []
    assert summary.owd_forward == summary_of(name).owd_forward
