"""`owlt dashboard` with more connections than it serves at a time."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.unit.orchestrator.dashboard.conftest import SMALL
from tests.unit.reports.conftest import write_results


def test_slow_clients_keep_nobody_out_however_many_they_are(tmp_path: Path) -> None:
    results = write_results(tmp_path / "small", SMALL, skip=lambda run: run.repetition > 1)
    command = [Path(sys.executable).with_name("owlt"), "dashboard", results, "--port", "0"]
    with ExitStack() as stack:
        program = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(program.terminate)
        assert program.stdout is not None
        url = re.search(r"http://127\.0\.0\.1:(\d+)/", program.stdout.readline())
        assert url
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", int(url[1])), 60)) for _ in range(520)]
        for connection in slow:
            with suppress(OSError):  # it has given way
                connection.sendall(b"GET / HTT")

        with urllib.request.urlopen(url[0], timeout=60) as page:
            assert page.status == 200
        with suppress(ConnectionResetError):
            assert slow[0].recv(100) == b"", "it gave way"
