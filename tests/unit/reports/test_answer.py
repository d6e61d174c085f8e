"""The answer held against cells whose answer is known: verdicts, regions, sentences, the map, the page, the command."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.errors import OwltError
from owlt.reports.answer.answer import Answer, CriterionAnswer, Line, answer_of
from owlt.reports.answer.cell_verdicts import Verdict, verdicts
from owlt.reports.answer.regions import map_of, regions_of
from owlt.reports.answer.sentences import next_text, spread_text, value_text
from owlt.reports.comparison.cells import CRITERIA, GOODPUT, Cell, Point, Sample
from owlt.reports.comparison.choice import Rule
from owlt.reports.comparison.estimates import Level
from owlt.reports.results.columns import NOT_RUN
from tests.unit.reports.conftest import few, measured_row, page_text, write_results
from tests.unit.test_documented_commands import JSON_FIELDS

Values = Mapping[str, Sequence[float | None]]
"""The goodputs of the runs of each implementation, in Mbit/s; None: the file was not delivered."""
FAST = [1.37, 1.372, 1.368, 1.371, 1.369, 1.37, 1.3705, 1.3695, 1.3715, 1.3685]
SLOWER = [0.91, 0.93, 0.9, 0.95, 0.92, 0.97, 0.94, 0.89, 0.96, 0.88]
"""33 % slower."""
NARROW = [1 + 0.0001 * number for number in range(30)]
"""Within 0.3 %."""


def scaled(values: Sequence[float], factor: float) -> list[float]:
    return [factor * value for value in values]


def cell(values: Values, delay_ms: int = 1250, error_rate: float = 0.01, size: int = 1_000_000) -> Cell:
    samples = {
        name: Sample(tuple(measured_row(each, seed) for seed, each in enumerate(of_name)))
        for name, of_name in values.items()
    }
    return Cell(Point("", 1e7, delay_ms * 10**6, size, error_rate), samples)


def verdict_of(values: Values) -> Verdict:
    return verdicts([cell(values)], GOODPUT)[0]


def relations(values: Values) -> dict[str, str]:
    return {each.name: each.relation for each in verdict_of(values).standings}


def by_goodput(*cells: Cell) -> CriterionAnswer:
    answer = answer_of(cells)
    assert answer is not None
    (of_goodput,) = [each for each in answer.by_criterion if each.criterion == GOODPUT]
    return of_goodput


def whole(*cells: Cell) -> Answer:
    answer = answer_of(cells)
    assert answer is not None
    return answer


# Verdicts


def test_one_that_delivered_half_of_its_files_is_never_best() -> None:
    values: Values = {"blast": [*[9.0] * 5, *[None] * 5], "ltp": FAST}

    assert relations(values) == {"ltp": "best", "blast": "undelivered"}


def test_an_undelivered_file_counts_as_the_worst_result() -> None:
    verdict = verdict_of({"blast": [9.0, 9.0, 9.0, None, None], "ltp": [1.0, 1.0, 1.0, 1.0, 1.0]})

    assert verdict.best == "blast"
    assert [(each.name, each.n, each.tried) for each in verdict.standings] == [("blast", 3, 5), ("ltp", 5, 5)]


def test_nothing_is_best_if_all_runs_failed() -> None:
    assert verdict_of({"ltp": [None, None], "cfdp": [None]}).best is None


def test_an_undecided_implementation_says_how_many_runs_would_decide() -> None:
    noisy = [1.0, 1.6, 1.2, 1.5, 0.9, 1.45, 1.1, 1.3, 1.4, 0.8]
    standing = verdict_of({"ltp": noisy, "cfdp": scaled(noisy, 0.9)}).standing("cfdp")

    assert standing is not None
    assert standing.relation == "undecided"
    assert standing.repetitions_needed is not None
    assert 20 < standing.repetitions_needed < 200


def test_the_probability_of_delivery_is_a_criterion_of_its_own() -> None:
    runs: Values = {"blast": [*FAST, *[None] * 20], "ltp": FAST * 3}
    answer = answer_of([cell(runs)])
    assert answer is not None
    (verdict,) = answer.by_criterion[-1].verdicts

    assert verdict.leaders == ("ltp",)
    assert [(each.name, round(each.median or 0, 1)) for each in verdict.standings] == [("ltp", 100), ("blast", 33.3)]


def test_a_file_that_is_delivered_too_late_does_not_count_as_delivered() -> None:
    answer = answer_of([cell({"ltp": FAST * 3, "norm": SLOWER * 3})], within_s=7.0)  # 8 Mbit take 5.8 s and 8.6 s
    assert answer is not None

    assert answer.by_criterion[-1].headline.text.startswith(
        "Take ltp: it has the highest probability of delivery within 7"
    )


def test_of_packets_the_fewest_are_best() -> None:
    few_packets, many = measured_row(1.0) | {"rts_sent": 2}, measured_row(1.0) | {"rts_sent": 9}
    samples = {"many": Sample((many,) * 3), "few": Sample((few_packets,) * 3)}
    (verdict,) = verdicts([Cell(cell({}).point, samples)], CRITERIA[4])

    assert verdict.best == "few"


# Regions


def test_cells_with_the_same_answer_are_one_region() -> None:
    cells = [cell({"ltp": FAST, "norm": SLOWER}, delay, rate) for delay in (25, 1250) for rate in (0, 0.001, 0.01)]
    (region,) = regions_of(verdicts(cells, GOODPUT))

    assert (region.phrase, region.take, len(region.verdicts)) == ("", ("ltp",), 6)


def test_a_region_is_named_by_the_values_that_distinguish_it() -> None:
    cells = [
        cell(
            {"ltp": FAST, "norm": SLOWER} if rate < 0.01 or delay == 25 else {"ltp": SLOWER, "norm": FAST}, delay, rate
        )
        for delay in (25, 1250)
        for rate in (0, 0.001, 0.01)
    ]
    regions = regions_of(verdicts(cells, GOODPUT))

    assert {(region.phrase, *region.take) for region in regions} in (
        {("PER 0 and 0.001", "ltp"), ("25 ms, PER 0.01", "ltp"), ("1250 ms, PER 0.01", "norm")},
        {("25 ms", "ltp"), ("1250 ms, PER 0 and 0.001", "ltp"), ("1250 ms, PER 0.01", "norm")},
    )
    assert sum(len(region.verdicts) for region in regions) == len(cells)


def test_three_neighbouring_values_are_a_range() -> None:
    cells = [
        cell({"ltp": FAST, "norm": SLOWER} if rate else {"ltp": SLOWER, "norm": FAST}, error_rate=rate)
        for rate in (0, 0.001, 0.01, 0.1)
    ]

    assert [region.phrase for region in regions_of(verdicts(cells, GOODPUT))] == ["PER 0", "PER 0.001 to 0.1"]


def test_of_equal_implementations_one_that_delivered_every_file_makes_the_region() -> None:
    failing = cell({"blast": [None] * 30, "ltp": NARROW}, error_rate=0.1)
    (region,) = by_goodput(cell({"blast": NARROW, "ltp": NARROW}), failing).regions

    assert region.region.take == ("ltp",)


def test_cells_in_which_all_lead_are_one_region_whichever_is_best() -> None:
    cells = [
        cell({"ltp": FAST, "cfdp": scaled(FAST, 1 + 0.001 * number)}, error_rate=rate)
        for number, rate in zip((-1, 1, -1), (0, 0.001, 0.01), strict=True)
    ]

    assert [region.phrase for region in regions_of(verdicts(cells, GOODPUT))] == [""]


# Sentences


def test_too_few_runs_recommend_nothing_and_name_all_that_are_not_excluded() -> None:
    answer = by_goodput(cell({"ltp": [0.31] * 4, "norm": [0.31] * 4, "cfdp": [0.31, 0.31, 0.16, 0.15]}))

    assert answer.regions[0].sentences == (
        "Undecided: ltp, norm or cfdp (within 24 % of each other): 235.0 to 310.0 kbit/s (n = 4).",
        "7 repetitions would decide it if the differences are as large as measured.",
    )
    assert answer.headline.text == "Undecided: ltp, norm or cfdp may have the highest goodput; ltp has it so far."


@pytest.mark.parametrize(
    ("delivering", "choice"),
    [
        (["ltp", "norm"], "Undecided: ltp or norm may have the highest goodput; ltp has it so far."),
        (["ltp"], "Undecided: ltp has the highest goodput so far."),
    ],
)
def test_one_that_delivered_nothing_is_no_candidate_even_if_there_are_few_runs(
    delivering: list[str], choice: str
) -> None:
    answer = by_goodput(cell({**dict.fromkeys(delivering, FAST[:2]), "mine": [None, None]}))
    (line,) = answer.lines

    assert (answer.headline.choice, answer.headline.others) == (choice, "mine delivered no file.")
    assert (list(line.names), line.why) == (
        delivering,
        f"mine delivered nothing; 2 runs of each; at least {line.verdict.least_repetitions} are needed",
    )
    assert [(each.name, each.difference) for each in line.others] == [("mine", "0 of 2 delivered")]
    assert answer.regions[0].sentences[-1] == "mine delivered none of 2 files."
    assert "%" not in "".join(answer.regions[0].sentences[1:])


def test_an_undecided_answer_says_how_far_its_best_may_be_behind() -> None:
    noisy = [1.0, 1.6, 1.2, 1.5, 0.9, 1.45, 1.1, 1.3, 1.4, 0.8]

    assert by_goodput(cell({"ltp": noisy, "cfdp": scaled(noisy, 0.95)})).headline.text == (
        "Undecided: ltp or cfdp may have the highest goodput; "
        "ltp has it so far, and is at most 19 % slower than the best."
    )


def test_one_that_is_shown_to_be_the_best_is_recommended() -> None:
    answer = by_goodput(cell({"ltp": FAST, "norm": SLOWER}))

    assert answer.regions[0].sentences[0].startswith("Take ltp: ")
    assert answer.headline.text == (
        "Take ltp: it has the highest goodput, or one within 1 % of it, here. norm is 32 % slower."
    )


def test_if_all_are_equivalent_everywhere_no_name_is_preferred() -> None:
    answer = by_goodput(cell({"ltp": FAST, "norm": FAST}), cell({"ltp": FAST, "norm": FAST}, delay_ms=25))

    assert answer.headline.text == (
        "Take any of them: each has the highest goodput, or one within 1 % of it, in both cells."
    )


def test_a_tie_names_all_that_tie_in_the_headline_the_region_and_the_line() -> None:
    answer = by_goodput(cell({"saratoga": NARROW, "ltp": scaled(NARROW, 0.999), "cfdp": scaled(NARROW, 0.5)}))

    assert answer.headline.text.startswith("Take saratoga or ltp: each has the highest goodput")
    assert answer.regions[0].sentences[0].startswith("Take saratoga or ltp (within 0.1 % of each other)")
    assert answer.lines[0].names == ("saratoga", "ltp")


def test_the_headline_names_the_implementation_of_the_largest_region() -> None:
    tie = {"cfdp": NARROW, "ltp": scaled(NARROW, 0.999)}
    cells = [cell(tie, 25), cell({"cfdp": NARROW, "ltp": scaled(NARROW, 1.2)}, 250), cell(tie, 1250)]
    answer = by_goodput(*cells)

    assert answer.headline.text.startswith(
        "Take ltp: it has the highest goodput, or one within 1 % of it, in all 3 cells."
    )
    assert [region.region.take for region in answer.regions] == [("ltp",)]


def test_cells_that_are_undecided_are_counted_apart_from_the_recommendation() -> None:
    cells = [cell({"ltp": FAST, "norm": SLOWER}), cell({"ltp": FAST, "norm": [0.4, 2.6] * 5}, 25)]

    assert by_goodput(*cells).headline.text == (
        "Take ltp: it has the highest goodput, or one within 1 % of it, in 1 of 2 cells "
        "(1250 ms). Undecided in 1 cell (25 ms): ltp or norm. "
        "norm is 32 % slower where ltp is the choice."
    )


def test_the_greatest_difference_of_a_region_has_its_place() -> None:
    near = cell({"ltp": FAST, "norm": scaled(FAST, 0.8)}, delay_ms=25)
    far = cell({"ltp": FAST, "norm": scaled(FAST, 0.5)}, delay_ms=1250)

    (region,) = by_goodput(near, far).regions

    assert region.sentences[1] == "norm is 20 to 50 % slower (1250 ms)."


def test_a_cell_is_described_with_values_differences_and_their_interval() -> None:
    (region,) = by_goodput(cell({"saratoga": FAST, "ltp": scaled(FAST, 0.999), "norm": SLOWER})).regions

    first, second = region.sentences
    assert first == "Take saratoga or ltp (within 0.1 % of each other): 1.369 to 1.370 Mbit/s (n = 10)."
    assert second == "norm is 32 % slower (29 to 36 %)."


def test_a_small_difference_of_one_that_is_as_good_is_not_called_undecided() -> None:
    far = cell({"ltp": NARROW, "norm": scaled(NARROW, 0.5)}, delay_ms=25)
    near = cell({"ltp": NARROW, "norm": scaled(NARROW, 0.98)}, delay_ms=1250)
    answer = answer_of([far, near], Rule(margin=0.05))
    assert answer is not None
    (region,) = answer.by_criterion[0].regions

    assert region.sentences[1] == "norm is 50 % slower in 1 of 2 cells, elsewhere up to 2 % slower (as good)."


def test_runs_of_cells_with_different_numbers_of_repetitions_are_a_range() -> None:
    cells = [cell({"ltp": FAST, "norm": SLOWER}), cell({"ltp": FAST[:7], "norm": SLOWER[:7]}, 25)]

    assert whole(*cells).sureness.startswith("7 to 10 runs of each in a cell.")


def test_an_undecided_cell_names_first_the_implementation_that_the_headline_recommends() -> None:
    noisy = [1.0, 1.6, 1.2, 1.5, 0.9, 1.45, 1.1, 1.3, 1.4, 0.8]
    cells = [cell({"ltp": FAST, "norm": SLOWER}), cell({"ltp": scaled(noisy, 0.98), "norm": noisy}, 25)]
    answer = by_goodput(*cells)

    assert "Undecided in 1 cell (25 ms): ltp or norm." in answer.headline.choice
    assert answer.lines[0].names == ("ltp", "norm")


def test_undelivered_files_are_stated() -> None:
    (region,) = by_goodput(cell({"ltp": FAST, "blast": [9.0, *[None] * 9]})).regions

    assert region.sentences == ("Take ltp: 1.370 Mbit/s (n = 10).", "blast delivered 1 of 10 files.")


def test_the_headline_says_what_to_take_and_where_it_is_behind() -> None:
    cells = [cell({"ltp": FAST, "norm": SLOWER}, error_rate=rate) for rate in (0, 0.001)]
    cells.append(cell({"ltp": SLOWER, "norm": FAST}, error_rate=0.01))

    assert by_goodput(*cells).headline.text == (
        "Take ltp: it has the highest goodput, or one within 1 % of it, in 2 of 3 cells "
        "(PER 0 and 0.001). Elsewhere norm in 1 cell (PER 0.01). "
        "norm is 32 % slower where ltp is the choice."
    )


def test_the_headline_of_one_that_failed_states_its_failures() -> None:
    answer = by_goodput(cell({"ltp": [*FAST, None], "norm": SLOWER}))

    assert answer.headline.choice.endswith("ltp delivered 10 of 11 files.")


@pytest.mark.parametrize(
    ("runs", "part"),
    [
        (1, "one run in each cell: too few to rule out that a difference is due to chance"),
        (5, "At least 8 repetitions are needed for 4 implementations"),
        (8, "8 runs of each"),
    ],
)
def test_how_sure_the_answer_is_depends_on_the_number_of_runs(runs: int, part: str) -> None:
    names = ("ltp", "cfdp", "norm", "saratoga")

    assert part in whole(cell(dict.fromkeys(names, FAST[:runs]))).sureness


def test_missing_runs_of_all_implementations_are_one_sentence() -> None:
    missing = measured_row(1.0) | {"outcome": NOT_RUN}
    samples = {name: Sample((*(measured_row(each) for each in FAST[:3]), missing)) for name in ("ltp", "cfdp")}

    (region,) = by_goodput(Cell(cell({}).point, samples)).regions

    assert [each for each in region.sentences if "without" in each] == ["Runs without a result yet: 2 of 8."]


def test_a_single_implementation_has_no_answer() -> None:
    assert answer_of([cell({"ltp": FAST})]) is None


def test_large_surpluses_are_times() -> None:
    rows = {"few": 2, "many": 25}
    samples = {name: Sample((measured_row(1.0, rts_sent=number),) * 6) for name, number in rows.items()}
    answer = whole(Cell(cell({}).point, samples))

    assert "many returns 12 times as much." in answer.by_criterion[4].regions[0].sentences


# The map


def test_the_map_has_a_row_for_each_channel_and_a_column_for_each_error_rate_and_size() -> None:
    cells = [
        cell({"ltp": FAST, "norm": SLOWER}, delay, rate, size)
        for delay in (25, 1250)
        for rate in (0, 0.01)
        for size in (100_000, 1_000_000)
        if (delay, rate) != (25, 0.01)
    ]
    table = map_of(by_goodput(*cells).verdicts, whole(*cells).dimensions)

    assert table.heads == (
        ("PER", (("0", 2), ("0.01", 2))),
        ("file", (("100 kB", 1), ("1 MB", 1), ("100 kB", 1), ("1 MB", 1))),
    )
    assert [each.heads for each in table.rows] == [("25 ms",), ("1250 ms",)]
    assert [each is None for each in table.rows[0].verdicts] == [False, False, True, True]


def test_a_cell_of_the_map_has_the_best_value_and_the_next_implementation() -> None:
    verdict = verdict_of({"ltp": FAST, "norm": SLOWER})

    assert (value_text(verdict, GOODPUT), next_text(verdict, GOODPUT)) == ("1.370", "norm −32 %")


def test_a_difference_in_the_map_that_is_undecided_has_a_question_mark() -> None:
    verdict = verdict_of({"ltp": FAST, "norm": scaled(FAST, 0.99)})

    assert next_text(verdict, GOODPUT) == "norm −1 % ?"


# Lines and details


def line_of(*cells: Cell) -> list[Line]:
    return list(by_goodput(*cells).lines)


def test_there_is_a_line_for_each_cell_in_the_order_of_the_grid() -> None:
    cells = [cell({"ltp": FAST, "norm": SLOWER}, delay_ms, rate) for rate in (0.01, 0) for delay_ms in (1250, 25)]

    assert [line.places for line in line_of(*cells)] == [
        ("25 ms", "0"),
        ("25 ms", "0.01"),
        ("1250 ms", "0"),
        ("1250 ms", "0.01"),
    ]


def test_a_line_says_what_to_take_how_far_the_others_are_behind_and_that_it_is_sure() -> None:
    (line,) = line_of(cell({"ltp": FAST, "norm": SLOWER}))

    assert (line.names, line.is_any, line.is_undecided) == (("ltp",), False, False)
    assert [(each.name, each.difference) for each in line.others] == [("norm", "−32 % (−30 to −35 %)")]
    assert (line.sureness, line.why) == ("sure", "norm worse (p = 0.002)")


def test_a_line_keeps_undelivered_files_apart_from_differences() -> None:
    (line,) = line_of(cell({"ltp": FAST, "norm": SLOWER, "blast": [None] * 10}))

    assert line.why == "norm worse (p = 0.0059); blast delivered nothing"


def test_a_line_of_too_few_runs_says_how_many_are_needed() -> None:
    (line,) = line_of(cell({"ltp": FAST[:3], "norm": SLOWER[:3]}))

    assert line.is_undecided
    assert (line.sureness, line.why) == ("not sure", "3 runs of each; at least 6 are needed")


def test_a_line_is_partly_sure_if_some_are_excluded_and_the_others_are_undecided() -> None:
    noisy = [1.2, 1.6, 1.3, 1.5, 1.1]
    (line,) = line_of(cell({"ltp": FAST, "norm": scaled(FAST, 0.3), "cfdp": noisy * 2}))

    assert (line.names, line.sureness) == (("ltp", "cfdp"), "partly sure")
    assert line.why.startswith("norm worse (p ")
    assert "undecided between ltp and cfdp: ltp, the best so far, is at most" in line.why


def test_a_line_of_implementations_that_are_equivalent_takes_any() -> None:
    (line,) = line_of(cell({"ltp": NARROW, "cfdp": scaled(NARROW, 0.999)}))

    assert (line.is_any, line.others) == (True, ())
    assert (line.sureness, line.why) == ("sure", "all are shown to be equivalent")


def test_a_line_of_equal_implementations_with_one_run_is_not_sure() -> None:
    (line,) = line_of(cell({"ltp": FAST[:1], "cfdp": FAST[:1]}))

    assert (line.is_undecided, line.sureness) == (True, "not sure")
    assert line.why == "one run of each; at least 6 are needed"


def test_a_line_of_a_cell_with_runs_of_one_implementation_says_which_are_missing() -> None:
    whole_cell = cell({"ltp": FAST, "norm": SLOWER})
    missing = Sample(tuple(measured_row(None) | {"outcome": NOT_RUN} for _ in range(10)))
    (line,) = line_of(Cell(whole_cell.point, whole_cell.samples | {"norm": missing}))

    assert (line.names, line.others, line.sureness) == (("ltp",), (), "not sure")
    assert line.why == "no run yet of norm"


def test_a_line_of_a_cell_without_deliveries_takes_none() -> None:
    (line,) = line_of(cell({"ltp": [None] * 10, "norm": [None] * 10}))

    assert (line.names, line.best) == ((), None)


def test_the_runs_at_each_of_few_levels_are_stated_with_their_mean() -> None:
    verdict = verdict_of({"ltp": [1.0] * 7 + [0.5] * 3, "norm": scaled(FAST, 0.1)})
    standing = verdict.standing("ltp")

    assert standing is not None
    assert standing.levels == (Level(3, 0.5, 0.5), Level(7, 1.0, 1.0))
    assert spread_text(standing, GOODPUT) == "mean: 3 of 10 runs at 500.0 kbit/s and 7 of 10 runs at 1.000 Mbit/s"


def test_identical_runs_are_called_so_instead_of_having_an_interval() -> None:
    standing = verdict_of({"ltp": [0.8619] * 10, "norm": SLOWER}).standing("ltp")

    assert standing is not None
    assert spread_text(standing, GOODPUT) == "identical in all 10 runs"


def test_a_line_shows_the_best_median_even_if_another_implementation_is_named_first() -> None:
    cells = [cell({"ltp": NARROW, "cfdp": scaled(NARROW, 0.999)}), cell({"ltp": SLOWER, "cfdp": FAST}, 250)]
    line = by_goodput(*cells).lines[1]

    assert line.names == ("cfdp", "ltp")
    assert line.best is not None
    assert line.best.name == "ltp"


def test_differences_that_are_shown_are_not_mixed_with_larger_ones_that_are_undecided() -> None:
    noisy = [0.1, 0.2, 1.6, 0.3, 1.9] * 2
    cells = [
        cell({"ltp": FAST, "norm": SLOWER, "cfdp": of_cfdp}, delay) for delay, of_cfdp in ((250, SLOWER), (1250, noisy))
    ]
    regions = by_goodput(*cells).regions

    assert [region.region.is_undecided for region in regions] == [False, True]


def test_the_answer_counts_the_cells_in_which_it_is_sure() -> None:
    cells = [cell({"ltp": FAST, "norm": SLOWER}), cell({"ltp": FAST, "norm": [0.4, 1.6] * 5}, 250)]

    assert by_goodput(*cells).certainty == "Sure in 1 of 2 cells, not sure in 1."


def test_a_difference_that_is_farthest_behind_and_undecided_is_marked() -> None:
    cells = [cell({"ltp": FAST, "norm": SLOWER}), cell({"ltp": FAST, "norm": [0.1, 0.2, 1.6, 0.3, 1.9] * 2}, 250)]
    norm = next(each for each in by_goodput(*cells).summaries if each.name == "norm")

    assert not norm.is_farthest_shown


# The page and the command


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_results(tmp_path_factory.mktemp("answer") / "results", few())


def test_the_page_shows_the_answer_before_anything_else(results: Path) -> None:
    page = page_text(results)

    assert page.index('id="answer"') < page.index('id="glance"') < page.index('id="experiment"')
    assert page.count('name="criterion"') == len(CRITERIA)
    assert page.count(" checked>") == 1


def test_the_box_plot_of_an_abbreviated_measure_has_the_name_of_its_button(results: Path) -> None:
    page = page_text(results)

    assert "<strong>Packets sent (STR)</strong>" in page
    assert "<strong>Goodput</strong>" in page


def test_each_cell_of_the_map_has_its_box_plots(tmp_path: Path) -> None:
    asked = few(implementations=["cfdp", "ltp", "norm"], repetitions=1, file_size=["100 kB", "1 MB"])
    page = page_text(write_results(tmp_path, asked))
    cells = re.findall(r'class="cell" data-places=\'([^\']*)\'', page)
    links = re.findall(r'class="link"(?: hidden)? data-places=\'([^\']*)\'', page)
    panels = re.findall(r'<tbody data-value="([^"]*)">', page)

    assert [json.loads(cell) for cell in cells] == [
        ["0", "100 kB"],
        ["0", "1 MB"],
        ["0.01", "100 kB"],
        ["0.01", "1 MB"],
    ] * len(CRITERIA)
    assert sorted(json.loads(link) for link in links) == sorted([["", "1 MB"], ["", "100 kB"]] * len(CRITERIA))
    assert panels == ["0", "0.01"] * 2 * len(CRITERIA)


def test_the_page_of_a_single_implementation_has_box_plots_and_no_answer(tmp_path: Path) -> None:
    page = page_text(write_results(tmp_path, few(implementations="cfdp")))

    assert 'class="headline"' not in page
    assert page.count('class="link"') == len(CRITERIA)


def test_the_command_prints_the_headline_and_the_regions(results: Path) -> None:
    printed = CliRunner().invoke(app, ["answer", str(results)]).stdout

    assert printed.startswith("Undecided in both cells: ")
    assert "may be taken in" in printed


def test_the_command_prints_json_with_the_documented_fields(results: Path) -> None:
    printed = CliRunner().invoke(app, ["answer", str(results), "--criterion", "rts", "--json"]).stdout
    value = json.loads(printed)

    assert set(value) == JSON_FIELDS["owlt answer"]
    assert value["criterion"] == "rts"
    assert {each["name"] for each in value["verdicts"][0]["standings"]} == {"cfdp", "norm"}


def test_an_unknown_criterion_is_refused_with_those_that_exist(results: Path) -> None:
    problem = CliRunner().invoke(app, ["answer", str(results), "--criterion", "speed"]).exception

    assert isinstance(problem, OwltError)
    assert "got 'speed', expected one of goodput, " in str(problem)


def test_the_headline_names_those_that_tie_in_some_cells_and_how_far_the_others_are_behind() -> None:
    tie = {"ltp": NARROW, "norm": scaled(NARROW, 0.999), "cfdp": scaled(NARROW, 0.5)}
    cells = [
        cell(tie, 25),
        cell(tie, 250),
        cell({"ltp": NARROW, "norm": scaled(NARROW, 0.6), "cfdp": NARROW[:0]}, 1250),
    ]

    assert by_goodput(*cells[:2]).headline.text.endswith("in both cells. cfdp is 50 % slower.")
    assert by_goodput(*cells[:2], cell(tie | {"norm": scaled(NARROW, 0.6)}, 1250)).headline.others.startswith(
        "As good: norm in 2 of the 3 cells."
    )


WHY = "IPv6; the profile's ip_versions are IPv4"


def with_unsupported(runs: int, failed: int = 0) -> Cell:
    """ltp, and norm with so many unsupported and failed runs; all others are delivered."""
    rows = [measured_row(None, outcome="unsupported", reason=WHY)] * runs + [measured_row(None)] * failed
    delivered = tuple(measured_row(value) for value in SLOWER[len(rows) :])
    return Cell(
        Point("", 1e7, 10**6, 10**6, 0.0),
        {"ltp": cell({"ltp": FAST}).samples["ltp"], "norm": Sample((*rows, *delivered))},
    )


def test_an_implementation_that_is_unsupported_is_so_with_its_reason() -> None:
    answer = by_goodput(with_unsupported(len(SLOWER)))

    assert answer.regions[0].sentences[-1] == f"norm is unsupported: {WHY}."
    assert (answer.lines[0].why, answer.lines[0].others[0].difference) == (f"norm is unsupported: {WHY}", "unsupported")
    assert answer.lines[0].sureness == "sure"


def test_unsupported_runs_are_counted_apart_from_undelivered_files() -> None:
    answer = by_goodput(with_unsupported(runs=2, failed=1))
    (norm,) = [each for each in answer.summaries if each.name == "norm"]

    assert (norm.unsupported, norm.undelivered.count, norm.undelivered.n) == (2, 1, len(SLOWER) - 2)  # type: ignore[union-attr]
    assert f"norm is unsupported in 2 of {len(SLOWER)} runs: {WHY}." in answer.regions[0].sentences
    assert f"norm delivered {len(SLOWER) - 3} of {len(SLOWER) - 2} files." in answer.regions[0].sentences
