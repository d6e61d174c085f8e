"""The page of one run in chromium: for everyone, on every screen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from owlt.captures.accounting.summary import read_both
from owlt.captures.inspection.inspection import Case, inspect
from owlt.reports.sessions.run_page import build_run_page
from tests.chromium import DESKTOP, PHONE, Page
from tests.conftest import require_command
from tests.unit.captures.making import SESSION, later, timed, udp_frame, write_pcap
from tests.unit.captures.octets import CFDP, CFDP_RUN

SENT = timed([udp_frame(n.to_bytes(4, "big") * 250) for n in range(2000)], step_ns=500_000)
OF_CFDP = timed(CFDP_RUN, step_ns=100_000_000)
CASES = {
    "packets": (SENT, Case(SESSION, file_size_bytes=1_000_000)),
    "messages": (OF_CFDP, Case(SESSION, file_size_bytes=8_000, dissector=CFDP)),
    "failed": (SENT, Case(SESSION, file_size_bytes=1_000_000, outcome="timed_out", reason="the deadline passed")),
}
LOOKS = [(DESKTOP, False), (DESKTOP, True), (PHONE, False)]


@pytest.mark.parametrize("name", CASES)
def test_axe_finds_no_violation_in_the_page_of_a_run(tmp_path: Path, name: str, page: Page) -> None:
    require_command("tshark")
    frames, case = CASES[name]
    pcaps = write_pcap(tmp_path / "s.pcap", frames), write_pcap(tmp_path / "r.pcap", later(frames[1:], 25_000_000))
    built = build_run_page("a run", inspect(*read_both(*pcaps), replace(case)), case, tmp_path / "out", "csv", [])

    page.open(built.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
    for size, dark in LOOKS:
        page.look(size, dark)
        assert page.violations() == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.messages == []
