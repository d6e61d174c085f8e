"""A run on the exact clock is a function of its own seed: the same captures alone and among other runs."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from owlt.orchestrator.commands.replay import SAME_IN_ITS_CLONE
from owlt.orchestrator.profiles.catalogue import PROFILES
from owlt.orchestrator.profiles.third_party import find_installables, is_installed
from tests.commands import OWLT, owlt_program
from tests.conftest import require
from tests.system.sweeps import capture_differences, copy_project, owlt, perform, sweep_file

THIRD_PARTY = ["licklider", "normcast", "socat", "uftp"]
IMPLEMENTATIONS = ["cfdp", "ltp", "norm", "saratoga", "bp-acs", "tcp", "quic-aioquic", *THIRD_PARTY]
SAME_EVERYWHERE = [name for name in IMPLEMENTATIONS if name not in SAME_IN_ITS_CLONE]
"""Those whose encrypted octets do not depend on addresses in memory."""
ALONE = ["cfdp", "quic-aioquic", "tcp", "normcast", "socat"]
"""Two in Python, one of the kernel, and two in C, of which one has threads."""
THREE_READS_NS = 3 * 256
"""What a guest's history may cost a program: reads of the clock, of 256 ns each. With socat two were seen."""
SLOW = "    [time.time_ns() for _ in range(145_678)]\n    time.sleep(0.0123456789)\n"
GRID = {
    "file_size": "100 kB",
    "packet_error_rate": [0, 0.02],
    "keep_captures": "full",
    "certify": False,
}


def captures_of(results: Path) -> dict[str, str]:
    """The digest of each capture, by run and port."""
    return {
        f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
        for path in results.glob("runs/*/*.pcap")
    }


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """The results of 44 runs of eleven implementations, performed on two guests side by side."""
    for installable in find_installables(THIRD_PARTY):
        require(is_installed(installable), f"{installable.name} (owlt third-party install {installable.name})")
    directory = tmp_path_factory.mktemp("together")
    done = perform(directory, directory / "results", implementations=IMPLEMENTATIONS, repetitions=2, **GRID)
    assert done.returncode == 0, done.stderr
    return directory / "results"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this project and its environment in another directory."""
    made = tmp_path_factory.mktemp("clone") / "a clone" / "elsewhere"
    made.mkdir(parents=True)
    copy_project(made)
    return made


def captures_in(project: Path, directory: Path, implementations: list[str]) -> dict[str, str]:
    """What `captures_of` returns for one run of each implementation, performed by the owlt in `project`."""
    sweep = sweep_file(directory, implementations=implementations, **(GRID | {"packet_error_rate": 0.02}))
    arguments = ["run", sweep, "--results", directory / "results", "--no-report"]
    command = [project / ".venv" / "bin" / "python", *OWLT[1:], *arguments]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return captures_of(directory / "results")


@pytest.mark.parametrize("name", ALONE)
def test_a_run_alone_is_the_same_as_among_others(name: str, tmp_path: Path, together: Path) -> None:
    results = tmp_path / name
    done = perform(tmp_path, results, implementations=[name], **(GRID | {"packet_error_rate": 0.02}))

    assert done.returncode == 0, done.stderr
    alone = captures_of(results)
    assert len(alone) == 2
    assert alone.items() <= captures_of(together).items()


def test_a_clone_in_another_directory_gives_the_same_captures(clone: Path, tmp_path: Path, together: Path) -> None:
    """And fewer runs beside each other give the same as many."""
    elsewhere = captures_in(clone, tmp_path, SAME_EVERYWHERE)

    assert len(elsewhere) == 2 * len(SAME_EVERYWHERE)
    assert elsewhere.items() <= captures_of(together).items()


def test_what_the_guest_did_before_it_was_copied_makes_no_difference(
    clone: Path, tmp_path: Path, together: Path
) -> None:
    """As with another version of owlt. This one runs a program before it raises the rig, which draws random numbers,
    reads the clock for a while, and sleeps for part of a tick."""
    worker = clone / "orchestrator" / "run" / "worker.py"
    before, raising, after = worker.read_text().partition("    logs.mkdir()\n    with namespaces.raised(")
    assert raising
    worker.write_text(f"{before}    __import__('subprocess').run(['true'])\n{SLOW}{raising}{after}")
    try:
        later = captures_in(clone, tmp_path, SAME_EVERYWHERE)
    finally:
        worker.write_text(f"{before}{raising}{after}")

    assert len(later) == 2 * len(SAME_EVERYWHERE)
    runs = sorted((tmp_path / "results" / "runs").iterdir())
    assert [capture_differences(together / "runs" / run.name, run, THREE_READS_NS) for run in runs] == [[]] * len(runs)


def test_what_the_guest_did_before_the_launch_makes_no_difference(tmp_path: Path, together: Path) -> None:
    """Setting these runs programs, which read the clock and start at addresses drawn at random."""
    profile = YAML(typ="safe").load(PROFILES / "implementations" / "cfdp.yaml")
    for role in ("sender", "receiver"):
        profile[role]["sysctls"] = {"net.ipv4.tcp_retries1": "4", "net.ipv4.tcp_retries2": "14"}
    (tmp_path / "cfdp.yaml").write_text(json.dumps(profile))
    results = tmp_path / "results"
    sweep = {"implementations": [str(tmp_path / "cfdp.yaml")]} | GRID | {"packet_error_rate": 0.02}

    done = perform(tmp_path, results, **sweep)

    assert done.returncode == 0, done.stderr
    busy = captures_of(results)
    assert len(busy) == 2
    assert set(busy.values()) <= set(captures_of(together).values())


def test_a_recorded_run_is_replayed_frame_by_frame(tmp_path: Path, together: Path) -> None:
    run = next(together.glob("runs/ltp_*per0.02_r2"))

    done = owlt_program("replay", run, "--json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["captures"] == {"sender.pcap": "", "receiver.pcap": ""}


def test_a_replay_names_the_first_frame_that_differs(tmp_path: Path, together: Path) -> None:
    changed = tmp_path / "changed"
    run = next(together.glob("runs/ltp_*per0.02_r2"))
    shutil.copytree(together, changed, ignore=lambda at, names: [*names] if at.endswith("/runs") else [])
    shutil.copytree(run, changed / "runs" / run.name)
    capture = changed / "runs" / run.name / "sender.pcap"
    content = bytearray(capture.read_bytes())
    content[-1] ^= 1
    capture.write_bytes(content)

    done = owlt("replay", changed / "runs" / run.name, "--json")

    assert done.returncode == 1, done.stderr
    differences = json.loads(done.stdout)["captures"]
    assert "other octets" in differences["sender.pcap"]
    assert differences["receiver.pcap"] == ""


def test_another_seed_gives_other_captures(tmp_path: Path, together: Path) -> None:
    results = tmp_path / "results"
    sweep = {"implementations": ["ltp", "tcp"]} | GRID | {"packet_error_rate": 0.02, "seed": 77}
    assert perform(tmp_path, results, **sweep).returncode == 0

    assert not set(captures_of(results).values()) & set(captures_of(together).values())
