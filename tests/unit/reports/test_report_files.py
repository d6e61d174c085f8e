"""What a report leaves on disk: the same bytes every time, figures fit for print, tables for other programs."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from owlt.reports.page.page import build_report
from tests.unit.reports.conftest import FAILED, FAILURE, SUSPECT, few, write_results


def names_in(report: Path) -> list[str]:
    return sorted(str(path.relative_to(report)) for path in report.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The figures of a report of one run, for print too."""
    asked = few(repetitions=1, implementations="cfdp", packet_error_rate=0)
    return build_report(write_results(tmp_path_factory.mktemp("printed"), asked), with_pdf=True).parent / "figures"


def test_figures_are_drawn_for_screens(reported: Path) -> None:
    names = names_in(reported / "report" / "figures")

    assert "goodput-against-error-rate-10Mbps.svg" in names
    assert not [name for name in names if name.endswith(".pdf")]


def test_each_figure_is_drawn_for_print_too_if_that_is_wanted(printed: Path) -> None:
    assert list(printed.glob("*.svg"))
    assert {path.stem for path in printed.glob("*.svg")} == {path.stem for path in printed.glob("*.pdf")}


def test_a_figure_that_is_no_longer_made_does_not_stay(tmp_path: Path) -> None:
    directory = write_results(tmp_path, few(repetitions=1, implementations="cfdp", packet_error_rate=0))
    stale = directory / "report" / "figures" / "of-an-older-version.svg"
    stale.parent.mkdir(parents=True)
    stale.touch()

    build_report(directory)

    assert not stale.exists()


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_no_figure_has_a_date(printed: Path, suffix: str) -> None:
    figures = list(printed.glob(f"*.{suffix}"))

    assert figures
    for figure in figures:
        assert not re.search(rb"CreationDate|ModDate|dc:date", figure.read_bytes())


def test_the_fonts_of_print_figures_are_embedded_as_truetype(printed: Path) -> None:
    figures = list(printed.glob("*.pdf"))

    assert figures
    for figure in figures:
        assert re.search(rb"/FontFile2", figure.read_bytes())
        assert not re.search(rb"/Type3", figure.read_bytes())


def test_screen_figures_need_no_font(reported: Path) -> None:
    for figure in (reported / "report" / "figures").glob("*.svg"):
        assert "<text" not in figure.read_text()


def test_a_figure_has_a_point_for_every_completed_run_that_has_numbers(reported: Path) -> None:
    svg = (reported / "report" / "figures" / "rts-against-error-rate-10Mbps.svg").read_text()

    assert len(set(re.findall(r"index\.html#run-([^\"]+)", svg))) == 12 - 2


def test_a_failed_run_is_no_point(reported: Path) -> None:
    assert not [path for path in (reported / "report" / "figures").glob("*.svg") if FAILED in path.read_text()]


def test_a_suspect_run_is_the_only_hollow_point(reported: Path) -> None:
    svg = (reported / "report" / "figures" / "goodput-against-error-rate-10Mbps.svg").read_text()
    points = re.findall(r'#run-([^"]+)".*?style="fill: (#[0-9a-f]+)', svg, re.DOTALL)

    assert [run_id for run_id, fill in points if fill == "#ffffff"] == [SUSPECT]


def test_runs_csv_has_the_numbers_of_records_and_summaries(reported: Path) -> None:
    with (reported / "report" / "runs.csv").open(newline="") as file:
        rows = {row["run_id"]: row for row in csv.DictReader(file)}
    summary = json.loads((reported / "runs" / SUSPECT / "summary.json").read_text())

    assert len(rows) == 12
    assert float(rows[SUSPECT]["goodput_bps"]) == summary["goodput_bps"]
    assert (rows[FAILED]["outcome"], rows[FAILED]["reason"]) == ("failed", FAILURE)


def test_statistics_csv_has_the_medians_of_runs_csv(reported: Path) -> None:
    with (reported / "report" / "runs.csv").open(newline="") as file:
        runs = [row for row in csv.DictReader(file) if row["outcome"] == "completed" and row["str_sent"]]
    with (reported / "report" / "statistics.csv").open(newline="") as file:
        boxes = [row for row in csv.DictReader(file) if row["metric"] == "str"]
    point = ("implementation", "file_size_bytes", "rate_bps", "delay_ns", "packet_error_rate")

    for box in boxes:
        values = [float(run["str_sent"]) for run in runs if all(run[name] == box[name] for name in point)]
        assert (float(box["n"]), float(box["median"])) == (len(values), np.median(values))
