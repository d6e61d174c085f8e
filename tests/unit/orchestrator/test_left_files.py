"""How the files that a side left are named, and the list of them on a host."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from owlt.orchestrator.hosts.host import LIST_FORMAT, Completed, Host, listed_files
from owlt.orchestrator.hosts.near_host import files_here
from owlt.orchestrator.run.left_files import files_left


class Listing(Host):
    """A host on which every command prints the same."""

    def __init__(self, output: bytes) -> None:
        self._output = output

    def run(self, command: Sequence[str], deadline_s: float = 0) -> Completed:
        return Completed(0, self._output, b"")


@pytest.mark.parametrize(
    ("path", "named"),
    [
        (b"/runs/x/a/b", "a/b"),
        (b"/runs/x.room/tmp/a", "/tmp/a"),
        (b"/runs/x.room/shm/a", "/dev/shm/a"),
        (b"/runs/x.room/tmp", "/runs/x.room/tmp"),  # a side has removed its /tmp, and made a file of this name
        (b"/runs/x/with space", "with space"),
    ],
)
def test_a_file_is_named_as_its_side_sees_it(path: bytes, named: str) -> None:
    host = Listing(b"5.5 7 " + path + b"\0")

    assert files_left(host, "/runs/x", 0, []) == [f"{named} (7 B)"]


def test_a_file_that_was_there_before_or_is_known_is_not_left() -> None:
    host = Listing(b"4.9 7 /runs/x/before\x005.5 7 /runs/x/known\x005.5 7 /runs/x/left\0")

    assert files_left(host, "/runs/x", 5_000_000_000, ["known"]) == ["left (7 B)"]


def test_files_are_listed_here_as_find_lists_them(tmp_path: Path) -> None:
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "a" / "deep" / "file with\nlines").write_bytes(b"12345")
    (tmp_path / os.fsdecode(b"latin-\xe4")).write_bytes(b"")
    (tmp_path / "link").symlink_to("/etc")
    os.mkfifo(tmp_path / "fifo")
    given = [str(tmp_path / "a"), str(tmp_path), str(tmp_path / "missing"), str(tmp_path / "fifo")]

    found = subprocess.run(
        ["find", *given, "!", "-type", "d", "-printf", LIST_FORMAT], capture_output=True, check=False
    )

    listed = sorted(files_here(given), key=str)
    assert len(listed) == 6
    assert listed == sorted(listed_files(found.stdout.decode(errors="replace")), key=str)


def test_a_list_of_too_many_files_is_refused(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / str(number)).touch()

    assert len(files_here([str(tmp_path)], 3)) == 3
    with pytest.raises(OSError, match="more files"):
        files_here([str(tmp_path)], 2)


def test_directories_that_are_too_deep_are_refused(tmp_path: Path) -> None:
    place = os.open(tmp_path, os.O_DIRECTORY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_DIRECTORY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)

    with pytest.raises(OSError, match=r"too deep|Too many open files"):
        files_here([str(tmp_path)])
    subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)
