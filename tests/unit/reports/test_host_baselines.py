"""The host baselines of a sweep on a lab rig, in the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.reports.results.load import HostBaseline, host_baselines_of
from tests.unit.reports.conftest import few, page_text, write_results

SENTENCE = "CPU-bound: the sender may have limited the run, not the channel"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep that was started ten times; the last start was interrupted before its end."""
    results = write_results(tmp_path_factory.mktemp("baselines") / "results", few())
    for place in ("2/before/files", "2/after/files", "10/before/files"):
        write_results(results / "host-baselines" / place, few(repetitions=1, packet_error_rate=0))
    for record in (results / "host-baselines/2/after/files/runs").glob("*/record.json"):
        record.write_text(record.read_text().replace('"suspect": []', f'"suspect": ["{SENTENCE}", "another doubt"]'))
    return results


@pytest.fixture(scope="module")
def baselines(directory: Path) -> tuple[HostBaseline, ...]:
    return host_baselines_of(directory)


def test_they_are_in_the_order_of_the_starts(baselines: tuple[HostBaseline, ...]) -> None:
    assert list(dict.fromkeys(each.start for each in baselines)) == [2, 10]


def test_a_start_that_was_interrupted_has_none_after_it(baselines: tuple[HostBaseline, ...]) -> None:
    assert {(each.start, each.before is None, each.after is None) for each in baselines} == {
        (2, False, False),
        (10, False, True),
    }


def test_a_cpu_bound_one_has_the_reason(baselines: tuple[HostBaseline, ...]) -> None:
    assert {(each.start, tuple(each.cpu_bound)) for each in baselines} == {(2, (SENTENCE,)), (10, ())}


def test_the_report_has_a_table_of_them(directory: Path) -> None:
    text = page_text(directory)

    assert "Host baselines" in text
    assert SENTENCE in text


def test_a_report_without_them_has_no_such_section(tmp_path: Path) -> None:
    assert "Host baselines" not in page_text(write_results(tmp_path / "results", few()))
