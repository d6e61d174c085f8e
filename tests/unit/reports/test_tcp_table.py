"""The table of TCP's retransmissions, held against the records that it is made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from owlt.reports.page.tables import HEADS, tcp_cells, tcp_rows
from owlt.reports.results.columns import COUNTERS
from owlt.reports.results.load import Results, load_results
from owlt.reports.results.rows import run_rows, tcp_of
from tests.unit.reports.conftest import change_record, sweep, write_results

RUNS = 3
SWEEP = sweep(implementations=["tcp"], file_size="1 MB", delay="25 ms", packet_error_rate=[0, 0.01], repetitions=RUNS)


def told(timeouts: int, fast: int, spurious: int, **changes: Any) -> dict[str, Any]:
    """What both hosts' kernels counted; changes are of the sender's socket."""
    socket = {"port": 40000, "peer_port": 5001, "sack": True, "total_retrans": timeouts + fast}
    socket |= {"total_rto": timeouts, "dsack_dups": spurious} | changes
    counters = {"TcpExtTCPFastRetrans": fast, "TcpExtTCPTimeouts": timeouts, "TcpRetransSegs": timeouts + fast}
    return {
        "sender": {"sockets": [socket], "counters": counters, "dsack": True, "period_ns": 12_500_000},
        "receiver": {"sockets": [socket], "counters": {"TcpExtDelayedACKs": 7}, "dsack": True},
    }


def made(directory: Path, *of_runs: dict[str, Any]) -> Results:
    """Runs of one permutation, each with what its kernels told."""
    write_results(directory, SWEEP, skip=lambda run: run.permutation.packet_error_rate > 0)
    for number, tcp in enumerate(of_runs, 1):
        (name,) = [path.name for path in (directory / "runs").iterdir() if path.name.endswith(f"_r{number}")]
        change_record(directory, name, tcp=tcp)
    return load_results(directory)


def sent(results: Results) -> list[int]:
    return [run.summary.str_sent for run in results.runs if run.summary]


def test_shares_are_means_over_the_runs_of_counts_over_packets_sent(tmp_path: Path) -> None:
    counts = [(1, 20, 2), (0, 30, 0), (4, 10, 5)]
    results = made(tmp_path, *(told(*each) for each in counts))
    (row,) = tcp_rows(results)

    packets = sent(results)
    for place, name in enumerate(("timeout_percent", "fast_percent", "spurious_percent")):
        mine = [getattr(run, name) for run in row.runs]
        assert mine == pytest.approx([100 * each[place] / n for each, n in zip(counts, packets, strict=True)])
    assert row.spurious_percent == pytest.approx(sum(100 * c[2] / n for c, n in zip(counts, packets, strict=True)) / 3)


@pytest.mark.parametrize("change", [{"sack": False}, {"dsack_dups": None}])
def test_spurious_segments_are_unknown_without_dsack(tmp_path: Path, change: dict[str, Any]) -> None:
    results = made(tmp_path, told(1, 2, 3), told(1, 2, 3, **change), told(1, 2, 3))
    (row,) = tcp_rows(results)

    assert row.spurious_percent is None
    assert tcp_cells(results)[0][-1] == "–"


def test_a_receiver_without_dsack_reports_none(tmp_path: Path) -> None:
    tcp = told(1, 2, 0)
    tcp["receiver"]["dsack"] = False
    (run, *_) = made(tmp_path, tcp).runs

    numbers = tcp_of(run)
    assert numbers is not None
    assert numbers.spurious is None


def test_a_kernel_that_counts_no_timeouts_of_a_socket_has_those_of_its_host(tmp_path: Path) -> None:
    (run, *_) = made(tmp_path, told(6, 2, 0, total_rto=None)).runs

    numbers = tcp_of(run)
    assert numbers is not None
    assert numbers.timeouts == 6


@pytest.mark.parametrize(("total_rto", "marked"), [(1, [False, True]), (None, [True, True])])
def test_what_another_connection_may_have_added_to_is_marked(
    tmp_path: Path, total_rto: int | None, marked: list[bool]
) -> None:
    alone, beside = told(1, 2, 3, total_rto=total_rto), told(1, 2, 3, total_rto=total_rto)
    beside["sender"]["others_retransmitted"] = 1
    timeouts, fast = (HEADS.index(head) for head in ("RTO (%)", "fast retransmit (%)"))

    cells = tcp_cells(made(tmp_path / "beside", alone, beside))[0]
    assert [cells[place].startswith("≤ ") for place in (timeouts, fast)] == marked
    assert not [cell for cell in tcp_cells(made(tmp_path / "alone", alone, alone))[0] if "≤" in cell]


def test_a_run_without_samples_is_in_no_mean_and_its_reason_in_the_file(tmp_path: Path) -> None:
    problem = {"sender": {"problem": "the sampler exited with status 1"}, "receiver": {"problem": ""}}
    results = made(tmp_path, told(1, 2, 3), problem, told(1, 2, 3))

    assert tcp_rows(results)[0].n_text == "2/3"
    rows = run_rows(results)
    assert rows[1]["problem"] == "the sampler exited with status 1"
    assert {rows[1][name] for name in ("fast_retransmissions", *COUNTERS)} == {None}


def test_the_file_has_the_kernels_counters_by_their_names(tmp_path: Path) -> None:
    results = made(tmp_path, *[told(1, 20, 2)] * RUNS)
    row = run_rows(results)[0]

    assert row["TcpRetransSegs"] == 21
    assert row["receiver_TcpExtDelayedACKs"] == 7
    assert row["TcpExtTCPLossProbes"] == 0


def test_every_head_has_its_cell(tmp_path: Path) -> None:
    (cells,) = tcp_cells(made(tmp_path, *[told(0, 20, 2)] * RUNS))

    assert len(cells) == len(HEADS)
    assert cells[HEADS.index("runs")] == str(RUNS)
    assert cells[HEADS.index("RTO (%)")] == "0"


def test_a_sweep_without_tcp_has_no_rows(demo: Path) -> None:
    results = load_results(demo)

    assert tcp_rows(results) == []
    assert {row[name] for row in run_rows(results) for name in COUNTERS} == {None}


def test_a_record_from_before_tcp_was_sampled_has_no_row(tmp_path: Path) -> None:
    write_results(tmp_path, SWEEP)
    for path in tmp_path.glob("runs/*/record.json"):
        written = json.loads(path.read_text())
        del written["tcp"]
        path.write_text(json.dumps(written))

    assert tcp_rows(load_results(tmp_path)) == []
