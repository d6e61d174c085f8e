"""Several results directories as one: what is pooled, what is kept apart and why, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from owlt.inputs.mistake import ResultsConflict
from owlt.orchestrator.sweep.combining import CombinedSource, combine
from owlt.reports.comparison.stopping import rule_of
from owlt.reports.results.load import Results, load_results
from owlt.results.record import read_record, write_record
from tests.unit.reports.conftest import few, page_text, plan_of, write_results


def results(directory: Path, **changes: Any) -> Path:
    """Results of the demo sweep at one delay and two error rates, on the clock exact."""
    return write_results(directory, few(**({"repetitions": 2} | changes)))


def pooled(into: Path) -> dict[str, int]:
    """The number of recorded runs by implementation."""
    loaded = load_results(into)
    names = [run.record.implementation for run in loaded.runs]
    return {name: names.count(name) for name in loaded.implementations}


@pytest.fixture
def both(tmp_path: Path) -> tuple[Path, Path]:
    return results(tmp_path / "a"), results(tmp_path / "b", seed=2013)


def combined(both: tuple[Path, Path]) -> tuple[list[CombinedSource], Results]:
    into = both[0].parent / "both"
    return combine(both, into), load_results(into)


def change(directory: Path, **changes: Any) -> None:
    """Change every record of norm."""
    for path in directory.glob("runs/norm_*"):
        write_record(read_record(path).model_copy(update=changes), path)


def test_runs_of_the_same_cell_with_other_seeds_are_pooled(both: tuple[Path, Path]) -> None:
    sources, loaded = combined(both)

    assert [(source.label, source.runs, source.apart) for source in sources] == [("a", 8, {}), ("b", 8, {})]
    assert set(loaded.planned.values()) == {4}
    assert {run.record.seed for run in loaded.runs} == {
        run.seed for directory in (2012, 2013) for run in plan_of(few(repetitions=2, seed=directory)).runs
    }


def test_a_run_with_the_same_seed_and_result_counts_once_on_the_clock_exact(tmp_path: Path) -> None:
    sources = combine([results(tmp_path / "a"), results(tmp_path / "b", repetitions=3)], tmp_path / "both")

    assert [(source.runs, source.duplicates) for source in sources] == [(8, 0), (4, 8)]
    assert pooled(tmp_path / "both") == {"cfdp": 6, "norm": 6}


def test_the_same_seed_on_the_real_clock_is_another_measurement(tmp_path: Path) -> None:
    sources = combine([results(tmp_path / name, clock="real") for name in ("a", "b")], tmp_path / "both")

    assert [(source.runs, source.duplicates) for source in sources] == [(8, 0), (8, 0)]


@pytest.mark.parametrize("others", [0, 1])
def test_a_choice_over_runs_that_ended_when_decided_keeps_the_looks_in_its_error(tmp_path: Path, others: int) -> None:
    decided = {"at_least": 2, "at_most": 5, "until": "decided"}
    sources = [results(tmp_path / "decided", repetitions=decided)]
    sources += [results(tmp_path / f"other-{number}", seed=3000 + number) for number in range(others)]
    combine(sources[::-1], tmp_path / "both")

    assert rule_of(load_results(tmp_path / "both").sweep) == rule_of(load_results(sources[0]).sweep)
    assert rule_of(load_results(sources[0]).sweep).looks == 3


def test_the_same_seed_with_another_result_is_kept_apart_with_the_run(tmp_path: Path) -> None:
    one, other = results(tmp_path / "a"), results(tmp_path / "b")
    change(other, ended_at_ns=1)
    [_, source] = combine([one, other], tmp_path / "both")

    assert source.apart["norm"][0].endswith(f"has the same seed as in {one} and another ended_at_ns")
    assert set(pooled(tmp_path / "both")) == {"cfdp", "norm", "norm+in=b"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"versions": {"kernel": "9"}}, "another kernel than in {a}: 9, 6.12.48 there"),
        (
            {"versions": {"implementation": "libnorm 2"}},
            "another version of the implementation than in {a}: libnorm 2,",
        ),
        ({"advertised": {"rate_bps": 5.0}}, "other advertised values than in {a} in the cell 1MB_10Mbps_25ms_per"),
    ],
)
def test_what_is_not_comparable_is_kept_apart_with_the_reason(
    both: tuple[Path, Path], changes: dict[str, Any], words: str
) -> None:
    change(both[1], **changes)
    sources, loaded = combined(both)

    assert sources[1].apart["norm"][0].startswith(words.format(a=both[0]))
    assert "(b)" in loaded.implementations["norm+in=b"]
    assert set(pooled(both[0].parent / "both").values()) == {8, 4}


def test_another_parameter_or_another_queue_is_another_thing(tmp_path: Path) -> None:
    one = results(tmp_path / "a")
    other = results(tmp_path / "b", seed=2013, parameters={"norm": {"segment_bytes": 500}})
    queue = results(tmp_path / "c", seed=2014, queue_packets=7)
    sources = combine([one, other, queue], tmp_path / "both")

    assert sources[1].apart == {
        "norm": [f"another profile than in {one}: norm.parameters.segment_bytes: 1000 there, 500 here"]
    }
    assert sources[2].apart["cfdp"][0].startswith(f"another channel than in {one} in the cell ")


def test_implementations_and_cells_of_one_directory_alone_are_added(tmp_path: Path) -> None:
    one = results(tmp_path / "a", implementations=["cfdp"])
    other = results(tmp_path / "b", implementations=["norm"], delay="250 ms")
    combine([one, other], tmp_path / "both")

    assert pooled(tmp_path / "both") == {"cfdp": 4, "norm": 4}
    assert {point.delay_ns for point in load_results(tmp_path / "both").planned} == {25_000_000, 250_000_000}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clock": "real"}, "another clock than .*: real, and exact there"),
        ({"file_size": None, "duration": "5 s"}, "another kind of load than .*: durations, and files there"),
    ],
)
def test_sweeps_that_no_page_can_show_together_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ResultsConflict, match=words):
        combine([results(tmp_path / "a"), results(tmp_path / "b", **changes)], tmp_path / "both")

    assert not (tmp_path / "both").exists()


def test_a_directory_that_is_something_else_is_not_replaced(both: tuple[Path, Path]) -> None:
    with pytest.raises(ResultsConflict, match="was not made by 'owlt report' from several directories"):
        combine(both, both[0])

    assert len(list((both[0] / "runs").iterdir())) == 8


def test_the_same_directory_twice_is_refused(both: tuple[Path, Path]) -> None:
    with pytest.raises(ResultsConflict, match="is given twice, expected each directory once"):
        combine([both[0], both[0]], both[0].parent / "both")


def test_a_combined_directory_is_made_again_and_keeps_its_report(both: tuple[Path, Path]) -> None:
    combined(both)
    into = both[0].parent / "both"
    (into / "report").mkdir()
    (into / "report" / "note.txt").write_text("mine")
    combined((both[0], results(both[0].parent / "c", seed=5)))

    assert (into / "report" / "note.txt").read_text() == "mine"
    assert {source.label for source in load_results(into).sources} == {"a", "c"}


def test_the_sources_stay_unchanged_and_files_of_runs_are_hard_links(both: tuple[Path, Path]) -> None:
    before = {path: path.read_bytes() for path in both[0].rglob("*") if path.is_file()}
    _, loaded = combined(both)
    [link] = {
        run.directory / "summary.json" for run in loaded.runs if run.record.run_id == "norm_1MB_10Mbps_25ms_per0.01_r1"
    }

    assert not link.is_symlink()
    assert link.samefile(both[0] / "runs" / link.parent.name / "summary.json")
    assert {path: path.read_bytes() for path in both[0].rglob("*") if path.is_file()} == before


def test_the_page_names_the_directories_and_what_is_not_pooled(both: tuple[Path, Path]) -> None:
    change(both[1], versions={"kernel": "9"})
    combined(both)
    text = page_text(both[0].parent / "both")

    assert f"{both[0]} (sweep demo, seed 2012): 8 runs" in text
    assert f"norm of b: another kernel than in {both[0]}: 9, 6.12.48 there" in text
    assert "<dt>Seed</dt>" not in text
