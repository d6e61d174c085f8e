"""Published runs are analysed beside the sweep."""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from owlt.orchestrator.run.analysis import MOST_WAITING, Analyse, Analyses, MakeExecutor


def fill_the_disk(directory: Path) -> str:
    raise OSError(28, "No space left on device", str(directory))


class Unfinished(Executor):
    """Never completes anything by itself."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, *_: Any) -> Future[Any]:  # type: ignore[override]
        self.futures.append(Future())
        return self.futures[-1]


class Observed:
    """Analyses, and what they noted."""

    def __init__(self, analyse: Analyse, make_executor: MakeExecutor = lambda: ThreadPoolExecutor(1)) -> None:
        self.results: list[tuple[str, str]] = []
        self.analyses = Analyses(analyse, make_executor, lambda run_id, problem: self.results.append((run_id, problem)))


def test_each_analysis_is_noted_with_its_problem(tmp_path: Path) -> None:
    observed = Observed(lambda directory: "no tshark" if directory.name == "a" else "")

    for name in ("a", "b"):
        observed.analyses.start(tmp_path / name)
    observed.analyses.finish()

    assert observed.results == [("a", "no tshark"), ("b", "")]


def test_a_full_disk_ends_the_sweep(tmp_path: Path) -> None:
    observed = Observed(fill_the_disk)
    observed.analyses.start(tmp_path / "a")

    with pytest.raises(OSError, match="No space left"):
        observed.analyses.finish()
    with pytest.raises(OSError, match="No space left"):
        observed.analyses.start(tmp_path / "b")


def test_a_worker_waits_if_many_runs_wait_for_their_analysis(tmp_path: Path) -> None:
    executor = Unfinished()
    observed = Observed(lambda directory: "", lambda: executor)
    for number in range(MOST_WAITING):
        observed.analyses.start(tmp_path / str(number))
    worker = threading.Thread(target=observed.analyses.start, args=(tmp_path / "one more",))
    worker.start()

    assert len(executor.futures) == MOST_WAITING
    executor.futures[0].set_result("")
    worker.join()
    assert len(executor.futures) == MOST_WAITING + 1


def test_an_analysis_that_cannot_be_noted_ends_the_sweep(tmp_path: Path) -> None:
    def note(run_id: str, problem: str) -> None:
        raise OSError(28, "No space left on device", "journal.jsonl")

    analyses = Analyses(lambda directory: "", lambda: ThreadPoolExecutor(1), note)
    analyses.start(tmp_path / "a")

    with pytest.raises(OSError, match="No space left"):
        analyses.finish()
