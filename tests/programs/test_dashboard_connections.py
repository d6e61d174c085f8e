"""`owlt dashboard` with more connections than it serves at a time."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.unit.orchestrator.dashboard.conftest import COMPLETED, SMALL
from tests.unit.reports.conftest import write_results


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return write_results(tmp_path / "small", SMALL, skip=lambda run: run.repetition > 1)


@pytest.fixture
def port(results: Path) -> Iterator[int]:
    """The port of the dashboard of these results."""
    command = [Path(sys.executable).with_name("owlt"), "dashboard", results, "--port", "0"]
    with ExitStack() as stack:
        program = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(program.terminate)
        assert program.stdout is not None
        url = re.search(r"http://127\.0\.0\.1:(\d+)/", program.stdout.readline())
        assert url
        yield int(url[1])


def status_of_first_page(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as page:
        return int(page.status)


def test_clients_that_send_slowly_keep_nobody_out_however_many_they_are(port: int) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 60)) for _ in range(520)]
        for connection in slow:
            with suppress(OSError):  # it has given way
                connection.sendall(b"GET / HTT")

        assert status_of_first_page(port) == 200
        with suppress(ConnectionResetError):
            assert slow[0].recv(100) == b"", "it gave way"


@pytest.mark.parametrize(
    ("clients", "part", "requests"),
    [(450, "", 1), (10, "Range: bytes=0-39999999\r\n", 1), (10, "", 2)],
    ids=["files", "parts", "a second answer waits for the first"],
)
def test_clients_that_do_not_read_what_they_asked_for_keep_nobody_out(
    port: int, results: Path, clients: int, part: str, requests: int
) -> None:
    with (results / "runs" / COMPLETED / "large.log").open("wb") as file:
        file.truncate(50_000_000)
    request = f"GET /sweeps/small/runs/{COMPLETED}/files/large.log HTTP/1.1\r\nHost: localhost\r\n{part}\r\n"
    with ExitStack() as stack:
        for _ in range(clients):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
            connection.sendall(requests * request.encode())

        assert status_of_first_page(port) == 200


def test_a_part_of_a_file_is_sent_and_no_more(port: int, results: Path) -> None:
    (results / "runs" / COMPLETED / "some.log").write_text("0123456789")
    url = f"http://127.0.0.1:{port}/sweeps/small/runs/{COMPLETED}/files/some.log"
    asked = urllib.request.Request(url, headers={"Range": "bytes=2-4", "Connection": "close"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        assert (answer.status, answer.headers["Content-Range"], answer.read()) == (206, "bytes 2-4/10", b"234")
