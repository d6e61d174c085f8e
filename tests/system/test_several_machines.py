"""Sweeps on several machines: `owlt worker` processes on this one, a Dask scheduler on loopback with certificates."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from owlt.orchestrator.kernel.kernel import Kernel
from tests.commands import OWLT
from tests.conftest import require
from tests.system.sweeps import PROJECT, copy_project, owlt, records, sweep_file
from tests.system.test_independence import captures_of

NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
GRID = {"implementations": ["cfdp", "ltp", "tcp"], "packet_error_rate": [0, 0.01], "keep_captures": "full"}
ONE_OF_EACH_PROTOCOL = ["cfdp", "ltp", "norm", "saratoga", "bp-acs", "tcp"]
PATIENCE_S = 120.0
"""For a program to start, or a sweep to advance, beside all other tests."""


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited for {what}"
        time.sleep(0.1)


@dataclass
class Cluster:
    """A scheduler and its machines; each writes its console to a file of `directory`."""

    directory: Path
    end: ExitStack
    tls: Path = field(init=False)
    machines: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tls = self.directory / "tls"
        assert owlt("worker", "--make-certificates", self.tls).returncode == 0
        self.address_file = self.directory / "scheduler.json"
        files = [f"--tls-{option}={self.tls / name}" for option, name in TLS_FILES.items()]
        command = [str(Path(sys.executable).parent / "dask"), "scheduler", "--protocol=tls", "--host=127.0.0.1"]
        options = ["--port=0", "--no-dashboard", f"--scheduler-file={self.address_file}"]
        self._start([*command, *options, *files], "scheduler")
        wait_until(self._is_listening, "the scheduler")

    @property
    def address(self) -> str:
        return str(json.loads(self.address_file.read_text())["address"])

    def add(
        self,
        name: str,
        core: int,
        prefix: Sequence[str] = (),
        project: Path = PROJECT,
        environment: dict[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """A machine with one of this machine's cores; returns when it is connected."""
        python = str(project / ".venv" / "bin" / "python") if project != PROJECT else sys.executable
        program = [python, *OWLT[1:], "worker"]
        options = ["--scheduler", self.address, "--tls", str(self.tls), "--name", name]
        pinned = ["taskset", "-c", str(sorted(os.sched_getaffinity(0))[core]), *prefix]
        self.machines[name] = self._start([*pinned, *program, *options], name, project, environment)
        wait_until(lambda: f"{name} offers 1 slots" in self.console(name), f"the machine {name}: {self.console(name)}")
        return self.machines[name]

    def console(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()

    def options(self) -> list[str]:
        return ["--no-report", "--dask", self.address, "--tls", str(self.tls)]

    def _is_listening(self) -> bool:
        return self.address_file.exists() and self.address_file.read_text().strip().endswith("}")

    def _start(
        self, command: list[str], name: str, cwd: Path = PROJECT, environment: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        log = self.end.enter_context((self.directory / f"{name}.log").open("wb"))
        process = subprocess.Popen(
            command, cwd=cwd, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        self.end.callback(_ended, process)
        return process


TLS_FILES = {"ca-file": "ca.pem", "cert": "cert.pem", "key": "key.pem"}


def _ended(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a process, and kill it if it does not end."""
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture
def cluster(tmp_path: Path, guest_kernel: Kernel) -> Iterator[Cluster]:
    require(len(os.sched_getaffinity(0)) > 1, "two cores")
    with ExitStack() as end:
        yield Cluster(tmp_path, end)


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory of nobody's own."""
    with tempfile.TemporaryDirectory(prefix="owlt-nobody-") as name:
        yield Path(name)


def cloned_for_nobody(home: Path, tls: Path, kernel: Kernel) -> Path:
    """A clone at another path, with a kernel and certificates, all of which belong to another user."""
    clone = home / "a clone"
    clone.mkdir()
    copy_project(clone)
    entry = home / "owlt" / "kernels" / "copy"
    entry.mkdir(parents=True)
    shutil.copy(kernel.path, entry / "linux")
    (entry / "kernel.json").write_text(kernel.model_copy(update={"path": entry / "linux"}).model_dump_json())
    shutil.copytree(tls, home / "tls")
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(home)], check=True)
    return clone


def published(results: Path) -> Counter[str]:
    """How often each run was published, by the journal."""
    entries = map(json.loads, (results / "journal.jsonl").read_text().splitlines())
    return Counter(entry["run_id"] for entry in entries if entry["event"] == "published")


def test_two_users_on_two_clones_give_the_captures_of_one(
    tmp_path: Path, cluster: Cluster, home: Path, guest_kernel: Kernel
) -> None:
    require(os.geteuid() == 0, "root, to become another user")
    clone = cloned_for_nobody(home, cluster.tls, guest_kernel)
    sweep = sweep_file(tmp_path, repetitions=2, **(GRID | {"implementations": ONE_OF_EACH_PROTOCOL}))
    alone = owlt("run", sweep, "--results", tmp_path / "alone", "--no-report")
    assert alone.returncode == 0, alone.stderr
    here = cluster.tls
    cluster.add("one", 0)
    cluster.tls = home / "tls"
    environment = {"PATH": os.defpath, "HOME": str(home), "XDG_CACHE_HOME": str(home)}
    cluster.add("other-user", 1, AS_NOBODY, clone, environment)
    cluster.tls = here

    done = owlt("run", sweep, "--results", tmp_path / "both", *cluster.options())

    assert done.returncode == 0, done.stderr
    assert len(captures_of(tmp_path / "alone")) == 48
    assert captures_of(tmp_path / "both") == captures_of(tmp_path / "alone")
    performed = Counter(record["machine"] for record in records(tmp_path / "both").values())
    assert set(performed) == {"one", "other-user"}, performed
    assert len(list((tmp_path / "both").glob("machines/*.json"))) == 1
    for name in performed:
        certificates = {path.stem for path in (tmp_path / "both" / "machines" / name / "certificates").iterdir()}
        of_runs = {each["channel_key"] for each in records(tmp_path / "both").values() if each["machine"] == name}
        assert certificates >= of_runs
    for results in ("alone", "both"):
        assert set(published(tmp_path / results).values()) == {1}


def test_a_machine_that_is_killed_midway_loses_no_run_and_repeats_none(tmp_path: Path, cluster: Cluster) -> None:
    sweep = sweep_file(tmp_path, repetitions=2, certify=False, **GRID)
    results = tmp_path / "results"
    cluster.add("one", 0)
    victim = cluster.add("victim", 1)
    command = [*OWLT, "run", str(sweep), "--results", str(results)]
    with (tmp_path / "run.log").open("wb") as log:
        sweeping = subprocess.Popen([*command, *cluster.options()], cwd=PROJECT, stdout=log, stderr=log)
        cluster.end.callback(_ended, sweeping)
        wait_until(lambda: performed_on("victim", results) > 0, "the first run of the machine")

        victim.kill()

        assert sweeping.wait(300) == 0, (tmp_path / "run.log").read_text()
    recorded = records(results)
    assert len(recorded) == 12
    assert {record["outcome"] for record in recorded.values()} == {"completed"}
    assert published(results) == Counter(dict.fromkeys(recorded, 1))
    assert performed_on("victim", results) < 12
    assert "the machine victim was lost" in (tmp_path / "run.log").read_text()


def performed_on(machine: str, results: Path) -> int:
    return sum(record["machine"] == machine for record in records(results).values())


def test_an_interrupt_ends_the_guests_of_all_machines_and_the_sweep_can_be_resumed(
    tmp_path: Path, cluster: Cluster
) -> None:
    sweep = sweep_file(tmp_path, certify=False, **GRID)
    results = tmp_path / "results"
    cluster.add("one", 0)
    command = [*OWLT, "run", str(sweep)]
    with (tmp_path / "run.log").open("wb") as log:
        options = ["--results", str(results), *cluster.options()]
        sweeping = subprocess.Popen([*command, *options], cwd=PROJECT, stdout=log, stderr=log)
        cluster.end.callback(_ended, sweeping)
        wait_until(lambda: records(results), "the first run")

        sweeping.send_signal(signal.SIGINT)

        assert sweeping.wait(120) == 130, (tmp_path / "run.log").read_text()
    assert "one has ended the sweep of" in cluster.console("one")
    assert guests_of(cluster.machines["one"].pid) == []
    done = owlt("run", sweep, "--results", results, *cluster.options())
    assert done.returncode == 0, done.stderr
    assert published(results) == Counter(dict.fromkeys(records(results), 1))
    assert len(records(results)) == 6


def guests_of(pid: int) -> list[int]:
    """The children of a process that are guests."""
    listed = subprocess.run(["ps", "--ppid", str(pid), "-o", "pid=,args="], capture_output=True, text=True, check=False)
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if "time-travel" in line]


def test_a_machine_with_other_files_takes_no_runs_and_names_them(tmp_path: Path, cluster: Cluster) -> None:
    clone = tmp_path / "clone"
    copy_project(clone)
    with (clone / "agents" / "ltp" / "sending.py").open("a") as file:
        file.write("# a change\n")
    cluster.add("other", 0, project=clone)

    done = owlt("run", sweep_file(tmp_path, **GRID), "--results", tmp_path / "results", *cluster.options())

    assert done.returncode == 2
    assert "no machine takes runs (other: it differs in owlt: agents/ltp/sending.py)" in done.stderr
    assert "takes no runs" in cluster.console("other")
