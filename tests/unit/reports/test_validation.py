"""The instrument's validation: equivalence tests, clocks pair by pair, rounds and rates against theory, the page."""

from __future__ import annotations

import csv
import random
from collections import Counter
from math import exp, log
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from owlt.reports.comparison.theory import expected_rounds
from owlt.reports.results.columns import NAMES
from owlt.reports.results.rows import Row
from tests.import_graph import PROJECT
from tests.unit.reports.conftest import sweep, write_results
from tests.validation.__main__ import PROFILES, SWEEPS
from tests.validation.clocks import REFERENCE, SETTINGS, clock_cells, clock_statements
from tests.validation.equivalence import (
    Equivalence,
    equivalence,
    equivalence_of_mean,
    outside_of,
    verdict_of,
    verdict_of_all,
)
from tests.validation.page import make_page
from tests.validation.rates import custody_cells, custody_statements, tcp_cells
from tests.validation.rounds import (
    announced_distribution,
    mean_rounds,
    polled_distribution,
    rounds_cells,
    rounds_distribution,
    rounds_of,
    rounds_statements,
)

DRAWS = 4_000


def test_the_test_gives_the_p_values_of_two_one_sided_t_tests() -> None:
    """By hand: mean 1, standard error 0.5 with 4 degrees of freedom, so t is 4 and 2 at the bounds."""
    values = [
        1 + 0.5 * 5**0.5 * z
        for z in (-1.2649110640673518, -0.6324555320336759, 0, 0.6324555320336759, 1.2649110640673518)
    ]

    found = equivalence(values, -1, 2)

    assert found is not None
    assert found.mean == pytest.approx(1)
    assert found.p_inside == pytest.approx(0.0580583, abs=1e-6)  # t of 2 with 4 degrees of freedom, one-sided
    assert (found.low, found.high) == pytest.approx((1 - 2.1318468 * 0.5, 1 + 2.1318468 * 0.5), abs=1e-6)
    assert found.place == "undecided"


def test_a_known_error_gives_the_p_values_of_the_normal_distribution() -> None:
    found = equivalence_of_mean(0.0, 0.5, 10, -1, 2)

    assert found.p_inside == pytest.approx(0.0227501, abs=1e-6)  # z of 2, one-sided
    assert found.high == pytest.approx(0.5 * 1.6448536, abs=1e-6)
    assert found.place == "inside"


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ([0.001, -0.001, 0.0005], "inside"),
        ([0.05, 0.051, 0.049], "outside"),
        ([-0.05, -0.051, -0.049], "outside"),
        ([0.05, -0.05, 0.001], "undecided"),
        ([0.0, 0.0, 0.0], "inside"),
        ([0.02, 0.02], "outside"),
        ([0.0], "undecided"),
    ],
)
def test_a_sample_is_inside_outside_or_undecided(values: list[float], place: str) -> None:
    found = equivalence(values, -0.01, 0.01)

    assert found is not None
    assert found.place == place


def test_no_sample_has_no_test() -> None:
    assert equivalence([], -1, 1) is None
    assert verdict_of(None) == "undecidable"


def test_at_the_bound_one_sample_in_twenty_is_taken_for_inside() -> None:
    """The level of the test, over seeded samples whose true mean is the bound."""
    draw = random.Random(17)
    samples = [[draw.gauss(1, 0.3) for _ in range(8)] for _ in range(DRAWS)]

    inside = sum(found.place == "inside" for each in samples if (found := equivalence(each, -1, 1)))

    assert 0.033 < inside / DRAWS < 0.067  # five standard errors


def of(place: str) -> Equivalence:
    p_inside, p_outside = {"inside": (0.001, 1.0), "outside": (1.0, 0.001), "undecided": (0.5, 0.5)}[place]
    return Equivalence(5, 0.0, -1.0, 1.0, p_inside, p_outside)


@pytest.mark.parametrize(
    ("places", "verdict"),
    [
        (["inside", "inside"], "passed"),
        (["inside", "undecided"], "undecidable"),
        (["inside", "outside"], "failed"),
        (["undecided"], "undecidable"),
        ([], "undecidable"),
    ],
)
def test_a_statement_about_all_cells_needs_each_of_them(places: list[str], verdict: str) -> None:
    assert verdict_of_all([of(place) for place in places]) == verdict


def test_one_cell_in_many_that_is_outside_by_chance_is_not_counted() -> None:
    cells = [Equivalence(5, 0.0, -1.0, 1.0, 0.9, p) for p in (0.03, *[0.5] * 39)]

    assert outside_of(cells) == [False] * 40
    assert outside_of(cells[:1]) == [True]


