"""What tests of every level share: capabilities that may be missing on a developer's machine, never in CI.

No test depends on the speed of the machine: examples that hypothesis generates have no deadline.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.typer_commands import make_commands_once

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell that starts the tests in the background has SIGINT ignored, here and in all programs that tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("owlt", deadline=None)
settings.load_profile("owlt")
make_commands_once()
os.fsync = lambda _file: None  # results of tests need not survive a power failure, and there are thousands of records


DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


def _devices() -> dict[str, tuple[int, int]]:
    statuses = {path: Path(path).stat() for path in DEVICES if Path(path).exists()}
    return {path: (status.st_mode, status.st_rdev) for path, status in statuses.items()}


@pytest.fixture(scope="session", autouse=True)
def _devices_stay_as_they_are() -> Iterator[None]:
    """Root's tests, builds and rigs change no device of the machine: /dev/null once became read-only."""
    before = _devices()
    yield
    assert _devices() == before


def require(found: object, capability: str) -> None:
    """Skip, naming the capability that is missing; where CI promises all of them, fail."""
    if found:
        return
    if os.environ.get("CI"):
        pytest.fail(f"missing capability: {capability}")
    pytest.skip(f"missing capability: {capability}")


def require_command(name: str) -> str:
    """The path of a command that a test needs."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    require(path, f"the command {name}")
    assert path is not None
    return path
