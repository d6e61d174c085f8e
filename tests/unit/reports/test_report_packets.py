"""What the report says of packets and messages, held against the summaries and views that it is made of."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from owlt.captures.accounting.derived_files import keep
from owlt.captures.accounting.summary import load_summary
from owlt.captures.matches.bottleneck import Link
from owlt.captures.protocols.view import TcpCounts
from owlt.reports.comparison.cells import box_of
from owlt.reports.comparison.metrics import FURTHER, MEASURES
from owlt.reports.page.page import build_report
from owlt.reports.page.tables import ledger_rows, shown_ledger_columns, unexplained
from owlt.reports.results.channels import link_of
from owlt.reports.results.load import Results, load_results
from owlt.reports.results.rows import run_rows
from owlt.reports.sessions.protocols import shown_runs
from owlt.results.files import WrittenChannel
from owlt.results.record import SUMMARY
from tests.unit.reports.conftest import FAILED, change_record, few, page_text, sweep, write_results, write_view
from tests.unit.reports.test_report_page import Page
from tests.unit.reports.test_tcp_table import told as told_by_kernel

HARDEST = "cfdp_1MB_10Mbps_25ms_per0.01_r1"
EASIER = "cfdp_1MB_10Mbps_25ms_per0_r1"
ONE = few(implementations="cfdp", repetitions=1)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two runs of CFDP, with and without errors."""
    return write_results(tmp_path / "results", ONE)


def change_ledger(directory: Path, run_id: str, way: str, **counts: int) -> None:
    summary = load_summary(directory / "runs" / run_id)
    assert summary is not None
    changed = getattr(summary, way).model_copy(update=counts)
    keep(directory / "runs" / run_id / SUMMARY, summary.model_copy(update={way: changed}))


def page_of(directory: Path) -> Page:
    return Page(page_text(directory))


# The run that is shown


def test_the_hardest_completed_run_whose_messages_were_looked_at_is_shown(results: Path) -> None:
    for run_id in (EASIER, HARDEST):
        write_view(results, run_id)

    assert [shown.run.record.run_id for shown in shown_runs(load_results(results))] == [HARDEST]


def test_a_harder_one_that_did_not_complete_is_not(results: Path) -> None:
    for run_id in (EASIER, HARDEST):
        write_view(results, run_id)
    change_record(results, HARDEST, outcome="failed")

    assert [shown.run.record.run_id for shown in shown_runs(load_results(results))] == [EASIER]


def test_an_implementation_that_never_completed_shows_a_run_too(results: Path) -> None:
    write_view(results, HARDEST)
    change_record(results, HARDEST, outcome="timed_out")
    page = page_of(results)

    (row,) = [row for row in page.rows if row[0] == "CFDP" and "timed out" in " ".join(row)]
    assert "#1 timed out" in row


def test_delay_comes_before_file_size(tmp_path: Path) -> None:
    asked = sweep(implementations="cfdp", repetitions=1, packet_error_rate=0)
    write_results(tmp_path, asked)
    small_and_far, big_and_near = "cfdp_100kB_10Mbps_1.25s_per0_r1", "cfdp_1MB_10Mbps_25ms_per0_r1"
    for run_id in (small_and_far, big_and_near):
        write_view(tmp_path, run_id)

    assert [shown.run.record.run_id for shown in shown_runs(load_results(tmp_path))] == [small_and_far]


# What is said of it


def test_phases_are_times_since_the_first_packet(results: Path) -> None:
    write_view(results, HARDEST)
    summary = load_summary(results / "runs" / HARDEST)
    assert summary is not None
    assert summary.first_packet_ns is not None
    change_record(results, HARDEST, file_delivered_at_ns=summary.first_packet_ns + 1_234_567_890)
    (shown,) = shown_runs(load_results(results))

    assert shown.phases == {
        "first data": "0.002",
        "last new data": "0.850",
        "file delivered": "1.235",
        "session end": f"{summary.session_s:.3f}",
    }


