"""Comparisons of results directories held against runs whose change is known: two, and many nights."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner, Result

from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.errors import OwltError
from owlt.reports.answer import change_words as words
from owlt.reports.answer.change_outcome import conditions_of
from owlt.reports.answer.change_tests import Overall, Series, overall_of, series_of
from owlt.reports.answer.change_words import change_text, changed, headline, rest_texts
from owlt.reports.answer.changes import Change, changes_of, labels_of, pairs_of
from owlt.reports.comparison.cells import CRITERIA, GOODPUT, Cell, Criterion, Point, Sample
from owlt.reports.comparison.differences import Ratio
from tests.unit.reports.conftest import change_record, few, write_results
from tests.unit.test_documented_commands import JSON_FIELDS

Values = Sequence[float | None]
"""The goodputs of the runs of one permutation, in Mbit/s; None: the file was not delivered."""
FAST = [1.37, 1.372, 1.368, 1.371, 1.369, 1.373, 1.3705, 1.3695, 1.3715, 1.3685]
(RTS,) = [criterion for criterion in CRITERIA if criterion.slug == "rts"]


def row(goodput: float | None, seed: int, **values: Any) -> dict[str, Any]:
    bps = None if goodput is None else goodput * 1e6
    return {
        "outcome": "failed" if goodput is None else "completed",
        "suspect": "",
        "seed": seed,
        "session_s": bps and 8e6 / bps,
        "goodput_bps": bps,
        "goodput_to_delivery_bps": bps,
        "rts_sent": 10,
        "rts_sent_bytes": 600,
        "str_sent": 1000,
        "str_sent_bytes": 1_090_000,
        **values,
    }


def cells(samples: Mapping[int, Values], name: str = "ltp", first_seed: int = 0) -> list[Cell]:
    """Cells of one implementation by their delay in ms."""
    return [
        Cell(
            Point("", 1e7, delay_ms * 10**6, 1_000_000, 0.01),
            {name: Sample(tuple(row(value, seed) for seed, value in enumerate(values, start=first_seed)))},
        )
        for delay_ms, values in samples.items()
    ]


def times(values: Values, factor: float) -> list[float | None]:
    return [None if value is None else factor * value for value in values]


def compared(
    before: list[Cell], after: list[Cell], criterion: Criterion = GOODPUT, tolerance: float = 0.01
) -> list[Change]:
    return changes_of(pairs_of(before, after), criterion, tolerance)


def change(before: Values, after: Values, **options: Any) -> Change:
    (only,) = compared(cells({25: before}), cells({25: after}, first_seed=100), **options)
    return only


def overall(before: Mapping[int, Values], after: Mapping[int, Values]) -> Overall:
    changes = compared(cells(before), cells(after, first_seed=100))
    (only,) = overall_of(changes, GOODPUT, 0.01)
    return only


# Permutations


@pytest.mark.parametrize(
    ("before", "after", "relation"),
    [
        (FAST, times(FAST, 0.7), "worse"),
        (FAST, times(FAST, 1.3), "better"),
        (FAST, times(FAST, 0.995), "no difference"),
        (FAST, [*FAST[:4], *times(FAST[:6], 1.001)], "no difference"),
        (FAST, [None] * 10, "worse"),
        ([None] * 10, FAST, "better"),
        ([None] * 10, [None] * 10, "no difference"),
        (FAST[:3], times(FAST[:3], 0.5), "too few runs"),
        (FAST, [], "no result"),
    ],
)
def test_the_change_of_a_permutation(before: Values, after: Values, relation: str) -> None:
    assert change(before, after).relation == relation


def test_more_packets_are_worse_where_fewer_are_better() -> None:
    (few,) = cells({25: FAST}, first_seed=100)
    rows = [each | {"rts_sent": 20 + each["seed"]} for each in few.samples["ltp"].rows]
    more = [Cell(few.point, {"ltp": Sample(tuple(rows))})]

    assert compared(cells({25: FAST}), more, RTS)[0].relation == "worse"


def test_the_tolerance_is_a_share_of_the_median() -> None:
    assert change(FAST, times(FAST, 0.96), tolerance=0.05).relation == "no difference"
    assert change(FAST, times(FAST, 0.94), tolerance=0.05).relation == "worse"


def test_equal_medians_of_fewer_delivered_files_are_worse() -> None:
    assert change([*FAST, *FAST], [*FAST, *[None] * 10]).relation == "worse"


def test_runs_of_the_same_seed_with_the_same_packets_and_times_are_identical_even_if_few() -> None:
    (same,) = compared(cells({25: FAST[:1]}), cells({25: FAST[:1]}))

    assert (same.relation, same.identical, same.p_holm) == ("identical", 1, None)


def test_runs_of_other_seeds_are_not_identical() -> None:
    assert change(FAST, FAST).identical == 0


def test_the_correction_is_for_the_number_of_permutations_that_are_tested() -> None:
    raw = change(FAST[:5], times(FAST[:5], 0.7))
    delays = range(1, 11)
    many = compared(cells(dict.fromkeys(delays, FAST[:5])), cells({ms: times(FAST[:5], 0.7) for ms in delays}))

    assert raw.p_holm == pytest.approx(float(stats.mannwhitneyu(FAST[:5], times(FAST[:5], 0.7)).pvalue))
    assert [each.p_holm for each in many] == pytest.approx([10 * (raw.p_holm or 0)] * 10)
    assert {each.relation for each in many} == {"too few runs"}


def test_permutations_of_one_side_are_listed() -> None:
    changes = compared(cells({25: FAST, 50: FAST}), cells({25: FAST, 100: FAST}))

    assert {each.point.delay_ns // 10**6: each.relation for each in changes} == {
        50: "removed",
        25: "identical",
        100: "added",
    }


def test_regressions_come_first_and_of_these_the_largest() -> None:
    after = {25: times(FAST, 0.9), 50: times(FAST, 1.2), 75: times(FAST, 0.5), 100: FAST}
    changes = compared(cells(dict.fromkeys(after, FAST)), cells(after, first_seed=100))

    assert [each.point.delay_ns // 10**6 for each in changes] == [75, 25, 50, 100]


def test_improvements_come_before_all_that_did_not_change_the_largest_first() -> None:
    one = cells({1: FAST, 25: FAST, 50: FAST, 75: FAST})
    other = cells({25: FAST, 50: times(FAST, 1.1), 75: times(FAST, 1.5), 100: FAST}, first_seed=100)
    changes = compared(one, other)

    assert [each.point.delay_ns // 10**6 for each in changes] == [75, 50, 25, 1, 100]


def test_the_loss_of_most_files_is_larger_than_a_small_difference_of_the_medians() -> None:
    half = [*times(FAST, 1.0)[:2], *[None] * 8]
    changes = compared(cells({25: FAST, 50: FAST}), cells({25: times(FAST, 0.7), 50: half}, first_seed=100))

    assert [each.point.delay_ns // 10**6 for each in changes] == [50, 25]


def test_removed_and_added_permutations_have_one_line_each() -> None:
    before = [*cells(dict.fromkeys(range(25, 75), FAST)), *cells({200: FAST}, "cfdp")]
    changes = compared(before, cells({25: times(FAST, 0.5), 300: FAST, 400: FAST}, first_seed=100))

    assert [each.relation for each in changed(changes)] == ["worse"]
    assert rest_texts(changes) == [
        "only before (removed): 50 permutations: ltp 49 of 52, cfdp 1 of 1; 26 ms to 200 ms",
        "only after (added): 2 permutations: ltp 2 of 52; 300 ms and 400 ms",
    ]
    assert rest_texts(changed(changes)) == []


# All cells together


def test_a_change_that_no_cell_shows_alone_shows_in_all_of_them() -> None:
    delays = range(1, 13)
    found = overall(dict.fromkeys(delays, FAST[:2]), {ms: times(FAST[:2], 0.9 + ms / 1000) for ms in delays})

    assert found.relations == {"too few runs": 12}
    assert found.verdict == "worse"
    assert found.not_judged == 0


def test_the_typical_ratio_and_its_interval_are_those_of_the_signed_rank_test() -> None:
    factors = [0.81, 0.86, 0.92, 0.95, 0.97, 1.01, 1.04, 0.79]
    found = overall(
        dict.fromkeys(range(8), FAST[:1]), {ms: times(FAST[:1], factor) for ms, factor in enumerate(factors)}
    )
    assert found.ratio is not None
    logs = np.log(factors)

    assert found.p_holm == pytest.approx(stats.wilcoxon(logs).pvalue)
    means = [(one + other) / 2 for place, one in enumerate(logs) for other in logs[place:]]
    assert found.ratio.value == pytest.approx(exp(np.median(means)))
    for bound in (found.ratio.low, found.ratio.high):  # the test rejects values outside of the interval, and only these
        p_values = [stats.wilcoxon(logs - log(bound) + shift).pvalue for shift in (-1e-6, 1e-6)]
        assert min(p_values) <= 0.05 < max(p_values)


def test_more_undelivered_files_are_worse_by_fishers_test() -> None:
    found = overall({25: [*FAST, *FAST]}, {25: [*FAST, *[None] * 10]})

    assert found.delivers == "worse"
    assert found.p_undelivered == pytest.approx(stats.fisher_exact([[0, 20], [10, 10]]).pvalue)


def test_an_implementation_of_few_cells_with_few_runs_is_not_judged() -> None:
    found = overall({25: FAST[:2]}, {25: times(FAST[:2], 0.5)})

    assert (found.verdict, found.not_judged, found.is_worse) == ("too few cells", 1, False)


@pytest.mark.parametrize("cells", [1, 2, 5])
def test_the_p_value_of_too_few_cells_is_no_number_but_the_number_of_cells(cells: int) -> None:
    found = overall(dict.fromkeys(range(cells), FAST), dict.fromkeys(range(cells), times(FAST, 0.9)))

    assert found.p_holm is not None and found.p_holm > 0.05
    assert words.p_over_cells_text(found) == f"too few cells: {cells} of at least 6"


def test_six_cells_can_show_a_difference_of_one_implementation() -> None:
    found = overall(dict.fromkeys(range(6), FAST), dict.fromkeys(range(6), times(FAST, 0.9)))

    assert (words.p_over_cells_text(found), found.verdict) == ("0.031", "worse")


def test_the_p_value_of_two_runs_of_each_is_their_number() -> None:
    assert words.p_of_change_text(change(FAST[:2], times(FAST[:2], 0.5))) == "too few runs: 2 and 2"


@pytest.mark.parametrize(
    ("p", "text"),
    [(None, "–"), (0.0004, "< 0.001"), (0.031, "0.031"), (0.996, "> 0.99"), (1, "none shown")],
)
def test_a_p_value_is_not_rounded_to_one(p: float | None, text: str) -> None:
    assert words.p_text(p) == text


# Conditions and words


def test_versions_rig_channel_and_parameters_that_differ_are_listed() -> None:
    common = {
        **dict.fromkeys(("channel_name", "duration_ns", "advertised_rate_bps", "advertised_one_way_delay_s"), None),
        **{
            "implementation": "ltp",
            "ip": 4,
            "rate_bps": 1e7,
            "delay_ns": 1,
            "file_size_bytes": 1,
            "packet_error_rate": 0,
        },
        **{"reverse_rate_bps": 1e7, "reverse_delay_ns": 1, "reverse_packet_error_rate": 0},
        **{"sweep": "demo", "rig": "virtual", "clock": "exact", "kernel_version": "6.12", "certificate": "ok"},
    }
    before = common | {
        "owlt_version": "0.1",
        "implementation_version": "1",
        "channel_key": "a",
        "parameters": '{"x": 1}',
    }
    after = common | {
        "owlt_version": "0.2",
        "implementation_version": "1",
        "channel_key": "b",
        "parameters": '{"x": 2}',
    }

    assert [each.text for each in conditions_of([before], [after])] == [
        "version of owlt: 0.1 before, 0.2 after",
        "parameter x of ltp: 1 before, 2 after",
        "settings of the channel, in 1 of 1 permutations; first ltp: a before, b after",
    ]
    assert conditions_of([before], [before]) == []


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (Ratio(0.68, 0.656, 0.704, 0.95), "−32 % (−34 to −30 %)"),
        (Ratio(1.0, 0.97, 1.05, 0.95), "0 % (−3 to +5 %)"),
        (Ratio(12.0, 9.0, 15.0, 0.95), "×12 (+800 % to ×15)"),
        (None, "–"),
    ],
)
def test_a_ratio_in_words(size: Ratio | None, text: str) -> None:
    assert change_text(size) == text


def test_the_headline_names_the_regressions_first() -> None:
    changes = compared(
        cells({25: FAST, 50: FAST[:2]}), cells({25: times(FAST, 0.7), 50: times(FAST[:2], 0.9)}, first_seed=100)
    )

    assert headline(overall_of(changes, GOODPUT, 0.01), changes) == [
        "Worse: ltp in 1 of 2 permutations.",
        "Not judged: 1 permutation (1 with too few runs; at least 5 repetitions are needed).",
    ]


def test_directories_of_the_same_name_have_a_number() -> None:
    assert labels_of([Path("a/demo"), Path("b/demo"), Path("night")]) == ["demo-1", "demo-2", "night"]


# Many nights


def nights(*values: Values) -> Series:
    (series,) = series_of(
        [cells({25: each}, first_seed=100 * night) for night, each in enumerate(values)], GOODPUT, 0.01
    )
    return series


def test_a_step_is_found_at_its_night_with_its_size() -> None:
    slow = times(FAST, 0.7)
    (found,) = nights(FAST, FAST, FAST, slow, slow).changes

    assert found.night == 3
    assert found.is_worse
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(0.7)


def test_a_fall_and_a_recovery_are_two_change_points_and_the_end_is_not_worse() -> None:
    slow = times(FAST, 0.7)
    series = nights(FAST, FAST, slow, slow, FAST, FAST)

    assert [(each.night, each.is_worse) for each in series.changes] == [(2, True), (4, False)]
    assert not series.ended_worse


def test_files_that_are_no_longer_delivered_are_a_change_for_the_worse() -> None:
    (found,) = nights(FAST, FAST, [None] * 10).changes

    assert (found.night, found.is_worse, found.ratio) == (2, True, None)


def test_a_night_without_results_does_not_hide_a_step() -> None:
    assert [each.night for each in nights(FAST, FAST, [], times(FAST, 0.7)).changes] == [3]


def test_chance_makes_change_points_in_at_most_one_history_in_twenty() -> None:
    draw = np.random.default_rng(7)
    histories = [[list(draw.normal(10, 1, 5)) for _ in range(7)] for _ in range(60)]
    false_alarms = sum(bool(nights(*history).changes) for history in histories)

    assert false_alarms <= stats.binom.ppf(0.999, 60, 0.05)


def test_a_step_within_the_tolerance_is_none() -> None:
    slower = times(FAST, 0.995)

    assert nights(FAST, FAST, slower, slower).changes == ()


def test_single_runs_of_few_nights_are_not_testable() -> None:
    assert not nights(FAST[:1], FAST[:1], FAST[:1]).is_testable
    assert nights(FAST, FAST).is_testable


# The command


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two directories of one seed, and a third of another with fewer runs."""
    here = tmp_path_factory.mktemp("compared")
    for name, changes in {"one": {}, "same": {}, "other": {"seed": 7, "repetitions": 2}}.items():
        write_results(here / name, few(implementations="cfdp", **changes))
    return here