def simulated_rounds(draw: random.Random, packets: int, loss: float, polled: bool) -> int:
    """One transfer: every round sends what is missing; polled, its last packet until it arrives."""
    missing, rounds = packets, 0
    while missing:
        rounds += 1
        if polled:
            while draw.random() < loss:
                rounds += 1
            missing -= 1
        missing = sum(draw.random() < loss for _ in range(missing))
    return rounds


@pytest.mark.parametrize(("packets", "loss"), [(1, 0.2), (10, 0.2), (40, 0.05)])
@pytest.mark.parametrize("polled", [False, True])
def test_distributions_of_rounds_are_those_of_simulated_transfers(packets: int, loss: float, polled: bool) -> None:
    draw = random.Random(5326)
    counts = Counter(simulated_rounds(draw, packets, loss, polled) for _ in range(DRAWS))

    distribution = (polled_distribution if polled else rounds_distribution)(packets, loss)

    assert sum(distribution) == pytest.approx(1)
    for rounds in range(1, 8):
        share = distribution[rounds]
        assert abs(counts[rounds] / DRAWS - share) < 5 * (share * (1 - share) / DRAWS) ** 0.5 + 1e-4


def test_the_mean_of_the_distribution_is_the_closed_form() -> None:
    assert mean_rounds(rounds_distribution(715, 0.1)) == pytest.approx(expected_rounds(715, 0.1))
    assert mean_rounds(announced_distribution(100, 0.2)) == pytest.approx(
        expected_rounds(100, 0.2) + expected_rounds(2, 0.2) - 1
    )
    assert mean_rounds(polled_distribution(1, 0.2)) == pytest.approx(1 / 0.8)


def row(**values: object) -> Row:
    """A row of the table of runs: 40 kB over 50 ms at 1 Mbit/s, completed."""
    typical = {
        "sweep": "clocks",
        "outcome": "completed",
        "implementation": "ltp",
        "protocol": "LTP",
        "parameters": '{"segment_bytes": 1000}',
        "clock": "exact",
        "seed": 1,
        "delay_ns": 50_000_000,
        "forward_delay_ns": 50_000_000,
        "rtt_ns": 100_000_000,
        "packet_error_rate": 0.05,
        "forward_packet_error_rate": 0.05,
        "forward_rate_bps": 1e6,
        "reverse_rate_bps": 1e6,
        "file_size_bytes": 40_000,
        "session_s": 1.0,
        "goodput_to_delivery_bps": 320_000.0,
        "goodput_bps": 300_000.0,
        "str_sent": 42,
        "str_sent_bytes": 44_000,
        "str_delivered": 40,
        "rts_sent": 20,
        "rts_sent_bytes": 2_000,
    }
    return dict.fromkeys(NAMES) | typical | values


def clock_rows(factors: list[float], suspect: tuple[int, ...] = (), packets: int = 42) -> list[Row]:
    """Pairs on exact and real; a run's time differs from seed to seed much more than between clocks."""
    rows = []
    for seed, factor in enumerate(factors):
        time_s = 1.0 + 0.3 * seed
        busy = "the machine was busy" if seed in suspect else None
        rows += [
            row(seed=seed, session_s=time_s, goodput_to_delivery_bps=320_000 / time_s),
            row(
                seed=seed,
                clock="real",
                session_s=factor * time_s,
                goodput_to_delivery_bps=320_000 / time_s / factor,
                suspect=busy,
                str_sent=packets,
            ),
        ]
    return rows


def verdicts(rows: list[Row], planned: int = 1) -> dict[str, str]:
    return {each.id: each.verdict for each in clock_statements(clock_cells(rows, "real"), "real", planned)}


def test_runs_are_compared_with_those_of_the_same_seed() -> None:
    (session, *_) = clock_cells(clock_rows([1.001, 1.002, 1.003]), "real")

    assert session.test is not None
    assert session.test.mean == pytest.approx(sum(map(log, (1.001, 1.002, 1.003))) / 3)
    assert session.test.place == "inside"


@pytest.mark.parametrize(
    ("factors", "verdict"),
    [
        ([1.001, 1.002, 1.003], "passed"),
        ([1.05, 1.051, 1.052], "failed"),
        ([0.95, 0.951, 0.952], "failed"),
        ([1.0, 1.05, 0.95], "undecidable"),
    ],
)
def test_times_within_one_per_cent_pass(factors: list[float], verdict: str) -> None:
    assert verdicts(clock_rows(factors)) == {
        "real-session-s": verdict,
        "real-delivery-s": verdict,
        "real-str-sent": "passed",
    }


