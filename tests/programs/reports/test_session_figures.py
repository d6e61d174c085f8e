"""The ladder and the traces of a run whose messages tshark decoded."""

from __future__ import annotations

import filecmp
from pathlib import Path

import pytest

from owlt.reports.drawing.output import KeptFigures
from owlt.reports.results.load import load_results
from owlt.reports.sessions.protocols import shown_runs
from owlt.reports.sessions.session_figures import draw_sessions
from tests.conftest import require_command
from tests.unit.captures.making import write_headers
from tests.unit.reports.conftest import show_packets, write_results
from tests.unit.reports.test_report_packets import HARDEST, ONE, page_of
from tests.unit.reports.test_report_page import Page


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    """Results of which one run has captures."""
    require_command("tshark")
    directory = write_results(tmp_path / "results", ONE)
    show_packets(directory, HARDEST)
    return directory


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Page]:
    """The same results with the figures of that run, and their page."""
    require_command("tshark")
    directory = write_results(tmp_path_factory.mktemp("drawn"), ONE)
    show_packets(directory, HARDEST)
    return directory, page_of(directory)


def test_a_ladder_and_traces_are_drawn_beside_the_page(drawn: tuple[Path, Page]) -> None:
    directory, page = drawn
    figures = {address for address in page.addresses if address.startswith("figures/")}

    assert {"figures/ladder-cfdp.svg", "figures/traces-cfdp.svg"} <= figures
    assert [address for address in figures if not (directory / "report" / address).exists()] == []


def test_a_session_drawn_twice_is_the_same_bytes(drawn: tuple[Path, Page], tmp_path: Path) -> None:
    first = drawn[0] / "report" / "figures"
    results = load_results(drawn[0])
    kept = KeptFigures(tmp_path / "none", tmp_path, (".svg",))
    draw_sessions(results, shown_runs(results), kept, map)
    names = sorted(path.name for path in tmp_path.iterdir())

    assert names == ["ladder-cfdp.svg", "traces-cfdp.svg"]
    assert filecmp.cmpfiles(first, tmp_path, names, shallow=False) == (names, [], [])


def test_the_caption_of_cut_frames_says_that_damage_may_be_missing(shown: Path) -> None:
    require_command("editcap")
    for name in ("sender.pcap", "receiver.pcap"):
        whole = shown / "runs" / HARDEST / name
        write_headers(whole, shown / name)
        (shown / name).replace(whole)

    assert "damage beyond it is not visible" in page_of(shown).text