def invoked(directories: Path, *words: str) -> Result:
    paths = [word if word.startswith("-") or "%" in word else str(directories / word) for word in words]
    return CliRunner().invoke(app, ["compare", *paths])


def test_the_same_results_are_no_regression(directories: Path) -> None:
    result = invoked(directories, "one", "same")

    assert "No regression is shown." in result.stdout
    assert "identical to one before" in result.stdout


def test_too_few_runs_and_cells_have_their_own_exit_status(directories: Path) -> None:
    result = invoked(directories, "one", "other")

    assert result.exit_code == 5
    assert "Not judged: 2 permutations" in result.stdout


def test_a_regression_is_exit_status_1(directories: Path, tmp_path: Path) -> None:
    before = write_results(tmp_path / "before", few(implementations="cfdp", repetitions=6))
    after = write_results(tmp_path / "after", few(implementations="cfdp", repetitions=6))
    for run in (after / "runs").iterdir():
        change_record(after, run.name, outcome="failed", reason="stopped", reason_code="exited")

    result = CliRunner().invoke(app, ["compare", str(before), str(after)])

    assert result.exit_code == 1
    assert result.stdout.startswith("Worse: cfdp in 2 of 2 permutations and in undelivered files")


@pytest.mark.parametrize("names", [("one", "other"), ("one", "same", "other")])
def test_json_output_has_the_documented_fields(directories: Path, names: tuple[str, ...]) -> None:
    result = invoked(directories, *names, "--json")

    assert set(json.loads(result.stdout)) == JSON_FIELDS["owlt compare"]
    assert json.loads(result.stdout)["exit_status"] == result.exit_code


