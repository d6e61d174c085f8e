"""The dashboard's panel in chromium, of a real emulator in a guest: live counters, changes, and a run that holds it.

The guest has no network to this machine, so each request of `owlt dashboard` is passed on through a file.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from owlt.emulator.service.client import EmulatorClient
from owlt.orchestrator.kernel.kernel import Kernel
from tests.chromium import CHROMIUM, MISSING, Page, browser
from tests.conftest import require
from tests.system.conftest import Guest

SCRIPT = Path(__file__).parent / "guest_scripts" / "served_panel.py"
OWLT = Path(sys.executable).with_name("owlt")
PATIENCE_S = 60.0
CHANNEL_TEXT = "document.querySelector('#emulator')?.textContent"


class Relay(BaseHTTPRequestHandler):
    """Passes requests on to the guest that serves a directory."""

    directory: Path
    numbers = count()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        headers = {name: value for name, value in self.headers.items() if name in ("Content-Type", "X-Owlt-Lease")}
        answer = self.ask(json.dumps({"headers": headers, "body": body}))
        self.send_response(200)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    @classmethod
    def ask(cls, text: str) -> bytes:
        """The guest's answer to a text."""
        draft = cls.directory / f"{next(cls.numbers):06}.new"
        draft.write_text(text)
        draft.rename(draft.with_suffix(".request"))
        answer = draft.with_suffix(".answer")
        wait_for(answer)
        return answer.read_bytes()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def wait_for(path: Path) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < end_s, f"waited for {path.name}"
        time.sleep(0.005)


@contextmanager
def relayed(directory: Path) -> Iterator[str]:
    """The URL of the emulator of a guest that shares a directory."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Relay", (Relay,), {"directory": directory}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Panel:
    """The page of an emulator's panel, opened with the token, and a client of the same emulator."""

    def __init__(self, page: Page, directory: Path, emulator_url: str, address: str) -> None:
        self.page = page
        self._directory = directory
        self.client = EmulatorClient(emulator_url)
        page.call("Page.navigate", url=address)
        page.wait_for("location.search === '' && document.readyState === 'complete'")
        page.open(f"{address.partition('?')[0]}emulator/")

    def qdiscs(self) -> str:
        """The queueing disciplines in the guest's kernel, as tc shows them."""
        return type("Relay", (Relay,), {"directory": self._directory}).ask("tc").decode()

    def change(self, **values: str) -> None:
        """Fill in the form and send it."""
        for name, value in values.items():
            self.page.evaluate(f"document.querySelector('[name={name}]').value = {json.dumps(value)}")
        self.page.evaluate("document.querySelector('form button').click()")


@pytest.fixture(scope="module")
def panel(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Kernel) -> Iterator[Panel]:
    require(CHROMIUM, MISSING)
    directory = tmp_path_factory.mktemp("served")
    with ThreadPoolExecutor(1) as executor, relayed(directory) as url:
        guest = executor.submit(Guest(directory, guest_kernel).run, SCRIPT, clock="real", timeout_s=300)
        try:
            wait_for(directory / "ready")
            command = [str(OWLT), "dashboard", str(directory), "--port", "0", "--emulator", url]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
                assert program.stdout is not None
                addresses = [re.search(r"http://\S+", program.stdout.readline()) for _ in range(2)]
                assert addresses[1]
                with browser(tmp_path_factory.mktemp("chromium")) as new_page:
                    yield Panel(new_page(), directory, url, addresses[1][0])
                program.terminate()
        finally:
            (directory / "end").touch()
        done = guest.result(PATIENCE_S)
    assert done.returncode == 0, done.stderr


def test_the_panel_shows_the_channel_of_the_kernel_and_its_packets_as_they_pass(panel: Panel) -> None:
    packets = (
        "+[...document.querySelectorAll('#emulator tr')].find(each => each.textContent.includes('pipe: packets'))"
        ".children[1].textContent.replace(/\\D/g, '')"
    )
    panel.page.wait_for(f"{CHANNEL_TEXT}?.includes('delay 25 ms, 10 Mbit/s')")
    panel.page.wait_for("document.querySelectorAll('.chart canvas').length === 3")
    before = panel.page.evaluate(packets)

    panel.page.wait_for(f"{packets} > {before + 20}")

    assert panel.page.messages == []


def test_a_change_on_the_panel_is_in_the_kernel(panel: Panel) -> None:
    assert "delay 300ms" not in panel.qdiscs()

    panel.change(delay="300 ms")

    panel.page.wait_for(f"{CHANNEL_TEXT}?.includes('delay 300 ms')")
    assert panel.qdiscs().count("delay 300ms") == 2


def test_while_a_run_holds_the_emulator_a_change_is_refused_and_the_kernel_keeps_its_channel(panel: Panel) -> None:
    panel.client.lease("owlt, sweep demo", 600)
    panel.page.wait_for(f"{CHANNEL_TEXT}?.includes('Held by owlt, sweep demo.')")
    before = panel.qdiscs()

    panel.change(delay="400 ms")

    panel.page.wait_for("document.body?.textContent.includes('the channel is unchanged')")
    assert "owlt, sweep demo holds it" in panel.page.evaluate("document.body.textContent")
    assert panel.qdiscs() == before
