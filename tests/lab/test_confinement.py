"""A build's command in PID, IPC and mount namespaces of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from orchestrator.confinement import IGNORED, NO_SUCH_PROGRAM, confined, left_running
from tests.conftest import require


@pytest.fixture
def namespaces() -> None:
    made = subprocess.run(["unshare", "--pid", "--ipc", "--mount", "--fork", "true"], check=False, capture_output=True)
    require(made.returncode == 0, "namespaces (root)")


def run_confined(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    confining = confined(command, environment)
    return subprocess.run(confining, capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.usefixtures("namespaces")
def test_a_confined_program_has_its_arguments_and_its_status() -> None:
    done = run_confined("sh", "-c", 'echo "$1|$2"; exit 7', "sh", "a b", "$c")

    assert (done.returncode, done.stdout) == (7, "a b|$c\n")


@pytest.mark.usefixtures("namespaces")
def test_a_confined_program_sees_no_process_but_its_own() -> None:
    assert len(run_confined("sh", "-c", "echo /proc/[0-9]*").stdout.split()) == 2  # its own and the shell's


@pytest.mark.usefixtures("namespaces")
def test_what_a_confined_program_leaves_behind_is_named_and_ended() -> None:
    done = run_confined("sh", "-c", "setsid sleep 98765 & sleep 0.5")

    assert left_running(done.stderr) == ["sleep 98765"]
    assert "98765" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


@pytest.mark.usefixtures("namespaces")
def test_a_program_that_is_not_there_has_a_status_of_its_own() -> None:
    done = run_confined("no-such-program")

    assert done.returncode == NO_SUCH_PROGRAM
    assert "owlt: no-such-program: there is no such program on this host" in done.stderr


@pytest.mark.usefixtures("namespaces")
def test_shared_memory_is_nobody_elses() -> None:
    run_confined("sh", "-c", "echo mine >/dev/shm/owlt-test-of-confinement")

    assert not Path("/dev/shm/owlt-test-of-confinement").exists()


@pytest.mark.usefixtures("namespaces")
def test_an_environment_is_the_programs_alone() -> None:
    done = run_confined("/bin/sh", "-c", "echo $PATH", PATH="/nowhere")

    assert (done.returncode, done.stdout, done.stderr) == (0, "/nowhere\n", "")


@pytest.mark.usefixtures("namespaces")
def test_a_program_is_looked_for_on_the_path_that_it_is_given() -> None:
    assert run_confined("env", PATH="/nowhere").returncode == NO_SUCH_PROGRAM


@pytest.mark.usefixtures("namespaces")
def test_what_the_shell_around_it_says_is_not_the_programs() -> None:
    done = run_confined("sh", "-c", "kill -TERM $$")

    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "")


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("name", IGNORED.split(","))
def test_a_signal_lets_the_program_end_in_its_own_time(name: str) -> None:
    script = f"trap 'trap - {name}; sleep 0.3; echo handled; exit 0' {name}; echo ready; while :; do read line; done"
    with subprocess.Popen(
        confined(["sh", "-c", script]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        os.killpg(program.pid, signal.Signals[f"SIG{name}"])
        said, _ = program.communicate(timeout=30)

    assert (said, program.returncode) == ("handled\n", 0)
