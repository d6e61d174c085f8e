"""Which files of a host on this machine are reached without SSH."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest

from orchestrator.rigs.near_host import WRITING, open_below, place_here

BASE = "/run/owlt/sender"


def test_a_file_of_the_hosts_base_is_reached_directly() -> None:
    assert place_here(f"{BASE}/file-1000.bin", BASE) == PurePosixPath("file-1000.bin")


@pytest.mark.parametrize(
    "path", [f"{BASE}/runs/r1/received.bin", "/etc/passwd", f"{BASE}/../receiver/file", f"{BASE}-2/file"]
)
def test_a_file_that_only_the_host_sees_there_is_reached_over_ssh(path: str) -> None:
    assert place_here(path, BASE) is None


def test_a_file_below_the_directory_is_written_and_read(tmp_path: Path) -> None:
    (tmp_path / "captures").mkdir()
    path = PurePosixPath("captures/sender.pcap")
    with os.fdopen(open_below(tmp_path, path, WRITING), "wb") as file:
        file.write(b"packets")

    with os.fdopen(open_below(tmp_path, path, os.O_RDONLY), "rb") as file:
        assert file.read() == b"packets"


@pytest.mark.parametrize("flags", [os.O_RDONLY, WRITING])
@pytest.mark.parametrize("link", ["file", "directory"])
def test_a_symbolic_link_is_not_followed(tmp_path: Path, flags: int, link: str) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "secret").write_bytes(b"of this machine")
    (tmp_path / "host" / "file").symlink_to(tmp_path / "secret")
    (tmp_path / "host" / "directory").symlink_to(tmp_path)
    path = PurePosixPath("file" if link == "file" else "directory/secret")

    with pytest.raises(OSError):
        open_below(tmp_path / "host", path, flags)

    assert (tmp_path / "secret").read_bytes() == b"of this machine"
