"""Which files of a host on this machine are opened directly, and what typing into a closed terminal does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from owlt.orchestrator.hosts.near_host import WRITING, NearSession, open_below


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path / "host"
    (base / "captures").mkdir(parents=True)
    return base


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_file_below_the_directory_is_written_and_read(base: Path) -> None:
    path = str(base / "captures" / "sender.pcap")
    with os.fdopen(open_below(str(base), path, WRITING), "wb") as file:
        file.write(b"packets")

    with os.fdopen(open_below(str(base), path, os.O_RDONLY), "rb") as file:
        assert file.read() == b"packets"


@pytest.mark.parametrize("flags", [os.O_RDONLY, WRITING])
@pytest.mark.parametrize("link", ["file", "directory/secret"])
def test_a_symbolic_link_is_not_followed(base: Path, flags: int, link: str) -> None:
    secret = base.parent / "secret"
    secret.write_bytes(b"of this machine")
    (base / "file").symlink_to(secret)
    (base / "directory").symlink_to(base.parent)

    with pytest.raises(OSError):
        open_below(str(base), str(base / link), flags)

    assert secret.read_bytes() == b"of this machine"


@pytest.mark.parametrize("path", ["/etc/passwd", "{base}", "{base}/../secret", "{base}-2/file"])
def test_a_path_that_is_not_below_the_directory_is_refused(base: Path, path: str) -> None:
    (base.parent / "secret").touch()

    with pytest.raises(OSError, match="not below"):
        open_below(str(base), path.format(base=base), os.O_RDONLY)


@pytest.mark.parametrize("kind", ["FIFO", "directory"])
def test_what_is_no_regular_file_is_refused_and_leaves_nothing_open(base: Path, kind: str) -> None:
    if kind == "FIFO":
        os.mkfifo(base / "received.bin")
    else:
        (base / "received.bin").mkdir()
    before = open_files()

    with pytest.raises(OSError, match="not a regular file"):
        open_below(str(base), str(base / "received.bin"), os.O_RDONLY)

    assert open_files() == before


def test_typing_into_a_terminal_that_nobody_has_open_any_more_raises_an_oserror() -> None:
    ours, theirs = os.openpty()
    os.close(theirs)
    session = NearSession(subprocess.Popen(["true"], start_new_session=True), os.fdopen(ours, "r+b", 0), None)

    assert session.recv(1) == b""
    with pytest.raises(OSError, match="its terminal is closed"):
        session.sendall(b"quit\n")
