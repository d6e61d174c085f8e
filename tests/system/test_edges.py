"""`owlt edges` on the CFDP endpoint: outages that it survives or not, commands for outages, restarts of a host."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.system.conftest import require
from tests.system.fault_trials import owlt, with_defect

Trials = list[dict[str, Any]]
FILE = ("--file-size", "2 kB")


@pytest.fixture(scope="module")
def edges(guest_kernel: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[int, Trials]]:
    """Exit status and trials of `owlt edges` with some options, of the endpoint with a defect."""
    require(guest_kernel, "the virtual-time kernel")

    @cache
    def performed(defect: str, *options: str) -> tuple[int, Trials]:
        folder = tmp_path_factory.mktemp("edges")
        status, told = owlt(folder, "edges", str(with_defect(defect, folder)), *FILE, *options)
        return status, [each | {"run": folder / each["run"]} for each in told["trials"]]

    return performed


def times_s(capture: Path, sender: str) -> list[float]:
    """When the packets of a host are in a capture, in s since 1970, as tshark reads them."""
    shown = ["-T", "fields", "-e", "frame.time_epoch"]
    done = subprocess.run(
        ["tshark", "-r", capture, "-Y", f"ip.src == {sender} && udp", *shown],
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(line) for line in done.stdout.split()]


def states(trials: Trials) -> Counter[str]:
    return Counter(each["state"] for each in trials)


def test_a_transfer_continues_after_an_outage_of_a_second_at_each_of_its_packets(edges: Any) -> None:
    status, trials = edges("none", "--gap", "1 s", "--mode", "drop")

    assert status == 0
    assert states(trials) == {"continued": len(trials)}
    befores = [each["before"] for each in trials]
    assert befores[0] == "forward #1 (metadata) is sent"
    assert "reverse #2 (Finished) arrives" in befores
    assert len(set(befores)) == len(befores) == 14  # seven packets, each sent and arriving


def test_nothing_arrives_during_an_outage_that_drops(edges: Any) -> None:
    _, trials = edges("none", "--gap", "1 s", "--mode", "drop")
    (trial,) = [each for each in trials if each["before"] == "forward #3 (data) arrives"]
    run = trial["run"]
    arrived_s = times_s(run / "receiver.pcap", "10.77.0.1")
    begin_s = json.loads((run / "record.json").read_text())["started_at_ns"] / 1e9 + trial["at_s"]

    assert [at_s for at_s in arrived_s if begin_s + 0.001 < at_s < begin_s + 1.25] == []
    assert len([at_s for at_s in arrived_s if at_s < begin_s]) == 2
    assert [at_s for at_s in arrived_s if at_s > begin_s + 1.25]


def test_what_is_sent_during_an_outage_that_holds_arrives_after_it(edges: Any) -> None:
    status, trials = edges("none", "--gap", "5 s", "--mode", "hold", "--phases", "1")
    sent_s, arrived_s = (times_s(trials[0]["run"] / f"{name}.pcap", "10.77.0.1") for name in ("sender", "receiver"))

    assert status == 0
    assert sum(at_s < arrived_s[0] for at_s in sent_s) >= 4  # metadata, data, EOF
    assert arrived_s[0] - sent_s[0] > 5


def test_a_transfer_gives_up_in_an_outage_of_an_hour_and_the_command_fails(edges: Any) -> None:
    status, trials = edges("none", "--gap", "1 h", "--mode", "hold", "--phases", "2")

    assert status == 1
    assert trials[0]["state"] == "gave up"
    assert "was silent for" in trials[0]["reason"]


def test_a_program_that_is_suspended_and_resumed_continues_after_an_hour(edges: Any) -> None:
    status, trials = edges("none", "--gap", "1 h", "--mode", "hold", "--phases", "4", "--announce")

    assert status == 0
    assert states(trials) == {"continued": 4}
    assert max(each["later_s"] for each in trials) < 0.01


def test_a_program_that_is_not_resumed_is_found(edges: Any) -> None:
    status, trials = edges("not-resumed", "--gap", "1 h", "--mode", "hold", "--phases", "4", "--announce")

    assert status == 1
    assert trials[0]["state"] == "stuck"
    assert {each["state"] for each in trials} <= {"stuck", "not ended"}


def test_a_transfer_restarts_if_the_receiver_loses_what_it_had(edges: Any) -> None:
    status, trials = edges("none", "--restart", "receiver", "--gap", "10 s", "--phases", "8")
    (restarted, *_) = (each for each in trials if each["state"] == "restarted")

    assert status == 0
    assert (restarted["run"] / "receiver-restarted.out").read_text().startswith("listening on ")
    assert restarted["again"] >= 3  # metadata and data, which had arrived