def test_unknown_phases_are_dashes(results: Path) -> None:
    unknown = ("carried_file_bytes", "repeated_file_bytes", "first_data_ns", "last_new_data_ns")
    write_view(results, HARDEST, **dict.fromkeys(unknown))
    (shown,) = shown_runs(load_results(results))

    assert (shown.carried, shown.repeated, shown.phases["first data"]) == ("–", "–", "–")


def test_messages_are_counted_by_name_and_host(results: Path) -> None:
    write_view(results, HARDEST)
    page = page_of(results)

    assert ["data", "1 001", "1 067 066", "–", "–"] in page.rows
    assert ["NAK", "–", "–", "2", "180"] in page.rows


def test_the_lines_of_the_end_are_text_and_no_markup(results: Path) -> None:
    write_view(results, HARDEST)

    assert "UDP, length 20  EOF: &lt;whole&gt;</pre>" in page_text(results)


def test_the_shown_run_is_linked(results: Path) -> None:
    write_view(results, HARDEST)
    page = page_of(results)

    assert f"#run-{HARDEST}" in page.addresses
    assert f"../runs/{HARDEST}/protocol.json" in page.addresses


def test_a_run_without_captures_has_no_drawings_and_says_why(results: Path) -> None:
    write_view(results, HARDEST)
    (results / "runs" / HARDEST / "sender.pcap").unlink()

    assert "No drawings: its captures were not kept" in page_of(results).text


def test_captures_that_cannot_be_read_cost_the_drawings_alone(results: Path) -> None:
    write_view(results, HARDEST)

    assert "No drawings: its captures cannot be drawn: " in page_of(results).text  # they are empty files


def test_a_page_without_decoded_messages_says_so(reported: Path) -> None:
    assert "No run has decoded messages" in (reported / "report" / "index.html").read_text()


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ({"delay": "25 ms", "rate": "10 Mbit/s"}, Link(25_000_000, 1e7)),
        ({"delay": "1 s", "rate": "8 kbit/s", "overhead": "24 B", "queue": "10 packets"}, Link(10**9, 8e3, 24)),
        ({"delay": "25 ms"}, None),
        ({"delay": "25 ms", "rate": "unlimited"}, None),
        ({"delay": "25 ms", "rate": "10 Mbit/s", "jitter": {"amount": "5 ms"}}, None),
    ],
)
def test_a_queue_is_computed_for_a_channel_that_is_limited_and_steady(
    link: dict[str, Any], expected: Link | None
) -> None:
    assert link_of(WrittenChannel(forward=link), "forward") == expected


def test_no_queue_is_computed_for_a_channel_that_changes() -> None:
    link = {"delay": "25 ms", "rate": "10 Mbit/s"}
    channel = WrittenChannel.model_validate({"forward": link, "timeline": {"steps": [{"at": "1 s"}]}})

    assert link_of(channel, "forward") is None


def test_no_queue_is_computed_for_a_direction_whose_packets_an_aimed_fault_delays() -> None:
    link = {"delay": "25 ms", "rate": "10 Mbit/s"}
    faults = [{"direction": "forward", "action": {"delay": "1 s"}}, {"direction": "reverse", "action": "drop"}]
    channel = WrittenChannel.model_validate({"forward": link, "reverse": link, "faults": faults})

    assert link_of(channel, "forward") is None
    assert link_of(channel, "reverse") == Link(25_000_000, 1e7)


# Measures


def test_the_table_of_measures_has_the_medians_of_the_summaries(demo: Path) -> None:
    results = load_results(demo)
    for point, runs in results.by_permutation.items():
        for metric in MEASURES:
            values = [getattr(run.summary, metric.key) for run in runs if run.completed and run.summary]
            box = box_of(results, point, metric)
            assert box.numbers is not None
            assert box.numbers.median * metric.per_unit == pytest.approx(median(values))


def test_total_data_and_normalized_goodput_have_figures(reported: Path) -> None:
    figures = {path.name for path in (reported / "report" / "figures").iterdir()}

    assert {f"{metric.slug}-against-error-rate-10Mbps.svg" for metric in FURTHER} <= figures


