"""The local rig on this machine's own kernel: real captures, an unimpaired channel that needs no netem."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from owlt.orchestrator.rigs import namespaces, network
from owlt.orchestrator.rigs.processor_time import is_counted
from tests.commands import owlt
from tests.conftest import require
from tests.system.sweeps import RECORDED, perform, perform_beside_a_load, records

CERTIFIED = {"rig": "local", "clock": "real", "rate": "unlimited", "delay": "0 s", "file_size": "1 MB"}
BASELINE = CERTIFIED | {"certify": False}


@pytest.fixture(autouse=True)
def _capabilities() -> None:
    require(os.geteuid() == 0, "root, to make network namespaces")
    namespaces.clear_abandoned()
    require(not network.leftovers(), "a machine on which no local rig stands")


def test_a_build_crosses_a_plain_bridge_without_netem(tmp_path: Path) -> None:
    done = perform(tmp_path, tmp_path / "results", **CERTIFIED)

    assert done.returncode in RECORDED, done.stderr
    (record,) = records(tmp_path / "results").values()
    assert record["outcome"] == "completed", record["reason"]
    assert record["channel"] == {"forward": {}, "reverse": {}}


def test_runs_cross_it_over_ipv6_and_ipv4_in_turn(tmp_path: Path) -> None:
    require(Path("/proc/sys/net/ipv6").exists(), "a kernel with IPv6")
    done = perform(tmp_path, tmp_path / "results", **(BASELINE | {"ip": [6, 4], "implementations": ["tcp", "ltp"]}))

    assert done.returncode in RECORDED, done.stderr
    ended = records(tmp_path / "results").values()
    assert (
        sorted((record["ip"], record["outcome"]) for record in ended) == [(4, "completed")] * 2 + [(6, "completed")] * 2
    )
    assert {record["session"]["sender_address"] for record in ended} == {"10.77.0.1", "fd4f:574c:54::1"}


def test_what_processes_wait_beside_a_load_is_in_the_record_of_a_run(tmp_path: Path) -> None:
    require(is_counted(os.getpid()), "a kernel that counts what processes wait (CONFIG_SCHED_INFO, PROC_CHILDREN)")
    done = perform_beside_a_load(tmp_path, 1, **BASELINE)

    assert done.returncode in RECORDED, done.stderr
    (record,) = records(tmp_path / "results").values()
    assert record["machine_delay"]["waited_ns"] > 0.05 * record["machine_delay"]["session_ns"]
    assert "the rig's processes waited" in " ".join(record["suspect"])


def test_the_rig_leaves_nothing_behind(tmp_path: Path) -> None:
    perform(tmp_path, tmp_path / "results", **BASELINE)

    assert network.leftovers() == []


def test_a_channel_that_this_kernel_cannot_make_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """Where it has netem, the run completes."""
    done = perform(tmp_path, tmp_path / "results", **(CERTIFIED | {"delay": "25 ms"}))

    recorded = records(tmp_path / "results")
    assert (len(recorded), done.returncode) in ((0, 2), (1, 0)), done.stderr
    if not recorded:
        assert "needs netem at this machine: 1 of 1 cells have a delay" in done.stderr
        assert "does not have the queueing discipline" in done.stderr


def test_a_rig_that_stands_already_is_not_touched(tmp_path: Path) -> None:
    with namespaces.raised(tmp_path / "rig", tmp_path, tmp_path):
        done = perform(tmp_path, tmp_path / "results", **BASELINE)

        assert done.returncode == 2
        assert "already exists" in done.stderr
        assert len(network.leftovers()) == 4


def test_a_rig_for_experiments_by_hand_stands_while_its_command_runs() -> None:
    shown = "python3 -c 'import os; print(os.environ[\"OWLT_EMULATOR\"])'; ls /run/netns; exit 7"

    done = owlt("rigs", "up", "--command", shown)

    assert done.returncode == 7
    assert {"http://10.78.0.3:8765/", "owlt-emulator", "owlt-receiver", "owlt-sender"} <= set(done.stdout.split())
    assert namespaces.leftovers() == []


def test_a_rig_that_was_left_standing_is_cleared_by_command(tmp_path: Path) -> None:
    network.ip_batch(network.links())

    assert owlt("rigs", "clear").returncode == 0

    assert network.leftovers() == []
