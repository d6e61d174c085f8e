"""A sweep whose presentation changes after its runs: what can take effect, and what is reported as unavailable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from owlt.captures.accounting.cutting import is_cut
from owlt.captures.accounting.derived_files import CAPTURES
from owlt.captures.protocols.view import load_view
from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.orchestrator.run.analysis import analyse_runs, unavailable
from owlt.results.record import CaptureCounters, write_record
from tests.conftest import require_command
from tests.unit.captures.making import SESSION
from tests.unit.captures.octets import CFDP
from tests.unit.orchestrator.making import record
from tests.unit.orchestrator.small_sweep import small_plan
from tests.unit.reports.conftest import write_captures


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Results with one run of ten packets, not yet analysed."""
    require_command("tshark")
    directory = tmp_path / "runs" / "a_r1"
    directory.mkdir(parents=True)
    write_captures(directory)
    counters = CaptureCounters(captured=10, received_by_filter=10, dropped_by_kernel=0, dropped_by_interface=0)
    values = {"run_id": "a_r1", "repetition": 1, "file_size_bytes": 2500}
    session = SESSION.model_dump(mode="json")
    write_record(record(**values, session=session, captures={"sender": counters, "receiver": counters}), directory)
    return tmp_path


def analysed(results: Path, keep: str, dissector: Sequence[str] = CFDP) -> list[str]:
    """Write the plan with these values, as a resumed sweep does, analyse, and return what is unavailable."""
    plan = small_plan()
    implementation = plan.implementations["cfdp"].model_copy(update={"dissector": list(dissector)})
    sweep = plan.sweep.model_copy(update={"keep_captures": keep})
    write_plan(plan.model_copy(update={"sweep": sweep, "implementations": {"cfdp": implementation}}), results)
    analyse_runs(results)
    return unavailable(results)


def captures_of(results: Path) -> list[Path]:
    return [results / "runs" / "a_r1" / name for name in CAPTURES]


def test_captures_that_were_kept_in_full_are_cut_when_headers_are_specified_later(results: Path) -> None:
    analysed(results, "full")
    assert not any(map(is_cut, captures_of(results)))

    assert analysed(results, "headers") == []

    assert all(map(is_cut, captures_of(results)))


def test_captures_are_removed_when_none_are_specified_later(results: Path) -> None:
    analysed(results, "headers")

    assert analysed(results, "none") == []

    assert not any(path.exists() for path in captures_of(results))


def test_captures_that_were_cut_are_reported_when_they_are_specified_in_full_later(results: Path) -> None:
    analysed(results, "headers")

    assert analysed(results, "full") == [
        "keep_captures: full: the captures were cut to headers earlier and cannot be restored (1 run)"
    ]


def test_captures_that_were_removed_are_reported_when_headers_are_specified_later(results: Path) -> None:
    analysed(results, "none")

    assert analysed(results, "headers") == [
        "keep_captures: headers: the captures were removed earlier and cannot be restored (1 run)"
    ]


def test_views_are_made_again_with_another_dissector(results: Path) -> None:
    analysed(results, "full", dissector=[])

    assert analysed(results, "full") == []

    view = load_view(results / "runs" / "a_r1")
    assert view is not None
    assert view.dissector == list(CFDP)


def test_a_view_of_an_earlier_dissector_without_captures_is_reported(results: Path) -> None:
    analysed(results, "none", dissector=[])

    assert analysed(results, "none") == [
        "dissector of cfdp: the captures were removed earlier, so the view of an earlier dissector stays (1 run)"
    ]


def test_a_damaged_record_does_not_keep_other_runs_from_being_reported(results: Path) -> None:
    before = analysed(results, "none")
    (results / "runs" / "b_r1").mkdir()
    (results / "runs" / "b_r1" / "record.json").write_text("{")

    assert [*before, *analysed(results, "headers")] == [
        "keep_captures: headers: the captures were removed earlier and cannot be restored (1 run)"
    ]
