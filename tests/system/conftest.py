"""A guest for tests: the same boot as the virtual rig's, running a script instead of a worker."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from owlt.orchestrator.kernel.kernel import Kernel, find_kernel
from owlt.orchestrator.rigs.guest import PROJECT as GUEST_PROJECT
from owlt.orchestrator.rigs.guest import Boot, guest_python, launch
from tests.conftest import require, require_command

PROJECT = Path(__file__).parents[2]
LONGEST = (
    "test_shrinking_runs",
    "test_reproductions",
    "test_edges",
    "test_kills",
    "test_proofs_of_sound_endpoints",
    "test_several_machines",
    "test_why",
    "test_suites_of_faults",
    "test_proofs_of_defects",
    "test_hostile_implementations",
    "test_shared_beginnings",
    "test_soak",
    "test_sources_of_difference",
    "test_leftovers",
    "test_resume",
    "test_independence",
    "test_clock_step",
    "test_certificate",
    "test_chosen_ports",
)
"""The modules that take minutes, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Perform the longest modules first, so that at the end no processor waits for another one."""
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


def in_guest(argument: str) -> str:
    """An argument as a guest's program sees it: a path of the project by the project's place in every guest."""
    path = Path(argument)
    return f"{GUEST_PROJECT}/{path.relative_to(PROJECT)}" if path.is_relative_to(PROJECT) else argument


@dataclass(frozen=True)
class Guest:
    """Boots a guest for one script. `out_dir` is shared with it; the script finds it as OUT_DIR."""

    out_dir: Path
    kernel: Kernel
    cpu: int = max(os.sched_getaffinity(0))
    """That it runs on."""

    def run(
        self, script: Path, *arguments: str, clock: str = "exact", timeout_s: float = 60, seed: int = 1
    ) -> subprocess.CompletedProcess[str]:
        """Run a Python or shell script as the guest's root, in the project's directory, to its end.

        The project is entered where runs see it too: its place on the machine can be below a directory that is empty
        in a guest, such as /tmp.
        """
        interpreter = [guest_python()] if script.suffix == ".py" else ["/bin/sh"]
        in_project = 'cd "$0" && "$@" >"$OUT_DIR/stdout" 2>"$OUT_DIR/stderr"; echo $? >"$OUT_DIR/status"'
        environment = ["env", f"PYTHONPATH={GUEST_PROJECT}", "OUT_DIR=/run/task"]
        command = [*interpreter, *map(in_guest, [str(script), *arguments])]
        program = [*environment, "sh", "-c", in_project, GUEST_PROJECT, *command]
        boot = Boot(self.kernel.path, clock, self.cpu, 512, seed, self.kernel.seccomp)  # type: ignore[arg-type]
        (self.out_dir / "status").unlink(missing_ok=True)
        guest = launch(boot, self.out_dir, program)
        try:
            console, _ = guest.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(guest.pid, 9)
            console, _ = guest.communicate()
            raise AssertionError(f"{script.name} hung in the guest; its console: {console}") from None
        status = self.out_dir / "status"
        assert status.exists(), f"{script.name} gave no status; the guest's console: {console}"
        return subprocess.CompletedProcess(
            [str(script), *arguments],
            int(status.read_text()),
            (self.out_dir / "stdout").read_text(),
            (self.out_dir / "stderr").read_text(),
        )


def in_mode(guest: Guest, seccomp: bool) -> Guest:
    """The same guest with its programs under seccomp, or under ptrace."""
    if seccomp:
        require(guest.kernel.seccomp, "a kernel whose guests run under seccomp")
    return replace(guest, kernel=guest.kernel.model_copy(update={"seccomp": seccomp}))


def started_by(command: str, guest: Guest) -> Guest:
    """The same guest, whose kernel another command starts; it may change what a process inherits."""
    path = guest.out_dir / "start-kernel"
    path.write_text(f'#!/bin/sh\nexec {command} {guest.kernel.path} "$@"\n')
    path.chmod(0o755)
    return replace(guest, kernel=guest.kernel.model_copy(update={"path": path}))


def compiled(name: str, directory: Path) -> Path:
    """A C program of `tests/system/programs`, compiled into a directory."""
    program = directory / Path(name).stem
    source = PROJECT / "tests/system/programs" / name
    subprocess.run([require_command("gcc"), "-O1", "-pthread", "-o", program, source], check=True)
    return program


@pytest.fixture(scope="session")
def guest_kernel() -> Kernel:
    """The cached virtual-time kernel."""
    found = find_kernel()
    require(found, "the virtual-time kernel (owlt kernel build)")
    assert found is not None
    return found


@pytest.fixture
def guest(tmp_path: Path, guest_kernel: Kernel) -> Guest:
    """A guest that can be run any number of times, with a directory of this test's own."""
    return Guest(tmp_path, guest_kernel)
