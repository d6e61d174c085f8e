"""`owlt analyse`: captures of anybody become numbers, tables and a page; what is wrong is told and changes nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestrator.cli import app
from orchestrator.errors import OwltError
from orchestrator.record import Outcome, write_record
from tests.conftest import require_command
from tests.unit.captures.making import DATA
from tests.unit.orchestrator.making import record

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


def test_by_default_it_goes_beside_the_captures_under_the_senders_name(tmp_path: Path) -> None:
    copies = [shutil.copy(path, tmp_path) for path in (SENDER, RECEIVER)]
    analyse(*copies)
    assert (tmp_path / "analysis-netem-tcp-sender" / "index.html").exists()


def test_what_an_earlier_analysis_left_is_replaced_and_that_is_said(tmp_path: Path) -> None:
    first = analyse(SENDER, RECEIVER, "--out", tmp_path, "--tables", "parquet")
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
        "multicast_groups": [],
    }


def test_what_was_chosen_and_what_else_there_is_are_told(tmp_path: Path) -> None:
    mixed = DATA / "mixed-sender.pcap", DATA / "mixed-receiver.pcap"
    said = analyse(*mixed, "--out", tmp_path)
    assert "note: the session is proposed from the packets" in said
    assert "note: also there: UDP 5222, 21 packets (--port udp/5222)" in said
    assert "32 MLD report" in said
    other = analyse(*mixed, "--out", tmp_path, "--port", "udp/5222")
    assert read(tmp_path)["session"]["udp_ports"] == [5222]
    assert "note: the hosts are proposed from the packets" in other
    assert "also there: TCP 5223, 12 packets (--port tcp/5223)" in other


def test_whose_packets_they_may_be_is_told_where_nobody_says(tmp_path: Path) -> None:
    said = analyse(GOLDEN / "run-cfdp.pcap", "--at", "sender", "--out", tmp_path)
    assert re.search(r"UDP 2501 is used by .*\bcfdp\b.*: name one with --implementation", said)


def test_one_capture_has_a_page_and_its_messages(tmp_path: Path) -> None:
    analyse(GOLDEN / "run-cfdp.pcap", "--at", "sender", "--implementation", "cfdp", "--out", tmp_path)
    tables = {"messages.csv", "trace-throughput.csv", "trace-data.csv", "trace-acknowledgements.csv"}
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", "analysis.json", "traces.svg", *tables}
    html = (tmp_path / "index.html").read_text()
    assert "metadata" in html
    assert "As tcpdump would print it" in html
    assert "give it with --file-size" in html


def test_the_ledger_is_told_in_the_words_of_its_terms(tmp_path: Path) -> None:
    said = analyse(SENDER, RECEIVER, "--out", tmp_path)
    assert "23 sent, 23 arrived" in said
    assert "forward: sent 23 = 18 delivered + 5 corrupted" in said


def run_of_owlt(directory: Path, outcome: Outcome, reason: str = "") -> Path:
    directory.mkdir()
    for capture, name in ((SENDER, "sender.pcap"), (RECEIVER, "receiver.pcap")):
        shutil.copy(capture, directory / name)
    session = {"sender_address": "10.77.0.1", "receiver_address": "10.77.0.2", "tcp_ports": [5223]}
    build = {"run_id": "tcp_r1", "implementation": "tcp", "title": "TCP", "protocol": "TCP"}
    ended = {"outcome": outcome, "reason": reason}
    write_record(record(**build, **ended, session=session, file_size_bytes=10_000, clock="real"), directory)
    return directory


def test_of_a_run_the_outcome_comes_first(tmp_path: Path) -> None:
    said = analyse(run_of_owlt(tmp_path / "run", Outcome.FAILED, "no file came"))
    assert said.index("FAILED: no file came") < said.index("session")
    assert "goodput left out: the transfer did not complete" in said
    assert "normalized goodput" not in said
    assert read(tmp_path / "run" / "analysis")["outcome"] == "failed"


def test_one_that_completed_has_its_goodput(tmp_path: Path) -> None:
    said = analyse(run_of_owlt(tmp_path / "run", Outcome.COMPLETED))
    assert "completed" in said
    assert "normalized goodput" in said


@pytest.mark.parametrize("plan", ['{"schema_version": 1}', '{"implementations": {"tc', "[]", "\xff"])
def test_a_plan_that_is_damaged_or_of_an_older_form_does_not_matter(tmp_path: Path, plan: str) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "plan.json").write_text(plan, encoding="latin-1")
    assert "completed" in analyse(run_of_owlt(tmp_path / "runs" / "run", Outcome.COMPLETED))


def test_a_run_without_a_packet_of_its_session_is_refused_with_its_outcome(tmp_path: Path) -> None:
    run = run_of_owlt(tmp_path / "run", Outcome.FAILED, "no file came")
    for name in ("sender.pcap", "receiver.pcap"):
        shutil.copy(GOLDEN / "no-packets.pcap", run / name)
    assert "FAILED: no file came; sender.pcap and receiver.pcap: got no packet" in refusal(run)
    assert not (run / "analysis").exists()


def test_several_runs_are_refused_with_what_to_do(tmp_path: Path) -> None:
    runs = [run_of_owlt(tmp_path / name, Outcome.COMPLETED) for name in ("a", "b")]
    assert "analyse each run by itself" in refusal(*runs)


def test_a_place_that_cannot_be_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "got a file, wanted a directory" in refusal(SENDER, DATA / "none.pcap", "--out", tmp_path / "file")
    assert "file does not allow it; name another --out" in refusal(SENDER, RECEIVER, "--out", tmp_path / "file" / "x")


def test_one_capture_at_the_receiver_has_the_round_trip_added(tmp_path: Path) -> None:
    said = analyse(RECEIVER, "--at", "receiver", "--delay", "25 ms", "--file-size", "10 kB", "--out", tmp_path)
    found = read(tmp_path)["one_side"]
    assert found["session_s"] == pytest.approx(found["session_seen_s"] + 0.05)
    assert "round trip of 0.05 s was added" in said


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    said = refusal(tmp_path / "pipe", "--at", "sender", "--out", tmp_path / "out")
    assert "got a pipe or a device, wanted a file" in said


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
        ([SENDER, RECEIVER, "--sender", "here"], "--sender: got 'here', wanted an address such as"),
        (
            [SENDER, RECEIVER, "--receiver", "10.0.0.9"],
            "got no packet of 10.0.0.9; there is TCP 5223 between 10.77.0.1",
        ),
        ([SENDER, RECEIVER, "--sender", "fe80::1"], "got no packet of fe80::1; there is"),
        (
            [SENDER, RECEIVER, "--sender", "10.0.0.1", "--receiver", "fe80::1"],
            "--group: got IPv4 and IPv6 addresses, wanted one kind",
        ),
        ([SENDER, RECEIVER, "--sender", "10.0.0.1", "--receiver", "10.0.0.1"], "got 10.0.0.1 for both"),
        ([SENDER, RECEIVER, "--sender", "224.1.2.3"], "--sender: got the group 224.1.2.3"),
        ([SENDER, RECEIVER, "--group", "10.0.0.1"], "--group: got 10.0.0.1, wanted a multicast group"),
        ([SENDER, RECEIVER, "--port", "udp/9"], "got no packet on UDP 9; there is TCP 5223 between"),
        (
            [SENDER, RECEIVER, "--port", "udp/9", "--sender", "10.77.0.1", "--receiver", "10.77.0.2"],
            "got no packet between 10.77.0.1 and 10.77.0.2 on UDP 9; there is TCP 5223",
        ),
        ([GOLDEN / "no-packets.pcap", GOLDEN / "no-packets.pcap"], "got no frame at all"),
        ([SENDER, "--at", "sender", "--clocks", "two"], "--clocks two: got one capture"),
        ([SENDER, RECEIVER, "--file-size", "10000"], 'write the unit, as in "10000 B"'),
        ([SENDER, RECEIVER, "--delay", "25"], "--delay: "),
        ([SENDER, RECEIVER, "--rate", "fast"], "--rate: "),
        ([SENDER, RECEIVER, "--implementation", "cdfp"], "cdfp"),
        ([DATA / "README.md", RECEIVER], "README.md: begins with"),
        ([DATA / "none.pcap", RECEIVER], "wanted a run's directory, such as results/demo/runs/RUN, two captures"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(tmp_path: Path, arguments: list[object], said: str) -> None:
    place = tmp_path / "out"
    assert said in refusal(*arguments, "--out", place)
    assert not place.exists()
