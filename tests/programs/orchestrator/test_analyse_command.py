"""owlt analyse: captures of any origin, and runs, become a page with figures and tables."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from owlt.orchestrator.commands.cli import app
from owlt.results.record import Outcome
from tests.conftest import require_command
from tests.unit.captures.making import DATA, GOLDEN
from tests.unit.orchestrator.analysing import RECEIVER, SENDER, analyse, run_of_owlt


@pytest.fixture(autouse=True)
def tshark() -> str:
    return require_command("tshark")


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Where an analysis of two captures was written, and what was printed."""
    require_command("tshark")
    directory = tmp_path_factory.mktemp("analysed")
    return directory, analyse(SENDER, RECEIVER, "--out", directory, "--file-size", "10 kB")


def read(directory: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((directory / "analysis.json").read_text())
    return told


def test_two_captures_become_a_page_with_figures_and_tables(analysed: tuple[Path, str]) -> None:
    directory, said = analysed
    written = {path.name for path in directory.iterdir()}
    assert {"index.html", "analysis.json", "packets.csv", "messages.csv", "traces.svg", "ladder.svg"} <= written
    assert "10.77.0.1 to 10.77.0.2, TCP 5223" in said
    assert read(directory)["summary"]["str_sent"] == 23


def test_the_times_in_the_analysis_sum_to_the_session(analysed: tuple[Path, str]) -> None:
    directory, _ = analysed
    time = read(directory)["time"]
    assert (directory / "time.svg").exists()
    assert sum(sum(of_phase.values()) for of_phase in time["spent_ns"].values()) == time["session_ns"]
    assert time["session_ns"] == round(read(directory)["summary"]["session_s"] * 1e9)


def test_by_default_it_goes_beside_the_captures_under_the_senders_name(tmp_path: Path) -> None:
    copies = [shutil.copy(path, tmp_path) for path in (SENDER, RECEIVER)]
    analyse(*copies)
    assert (tmp_path / "analysis-netem-tcp-sender" / "index.html").exists()


@pytest.fixture(scope="module")
def as_parquet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The same with tables as Parquet."""
    require_command("tshark")
    directory = tmp_path_factory.mktemp("parquet")
    return directory, analyse(SENDER, RECEIVER, "--out", directory, "--tables", "parquet")


def test_tables_can_be_parquet(as_parquet: tuple[Path, str]) -> None:
    directory, _ = as_parquet
    assert (directory / "packets.parquet").read_bytes()[:4] == b"PAR1"
    assert not list(directory.glob("*.csv"))


def test_what_an_earlier_analysis_left_is_replaced_and_that_is_said(
    as_parquet: tuple[Path, str], tmp_path: Path
) -> None:
    directory, first = as_parquet
    shutil.copytree(directory, tmp_path, dirs_exist_ok=True)
    (tmp_path / "mine.csv").touch()
    second = analyse(SENDER, RECEIVER, "--out", tmp_path)
    assert "(replaced)" not in first
    assert "(replaced)" in second
    assert not list(tmp_path.glob("*.parquet"))
    assert (tmp_path / "mine.csv").exists()


def test_an_implementation_names_ports_and_dissector(tmp_path: Path) -> None:
    analyse(GOLDEN / "run-cfdp.pcap", "--at", "sender", "--implementation", "cfdp", "--out", tmp_path)
    told = read(tmp_path)
    assert told["session"]["udp_ports"] == [2501, 2502]
    assert told["messages"]["sender"]["metadata"] == 1


def test_options_stand_above_what_the_packets_propose(tmp_path: Path) -> None:
    both = ("--sender", "10.77.0.2", "--receiver", "10.77.0.1")
    analyse(RECEIVER, SENDER, "--out", tmp_path, "--port", "tcp/5223", "--port", "udp/9", *both)
    assert read(tmp_path)["session"] == {
        "sender_address": "10.77.0.2",
        "receiver_address": "10.77.0.1",
        "udp_ports": [9],
        "tcp_ports": [5223],
        "sctp_ports": [],
        "multicast_groups": [],
    }


def test_what_was_chosen_and_what_else_there_is_are_reported(tmp_path: Path) -> None:
    mixed = DATA / "mixed-sender.pcap", DATA / "mixed-receiver.pcap"
    said = analyse(*mixed, "--out", tmp_path)
    assert "note: the session is inferred from the packets" in said
    assert "note: the captures also contain: UDP 5222, 21 packets (--port udp/5222)" in said
    assert "32 MLD report" in said
    other = analyse(*mixed, "--out", tmp_path, "--port", "udp/5222")
    assert read(tmp_path)["session"]["udp_ports"] == [5222]
    assert "note: the hosts are inferred from the packets" in other
    assert "the captures also contain: TCP 5223, 12 packets (--port tcp/5223)" in other


def test_whose_packets_they_may_be_is_reported_where_nobody_says(tmp_path: Path) -> None:
    said = analyse(GOLDEN / "run-cfdp.pcap", "--at", "sender", "--out", tmp_path)
    assert re.search(r"UDP 2501 is used by .*\bcfdp\b.*: name one with --implementation", said)


def test_one_capture_has_a_page_and_its_messages(tmp_path: Path) -> None:
    analyse(GOLDEN / "run-cfdp.pcap", "--at", "sender", "--implementation", "cfdp", "--out", tmp_path)
    tables = {"messages.csv", "trace-throughput.csv", "trace-data.csv", "trace-acknowledgements.csv"}
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", "analysis.json", "traces.svg", *tables}
    html = (tmp_path / "index.html").read_text()
    assert "metadata" in html
    assert "In the format of tcpdump" in html
    assert "give it with --file-size" in html


def test_of_a_run_the_outcome_comes_first(tmp_path: Path) -> None:
    said = analyse(run_of_owlt(tmp_path / "run", Outcome.FAILED, "no file came"))
    assert said.index("FAILED: no file came") < said.index("session")
    assert "goodput not available: the transfer did not complete" in said
    assert "normalized goodput" not in said
    assert read(tmp_path / "run" / "analysis")["outcome"] == "failed"


def test_one_that_completed_has_its_goodput(tmp_path: Path) -> None:
    said = analyse(run_of_owlt(tmp_path / "run", Outcome.COMPLETED))
    assert "completed" in said
    assert "normalized goodput" in said


def test_one_capture_at_the_receiver_has_the_round_trip_added(tmp_path: Path) -> None:
    said = analyse(RECEIVER, "--at", "receiver", "--delay", "25 ms", "--file-size", "10 kB", "--out", tmp_path)
    found = read(tmp_path)["one_side"]
    assert found["session_s"] == pytest.approx(found["session_seen_s"] + 0.05)
    assert "round trip of 0.05 s was added" in said


def test_the_ledger_is_reported_in_the_words_of_its_terms(analysed: tuple[Path, str]) -> None:
    _, said = analysed
    assert "23 sent, 23 arrived" in said
    assert "forward: sent 23 = 18 delivered + 5 corrupted" in said


def test_owlt_why_prints_where_the_time_of_a_run_went(tmp_path: Path) -> None:
    run = run_of_owlt(tmp_path / "run", Outcome.COMPLETED)

    printed = CliRunner().invoke(app, ["why", str(run), "--no-perform", "--json"], catch_exceptions=False)
    told = json.loads(printed.stdout)

    assert sum(sum(of_phase.values()) for of_phase in told["spent_ns"].values()) == told["session_ns"] > 0


def test_a_run_against_itself_has_no_difference(tmp_path: Path) -> None:
    run = str(run_of_owlt(tmp_path / "run", Outcome.COMPLETED))

    printed = CliRunner().invoke(app, ["why", run, "--against", run, "--json"], catch_exceptions=False)
    told = json.loads(printed.stdout)["against"]

    assert (told["first"], told["causes"]) == (None, [])


def test_what_the_causes_of_a_run_cost_is_not_known_on_the_real_clock(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    run = run_of_owlt(tmp_path / "runs" / "run", Outcome.COMPLETED)

    printed = CliRunner().invoke(app, ["why", str(run), "--json"], catch_exceptions=False)
    told = json.loads(printed.stdout)

    assert told["costs"]["problem"]
    assert told["costs"]["runs"] == 0
