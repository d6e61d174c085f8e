"""A run goes into one file, and from that file the same packets come again: elsewhere, and by another user."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from owlt.orchestrator.kernel.kernel import Kernel
from owlt.results.capsule import Manifest, write_capsule
from tests.commands import OWLT
from tests.system.sweeps import copy_project, owlt, perform

NOBODY = 65534
USUAL_OPEN_FILES = 1024
"""The soft limit of an ordinary user's shell."""


@pytest.fixture(scope="module")
def capsule(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Kernel) -> Path:
    """The capsule of a transfer of 100 kB in which packets were lost."""
    directory = tmp_path_factory.mktemp("recorded")
    done = perform(directory, directory / "results", packet_error_rate=0.05)
    assert done.returncode == 0, done.stderr
    (run,) = (directory / "results" / "runs").iterdir()
    path = directory / "it.capsule.zip"
    assert owlt("capsule", run, "--out", path).returncode == 0
    return path


@pytest.fixture
def home(guest_kernel: Kernel) -> Iterator[Path]:
    """A directory of nobody's own: the guests' kernel as in a cache, and a copy of this project with its modules."""
    with tempfile.TemporaryDirectory(prefix="owlt-nobody-") as name:
        entry = Path(name, "owlt", "kernels", "copy")
        entry.mkdir(parents=True)
        shutil.copy(guest_kernel.path, entry / "linux")
        kernel = guest_kernel.model_copy(update={"path": entry / "linux"})
        (entry / "kernel.json").write_text(kernel.model_dump_json())
        (Path(name) / "another clone").mkdir()
        copy_project(Path(name) / "another clone")
        for path in (Path(name), Path(name, "owlt"), Path(name, "owlt", "kernels")):
            os.chown(path, NOBODY, NOBODY)
        yield Path(name)


def test_a_capsule_gives_the_same_packets_in_another_clone_by_another_user(capsule: Path, home: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("missing capability: root, to become another user")
    project = home / "another clone"
    path = shutil.copy(capsule, home / "it.zip")
    with zipfile.ZipFile(capsule) as archive:
        assert json.loads(archive.read("capsule/capsule.json"))["losses"]["forward"]
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]

    done = subprocess.run(
        [*as_nobody, project / ".venv" / "bin" / "python", *OWLT[1:], "replay", path, "--json"],
        cwd=project,
        env={"PATH": os.defpath, "HOME": str(home), "XDG_CACHE_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=_limit_open_files,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["captures"] == {"sender.pcap": "", "receiver.pcap": ""}


def _limit_open_files() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(USUAL_OPEN_FILES, most), most))


def test_a_capsule_in_which_a_packet_was_changed_does_not_replay(capsule: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(capsule) as archive:
        files = {each.removeprefix("capsule/"): archive.read(each) for each in archive.namelist()}
    manifest = Manifest.model_validate_json(files.pop("capsule.json"))
    (name,) = (name for name in files if name.endswith("/sender.pcap"))
    content = bytearray(files[name])
    content[-1] ^= 1
    write_capsule(tmp_path / "changed.zip", manifest, files | {name: bytes(content)})

    done = owlt("replay", tmp_path / "changed.zip", "--json")

    assert done.returncode == 1, done.stderr
    captures = json.loads(done.stdout)["captures"]
    assert "other octets" in captures["sender.pcap"]
    assert captures["receiver.pcap"] == ""
