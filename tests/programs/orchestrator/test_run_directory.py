"""A run directory, made by calls as by commands, in the mount namespace of another process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from owlt.orchestrator.hosts.confinement import (
    MAKE_RUN_DIRECTORY,
    REMOVE_RUN_DIRECTORY,
    make_run_directory,
    remove_run_directory,
)
from owlt.orchestrator.hosts.mount_namespace import Namespaces, mount, unmount
from tests.conftest import require

SIZE_BYTES = 1 << 20
FSTAB = "/dev/mounts"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Namespaces]:
    """The mount namespace of a shell, in which `tmp_path` is an empty file system; its /dev has lists of mounts."""
    require(os.geteuid() == 0, "root: mount namespaces")
    script = f"""set -e
    mount -t tmpfs owlt-test {tmp_path}; mount -t tmpfs owlt-test /dev; mkdir {FSTAB}
    echo first >{FSTAB}/first; echo last >{FSTAB}/last
    echo ready; read end"""
    command = ["unshare", "--mount", "sh", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdin and shell.stdout
        assert shell.stdout.readline() == "ready\n"
        namespace = Namespaces(shell.pid)
        yield namespace
        namespace.close()
        shell.stdin.close()


def by_command(path: str) -> None:
    """As a host's sshd runs it."""
    script = f"umask 022\n{MAKE_RUN_DIRECTORY}"
    subprocess.run(["sh", "-c", script, "sh", path, str(SIZE_BYTES)], check=True)


def by_calls(path: str) -> None:
    """In the mount namespace's thread, which has a umask of its own."""
    make_run_directory(path, SIZE_BYTES)


def described(path: str) -> list[str]:
    """All that can be seen of a run directory, without its own name."""
    above = str(Path(path).parent)
    paths = [above, path, f"{path}.mounts", *(f"{path}.room{below}" for below in ("", "/run", "/tmp", "/shm"))]
    texts = [f"{os.lstat(each).st_mode:o} {os.statvfs(each).f_blocks * os.statvfs(each).f_frsize}" for each in paths]
    columns = "FSTYPE,SOURCE,VFS-OPTIONS,FSROOT"
    for each in (path, f"{path}.room"):
        shown = subprocess.run(["findmnt", "-no", columns, each], capture_output=True, text=True, check=True)
        texts.append(" ".join(shown.stdout.split()))
    texts.append(Path(f"{path}.mounts").read_text())
    return [text.replace(path, "PATH") for text in texts]


@pytest.fixture(autouse=True)
def of_a_private_user() -> Iterator[None]:
    """Whoever starts owlt may have files that nobody else can read."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def test_a_run_directory_made_by_calls_is_as_one_made_by_commands(elsewhere: Namespaces, tmp_path: Path) -> None:
    shapes = []
    for name, make in (("one", by_command), ("two", by_calls)):
        elsewhere.call(make, str(tmp_path / "runs" / name))
        shapes.append(elsewhere.call(described, str(tmp_path / "runs" / name)))

    assert shapes[0] == shapes[1]
    assert f"755 {SIZE_BYTES}" in shapes[0][1]


def removed_by_command(path: str) -> None:
    subprocess.run(["sh", "-c", REMOVE_RUN_DIRECTORY, "sh", path], check=True)


@pytest.mark.parametrize("remove", [removed_by_command, remove_run_directory])
def test_of_a_removed_run_directory_nothing_is_left(
    elsewhere: Namespaces, tmp_path: Path, remove: Callable[[str], None]
) -> None:
    place = tmp_path / "runs"
    elsewhere.call(by_calls, str(place / "one"))
    elsewhere.call((place / "one" / "file").write_bytes, b"received")

    elsewhere.call(remove, str(place / "one"))

    assert elsewhere.call(os.listdir, place) == []
    assert str(place) not in elsewhere.call(Path("/proc/thread-self/mounts").read_text)


def test_a_part_of_a_run_directory_is_removed(elsewhere: Namespaces, tmp_path: Path) -> None:
    elsewhere.call(os.makedirs, tmp_path / "runs" / "one.room")

    elsewhere.call(remove_run_directory, str(tmp_path / "runs" / "one"))

    assert elsewhere.call(os.listdir, tmp_path / "runs") == []


def test_this_process_keeps_its_own_files(elsewhere: Namespaces, tmp_path: Path) -> None:
    elsewhere.call((tmp_path / "theirs").touch)
    (tmp_path / "ours").touch()

    assert [each.name for each in tmp_path.iterdir()] == ["ours"]
    assert elsewhere.call(os.listdir, tmp_path) == ["theirs"]


def test_a_descriptor_that_is_opened_there_is_read_here(elsewhere: Namespaces, tmp_path: Path) -> None:
    elsewhere.call((tmp_path / "theirs").write_bytes, b"packets")

    with os.fdopen(elsewhere.call(os.open, tmp_path / "theirs", os.O_RDONLY), "rb") as file:
        assert file.read() == b"packets"


def test_a_process_that_has_ended_has_no_mount_namespace() -> None:
    with subprocess.Popen(["true"]) as ended:
        pass

    with pytest.raises(OSError):
        Namespaces(ended.pid)


def test_a_call_after_the_end_is_a_lost_connection(elsewhere: Namespaces) -> None:
    elsewhere.close()

    with pytest.raises(ConnectionError, match="namespaces were left"):
        elsewhere.call(os.getcwd)


def test_a_mount_that_is_refused_is_an_error_with_its_place(elsewhere: Namespaces) -> None:
    with pytest.raises(FileNotFoundError, match="/no/such/place"):
        elsewhere.call(mount, "owlt-test", "/no/such/place", "tmpfs", "size=1m")
    with pytest.raises(OSError, match="/proc/self"):
        elsewhere.call(unmount, "/proc/self")
