"""Figures for a paper, held against the rows that they show, and against what print requires of them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from typer.testing import CliRunner

from owlt.captures.inspection.critical_path import KINDS as KINDS_OF_TIME
from owlt.captures.inspection.critical_path import Kind
from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.errors import OwltError
from owlt.reports.comparison.theory import THEORIES, curve
from owlt.reports.drawing.output import FORMATS
from owlt.reports.drawing.paper_figure import draw_figure, save_figure
from owlt.reports.drawing.specification import (
    KINDS,
    NAMES,
    Filter,
    NothingSelected,
    Specification,
    UnknownName,
    quantity,
    selected,
    values_of,
)
from owlt.reports.looks import HATCHES, LINES, MARKERS, SERIES, STYLE_NAME, TIME, TIME_TITLES
from owlt.reports.results.columns import time_column
from owlt.reports.results.load import load_results
from owlt.reports.results.rows import Row, run_rows
from tests.unit.reports.conftest import SUSPECT

BASE = Specification(y=quantity("goodput"), x=quantity("packet_error_rate"))
ONE_CELL = (Filter(quantity("size"), ("1MB",)), Filter(quantity("delay"), ("25 ms",)))


@pytest.fixture(scope="module")
def rows(demo: Path) -> list[Row]:
    return run_rows(load_results(demo))


def goodputs(rows: list[Row], implementation: str, error_rate: float) -> list[float]:
    """Those of files of 1 MB over 25 ms, in Mbit/s."""
    return [
        row["goodput_bps"] / 1e6
        for row in rows
        if (row["implementation"], row["packet_error_rate"]) == (implementation, error_rate)
        and (row["file_size_bytes"], row["delay_ns"]) == (1_000_000, 25_000_000)
        and row["goodput_bps"] is not None
    ]


def axes_of(rows: list[Row], **changes: Any) -> Axes:
    return drawn(rows, **changes).axes[0]


def drawn(rows: list[Row], **changes: Any) -> Figure:
    return draw_figure(rows, replace(BASE, **{"filters": ONE_CELL, **changes}))


def texts(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(matplotlib.text.Text))  # type: ignore[attr-defined]


def contrast(colour: str) -> float:
    """The contrast of a colour with white (WCAG 2.2)."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)


# What is drawn


def test_bars_are_means_with_their_standard_error(rows: list[Row]) -> None:
    axes = axes_of(rows, kind="bar")
    heights = sorted(patch.get_height() for patch in axes.patches)  # type: ignore[attr-defined]
    means = [np.mean(goodputs(rows, name, rate)) for name in ("cfdp", "norm") for rate in (0, 0.001, 0.01)]

    assert heights == pytest.approx(sorted(means))
    assert len(axes.collections) == 6  # the whiskers


def test_a_line_goes_through_the_medians(rows: list[Row]) -> None:
    axes = axes_of(rows, kind="line", filters=(*ONE_CELL, Filter(quantity("implementation"), ("cfdp",))))
    medians = [float(np.median(goodputs(rows, "cfdp", rate))) for rate in (0, 0.001, 0.01)]

    assert list(axes.lines[0].get_ydata()) == pytest.approx(medians)


def test_every_run_is_a_point_of_a_box_plot_and_a_suspect_one_is_hollow(rows: list[Row]) -> None:
    axes = axes_of(rows)
    numbers = [len(goodputs(rows, name, rate)) for name in ("cfdp", "norm") for rate in (0, 0.001, 0.01)]
    faces = [collection.get_facecolor() for collection in axes.collections for _ in collection.get_offsets()]

    assert len(faces) == sum(numbers)
    assert sum(bool(np.allclose(face[0], 1)) for face in faces) == len([row for row in rows if row["suspect"]]) == 1
    assert SUSPECT in [row["run_id"] for row in rows if row["suspect"]]


def test_the_curve_of_one_with_failures_ends_below_one(rows: list[Row]) -> None:
    axes = axes_of(rows, kind="cdf")
    ends = [float(line.get_ydata()[-1]) for line in axes.lines if line.get_drawstyle() == "steps-post"]

    assert ends == pytest.approx([8 / 9, 8 / 9])  # a failed run of cfdp, a run of norm without a summary


def test_a_heat_map_has_the_medians_as_numbers(rows: list[Row]) -> None:
    figure = drawn(rows, kind="heatmap")

    assert f"{np.median(goodputs(rows, 'norm', 0.001)):.4g}" in texts(figure)
    assert {"cfdp", "norm"} <= {text.get_text() for text in figure.axes[0].get_yticklabels()}