def test_disturbed_runs_decide_nothing_about_times_but_their_packets_count() -> None:
    rows = clock_rows([1.05, 1.051, 1.052], suspect=(0, 1, 2))

    cells = clock_cells(rows, "real")
    assert [cell.disturbed for cell in cells] == [3, 3, 3]
    assert cells[0].test is None
    assert cells[0].of_all is not None
    assert exp(cells[0].of_all.mean) == pytest.approx(1.051, abs=1e-4)
    assert verdicts(rows) == {
        "real-session-s": "undecidable",
        "real-delivery-s": "undecidable",
        "real-str-sent": "passed",
    }


def test_other_numbers_of_packets_fail() -> None:
    assert verdicts(clock_rows([1.0, 1.0, 1.0], packets=43))["real-str-sent"] == "failed"


def test_a_cell_without_runs_leaves_the_statement_open() -> None:
    assert verdicts(clock_rows([1.0, 1.0, 1.0]), planned=2)["real-str-sent"] == "undecidable"


def test_rounds_follow_from_the_time_to_delivery() -> None:
    """Three rounds: 2.5 round trips of 100 ms, and 0.352 s to send 44 kB at 1 Mbit/s."""
    time_s = 0.25 + 0.352

    assert rounds_of(row(goodput_to_delivery_bps=320_000 / time_s)) == pytest.approx(3)


def rounds_rows(counts: list[int], **values: object) -> list[Row]:
    times = [0.352 + 0.05 + 0.1 * (count - 1) for count in counts]
    return [row(goodput_to_delivery_bps=320_000 / time_s, **values) for time_s in times]


def test_rounds_as_the_theory_draws_them_do_not_contradict_it_and_more_do() -> None:
    draw = random.Random(720)
    theory = [simulated_rounds(draw, 40, 0.05, True) for _ in range(30)]

    (cell,) = rounds_cells(rounds_rows(theory))
    (other,) = rounds_cells(rounds_rows([count + 1 for count in theory]))

    assert cell.p > 0.05
    assert other.p < 1e-6
    assert {each.id: each.verdict for each in rounds_statements([other])}["ltp-rounds-cells"] == "failed"


def test_the_p_value_of_one_run_is_its_tail_twice() -> None:
    (cell,) = rounds_cells(rounds_rows([4]))

    assert cell.p == pytest.approx(2 * sum(polled_distribution(40, 0.05)[4:]))


