"""The guest's kernel has what a rig and the builds on it want: tried one by one in a guest."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from owlt.orchestrator.kernel.kernel import Kernel, version_numbers
from owlt.orchestrator.kernel.probe import is_copied
from owlt.orchestrator.rigs.guest import Boot, launch
from tests.kills import become_reaper, started
from tests.system.conftest import PROJECT, Guest, compiled, in_mode, started_by

SCRIPT = PROJECT / "tests/system/guest_scripts/kernel_parts.py"
CLOCK_SCRIPT = PROJECT / "tests/system/guest_scripts/lent_clock.py"
IDLE_SCRIPT = PROJECT / "tests/system/guest_scripts/idle.py"
READING_NS = 256
LATER_NS = 1_000_000
"""More than a program needs to read a clock after it has set it."""
TCP = (
    "bbr bic cdg cubic dctcp highspeed htcp hybla illinois lp nv reno scalable vegas veno westwood yeah".split()  # noqa: SIM905
)


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Kernel) -> dict[str, Any]:
    """What each part said when it was tried."""
    directory: Path = tmp_path_factory.mktemp("parts")
    done = Guest(directory, guest_kernel).run(SCRIPT)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("kind", ["link", "qdisc", "filter", "namespace", "program", "socket"])
def test_every_part_that_a_rig_or_a_build_wants_is_there(tried: dict[str, Any], kind: str) -> None:
    assert tried[kind] == dict.fromkeys(tried[kind], "")


@pytest.mark.parametrize("variant", TCP)
def test_a_tcp_variant_is_there(tried: dict[str, Any], variant: str) -> None:
    assert variant in tried["tcp"]


def test_a_part_that_no_guest_has_is_seen_to_be_missing(tried: dict[str, Any]) -> None:
    """The control of the tests above."""
    assert "Unknown device type" in tried["absent"]["wireguard"]


def test_a_guest_that_is_copied_counts_as_copyable_and_one_that_does_not_stop_there_does_not(
    guest_kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_copied(guest_kernel.path)

    monkeypatch.setattr("owlt.orchestrator.kernel.probe.TEMPLATE_FILE", "/run/not-the-template")

    assert not is_copied(guest_kernel.path)


@pytest.fixture(scope="module")
def clocks(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Kernel) -> dict[str, Any]:
    """What readings of the clocks cost on the exact clock, and which of them a program does without the kernel."""
    done = Guest(tmp_path_factory.mktemp("clocks"), guest_kernel).run(CLOCK_SCRIPT)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("clock", ["monotonic", "realtime", "gettimeofday"])
def test_a_program_reads_the_clock_without_entering_the_kernel(clocks: dict[str, Any], clock: str) -> None:
    assert clocks["without_kernel"][clock]


def test_a_program_that_may_not_enter_the_kernel_cannot_read_another_clock(clocks: dict[str, Any]) -> None:
    """The control of the test above."""
    assert not clocks["without_kernel"]["boottime"]


def test_every_reading_of_the_exact_clock_takes_the_same_time(clocks: dict[str, Any]) -> None:
    assert clocks["steps_ns"] == [READING_NS]


@pytest.mark.parametrize("clock", ["monotonic", "realtime"])
def test_readings_by_the_program_and_by_the_kernel_are_of_one_clock(clocks: dict[str, Any], clock: str) -> None:
    """What a program reads by itself is charged before the kernel reads, so time goes on from one to the other."""
    assert set(clocks["alternating_steps_ns"][clock]) <= {READING_NS, 2 * READING_NS, 3 * READING_NS}


def test_a_clock_and_its_zone_are_read_as_they_were_set(clocks: dict[str, Any]) -> None:
    assert all(0 <= after_ns < LATER_NS for after_ns in clocks["after_set_ns"])
    assert clocks["zone"] == [-60, 1]


BUILT = PROJECT / "tests/system/guest_scripts/built.sh"
WITH_A_LISTENER = f"{sys.executable} {PROJECT}/tests/system/programs/listened.py"
"""Starts a guest's kernel in a process that has a seccomp filter with a listener, so that its stubs cannot have one."""
WAYS = ("interrupted", "restarted", "threads", "spawned", "traced", "stepped", "mapped", "killed", "once")
LISTENER = "anon_inode:seccomp notify"
NOTIFYING_SINCE = [6, 17]
"""The first Linux on which no signal makes a stub lose an answer."""