def test_the_map_has_the_candidates_of_each_cell_and_the_best_median(rows: list[Row]) -> None:
    figure = drawn(rows, kind="map", filters=ONE_CELL)
    written = texts(figure).split("\n")

    for rate in (0, 0.001, 0.01):
        best = float(np.median(goodputs(rows, "cfdp", rate)))
        assert f"{best:#.4g}" in written
    assert {"PER", "0", "0.001", "0.01", "cfdp or norm ?", "Highest goodput (Mbit/s)"} <= set(written)


def test_the_text_of_a_narrow_map_stays_in_its_cells(rows: list[Row]) -> None:
    figure = drawn(rows, kind="map", filters=())
    figure.canvas.draw()
    axes = figure.axes[0]
    width = axes.get_window_extent().width / axes.get_xlim()[1]

    assert len(axes.texts) > 12
    assert all(text.get_window_extent().width <= width for text in axes.texts)


def test_undelivered_files_are_stated_at_their_place_and_in_all(rows: list[Row]) -> None:
    text = texts(drawn(rows))

    assert "2/3" in text
    assert "n = 3 each; 1 of 18 runs not completed; 1 suspect" in text


def test_settings_that_differ_within_a_mark_are_stated(rows: list[Row]) -> None:
    pooled = texts(drawn(rows, facets=(quantity("delay"),), filters=()))

    assert "together: file size 100 kB and 1 MB" in " ".join(pooled.split())
    assert "together" not in texts(drawn(rows))


def test_each_value_of_a_facet_has_a_panel_of_the_same_scale(rows: list[Row]) -> None:
    figure = drawn(rows, facets=(quantity("delay"),), filters=ONE_CELL[:1])

    assert [axes.get_title(loc="left") for axes in figure.axes] == ["25 ms", "1250 ms"]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


def test_an_axis_that_spans_decades_has_written_numbers(rows: list[Row]) -> None:
    figure = drawn(rows, facets=(quantity("delay"), quantity("size")), filters=())
    figure.canvas.draw()
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels() if label.get_text()]

    assert figure.axes[0].get_yscale() == "log"
    assert "1" in labels
    assert all(re.fullmatch(r"[0-9.]+", label) for label in labels)


def test_a_filter_does_not_change_the_looks_of_the_rest(rows: list[Row]) -> None:
    line = axes_of(rows, kind="line", filters=(*ONE_CELL, Filter(quantity("implementation"), ("norm",)))).lines[0]

    assert line.get_color() == SERIES[1]


def test_the_looks_follow_the_order_that_is_given(rows: list[Row]) -> None:
    only = (*ONE_CELL, Filter(quantity("implementation"), ("cfdp",)))
    line = axes_of(rows, kind="line", order=("norm", "cfdp"), filters=only).lines[0]

    assert line.get_color() == SERIES[1]


@pytest.mark.parametrize("kind", KINDS)
def test_all_runs_failed_is_a_figure_that_says_so(rows: list[Row], kind: str) -> None:
    failed = [row | {"outcome": "failed", "goodput_bps": None} for row in rows]

    assert "18 of 18 runs not completed" in texts(drawn(failed, kind=kind))


@pytest.mark.parametrize("kind", KINDS)
def test_single_runs_are_drawn(rows: list[Row], kind: str) -> None:
    first = [row for row in rows if row["repetition"] == 1]

    assert "n = " in texts(drawn(first, kind=kind))


def with_time(rows: list[Row], spent_s: Mapping[Kind, float]) -> list[Row]:
    """The rows, with so much time for each kind, in s."""
    return [row | {time_column(kind): round(1e9 * spent_s.get(kind, 0)) for kind in KINDS_OF_TIME} for row in rows]


def test_a_bar_has_its_kinds_one_behind_the_other(rows: list[Row]) -> None:
    bars = axes_of(with_time(rows, {"new data": 2.0, "waiting": 0.5}), kind="time").patches
    parts = {(bar.get_x(), bar.get_width(), to_hex(bar.get_facecolor())) for bar in bars}  # type: ignore[attr-defined]

    assert parts == {(0.0, 2.0, TIME["new data"]), (2.0, 0.5, TIME["waiting"])}
    assert len(bars) == 2 * 6  # two implementations at three error rates