def test_statistics_csv_has_every_measure(reported: Path) -> None:
    with (reported / "report" / "statistics.csv").open(newline="") as file:
        found = {row["metric"] for row in csv.DictReader(file)}

    assert {metric.slug for metric in MEASURES} <= found


def test_the_table_of_runs_has_the_measures_of_decoded_messages(results: Path) -> None:
    write_view(results, HARDEST)
    rows = {row["run_id"]: row for row in run_rows(load_results(results))}
    view = json.loads((results / "runs" / HARDEST / "protocol.json").read_text())

    assert rows[HARDEST]["repeated_file_bytes"] == 1000
    assert rows[HARDEST]["last_new_data_ns"] == view["last_new_data_ns"]
    assert rows[EASIER]["repeated_file_bytes"] is None


def test_the_table_of_runs_has_the_machine_delay_of_runs_on_the_real_clock(results: Path) -> None:
    change_record(results, HARDEST, machine_delay={"session_ns": 10**8, "waited_ns": 312, "dispatches": 7})

    rows = {row["run_id"]: row for row in run_rows(load_results(results))}

    assert (rows[HARDEST]["waited_ns"], rows[HARDEST]["dispatches"]) == (312, 7)
    assert (rows[EASIER]["waited_ns"], rows[EASIER]["dispatches"]) == (None, None)


# The ledger


def test_a_ledger_is_the_sum_over_the_runs_of_a_permutation(demo: Path) -> None:
    results = load_results(demo)
    rows = {(row.permutation, row.arrow): row for row in ledger_rows(results)}

    for point, runs in results.by_permutation.items():
        summaries = [run.summary for run in runs if run.summary]
        assert rows[point, "→"].counts["sent"] == sum(summary.str_sent for summary in summaries)
        assert rows[point, "←"].counts["delivered"] == sum(summary.rts_delivered for summary in summaries)
        assert rows[point, "→"].runs == len(summaries)


def test_a_run_that_did_not_complete_is_in_the_ledger(reported: Path) -> None:
    results = load_results(reported)
    (point,) = {run.record.permutation for run in results.runs if run.record.run_id == FAILED}

    assert {row.runs for row in ledger_rows(results) if row.permutation == point} == {3}


def test_columns_of_a_ledger_without_counts_are_omitted(results: Path) -> None:
    change_ledger(results, HARDEST, "ledger_forward", queue=3)

    assert list(shown_ledger_columns(ledger_rows(load_results(results)))) == [
        "sent",
        "delivered",
        "queue",
        "unexplained",
    ]


def test_marks_of_queues_are_columns_of_the_ledger_and_of_the_table_of_runs(results: Path) -> None:
    change_ledger(results, HARDEST, "ledger_forward", ecn_capable=40, ecn_marked=4)
    loaded = load_results(results)

    rows = ledger_rows(loaded)
    assert list(shown_ledger_columns(rows).values()) == ["sent", "delivered", "ECT", "CE", "unexplained"]
    assert sum(row.counts["ecn_marked"] for row in rows) == 4
    (row,) = [row for row in run_rows(loaded) if row["run_id"] == HARDEST]
    assert (row["forward_ecn_capable"], row["forward_ecn_marked"]) == (40, 4)


def test_summaries_of_older_versions_know_nothing_of_marks(results: Path) -> None:
    change_ledger(results, HARDEST, "ledger_forward", ecn_capable=None, ecn_marked=None)
    loaded = load_results(results)

    assert "ecn_marked" not in shown_ledger_columns(ledger_rows(loaded))
    (row,) = [row for row in run_rows(loaded) if row["run_id"] == HARDEST]
    assert row["forward_ecn_marked"] is None


def test_a_ledger_that_closes_says_so(results: Path) -> None:
    assert "are accounted for" in page_of(results).text
    assert unexplained(load_results(results)) == []


