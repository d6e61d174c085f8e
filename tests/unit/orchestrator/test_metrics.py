"""The state of a sweep as Prometheus reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.orchestrator.sweep.announcing import METRICS_NAME, MetricsFile, write_metrics
from owlt.orchestrator.sweep.state_reader import read_state
from tests.unit.orchestrator.small_sweep import abort, except_in, go, small_plan, small_workers


def samples(results: Path) -> dict[tuple[str, ...], float]:
    """Every sample of the file by its name and the values of its labels."""
    families = text_string_to_metric_families((results / METRICS_NAME).read_text())
    labels = ("sweep", "implementation", "state")
    return {
        (each.name, *(each.labels[label] for label in labels if label in each.labels)): each.value
        for family in families
        for each in family.samples
    }


def test_every_run_is_counted_once_by_implementation_and_state(tmp_path: Path) -> None:
    plan = small_plan()
    write_plan(plan, tmp_path)
    go(small_workers(plan, except_in(plan.runs[0].run_id, abort)), tmp_path)

    write_metrics(read_state(tmp_path), exit_status=1)

    found = samples(tmp_path)
    assert found["owlt_runs", "small", "cfdp", "completed"] == 5
    assert found["owlt_runs", "small", "cfdp", "aborted"] == 1
    assert sum(value for name, value in found.items() if name[0] == "owlt_runs") == len(plan.runs)
    assert found["owlt_sweep_exit_status", "small"] == 1
    assert found["owlt_sweep_running", "small"] == 0


def test_a_sweep_that_has_not_begun_has_no_times(tmp_path: Path) -> None:
    write_plan(small_plan(), tmp_path)

    write_metrics(read_state(tmp_path))

    assert {name for name, *_ in samples(tmp_path)} == {"owlt_runs", "owlt_runs_suspect", "owlt_sweep_running"}


def test_the_file_is_written_while_a_sweep_runs_and_at_its_end(tmp_path: Path) -> None:
    write_plan(small_plan(), tmp_path)
    metrics = MetricsFile(tmp_path, every_s=3600)
    metrics.start()

    metrics.close(exit_status=3)

    assert samples(tmp_path)["owlt_sweep_exit_status", "small"] == 3


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(small_plan(), tmp_path)
    (tmp_path / METRICS_NAME).mkdir()
    metrics = MetricsFile(tmp_path, every_s=3600)
    metrics.start()

    metrics.close(exit_status=0)

    assert f"owlt: warning: {tmp_path / METRICS_NAME}: Is a directory" in capsys.readouterr().err


def test_a_start_that_was_refused_writes_no_metrics(tmp_path: Path) -> None:
    write_plan(small_plan(), tmp_path)

    MetricsFile(tmp_path).close(exit_status=2)

    assert not (tmp_path / METRICS_NAME).exists()
