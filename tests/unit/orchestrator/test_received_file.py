"""What stands where the received file is to be, told without opening it."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from owlt.orchestrator.hosts.host import Completed, Host
from owlt.orchestrator.run.left_files import ReceivedFile, inspect_received

SPACE_BYTES = 64_000_000


class HostHere(Host):
    """This machine, with stat(1)."""

    def run(self, command: Sequence[str], deadline_s: float = 20.0) -> Completed:
        done = subprocess.run(command, capture_output=True, check=False, timeout=deadline_s)
        return Completed(done.returncode, done.stdout, done.stderr)


def seen(path: Path, run_dir: Path) -> ReceivedFile | None:
    return inspect_received(HostHere(), str(path), str(run_dir), SPACE_BYTES)  # type: ignore[abstract]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "received.bin"


def test_a_regular_file_has_no_fault(place: Path) -> None:
    place.write_bytes(b"1234")

    assert seen(place, place.parent) == ReceivedFile(4)


def test_an_empty_file_has_no_fault(place: Path) -> None:
    place.touch()

    assert seen(place, place.parent) == ReceivedFile(0)


def test_where_there_is_nothing_there_is_no_file(place: Path) -> None:
    assert seen(place, place.parent) is None


def test_a_fifo_is_named(place: Path) -> None:
    os.mkfifo(place)

    file = seen(place, place.parent)

    assert file is not None
    assert file.fault == "is a FIFO, not a regular file"


def test_a_directory_is_named(place: Path) -> None:
    place.mkdir()

    file = seen(place, place.parent)

    assert file is not None
    assert file.fault == "is a directory, not a regular file"


def test_a_socket_is_named(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        file = seen(place, place.parent)

    assert file is not None
    assert file.fault == "is a socket, not a regular file"


@pytest.mark.parametrize("target", ["/etc/passwd", "/dev/zero", "received.bin", "nowhere"])
def test_a_symbolic_link_is_named_wherever_it_leads(place: Path, target: str) -> None:
    place.symlink_to(target)

    file = seen(place, place.parent)

    assert file is not None
    assert file.fault == "is a symbolic link, not a regular file"


def test_a_device_is_named() -> None:
    file = seen(Path("/dev/null"), Path("/dev"))

    assert file is not None
    assert file.fault == "is a character device, not a regular file"


def test_a_file_behind_a_linked_directory_is_not_in_the_run_directory(place: Path) -> None:
    (place.parent / "inbox").symlink_to("/proc/self")

    file = seen(place.parent / "inbox" / "status", place.parent)

    assert file is not None
    assert file.fault.startswith("is not in the run directory")


def test_a_sparse_file_is_reported_with_what_it_says_it_has_and_what_is_there(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(10**12)

    sparse = seen(place, place.parent)

    assert sparse is not None
    assert sparse.fault == (
        "is a sparse file of 1000000000000 bytes, of which 0 are stored; its run directory holds 64000000"
    )
