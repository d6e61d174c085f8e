"""A part of the instrument's validation: performed in guests on the exact clock, and judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.reports.results.load import load_results
from owlt.reports.results.rows import run_rows
from tests.system.sweeps import owlt
from tests.validation.__main__ import PROFILES
from tests.validation.page import make_page
from tests.validation.rounds import rounds_cells

TIMERS = 0.01
"""What the margins of timers, 0.1 s each, add to a number of rounds of 120 s, at most."""


def test_the_quick_form_finds_whole_rounds_and_custody_signals_in_time(tmp_path: Path, guest_kernel: object) -> None:
    done = owlt("run", PROFILES / "quick.yaml", "--results", tmp_path / "quick", "--no-report")
    assert done.returncode == 0, done.stderr

    statements = make_page(PROFILES / "page.md", [tmp_path / "quick"], tmp_path / "page")
    cells = rounds_cells(run_rows(load_results(tmp_path / "quick")))

    assert {cell.implementation: len(cell.measured) for cell in cells} == {"cfdp": 2, "ltp": 2, "saratoga": 2}
    for rounds in (rounds for cell in cells for rounds in cell.measured):
        assert round(rounds) >= 1
        assert rounds == pytest.approx(round(rounds), abs=TIMERS)
    assert {each.id: each.verdict for each in statements}["custody"] == "passed"
    assert (tmp_path / "page" / "validation-rounds.svg").exists()