@pytest.mark.parametrize("names", [("one", "other"), ("one", "same", "other")])
def test_the_page_needs_no_other_file_and_is_the_same_twice(
    directories: Path, tmp_path: Path, names: tuple[str, ...]
) -> None:
    pages = [tmp_path / "first.html", tmp_path / "second.html"]
    for page in pages:
        CliRunner().invoke(app, ["compare", *(str(directories / name) for name in names), "--page", str(page)])

    assert pages[0].read_bytes() == pages[1].read_bytes()
    assert 'src="' not in pages[0].read_text()


def test_a_removed_implementation_is_one_line_in_the_terminal_and_folded_on_the_page(tmp_path: Path) -> None:
    before = write_results(tmp_path / "before", few(implementations=["cfdp", "norm"], repetitions=1))
    after = write_results(tmp_path / "after", few(implementations="cfdp", repetitions=1))
    page = tmp_path / "page.html"

    lines = CliRunner().invoke(app, ["compare", str(before), str(after), "--page", str(page)]).stdout.splitlines()

    assert [line for line in lines if "removed)" in line] == ["only before (removed): 2 permutations: norm 2 of 2"]
    shown, folded = page.read_text().split("<summary>All 4 permutations</summary>")
    assert ">removed</td>" not in shown
    assert "Only before (removed): 2 permutations" in shown
    assert folded.count(">removed</td>") == 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("one",), "two or more"),
        (("one", "missing"), "missing"),
        (("one", "same", "--tolerance=90%"), "--tolerance: got '90%', expected a percentage from 0 to 50"),
        (("one", "same", "--tolerance=0.05"), "--tolerance: got '0.05', expected a percentage with its sign; write"),
        (("one", "same", "--criterion=speed"), "one of goodput"),
    ],
)
def test_mistakes_are_refused(directories: Path, words: tuple[str, ...], expected: str) -> None:
    problem = invoked(directories, *words).exception

    assert isinstance(problem, OwltError)
    assert expected in str(problem)


def test_results_without_a_common_permutation_are_refused(directories: Path, tmp_path: Path) -> None:
    other = write_results(tmp_path / "norm", few(implementations="norm"))
    problem = CliRunner().invoke(app, ["compare", str(directories / "one"), str(other)]).exception

    assert isinstance(problem, OwltError)
    assert "no permutation in common" in str(problem)