@pytest.fixture(
    scope="module", params=["notified", "notified on skip", "notified on real", "by signal", "under ptrace"]
)
def calls(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, guest_kernel: Kernel) -> str:
    """What calls.c printed in a guest that learns of system calls in one of its three ways. On `skip` and `real`,
    timers interrupt programs."""
    way, _, clock = request.param.partition(" on ")
    guest = in_mode(Guest(tmp_path_factory.mktemp("calls"), guest_kernel), way != "under ptrace")
    program = compiled("calls.c", guest.out_dir)
    if way == "by signal":
        guest = started_by(WITH_A_LISTENER, guest)
    return guest.run(BUILT, program.name, clock=clock or "exact").stdout


@pytest.mark.parametrize("way", WAYS)
def test_a_system_call_that_waits_is_made_once_and_changes_no_register_but_the_result(calls: str, way: str) -> None:
    assert dict(line.split(": ", 1) for line in calls.splitlines())[way] == "as before"


def test_a_guest_is_notified_of_system_calls_where_it_can_have_a_listener(guest: Guest) -> None:
    """The control of the test above: its guests do learn of system calls in different ways."""
    inherited = 1

    assert (listeners(guest) > inherited) == (version_numbers(platform.release())[:2] >= NOTIFYING_SINCE)
    assert listeners(started_by(WITH_A_LISTENER, guest)) == inherited


def listeners(guest: Guest) -> int:
    """How many listeners a guest has while its first program runs."""
    boot = Boot(guest.kernel.path, "exact", 0, 128, 1, True)
    with launch(boot, guest.out_dir, ["sh", "-c", "echo ready; while :; do :; done"]) as launched:
        wait_until_ready(launched)
        found = [kind_of(file) for file in Path(f"/proc/{launched.pid}/fd").iterdir()]
        launched.kill()
    return found.count(LISTENER)


def kind_of(open_file: Path) -> str:
    """What a process has open; nothing if it has closed it since."""
    with suppress(FileNotFoundError):
        return str(open_file.readlink())
    return ""


def wait_until_ready(launched: subprocess.Popen[str]) -> None:
    """Until a guest's program has printed that it is."""
    assert launched.stdout is not None
    while "ready" not in launched.stdout.readline():
        pass


KILLS = 12
"""Without the check of the parent, 3 of 4 guests that were killed at such a moment left a process for ever."""


@pytest.fixture(scope="module")
def waits(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Kernel) -> dict[str, Any]:
    """How waits for an idle guest ended."""
    done = Guest(tmp_path_factory.mktemp("waits"), guest_kernel).run(IDLE_SCRIPT)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_wait_for_an_idle_guest_lets_processes_that_wake_each_other_end(waits: dict[str, Any]) -> None:
    had_ended, late_ns = waits["idle"]
    had_ended_at_the_time, _ = waits["time"]

    assert had_ended
    assert late_ns >= 20_000_000
    assert not had_ended_at_the_time


def test_a_wait_for_an_idle_guest_ends_while_a_program_computes(waits: dict[str, Any]) -> None:
    assert waits["busy"]


def test_a_program_that_a_guest_is_starting_when_it_is_killed_ends_too(tmp_path: Path, guest_kernel: Kernel) -> None:
    become_reaper()
    before = {process.pid for process in started()}
    for number in range(KILLS):
        directory = tmp_path / str(number)
        directory.mkdir()
        kill_while_it_starts_a_program(Boot(guest_kernel.path, "exact", 0, 128, number + 1, True), directory)

    time.sleep(0.5)
    left = [process.pid for process in started() if process.pid not in before]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def kill_while_it_starts_a_program(boot: Boot, directory: Path) -> None:
    """Boot a guest that starts one program after the other, and kill its kernel as soon as it has another process."""
    with launch(boot, directory, ["sh", "-c", "echo ready; while :; do /bin/true; done"]) as launched:
        wait_until_ready(launched)
        children = Path(f"/proc/{launched.pid}/task/{launched.pid}/children")
        known = set(children.read_text().split())
        while set(children.read_text().split()) <= known:
            pass
        launched.kill()
