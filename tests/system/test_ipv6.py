"""Runs over IPv6 in a guest, their packets counted with tshark."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import require_command
from tests.system.sweeps import perform, records

IMPLEMENTATIONS = ["cfdp", "tcp", "licklider", "socat", "norm"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_command("tshark")
    directory = tmp_path_factory.mktemp("ipv6")
    done = perform(
        directory,
        directory / "results",
        implementations=IMPLEMENTATIONS,
        parameters={"cfdp": {"segment_bytes": [1000, 3000]}},
        ip=6,
        packet_error_rate=0.01,
        keep_captures="full",
    )
    assert (done.returncode, list(records(directory / "results"))) != (2, []), done.stderr
    return directory / "results"


def of(results: Path, part: str) -> tuple[dict[str, Any], Path]:
    """The record of the run with this part in its name, and its directory."""
    (name,) = (name for name in records(results) if name.startswith(part))
    return records(results)[name], results / "runs" / name


def counted(capture: Path, display_filter: str) -> int:
    command = ["tshark", "-r", str(capture), "-Y", display_filter, "-T", "fields", "-e", "frame.number"]
    return len(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("name", ["cfdp+segment_bytes=1000", "tcp", "licklider", "socat"])
def test_a_file_is_delivered_over_ipv6(results: Path, name: str) -> None:
    record, _ = of(results, f"{name}_")

    assert (record["ip"], record["outcome"], record["suspect"]) == (6, "completed", [])


@pytest.mark.parametrize("name", ["cfdp+segment_bytes=1000", "tcp", "licklider"])
def test_the_packets_of_the_sender_are_those_that_tshark_counts(results: Path, name: str) -> None:
    _, directory = of(results, f"{name}_")
    summary = json.loads((directory / "summary.json").read_text())

    sent = counted(directory / "sender.pcap", "ipv6.src == fd4f:574c:54::1 && !icmpv6")
    assert summary["str_sent"] == sent > 70


@pytest.mark.parametrize("name", ["cfdp+segment_bytes=1000", "tcp", "licklider", "socat"])
def test_nothing_crosses_the_channel_but_the_session(results: Path, name: str) -> None:
    """No neighbour or multicast discovery, no router solicitation, no IPv4."""
    _, directory = of(results, f"{name}_")

    assert counted(directory / "sender.pcap", "!(udp || tcp)") == 0


def test_datagrams_above_the_mtu_are_fragmented_by_the_host(results: Path) -> None:
    record, directory = of(results, "cfdp+segment_bytes=3000_")

    assert record["outcome"] == "completed"
    assert counted(directory / "sender.pcap", "ipv6.fraghdr") > 60
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["str_sent"] == counted(directory / "sender.pcap", "ipv6.src == fd4f:574c:54::1 && !icmpv6")


def test_an_implementation_without_ipv6_is_not_launched(results: Path) -> None:
    record, _ = of(results, "norm_")

    assert (record["outcome"], record["reason_code"]) == ("unsupported", "beyond_limits")
    assert "IPv6; the profile's ip_versions are IPv4" in record["reason"]
