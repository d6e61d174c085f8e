"""Results directories and the dashboard that shows them, without a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from owlt.orchestrator.dashboard.app import Background, new_app
from owlt.orchestrator.dashboard.child_processes import PacketViews, lists_in
from owlt.orchestrator.dashboard.index import Directories, SweepIndex
from owlt.orchestrator.dashboard.missing_packets import main
from owlt.orchestrator.dashboard.protection import Token
from tests.unit.reports.conftest import sweep, write_results

SMALL = sweep(file_size="1 MB", delay="25 ms", packet_error_rate=[0, 0.01], repetitions=3)
"""CFDP and NORM under two conditions; FAILED is one of its runs."""
TOKEN = "secret"
COMPLETED = "cfdp_1MB_10Mbps_25ms_per0_r1"


class Client(FlaskClient):
    """A client that closes the files which it is sent."""

    def open(self, *args: Any, **options: Any) -> Any:
        return super().open(*args, **{"buffered": True, **options})


Shown = Callable[[Path], FlaskClient]


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """The clock of every index of the dashboard that is shown."""
    return Clock()


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A sweep whose first repetitions are recorded."""
    return write_results(tmp_path / "small", SMALL, skip=lambda run: run.repetition > 1)


@pytest.fixture
def shown(tmp_path: Path, clock: Clock) -> Iterator[Shown]:
    """The dashboard of a results directory, and requests to it. Analyses write a page."""

    def analyse(run: Path, out: Path) -> str:
        out.mkdir()
        (out / "packets.csv").write_text("host,frame\n")
        (out / "index.html").write_text(f"<p>{run.name}</p>")
        return ""

    def list_packets(run: Path, out: Path) -> str:
        return "" if main(run, out) == 0 else "the captures cannot be read"

    def client(*results: Path) -> FlaskClient:
        (tmp_path / "kept").mkdir(exist_ok=True)
        directories = Directories(results, new_index=lambda path: SweepIndex(path, clock))
        lists = lists_in(tmp_path / "kept", list_packets)
        dashboard = new_app(
            directories, Background.of(PacketViews(tmp_path / "kept", analyse), lists), token=Token(TOKEN)
        )
        dashboard.test_client_class = Client
        return dashboard.test_client()

    yield client


def ended(future: Future[str]) -> str:
    """The result of an analysis, once it has ended."""
    return future.result(timeout=60)
