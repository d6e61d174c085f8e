"""Figures of an earlier report that need not be drawn again, and parts of a page that are loaded later."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest
from markupsafe import Markup

from owlt.reports.drawing.output import KEYS_NAME, KeptFigures
from owlt.reports.page.page import build_report
from owlt.reports.rendering import LATER_LETTERS, Parts
from tests.unit.reports.conftest import change_record, few, write_results

RUN = "cfdp_1MB_10Mbps_25ms_per0_r1"


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A directory with one noted drawing."""
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier" / "a.svg").write_text("<svg/>")
    kept = KeptFigures(tmp_path / "none", tmp_path / "earlier", (".svg",))
    kept.note("a", "values", ["a.svg"], True)
    kept.write()
    return tmp_path / "earlier"


def later(earlier: Path, *suffixes: str) -> KeptFigures:
    """What can be taken from the earlier directory."""
    target = earlier.parent / "later"
    target.mkdir(exist_ok=True)
    return KeptFigures(earlier, target, suffixes or (".svg",))


def test_a_drawing_of_the_same_values_is_taken_over(earlier: Path) -> None:
    assert later(earlier).take("a", "values") is True
    assert (earlier.parent / "later" / "a.svg").read_text() == "<svg/>"


def test_a_drawing_of_other_values_is_drawn_again(earlier: Path) -> None:
    assert later(earlier).take("a", "other values") is None


def test_a_file_that_was_changed_since_is_drawn_again(earlier: Path) -> None:
    (earlier / "a.svg").write_text("<svg>changed</svg>")

    assert later(earlier).take("a", "values") is None


def test_a_drawing_without_the_wanted_pdf_is_drawn_again(earlier: Path) -> None:
    assert later(earlier, ".svg", ".pdf").take("a", "values") is None


@pytest.mark.parametrize("notes", ["", "[]", "{", '{"a": 1}', '{"a": {"files": 1}}', '{"a": {"files": {}}}'])
def test_damaged_notes_cost_time_and_nothing_else(earlier: Path, notes: str) -> None:
    (earlier / KEYS_NAME).write_text(notes)

    assert later(earlier).take("a", "values") is None


def contents(report: Path) -> dict[str, bytes]:
    return {str(path.relative_to(report)): path.read_bytes() for path in report.rglob("*") if path.is_file()}


def test_a_report_after_another_run_is_the_same_bytes_as_one_from_nothing(tmp_path: Path) -> None:
    directory = write_results(tmp_path / "results", few(repetitions=2, implementations="cfdp", packet_error_rate=0))
    run, aside = directory / "runs" / RUN, tmp_path / "aside"
    shutil.move(run, aside)
    build_report(directory)
    shutil.move(aside, run)

    of_both = contents(build_report(directory).parent)
    shutil.rmtree(directory / "report")

    assert contents(build_report(directory).parent) == of_both


def test_a_second_report_of_the_same_results_draws_no_figure(tmp_path: Path) -> None:
    directory = write_results(tmp_path, few(repetitions=1, implementations="cfdp", packet_error_rate=0))
    figures = build_report(directory).parent / "figures"
    notes = json.loads((figures / KEYS_NAME).read_text())
    for entry in notes.values():
        for name in entry["files"]:
            marked = (figures / name).read_bytes() + b"<!-- of the first report -->"
            (figures / name).write_bytes(marked)
            entry["files"][name] = hashlib.sha256(marked).hexdigest()
    (figures / KEYS_NAME).write_text(json.dumps(notes))

    build_report(directory)

    drawn = [path for path in figures.glob("*.svg") if b"of the first report" not in path.read_bytes()]
    assert (len(list(figures.glob("*.svg"))) > 0, drawn) == (True, [])


def test_a_run_that_became_suspect_changes_its_figures(tmp_path: Path) -> None:
    directory = write_results(tmp_path, few(repetitions=1, implementations="cfdp", packet_error_rate=0))
    name = "figures/goodput-against-error-rate-10Mbps.svg"
    before = contents(build_report(directory).parent)[name]
    change_record(directory, RUN, suspect=["the clock was set"])

    assert contents(build_report(directory).parent)[name] != before


def test_a_small_part_is_in_the_page_itself(tmp_path: Path) -> None:
    assert Parts(tmp_path / "parts").later("a", "a.csv", lambda: Markup("<p>part</p>")) == "<p>part</p>"


def test_a_large_part_is_a_script_beside_the_page(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "parts")
    text = Markup("<p>") + "é\u2028" * LATER_LETTERS + Markup("</p>")

    stand_in = parts.later("a", "a.csv", lambda: text)
    parts.write()

    assert 'data-script="parts/a.js"' in stand_in and 'href="a.csv"' in stand_in
    written = (tmp_path / "parts" / "a.js").read_text()
    name, html = json.loads(f"[{re.fullmatch(r'owlt.part[(](.*)[)]', written.strip()).group(1)}]")  # type: ignore[union-attr]
    assert (name, html) == ("a", str(text))
    assert "\u2028" not in written


def test_rows_that_are_loaded_later_are_announced_with_their_runs(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "parts")

    stand_in = parts.later_rows("runs-0", False, ["a_r1", "a_r2"], 4, lambda: Markup("<tr></tr>"))

    assert 'data-runs="a_r1 a_r2"' in stand_in
    assert '<td colspan="4">2 runs, from a_r1 to a_r2</td>' in stand_in
