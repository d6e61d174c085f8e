"""The page of one run: how it ended first, numbers in one form, nothing left over from an earlier one."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from owlt.captures.accounting.ledger import Ledger
from owlt.captures.accounting.summary import read_both
from owlt.captures.inspection.inspection import Case, Inspection, inspect
from owlt.reports.sessions.run_page import build_run_page, replaced_pages, run_tables, write_tables
from owlt.reports.sessions.run_text import count_text, ledger_line, ledger_rows, number_rows, outcome_text
from tests.conftest import require_command
from tests.unit.captures.making import SESSION, later, timed, udp_frame, write_pcap

SENT = timed([udp_frame(n.to_bytes(4, "big") * 250) for n in range(2000)], step_ns=500_000)
CASE = Case(SESSION, file_size_bytes=1_000_000)
NOTHING = dict.fromkeys(Ledger.model_fields, 0)


@pytest.fixture(scope="module", autouse=True)
def tshark() -> str:
    return require_command("tshark")


@pytest.fixture(scope="module")
def inspection(tshark: str, tmp_path_factory: pytest.TempPathFactory) -> Inspection:
    """A transfer of which nothing is known beside its packets."""
    return inspected(tmp_path_factory.mktemp("captures"), CASE)


def inspected(folder: Path, case: Case) -> Inspection:
    pcaps = write_pcap(folder / "s.pcap", SENT), write_pcap(folder / "r.pcap", later(SENT[1:], 1_234_567_890))
    return inspect(*read_both(*pcaps), case)


def page(folder: Path, case: Case) -> str:
    return build_run_page("a run", inspected(folder, case), case, folder / "out", "csv", []).read_text()


def ledger(**counts: int) -> Ledger:
    return Ledger.model_validate(NOTHING | counts)


def test_a_run_that_failed_says_so_first_and_has_no_goodput(tmp_path: Path) -> None:
    html = page(tmp_path, replace(CASE, outcome="timed_out", reason="the deadline passed"))
    assert html.index("TIMED OUT: the deadline passed") < html.index("Numbers")
    assert "not available: the transfer did not complete" in html
    assert "normalized goodput" not in html
    analysis = json.loads((tmp_path / "out" / "analysis.json").read_text())
    assert (analysis["outcome"], analysis["reason"]) == ("timed_out", "the deadline passed")
    assert analysis["goodput_missing_reason"] == "the transfer did not complete"
    assert analysis["summary"]["goodput_bps"] is None


def test_one_that_completed_says_that_and_has_it(tmp_path: Path) -> None:
    html = page(tmp_path, replace(CASE, outcome="completed"))
    assert "Completed" in html
    assert "normalized goodput" in html
    assert "not available" not in html


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (CASE, ""),
        (replace(CASE, outcome="completed", reason=""), "completed"),
        (replace(CASE, outcome="failed", reason="no file"), "FAILED: no file"),
        (replace(CASE, outcome="unsupported"), "UNSUPPORTED"),
    ],
)
def test_the_outcome_in_words(case: Case, text: str) -> None:
    assert outcome_text(case) == text


def test_numbers_are_grouped_and_delays_are_in_ms_with_three_decimals(inspection: Inspection) -> None:
    rows = dict(number_rows(inspection, CASE))
    assert rows["STR"] == "2\u202f000 sent, 1\u202f999 arrived"
    assert rows["one-way delay forward"].startswith("min 1\u202f234.568, ")
    assert rows["total data"] == "2\u202f084\u202f000 bytes"


def test_a_silent_host_has_no_throughput(inspection: Inspection) -> None:
    rows = dict(number_rows(inspection, CASE))
    assert rows["RTS"] == "none"
    assert "throughput reverse" not in rows
    assert "throughput forward" in rows


def test_values_unknown_from_packets_say_so(inspection: Inspection) -> None:
    rows = dict(number_rows(inspection, CASE))
    assert {rows[name] for name in ("first data after", "last new data after", "data retransmitted")} == {
        "not known from its packets"
    }


def test_a_ledger_is_a_sum_in_a_line() -> None:
    line = ledger_line("forward", ledger(sent=1300, delivered=1296, lost=4))
    assert line == "forward: sent 1\u202f300 = 1\u202f296 delivered + 4 lost"


def test_counts_outside_of_the_sum_follow_it() -> None:
    line = ledger_line("reverse", ledger(sent=3, delivered=2, in_flight=1, duplicated=1, reordered=2))
    assert line == "reverse: sent 3 = 2 delivered + 1 in flight; 1 duplicated and 2 reordered"


def test_ledger_rows_without_counts_are_omitted() -> None:
    rows = ledger_rows(ledger(sent=3, delivered=2, lost=1), ledger())
    assert rows == [("sent", "3", "0"), ("delivered", "2", "0"), ("lost", "1", "0"), ("unexplained", "0", "0")]


def test_unexplained_packets_have_rows_of_their_own() -> None:
    rows = ledger_rows(ledger(sent=1, unexplained_missing=1), ledger())
    assert rows == [("sent", "1", "0"), ("delivered", "0", "0"), ("unexplained missing", "1", "0")]


def test_one_is_one() -> None:
    assert (count_text(1, "packet"), count_text(0, "packet"), count_text(2, "packet")) == (
        "1 packet",
        "0 packets",
        "2 packets",
    )


def test_a_message_without_a_place_in_the_file_has_none_in_the_table(inspection: Inspection, tmp_path: Path) -> None:
    write_tables(run_tables(inspection), tmp_path, "csv")
    with (tmp_path / "messages.csv").open() as file:
        row = next(csv.DictReader(file))
    assert (row["first_byte"], row["acknowledged_bytes"]) == ("", "")


def test_of_an_earlier_analysis_only_its_own_files_are_removed(tmp_path: Path) -> None:
    ours = ["analysis.json", "index.html", "traces.svg", "messages.parquet", "packets.csv", "trace-data.csv"]
    others = ["sender.pcap", "notes.csv", "tcp-sender.csv", "summary.json"]
    for name in ours + others:
        (tmp_path / name).touch()
    with replaced_pages(tmp_path) as (draft, is_replaced):
        (draft / "index.html").write_text("new")
    assert is_replaced
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, "index.html"])


def test_where_no_analysis_was_nothing_is_removed(tmp_path: Path) -> None:
    (tmp_path / "packets.csv").touch()
    with replaced_pages(tmp_path) as (_draft, is_replaced):
        pass
    assert not is_replaced
    assert (tmp_path / "packets.csv").exists()


def test_an_analysis_that_is_interrupted_leaves_the_earlier_one_complete(tmp_path: Path) -> None:
    for name in ("analysis.json", "index.html", "traces.svg"):
        (tmp_path / name).write_text("earlier")
    with pytest.raises(KeyboardInterrupt), replaced_pages(tmp_path) as (draft, _is_replaced):
        (draft / "traces.svg").write_text("new")
        raise KeyboardInterrupt
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(
        ("analysis.json", "index.html", "traces.svg"), "earlier"
    )
