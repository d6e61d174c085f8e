"""`owlt soak` finds what only a long life shows: defects at the wraps of counters, and what leaks at either end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.system.conftest import GUEST_PROJECT, require
from tests.system.fault_trials import owlt, with_defect

SERVER = f"{GUEST_PROJECT}/tests/system/programs/file_server.py"


@pytest.fixture(scope="module", autouse=True)
def kernel(guest_kernel: Any) -> None:
    require(guest_kernel, "the virtual-time kernel")


def server_that_leaks(kind: str, folder: Path) -> Path:
    """A profile of the server that serves many transfers and leaks."""
    profile = {
        "name": f"server-{kind}",
        "title": "server",
        "protocol": "TCP",
        "description": "A server that leaks.",
        "receiver": {
            "command": ["{python}", SERVER, "receive", "{received_file}", "{receiver_host}:4000", kind],
            "ready": {"line": "^listening"},
        },
        "sender": {"command": ["{python}", SERVER, "send", "{file}", "{receiver_host}:4000"]},
        "session": {"tcp_ports": [4000]},
        "done": "sender_exits",
        "time_limit": {"rtts": 60, "file_times": 5, "extra_s": 60},
    }
    path = folder / f"server-{kind}.yaml"
    with path.open("w") as file:
        YAML().dump(profile, file)
    return path


def soak(folder: Path, profile: Path, *words: str) -> tuple[int, Any]:
    """The exit status of a soak and its result."""
    return owlt(folder, "soak", str(profile), "--file-size", "2 kB", "--every", "1 min", *words)


def test_a_clock_of_32_bit_milliseconds_fails_at_the_wrap_and_alone_at_that_time(tmp_path: Path) -> None:
    profile = with_defect("milliseconds-in-32-bits", tmp_path)
    status, result = soak(tmp_path, profile, "--start", "2^32 ms", "--for", "6 min")
    (finding,) = result["findings"]
    number = finding["transfer"]

    assert (status, finding["kind"]) == (1, "failed")
    assert result["wraps"] == {"2^32 ms": number}
    assert "which passes 2^32 ms" in finding["text"]
    assert {"record.json", "sender.pcap", "receiver.pcap"} <= {
        path.name for path in (tmp_path / finding["run"]).iterdir()
    }

    status, alone = soak(
        tmp_path, profile, "--start", "2^32 ms", "--for", "6 min", "--first", str(number), "--transfers", "1"
    )

    assert [each["text"] for each in alone["findings"]] == [finding["text"]]


def test_a_reserved_transaction_number_fails_when_the_count_reaches_it(tmp_path: Path) -> None:
    status, result = soak(tmp_path, with_defect("no-transaction-65535", tmp_path), "--start", "none", "--for", "8 min")

    assert status == 1
    assert [(each["kind"], each["transfer"]) for each in result["findings"]] == [("failed", 2)]
    assert "session number 65,535" in result["findings"][0]["text"]


@pytest.mark.parametrize(
    ("kind", "measure", "slope"),
    [("memory", "memory_bytes", 40_000), ("open-file", "open_files", 1), ("temporary-file", "files", 1)],
)
def test_what_a_receiver_leaks_in_each_transfer_is_found_with_its_slope(
    tmp_path: Path, kind: str, measure: str, slope: float
) -> None:
    status, result = soak(tmp_path, server_that_leaks(kind, tmp_path), "--start", "none", "--for", "26 min")
    growing = {(each["role"], each["measure"]): each for each in result["growth"] if each["p"] <= 0.001}

    assert (status, result["completed"]) == (1, 26)
    assert [each["kind"] for each in result["findings"]] == ["growth"]
    assert growing.keys() == {("receiver", measure)}
    assert growing["receiver", measure]["slope"] == pytest.approx(slope, rel=0.1)


@pytest.mark.parametrize("restart", [[], ["--restart"]])
def test_a_receiver_that_leaks_nothing_has_no_finding(tmp_path: Path, restart: list[str]) -> None:
    status, result = soak(tmp_path, server_that_leaks("none", tmp_path), "--start", "none", "--for", "26 min", *restart)

    assert (status, result["completed"], result["findings"]) == (0, 26, [])


def test_the_sound_endpoint_passes_all_wraps(tmp_path: Path) -> None:
    status, result = soak(tmp_path, with_defect("none", tmp_path), "--every", "2 days", "--for", "30 days")

    assert (status, result["completed"], result["findings"]) == (0, 15, [])
    assert list(result["wraps"]) == ["2^31 ms", "2^31 s", "2^32 ms"]
    assert None not in result["wraps"].values()