def test_the_legend_of_the_time_has_the_kinds_that_took_any(rows: list[Row]) -> None:
    figure = drawn(with_time(rows, {"new data": 2.0, "waiting": 0.5}), kind="time")

    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        TIME_TITLES["new data"],
        TIME_TITLES["waiting"],
    ]


def test_each_bar_is_named_below_its_value_of_the_axis(rows: list[Row]) -> None:
    axes = axes_of(with_time(rows, {"new data": 2.0}), kind="time")

    assert [label.get_text() for label in axes.get_yticklabels()] == ["cfdp", "norm"] * 3
    assert {"PER 0", "PER 0.001", "PER 0.01", "2.000"} <= {text.get_text() for text in axes.texts}


def test_a_bar_without_a_time_says_so(rows: list[Row]) -> None:
    timed = [row if row["implementation"] == "norm" else with_time([row], {"new data": 2.0})[0] for row in rows]

    assert texts(drawn(timed, kind="time")).count("no time account") == 3


def test_a_bar_says_how_many_of_its_runs_have_a_time(rows: list[Row]) -> None:
    timed = [with_time([row], {"new data": 2.0})[0] if row["repetition"] == 1 else row for row in rows]

    noted = [line for line in texts(drawn(timed, kind="time")).splitlines() if "have a time account" in line]

    assert noted
    assert all(line.split()[:2] == ["1", "of"] for line in noted)


# What print requires


@pytest.mark.parametrize(
    ("kind", "suffix"), [*(("box", suffix) for suffix in FORMATS), *((kind, "svg") for kind in KINDS[1:])]
)
def test_the_same_rows_are_the_same_bytes(rows: list[Row], tmp_path: Path, kind: str, suffix: str) -> None:
    for name in ("one", "other"):
        save_figure(drawn(rows, kind=kind), tmp_path / f"{name}.{suffix}")

    assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"other.{suffix}").read_bytes()


def test_text_is_text_in_svg_and_truetype_in_pdf(rows: list[Row], tmp_path: Path) -> None:
    for suffix in ("svg", "pdf"):
        save_figure(drawn(rows), tmp_path / f"figure.{suffix}")
    svg, pdf = (tmp_path / "figure.svg").read_text(), (tmp_path / "figure.pdf").read_bytes()

    assert re.search(r"<text[^>]*>packet error rate</text>", svg)
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf


@pytest.mark.parametrize("width_mm", [82.55, 88.0, 181.9])
def test_a_figure_has_its_width_and_its_size_of_type(rows: list[Row], tmp_path: Path, width_mm: float) -> None:
    save_figure(drawn(rows, width_mm=width_mm, font_pt=7.0), tmp_path / "figure.svg")
    svg = (tmp_path / "figure.svg").read_text()
    width_pt = re.search(r'width="([\d.]+)pt"', svg)

    assert width_pt is not None
    assert float(width_pt[1]) * 25.4 / 72 == pytest.approx(width_mm, abs=0.01)
    assert "7px" in svg


def test_colours_have_contrast_and_groups_differ_without_them() -> None:
    assert min(map(contrast, SERIES)) >= 3
    for each in (SERIES, MARKERS, HATCHES, LINES):
        assert len(set(each)) == 8


def test_the_style_can_be_used_by_name() -> None:
    with matplotlib.style.context(STYLE_NAME):
        assert matplotlib.rcParams["svg.fonttype"] == "none"
        assert [each["color"] for each in matplotlib.rcParams["axes.prop_cycle"]] == list(SERIES)


# Names, filters, the command


@pytest.mark.parametrize("name", NAMES)
def test_every_short_name_is_a_column_or_computed_from_a_row(rows: list[Row], name: str) -> None:
    asked = quantity(name)

    assert asked.column in rows[0] or asked.derived


def test_a_column_is_a_quantity_with_its_unit() -> None:
    assert quantity("session_s").full_label == "session (s)"
    assert quantity("goodput_bps") == quantity("goodput")
    with pytest.raises(UnknownName):
        quantity("speed")


@pytest.mark.parametrize("text", ["1250 ms", "1250ms", "1250000000"])
def test_a_filter_accepts_values_as_they_are_written(rows: list[Row], text: str) -> None:
    chosen = selected(rows, [Filter(quantity("delay"), (text,))])

    assert {row["delay_ns"] for row in chosen} == {1_250_000_000}


def test_a_filter_that_no_run_passes_names_the_values_that_exist(rows: list[Row]) -> None:
    with pytest.raises(NothingSelected) as problem:
        selected(rows, [Filter(quantity("delay"), ("3 ms",))])

    assert problem.value.values == ("25 ms", "1250 ms")


