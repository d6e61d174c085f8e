"""The waits of programs that a timer ended: of each kind in a guest, and of a run beside its record."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from owlt.captures.frames.columns import read_columns
from owlt.orchestrator.kernel.kernel import Kernel
from owlt.orchestrator.rigs.guest import PROJECT as GUEST_PROJECT
from owlt.results.waits import read_run_waits
from tests.system.conftest import PROJECT, Guest
from tests.system.guest_scripts.timed_waits import EVENT_S, LENGTHS_S, OUTSIDE_S, PATIENCE_S
from tests.system.sweeps import perform

SCRIPT = PROJECT / "tests/system/guest_scripts/timed_waits.py"
PROGRAMS = f"{GUEST_PROJECT}/tests/system/programs"
LINK = {"delay": "25 ms", "rate": "10 Mbit/s"}
LATE_S = 0.02
"""How late a time-out may be: two periods of the kernel's tick, which ends the time-outs of sockets."""


@pytest.fixture(scope="module")
def performed(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Kernel) -> Callable[[int], dict[str, Any]]:
    """Performs all waits, in a guest, with a number of windows in which they are skipped."""

    @cache
    def perform(windows: int) -> dict[str, Any]:
        done = Guest(tmp_path_factory.mktemp("waits"), guest_kernel).run(SCRIPT, str(windows))
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    return perform


@pytest.fixture
def groups(performed: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    """The groups of waits that the guest's kernel recorded."""
    return list(performed(0)["groups"])


def of_length(groups: list[dict[str, Any]], length_s: float) -> list[tuple[str, int]]:
    """The kinds and numbers of the waits that were as long."""
    return [
        (group["kind"], group["count"])
        for group in groups
        if length_s <= group["length_ns"] / 1e9 + 1e-6 and group["length_ns"] / 1e9 < length_s + LATE_S
    ]


@pytest.mark.parametrize("kind", LENGTHS_S)
def test_a_wait_that_timed_out_is_recorded_with_its_kind_and_length(groups: list[dict[str, Any]], kind: str) -> None:
    assert of_length(groups, LENGTHS_S[kind]) == [(kind, 1)]


def test_a_wait_that_an_event_ended_is_not_recorded(groups: list[dict[str, Any]]) -> None:
    """The wait of the process that sends the event, of the same length, is the only one."""
    assert of_length(groups, EVENT_S) == [("clock_nanosleep", 1)]
    assert of_length(groups, PATIENCE_S) == []


def test_a_wait_of_a_process_of_the_rig_is_not_recorded(groups: list[dict[str, Any]]) -> None:
    assert of_length(groups, OUTSIDE_S) == []


def test_skipped_waits_take_no_time(performed: Callable[[int], dict[str, Any]]) -> None:
    assert performed(len(LENGTHS_S))["took_s"] < performed(0)["took_s"] - sum(LENGTHS_S.values())


def test_by_its_own_clocks_a_program_has_waited_for_what_it_skipped(performed: Callable[[int], dict[str, Any]]) -> None:
    for own_s in performed(len(LENGTHS_S))["own_clocks_s"]:
        assert sum(LENGTHS_S.values()) <= own_s < sum(LENGTHS_S.values()) + LATE_S


def test_a_thread_skips_one_wait_of_each_window(performed: Callable[[int], dict[str, Any]]) -> None:
    """With a window less than waits, the last one is not skipped."""
    last, length_s = list(LENGTHS_S.items())[-1]

    assert of_length(performed(len(LENGTHS_S) - 1)["groups"], length_s) == [(last, 1)]
    assert of_length(performed(len(LENGTHS_S))["groups"], length_s) == []


PATIENT = {
    "name": "patient",
    "title": "patient",
    "protocol": "NONE",
    "description": "its sender waits three times for an answer that never comes",
    "sender": {"command": ["{python}", f"{PROGRAMS}/patient.py", "sender", "{receiver_address}", "{file}"]},
    "receiver": {
        "command": ["{python}", f"{PROGRAMS}/patient.py", "receiver", "{received_file}"],
        "ready": {"line": "^ready$"},
    },
    "session": {"udp_ports": [5000]},
    "time_limit": {"rtts": 0, "file_times": 0, "extra_s": 60},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Kernel) -> Callable[[str], Path]:
    """Performs a transfer of the patient sender, which skips a wait after this time; gives the run's directory."""
    directory = tmp_path_factory.mktemp("runs")
    (directory / "patient.yaml").write_text(json.dumps(PATIENT))
    (directory / "link.yaml").write_text(json.dumps({"title": "a link", "forward": LINK, "reverse": LINK}))

    @cache
    def perform_once(skipped_after: str) -> Path:
        window = {"side": "sender", "after": skipped_after, "before": "7 s"}
        results = directory / f"results-{skipped_after.replace(' ', '')}"
        done = perform(
            directory,
            results,
            implementations=[str(directory / "patient.yaml")],
            channel=str(directory / "link.yaml"),
            file_size="1 kB",
            skipped_waits={"link": [window]} if skipped_after else {},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return next(results.glob("runs/*"))

    return perform_once


def groups_of(directory: Path) -> list[str]:
    waits = read_run_waits(directory)
    assert waits is not None
    return [str(group) for group in waits.groups]


def test_the_timer_of_a_sender_is_named_with_the_run(run: Callable[[str], Path]) -> None:
    """The control is the receiver, which waits for packets as long, and has no timer."""
    assert groups_of(run("")) == ["sender: 3 waits of 3.75 s (poll)"]


def test_a_wait_begins_with_the_packet_before_it(run: Callable[[str], Path]) -> None:
    packets = read_columns(run("") / "sender.pcap").time_ns
    waits = read_run_waits(run(""))

    assert waits is not None
    begins_ns = [wait.begin_ns for wait in waits.waits]
    assert [0 <= begin_ns - packet < 10**6 for begin_ns, packet in zip(begins_ns, packets, strict=False)] == [True] * 3


def test_a_wait_that_is_skipped_shortens_the_session_by_its_length(run: Callable[[str], Path]) -> None:
    whole, shortened = (read_columns(run(skipped) / "sender.pcap").time_ns for skipped in ("", "3 s"))

    assert groups_of(run("3 s")) == ["sender: 2 waits of 3.75 s (poll)"]
    assert abs(np.ptp(whole) - np.ptp(shortened) - 3.75e9) < LATE_S * 1e9
