"""The watch of the receiver's file, as it runs on the receiver's host."""

from __future__ import annotations

import hashlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from owlt.agents.probes import watch

CONTENT = bytes(range(256)) * 40


class Watch:
    """One that runs, for the file `x` of a directory."""

    def __init__(self, directory: Path, sha256: str, size_bytes: int = len(CONTENT)) -> None:
        command = [sys.executable, "-I", "-S", watch.__file__, str(directory), "x", sha256, str(size_bytes)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.line() == "watching"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def sleeps(self) -> int:
        """How many times it has gone to sleep."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("voluntary"))

    def end(self) -> str:
        """What it says last."""
        self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=120)
        assert self.process.returncode == 0
        return said.strip().splitlines()[-1]


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Watch]:
    watch = Watch(tmp_path, hashlib.sha256(CONTENT).hexdigest())
    yield watch
    watch.process.kill()
    watch.process.communicate()


def test_a_file_is_complete_once_it_has_the_hash(tmp_path: Path, watching: Watch) -> None:
    (tmp_path / "x").write_bytes(CONTENT[:-1])
    time.sleep(4 * watch.QUIET_S)  # it is compared, and is not the one
    with (tmp_path / "x").open("ab") as file:
        file.write(CONTENT[-1:])

    assert watching.line() == "delivered"


def test_the_last_change_is_between_what_was_before_and_after_it(tmp_path: Path, watching: Watch) -> None:
    begin_ns = time.time_ns()
    (tmp_path / "x").write_bytes(CONTENT)
    assert watching.line() == "delivered"
    end_ns = time.time_ns()

    assert begin_ns <= int(watching.end().removeprefix("last change ")) <= end_ns


def test_a_file_of_another_name_is_no_change(tmp_path: Path, watching: Watch) -> None:
    (tmp_path / "y").write_bytes(CONTENT)

    assert watching.end() == "no change"


def test_a_file_that_was_there_before_is_watched(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(CONTENT[:-1])
    watching = Watch(tmp_path, hashlib.sha256(CONTENT).hexdigest())
    with (tmp_path / "x").open("ab") as file:
        file.write(CONTENT[-1:])

    assert watching.line() == "delivered"
    assert watching.end().startswith("last change ")


def test_what_is_written_to_a_file_that_replaced_another_is_a_change(tmp_path: Path, watching: Watch) -> None:
    (tmp_path / "x").write_bytes(b"an earlier file")
    (tmp_path / "y").write_bytes(CONTENT[:-1])
    with (tmp_path / "y").open("ab") as file:
        (tmp_path / "y").replace(tmp_path / "x")
        file.write(CONTENT[-1:])

    assert watching.line() == "delivered"


def test_what_is_written_to_a_file_that_was_moved_away_is_no_change(tmp_path: Path, watching: Watch) -> None:
    with (tmp_path / "x").open("wb", buffering=0) as file:
        file.write(CONTENT)
        assert watching.line() == "delivered"
        (tmp_path / "x").rename(tmp_path / "y")
        moved_ns = time.time_ns()
        time.sleep(watch.QUIET_S)
        file.write(b"more")

    assert int(watching.end().removeprefix("last change ")) < moved_ns


def test_it_does_not_wake_for_what_is_written_to_another_file(tmp_path: Path, watching: Watch) -> None:
    with (tmp_path / "x.part").open("wb", buffering=0) as file:
        time.sleep(watch.QUIET_S)  # it may wake for the file that is created
        before = watching.sleeps()
        for _ in range(50):
            file.write(b"a piece")
            time.sleep(0.002)  # long enough to wake for each

    assert watching.sleeps() == before


def test_what_is_written_beside_the_file_puts_nothing_off(tmp_path: Path, watching: Watch) -> None:
    (tmp_path / "x").write_bytes(CONTENT)
    ends_s = time.monotonic() + 100 * watch.QUIET_S
    with (tmp_path / "log").open("a") as log:
        while not select.select([watching.process.stdout], [], [], watch.QUIET_S / 4)[0] and time.monotonic() < ends_s:
            print("still here", file=log, flush=True)

    assert time.monotonic() < ends_s
    assert watching.line() == "delivered"


def test_it_ends_when_asked_while_it_compares(tmp_path: Path) -> None:
    comparing = Watch(tmp_path, "0" * 64, 1_000_000_000)
    with (tmp_path / "x").open("wb") as file:
        file.truncate(1_000_000_000)
    time.sleep(2 * watch.QUIET_S)

    assert comparing.end().startswith("last change ")


def test_a_fifo_in_place_of_the_file_is_not_waited_for(tmp_path: Path, watching: Watch) -> None:
    os.mkfifo(tmp_path / "x")
    time.sleep(4 * watch.QUIET_S)
    (tmp_path / "x").unlink()
    (tmp_path / "x").write_bytes(CONTENT)

    assert watching.line() == "delivered"


def test_a_symbolic_link_to_the_same_content_is_not_the_file(tmp_path: Path, watching: Watch) -> None:
    (tmp_path / "y").write_bytes(CONTENT)
    (tmp_path / "x").symlink_to(tmp_path / "y")
    time.sleep(4 * watch.QUIET_S)

    assert "delivered" not in watching.end()


def test_a_file_of_another_size_is_not_read(tmp_path: Path, watching: Watch) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.truncate(1_000_000_000_000)
    time.sleep(4 * watch.QUIET_S)
    with (tmp_path / "x").open("wb") as file:
        file.write(CONTENT)

    assert watching.line() == "delivered"