def test_an_unlimited_rate_is_the_highest() -> None:
    assert values_of([{"rate_bps": None}, {"rate_bps": 1e6}], quantity("rate")) == [1e6, None]


def test_the_command_writes_the_figure(demo: Path, tmp_path: Path) -> None:
    path = tmp_path / "goodput.pdf"
    words = ["--x", "packet_error_rate", "--y", "goodput", "--facet", "delay", "--filter", "implementation=norm,cfdp"]
    result = CliRunner().invoke(app, ["figure", str(demo), *words, "--width", "88mm", "--font", "8pt", "-o", str(path)])

    assert result.stdout.replace("\n", "") == str(path)
    assert path.read_bytes().startswith(b"%PDF")


def test_a_figure_of_the_time_needs_runs_whose_time_is_known(demo: Path) -> None:
    problem = CliRunner().invoke(app, ["figure", str(demo), "--kind", "time", "--x", "per"]).exception

    assert f"no run has a time account; owlt why {demo}" in str(problem)


def test_two_results_directories_are_compared_in_one_figure(demo: Path, tmp_path: Path) -> None:
    lab = Path(shutil.copytree(demo, tmp_path / "lab"))
    for path in lab.glob("runs/*/record.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"rig": "lab", "clock": "real"}))
    drawings = {}
    for name, directories in {"one": [demo], "both": [demo, lab]}.items():
        drawings[name] = tmp_path / f"{name}.svg"
        words = ["--x", "implementation", "--y", "goodput", "--group", "rig", "-o", str(drawings[name])]
        assert CliRunner().invoke(app, ["figure", *map(str, directories), *words]).exit_code == 0

    assert not re.search(r">lab<", drawings["one"].read_text())
    for rig in ("virtual", "lab"):
        assert re.search(rf">{rig}<", drawings["both"].read_text())


def test_a_map_of_several_results_directories_is_refused(demo: Path) -> None:
    problem = CliRunner().invoke(app, ["figure", str(demo), str(demo), "--kind", "map", "--y", "goodput"]).exception

    assert "got several with --kind map, expected one results directory" in str(problem)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--y", "speed"], "--y: got 'speed', expected one of channel"),
        (["--y", "title"], "which is text"),
        (["--kind", "pie"], "--kind: got 'pie', expected one of box"),
        (["--width", "8"], "expected a length from 20mm"),
        (["--theory", "magic"], "expected one of rounds, capacity"),
        (["--y", "rts", "--theory", "rounds"], "expected --y goodput"),
        (["--font", "80pt"], "expected a size from 3pt to 40pt"),
        (["--filter", "delay"], "expected NAME=VALUE"),
        (["--filter", "delay=3ms"], "expected one of 25 ms, 1250 ms"),
        (["--y", ""], "--y: is missing, expected a measure"),
        (["--kind", "time"], "--y: cannot be combined with --kind time"),
        (["-o", "x.gif"], "got 'gif', expected one of pdf, svg, png"),
        (["-o", "x.png", "--format", "pdf"], "a name that ends in .pdf"),
    ],
)
def test_a_mistake_says_what_was_expected(demo: Path, words: list[str], part: str) -> None:
    given = ["figure", str(demo), "--x", "per", *([] if "--y" in words else ["--y", "goodput"]), *words]
    problem = CliRunner().invoke(app, given).exception

    assert isinstance(problem, OwltError)
    assert part in str(problem)


def test_a_theory_is_a_line_through_its_values_and_in_the_legend(rows: list[Row]) -> None:
    figure = drawn(rows, kind="box", theory=("capacity",))
    bound = 8.0 / (8.0 / 10 + 0.025)  # Mbit/s: 1 MB at 10 Mbit/s, and 25 ms

    assert any(np.allclose(np.asarray(line.get_ydata(), float), bound) for line in figure.axes[0].lines)
    assert "capacity" in texts(figure)


@pytest.mark.parametrize("change", [{"forward_coding": "{}"}, {"forward_loss": "{}"}, {"timeline": "{}"}])
def test_a_theory_of_packet_errors_has_no_line_for_other_errors(rows: list[Row], change: Row) -> None:
    row = next(row for row in rows if row["forward_rate_bps"] and not row["forward_loss"])

    assert curve(THEORIES["mathis"], [[row]]) != [None]
    assert curve(THEORIES["mathis"], [[row | change]]) == [None]