def test_unexplained_packets_are_listed_with_their_run(results: Path) -> None:
    change_ledger(results, HARDEST, "ledger_reverse", unexplained_missing=1, unexplained_arrived=2)
    page = page_of(results)

    assert [HARDEST, "←", "1", "2"] in page.rows
    assert "are accounted for" not in page.text


def test_corrupted_packets_known_only_to_the_emulator_are_counted_apart(results: Path) -> None:
    change_ledger(results, HARDEST, "ledger_forward", corrupted=9, corrupted_unseen=7)

    assert (
        "The captures of 2 runs contain only packet headers; "
        "7 of the corrupted packets are known only from the emulator’s counters"
    ) in page_of(results).text


# TCP


@pytest.fixture
def tcp_results(tmp_path: Path) -> Callable[..., Path]:
    """Makes one run over TCP of which the kernels told this."""

    def made(**tcp: Any) -> Path:
        asked = few(implementations="tcp", repetitions=1, packet_error_rate=0)
        directory = write_results(tmp_path, asked)
        change_record(directory, TCP_RUN, tcp=told_by_kernel(1, 20, 2, is_final=True) | tcp)
        return directory

    return made


TCP_RUN = "tcp_1MB_10Mbps_25ms_per0_r1"
NONE = dict.fromkeys(TcpCounts.model_fields, 0)


def only(results: Results) -> tuple[str, ...]:
    (run,) = results.runs
    return run.suspect


def test_a_kernel_and_packets_that_disagree_make_a_run_suspect(tcp_results: Callable[..., Path]) -> None:
    directory = tcp_results()
    write_view(directory, TCP_RUN, tcp=TcpCounts(**NONE | {"sent_again": 20}))

    (reason,) = only(load_results(directory))
    assert "counted 21 retransmitted segments, but 20 reached" in reason


def test_a_kernel_and_packets_that_agree_do_not(tcp_results: Callable[..., Path]) -> None:
    directory = tcp_results()
    write_view(directory, TCP_RUN, tcp=TcpCounts(**NONE | {"sent_again": 21}))

    assert only(load_results(directory)) == ()


def test_a_sweep_over_tcp_has_its_table_in_the_page_and_its_counts_in_the_table_of_runs(
    tcp_results: Callable[..., Path],
) -> None:
    directory = tcp_results()
    page = page_of(directory)

    assert "tcp" in page.ids
    assert "fast retransmit (%)" in [cell for row in page.rows for cell in row]
    assert [row["run_id"] for row in run_rows(load_results(directory)) if row["sent_again"]] == [TCP_RUN]


def test_a_sweep_without_tcp_has_none(results: Path) -> None:
    assert "tcp" not in page_of(results).ids


def test_a_table_of_tcp_of_an_earlier_report_does_not_stay(tmp_path: Path) -> None:
    results = write_results(tmp_path, few(implementations="cfdp", repetitions=1, packet_error_rate=0))
    (results / "report").mkdir()
    (results / "report" / "tcp.csv").write_text("of an earlier report")
    build_report(results)

    assert not (results / "report" / "tcp.csv").exists()


def test_a_run_without_tcp_counters_is_listed_with_the_reason(tcp_results: Callable[..., Path]) -> None:
    page = page_of(tcp_results(sender={"problem": "the sampler exited with status 1"}))

    assert [TCP_RUN, "sender: the sampler exited with status 1"] in page.rows


def test_samples_of_the_window_are_linked_and_drawn(tcp_results: Callable[..., Path]) -> None:
    directory = tcp_results()
    write_view(directory, TCP_RUN)
    head = "time_ns,socket,ca_state,cwnd_segments,ssthresh_segments,srtt_us,rttvar_us,bytes_acked\n"
    rows = "".join(f"{number * 10**9},7,open,{10 + number},,50000,1000,{number}\n" for number in range(4))
    (directory / "runs" / TCP_RUN / "tcp-sender.csv").write_text(head + rows)
    page = page_of(directory)

    assert "figures/window-tcp.svg" in page.addresses
    assert f"../runs/{TCP_RUN}/tcp-sender.csv" in page.addresses
