"""Published runs are analysed in processes, of which any may end."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from owlt.captures.pool import processes
from owlt.orchestrator.run.analysis import Analyses, is_marked


def fail_on_a(directory: Path) -> str:
    """An analysis whose process ends when it meets run a."""
    if directory.name == "a":
        os._exit(1)
    return ""


def test_a_run_whose_analysis_ended_its_process_is_marked_and_later_ones_are_analysed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    results: list[tuple[str, str]] = []
    analyses = Analyses(fail_on_a, lambda: processes(1), lambda *result: results.append(result))
    analyses.start(tmp_path / "a")
    while not is_marked(tmp_path / "a"):
        threading.Event().wait(0.01)

    analyses.start(tmp_path / "b")
    analyses.finish()

    assert is_marked(tmp_path / "a")
    assert not is_marked(tmp_path / "b")
    assert [name for name, problem in results if not problem] == ["b"]
