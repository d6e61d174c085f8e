"""Analyses of single runs on request: each once, one at a time, not too many."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from orchestrator.dashboard.pages.packet_views import (
    MOST_KEPT,
    MOST_ROWS,
    MOST_WAITING,
    PacketViews,
    TooMany,
    missing_packets,
)
from tests.unit.orchestrator.dashboard.conftest import ended

HEAD = "host,frame,sent_ns,wire_bytes,fate\n"


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


def test_packets_that_were_not_delivered_are_listed_in_the_order_of_their_departure(tmp_path: Path) -> None:
    rows = ("sender,1,1000000000,100,delivered", "receiver,4,3000000000,60,queue", "sender,2,2000000000,100,corrupted")
    (tmp_path / "packets.csv").write_text(HEAD + "\n".join(rows) + "\n")

    packets, count = missing_packets(tmp_path)

    assert count == 2
    assert [(each.host, each.frame, each.sent_s, each.fate) for each in packets] == [
        ("sender", "2", "1.000000", "corrupted"),
        ("receiver", "4", "2.000000", "queue"),
    ]


def test_only_the_first_packets_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    (tmp_path / "packets.csv").write_text(HEAD + "".join(f"sender,{n},{n},1,lost\n" for n in range(MOST_ROWS + 7)))

    packets, count = missing_packets(tmp_path)

    assert (len(packets), count) == (MOST_ROWS, MOST_ROWS + 7)
