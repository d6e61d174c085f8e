"""Analyses of single runs on request: each once, one at a time, not too many."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from owlt.orchestrator.dashboard.child_processes import (
    MOST_KEPT,
    MOST_LISTED_BYTES,
    MOST_WAITING,
    PacketViews,
    TooMany,
    may_list,
)
from tests.unit.orchestrator.dashboard.conftest import ended


def write(_run: Path, out: Path) -> str:
    out.mkdir()
    return ""


def run_directory(root: Path, number: int) -> Path:
    directory = root / f"run-{number}"
    directory.mkdir()
    return directory


def test_a_run_is_analysed_once(tmp_path: Path) -> None:
    views = PacketViews(tmp_path, write)
    run = run_directory(tmp_path, 1)
    first = views.request(run)
    ended(first.ending)

    assert views.request(run) is first
    assert views.view(run) is first


def test_nobody_has_asked_for_a_run_at_first(tmp_path: Path) -> None:
    assert PacketViews(tmp_path, write).view(tmp_path) is None


def test_a_run_that_was_repeated_is_analysed_again(tmp_path: Path) -> None:
    views = PacketViews(tmp_path / "kept", write)
    (tmp_path / "kept").mkdir()
    run = run_directory(tmp_path, 1)
    first = views.request(run)
    ended(first.ending)
    (run / "record.json").write_text("another")

    assert views.view(run) is None


def test_the_reason_of_a_failure_is_kept(tmp_path: Path) -> None:
    view = PacketViews(tmp_path, lambda run, out: "no captures").request(tmp_path)
    ended(view.ending)

    assert view.problem == "no captures"


def test_too_many_waiting_analyses_are_refused(tmp_path: Path) -> None:
    go_on = threading.Event()

    def wait(run: Path, out: Path) -> str:
        go_on.wait(60)
        return ""

    views = PacketViews(tmp_path, wait)
    waiting = [views.request(run_directory(tmp_path, number)) for number in range(MOST_WAITING)]
    try:
        with pytest.raises(TooMany):
            views.request(run_directory(tmp_path, MOST_WAITING))
    finally:
        go_on.set()
    assert [ended(view.ending) for view in waiting] == [""] * MOST_WAITING


def test_the_oldest_analyses_are_removed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    views = PacketViews(tmp_path / "kept", write)
    for number in range(MOST_KEPT + 5):
        ended(views.request(run_directory(tmp_path, number)).ending)

    views.request(run_directory(tmp_path, 100))

    assert len(list((tmp_path / "kept").iterdir())) <= MOST_KEPT + 1


@pytest.mark.parametrize(("is_older", "is_shown"), [(False, True), (True, False)])
def test_an_analysis_that_owlt_analyse_left_beside_a_run_is_shown_unless_the_record_is_newer(
    tmp_path: Path, is_older: bool, is_shown: bool
) -> None:
    run = run_directory(tmp_path, 1)
    (run / "record.json").write_text("{}")
    (run / "analysis").mkdir()
    (run / "analysis" / "index.html").write_text("<p>")
    if is_older:
        os.utime(run / "analysis" / "index.html", ns=(1, 1))

    view = PacketViews(tmp_path, write).view(run)

    assert (view is not None and view.directory == run / "analysis" and view.is_ready) == is_shown


@pytest.mark.parametrize(("size_bytes", "may"), [(MOST_LISTED_BYTES // 2, True), (MOST_LISTED_BYTES // 2 + 1, False)])
def test_long_captures_are_not_read_for_everybody(tmp_path: Path, size_bytes: int, may: bool) -> None:
    for name in ("sender.pcap", "receiver.pcap"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size_bytes)

    assert may_list(tmp_path) == may