def test_rounds_within_ten_per_cent_on_average_pass() -> None:
    sizes = range(10_000, 50_000, 2_000)
    rows = []
    for size in sizes:
        expected = expected_rounds(size // 1000, 0.05)
        time_s = 0.352 + 0.05 + 0.1 * (1.02 * expected - 1)
        rows.append(row(file_size_bytes=size, goodput_to_delivery_bps=8 * size / time_s))

    found = {each.id: each.verdict for each in rounds_statements(rounds_cells(rows))}

    assert found["ltp-rounds"] == "passed"


def test_runs_that_failed_or_are_suspect_are_no_sample_of_rounds() -> None:
    assert rounds_cells([row(outcome="failed"), row(suspect="the machine was busy")]) == []


def test_tcp_is_compared_with_a_window_that_counts_acknowledged_segments() -> None:
    """Padhye by hand: b = 1, p = 0.05, RTT 0.1084 s with a segment's transmission, T0 0.3084 s."""
    (cell,) = tcp_cells([row(protocol="TCP", goodput_bps=160_000.0)])

    rtt_s = 0.1 + 8 * 44_000 / 42 / 1e6
    slow = (rtt_s + 0.2) * min(1, 3 * (3 * 0.05 / 8) ** 0.5) * 0.05 * (1 + 32 * 0.05**2)
    assert cell.measured == (20.0,)
    assert cell.expected == pytest.approx([1 / (rtt_s * (2 * 0.05 / 3) ** 0.5 + slow)])


def test_all_runs_together_contradict_a_theory_that_no_cell_does() -> None:
    """40 cells of ten runs, one run in eight a round longer than the theory has it."""
    draw = random.Random(34)
    rows = []
    for loss in (0.02 + 0.001 * number for number in range(40)):
        counts = [simulated_rounds(draw, 40, loss, True) + (draw.random() < 1 / 8) for _ in range(10)]
        rows += rounds_rows(counts, forward_packet_error_rate=loss)

    found = {each.id: each.verdict for each in rounds_statements(rounds_cells(rows))}
    assert (found["ltp-rounds-cells"], found["ltp-rounds-pooled"]) == ("passed", "failed")


def test_all_runs_together_do_not_contradict_the_theory_that_drew_them() -> None:
    draw = random.Random(34)
    rows = []
    for loss in (0.02 + 0.001 * number for number in range(40)):
        rows += rounds_rows([simulated_rounds(draw, 40, loss, True) for _ in range(10)], forward_packet_error_rate=loss)

    found = {each.id: each.verdict for each in rounds_statements(rounds_cells(rows))}
    assert found["ltp-rounds-pooled"] == "passed"


def announced_rounds(draw: random.Random, packets: int, loss: float) -> int:
    """One transfer of CFDP: missing data are requested once metadata and EOF are there, which repeat side by side."""
    waiting, rounds = [True, True], 0
    missing = sum(draw.random() < loss for _ in range(packets))
    while any(waiting):
        rounds += 1
        waiting = [each and draw.random() < loss for each in waiting]
    while missing:
        rounds += 1
        missing = sum(draw.random() < loss for _ in range(missing))
    return rounds


def test_the_rounds_of_cfdp_are_those_of_simulated_transfers() -> None:
    draw = random.Random(34)
    counts = [announced_rounds(draw, 40, 0.2) for _ in range(DRAWS)]

    assert sum(counts) / DRAWS == pytest.approx(mean_rounds(announced_distribution(40, 0.2)), abs=0.03)


def test_times_on_a_lab_rig_are_compared_in_seconds() -> None:
    """30 ms more than 2 s are 1.5 %."""
    rows = clock_rows([1.015, 1.0151, 1.0149])
    on_lab = [{**each, "rig": "lab"} if each["clock"] == "real" else each for each in rows]
    statements = clock_statements(clock_cells(on_lab, "lab"), "lab", 1)

    assert verdicts(rows)["real-session-s"] == "failed"
    assert {each.id: each.verdict for each in statements}["lab-session-s"] == "passed"


@pytest.mark.parametrize(("session_s", "verdict"), [(0.1 + 0.0165, "passed"), (0.1 + 0.02, "failed")])
def test_the_last_custody_signal_is_late_by_more_than_ten_per_cent_or_not(session_s: float, verdict: str) -> None:
    """20 signals of 100 bytes at 1 Mbit/s take 16 ms."""
    cells = custody_cells([row(protocol="BP", session_s=session_s)])

    assert cells[0].expected == pytest.approx([0.016])
    assert [each.verdict for each in custody_statements(cells)] == [verdict]


def test_the_page_has_every_statement_and_its_tables(tmp_path: Path) -> None:
    exact, real = (
        write_results(tmp_path / name, sweep(name=name, clock=name.removeprefix("clocks-"), repetitions=2))
        for name in ("clocks-exact", "clocks-real")
    )

    statements = make_page(PROFILES / "page.md", [exact, real], tmp_path / "page")

    page = (tmp_path / "page" / "validation.md").read_text()
    assert "{" not in page
    assert all(f"| {each.states} | **{each.verdict}** |" in page for each in statements)
    with (tmp_path / "page" / "validation-statements.csv").open() as file:
        assert [line["id"] for line in csv.DictReader(file)] == [each.id for each in statements]
    assert (tmp_path / "page" / "validation-clocks.svg").read_text().startswith("<?xml")


def test_without_results_nothing_is_decided(tmp_path: Path) -> None:
    statements = make_page(PROFILES / "page.md", [], tmp_path)

    assert {each.verdict for each in statements} == {"undecidable"}


def test_the_sweeps_of_the_clocks_differ_in_clock_and_rig_only() -> None:
    settings = (REFERENCE, *SETTINGS)
    loaded = [YAML(typ="safe").load((PROFILES / f"clocks-{setting}.yaml").read_text()) for setting in settings]

    for setting, each in zip(settings, loaded, strict=True):
        assert setting == (each.pop("clock") if "rig" not in each else each.pop("rig"))
        assert each.pop("name") == f"clocks-{setting}"
        each.pop("title")
        each.pop("clock", None)
    assert all(each == loaded[0] for each in loaded)


def test_runs_on_a_lab_rig_are_compared_apart_from_those_on_its_clock() -> None:
    rows = clock_rows([1.0, 1.0, 1.0]) + [each | {"rig": "lab"} for each in clock_rows([1.1, 1.081, 1.07])]

    assert verdicts(rows)["real-session-s"] == "passed"
    assert {each.id: each.verdict for each in clock_statements(clock_cells(rows, "lab"), "lab", 1)} == {
        "lab-session-s": "failed",
        "lab-delivery-s": "failed",
        "lab-str-sent": "passed",
    }


def test_every_sweep_has_a_profile() -> None:
    assert all((PROJECT / "profiles" / "validation" / f"{name}.yaml").is_file() for name in SWEEPS)
