"""`owlt analyse`: captures of anybody become numbers, tables and a page; what is wrong is told and changes nothing."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.errors import OwltError
from tests.conftest import require_command
from tests.unit.captures.making import DATA

GOLDEN = DATA.parent / "golden"
SENDER, RECEIVER = DATA / "netem-tcp-sender.pcap", DATA / "netem-tcp-receiver.pcap"


@pytest.fixture(autouse=True)
def tshark() -> str:
    return require_command("tshark")


def analyse(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["analyse", *map(str, arguments)], catch_exceptions=False, standalone_mode=False)
    return re.sub(r"\s+", " ", done.output)


def refusal(*arguments: object) -> str:
    with pytest.raises(OwltError) as refused:
        analyse(*arguments)
    return str(refused.value)


def read(directory: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((directory / "analysis.json").read_text())
    return told


def test_two_captures_become_a_page_with_figures_and_tables(tmp_path: Path) -> None:
    said = analyse(SENDER, RECEIVER, "--out", tmp_path, "--file-size", "10 kB")
    written = {path.name for path in tmp_path.iterdir()}
    assert {"index.html", "analysis.json", "packets.csv", "messages.csv", "traces.svg", "ladder.svg"} <= written
    assert "10.77.0.1 to 10.77.0.2, TCP 5223" in said
    assert read(tmp_path)["summary"]["str_sent"] == 23


def test_tables_can_be_parquet(tmp_path: Path) -> None:
    analyse(SENDER, RECEIVER, "--out", tmp_path, "--tables", "parquet")
    assert (tmp_path / "packets.parquet").read_bytes()[:4] == b"PAR1"
    assert not list(tmp_path.glob("*.csv"))


def test_by_default_it_goes_beside_the_captures(tmp_path: Path) -> None:
    copies = [shutil.copy(path, tmp_path) for path in (SENDER, RECEIVER)]
    analyse(*copies)
    assert (tmp_path / "analysis" / "index.html").exists()


def test_an_implementation_names_ports_and_dissector(tmp_path: Path) -> None:
    analyse(GOLDEN / "run-cfdp.pcap", "--at", "sender", "--implementation", "cfdp", "--out", tmp_path)
    told = read(tmp_path)
    assert told["session"]["udp_ports"] == [2501, 2502]
    assert told["messages"]["sender"]["metadata"] == 1


def test_options_stand_above_what_the_packets_propose(tmp_path: Path) -> None:
    said = analyse(
        SENDER, RECEIVER, "--out", tmp_path, "--port", "udp/9", "--sender", "10.77.0.2", "--receiver", "10.77.0.1"
    )
    assert read(tmp_path)["session"] == {
        "sender_address": "10.77.0.2",
        "receiver_address": "10.77.0.1",
        "udp_ports": [9],
        "tcp_ports": [],
        "multicast_groups": [],
    }
    assert "suspect: netem-tcp-sender.pcap holds no packet of the session" in said


def test_one_capture_at_the_receiver_has_the_round_trip_added(tmp_path: Path) -> None:
    said = analyse(RECEIVER, "--at", "receiver", "--delay", "25 ms", "--file-size", "10 kB", "--out", tmp_path)
    found = read(tmp_path)["one_side"]
    assert found["session_s"] == pytest.approx(found["session_seen_s"] + 0.05)
    assert "round trip of 0.05 s was added" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([SENDER], "wanted --at sender or --at receiver"),
        ([SENDER, RECEIVER, "--at", "sender"], "--at sender: got two captures"),
        ([SENDER, RECEIVER, SENDER], "got 3 paths, wanted"),
        ([DATA], "got a directory without a record.json; wanted a run's"),
        ([SENDER, "--at", "elsewhere"], "--at: got 'elsewhere', wanted sender or receiver"),
        ([SENDER, RECEIVER, "--clocks", "three"], "--clocks: got 'three', wanted one or two"),
        ([SENDER, RECEIVER, "--tables", "xls"], "--tables: got 'xls', wanted csv or parquet"),
        ([SENDER, RECEIVER, "--port", "1113"], "--port: got '1113', wanted udp/PORT or tcp/PORT"),
        ([SENDER, RECEIVER, "--port", "udp/0"], "--port: got 'udp/0'"),
        ([SENDER, RECEIVER, "--sender", "here"], "sender_address: got 'here'"),
        ([SENDER, RECEIVER, "--file-size", "10"], "--file-size: "),
        ([SENDER, RECEIVER, "--delay", "25"], "--delay: "),
        ([SENDER, RECEIVER, "--rate", "fast"], "--rate: "),
        ([SENDER, RECEIVER, "--implementation", "cdfp"], "cdfp"),
        ([DATA / "README.md", RECEIVER], "README.md: begins with"),
        ([DATA / "none.pcap", RECEIVER], "none.pcap: No such file or directory"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(tmp_path: Path, arguments: list[object], said: str) -> None:
    place = tmp_path / "out"
    assert said in refusal(*arguments, "--out", place)
    assert not place.exists()
