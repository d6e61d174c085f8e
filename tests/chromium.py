"""Debian's chromium without a window, driven over its DevTools protocol: pages as their readers have them."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
MISSING = "chromium is missing: apt-get install chromium"
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
DESKTOP, PHONE = (1400, 1000, 1), (390, 844, 2)
"""Width, height and pixels for each."""


class Refused(Exception):
    """Chromium did not do what it was asked for; the text is its message."""


class Page:
    """One tab, with cookies of its own. `messages` are what its console has shown, errors and warnings only."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests, self._answers = requests, answers
        self._number = 0
        self._rest = b""
        self._session: str | None = None
        self.messages: list[str] = []
        self._context = self.call("Target.createBrowserContext")["browserContextId"]
        tab = self.call("Target.createTarget", url="about:blank", browserContextId=self._context)
        self._session = self.call("Target.attachToTarget", targetId=tab["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, and return its result. Raises Refused."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._requests, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise Refused(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
            if answer.get("sessionId") == self._session:
                self._note(answer)

    def close(self) -> None:
        """Close the tab, and remove its cookies."""
        self._session = None
        self.call("Target.disposeBrowserContext", browserContextId=self._context)

    def look(self, size: tuple[int, int, int] = DESKTOP, dark: bool = False) -> None:
        """Have a screen of this size, and a theme."""
        width, height, scale = size
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=scale > 1
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.wait_until_drawn()

    def wait_until_drawn(self) -> None:
        """Wait until the page has handled what came before, such as another size: its events precede its next frame."""
        self.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn())))")

    def open(self, url: str) -> None:
        """Open an address, and wait until its scripts have run."""
        self.call("Page.navigate", url=url)
        self.wait_for(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, script: str, deadline_s: float = 60.0) -> None:
        """Wait until an expression is true, also in a page that is loaded meanwhile. Raises AssertionError at the
        deadline."""
        end_s = time.monotonic() + deadline_s
        while not self._is_true(script):
            assert time.monotonic() < end_s, f"not true after {deadline_s:g} s: {script}"
            time.sleep(0.05)

    def _is_true(self, script: str) -> bool:
        try:
            return bool(self.evaluate(f"!!({script})"))
        except Refused as problem:
            if "navigated" in str(problem) or "context" in str(problem):
                return False
            raise

    def violations(self) -> list[str]:
        """The violations of accessibility rules that axe-core finds in the page: rule, place, what is wrong."""
        self.wait_until_drawn()
        if not self.evaluate("'axe' in window"):
            self.evaluate(f"{AXE.read_text()}; null")
        result = self.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{rule['id']}: {' '.join(map(str, node['target']))}: {node['failureSummary']}"
            for rule in result["violations"]
            for node in rule["nodes"]
        ]

    def press(self, key: str) -> None:
        """Press a key, such as Tab or Enter."""
        text = {"text": "\r"} if key == "Enter" else {}
        code = {"Tab": 9, "Enter": 13}[key]
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def screenshot(self, path: Path) -> None:
        """What the screen shows, as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._answers, 1 << 16)
            assert part, "chromium has ended"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(line))

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                self.messages.append(str(parameters["args"]))
            case "Runtime.exceptionThrown":
                self.messages.append(str(parameters["exceptionDetails"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                entry = parameters["entry"]
                self.messages.append(f"{entry['text']} {entry.get('url', '')}")


@contextmanager
def browser(profile: Path) -> Iterator[Callable[[], Page]]:
    """Chromium with an empty profile; call it for a page."""
    assert CHROMIUM, MISSING
    read_requests, requests = os.pipe()
    answers, write_answers = os.pipe()

    def connect() -> None:
        os.dup2(read_requests, 103)
        os.dup2(write_answers, 104)
        os.dup2(103, 3)
        os.dup2(104, 4)

    process = subprocess.Popen(
        [CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}"],
        preexec_fn=connect,
        close_fds=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(read_requests)
    os.close(write_answers)
    try:
        yield lambda: Page(requests, answers)
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
        os.close(requests)
        os.close(answers)
