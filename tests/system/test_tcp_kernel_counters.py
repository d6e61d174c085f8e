"""What a run keeps of TCP is what the kernel, the packets and other tools say, and keeping it changes no packet."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from owlt.captures.frames.session import Session
from owlt.captures.protocols.view import TcpCounts, count_tcp
from owlt.orchestrator.run.observing import SAMPLES_NAME
from owlt.reports.page.tables import tcp_of, tcp_rows
from owlt.reports.results.load import load_results
from owlt.reports.sessions.session_figures import read_connection
from tests.conftest import require_command
from tests.system.conftest import PROJECT, Guest
from tests.system.sweeps import RECORDED, perform, records

CHANGES: dict[str, Any] = {"certify": False, "keep_captures": "full"}
SAME_EVENTS = {
    "TcpRetransSegs": "total_retrans",
    "TcpExtTCPTimeouts": "total_rto",
    "TcpExtTCPDSACKRecv": "dsack_dups",
}
"""What the host counts of all its sockets, and what it counts of each."""
REASONS = ("TcpExtTCPFastRetrans", "TcpExtTCPSlowStartRetrans", "TcpExtTCPTimeouts")


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """Two congestion controls, acknowledgements delayed and at once, 2 % and 10 % lost: eight runs."""
    require_command("tshark")
    directory = tmp_path_factory.mktemp("lossy")
    varied = {"congestion_control": ["cubic", "reno"], "quickack": ["0", "1"]}
    done = perform(
        directory,
        directory / "results",
        implementations=["tcp"],
        parameters={"tcp": varied},
        packet_error_rate=[0.02, 0.1],
        file_size="300 kB",
        **CHANGES,
    )
    assert done.returncode in RECORDED, done.stderr
    return directory / "results"


def tcp_records(results: Path) -> dict[str, dict[str, Any]]:
    """Each run's record."""
    found = records(results)
    assert len(found) == 8
    assert {record["outcome"] for record in found.values()} == {"completed"}
    return found


def total(host: dict[str, Any], name: str) -> int:
    """Over all sockets of the run."""
    return sum(socket[name] for socket in host["sockets"])


@pytest.fixture(scope="module")
def counted(lossy: Path) -> dict[str, TcpCounts]:
    """What the packets of each run say."""
    return {
        name: count_tcp(lossy / "runs" / name / "sender.pcap", Session.model_validate(record["session"]))
        for name, record in records(lossy).items()
    }


def test_every_run_lost_something_and_sent_it_again(lossy: Path) -> None:
    assert all(total(record["tcp"]["sender"], "total_retrans") > 0 for record in tcp_records(lossy).values())


def test_the_sums_over_the_runs_sockets_are_the_hosts_counters(lossy: Path) -> None:
    for name, record in tcp_records(lossy).items():
        sender = record["tcp"]["sender"]
        sums = {counter: total(sender, field) for counter, field in SAME_EVENTS.items()}
        assert sums == {counter: sender["counters"].get(counter, 0) for counter in SAME_EVENTS}, name


def test_what_the_kernel_sent_again_went_again_over_the_wire(lossy: Path, counted: dict[str, TcpCounts]) -> None:
    sent_again = {name: total(record["tcp"]["sender"], "total_retrans") for name, record in tcp_records(lossy).items()}

    assert {name: counts.sent_again for name, counts in counted.items()} == sent_again


def test_tsharks_labels_come_near_that(counted: dict[str, TcpCounts]) -> None:
    for name, counts in counted.items():
        assert abs(counts.retransmissions + counts.out_of_order - counts.sent_again) <= 2, name


def test_each_segment_that_was_sent_again_has_one_reason(lossy: Path) -> None:
    for name, record in tcp_records(lossy).items():
        counters = record["tcp"]["sender"]["counters"]
        reasons = sum(counters.get(reason, 0) for reason in REASONS)
        probes = counters.get("TcpExtTCPLossProbes", 0)
        assert reasons <= counters["TcpRetransSegs"] <= reasons + probes, name


def test_nobody_else_sent_anything_again(lossy: Path) -> None:
    for record in tcp_records(lossy).values():
        assert [host["others_retransmitted"] for host in record["tcp"].values()] == [0, 0]


def test_every_socket_was_seen_to_its_end(lossy: Path) -> None:
    for name, record in tcp_records(lossy).items():
        ends = [[socket["is_final"] for socket in host["sockets"]] for host in record["tcp"].values()]
        assert ends == [[True], [True]], name


def test_acknowledgements_are_delayed_unless_they_go_at_once(lossy: Path) -> None:
    delayed = {
        name: record["tcp"]["receiver"]["counters"].get("TcpExtDelayedACKs", 0)
        for name, record in tcp_records(lossy).items()
    }

    at_once = [count for name, count in delayed.items() if "quickack=1" in name]
    late = [count for name, count in delayed.items() if "quickack=0" in name]
    assert max(at_once) < min(late)


def test_the_samples_reach_from_the_syn_to_the_end(lossy: Path) -> None:
    for name, record in tcp_records(lossy).items():
        connection = read_connection(lossy / "runs" / name / SAMPLES_NAME)
        assert connection is not None
        summary = json.loads((lossy / "runs" / name / "summary.json").read_text())
        assert connection.time_s[-1] == pytest.approx(summary["session_s"], abs=0.1)
        assert connection.cwnd_segments[0] == 10
        assert record["tcp"]["sender"]["period_ns"] % 12_500_000 == 0


def test_the_table_has_a_row_for_each_permutation(lossy: Path) -> None:
    results = load_results(lossy)

    assert [len(row.runs) for row in tcp_rows(results)] == [1] * 8
    for run in results.runs:
        numbers = tcp_of(run)
        assert numbers is not None
        assert numbers.timeouts + numbers.fast_retransmissions <= numbers.sent_again + 1


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> tuple[Path, Path]:
    """The same run sampled, and not: of an implementation whose session names no TCP port, nothing is sampled."""
    directory = tmp_path_factory.mktemp("twice")
    profile = (PROJECT / "profiles" / "implementations" / "tcp.yaml").read_text()
    unsampled = directory / "tcp.yaml"
    unsampled.write_text(profile.replace("tcp_ports:", "udp_ports:"))
    runs = []
    for name, implementation in (("sampled", "tcp"), ("unsampled", str(unsampled))):
        done = perform(directory, directory / name, implementations=[implementation], file_size="1 MB", **CHANGES)
        assert done.returncode in RECORDED, done.stderr
        (run,) = (directory / name / "runs").iterdir()
        runs.append(run)
    return runs[0], runs[1]


def packets(run: Path) -> list[str]:
    """What of each packet does not depend on when and with which random numbers a connection began."""
    fields = ("ip.src", "frame.len", "tcp.flags", "tcp.seq", "tcp.ack", "tcp.window_size")
    shown = [argument for field in fields for argument in ("-e", field)]
    command = [require_command("tshark"), "-r", str(run / "sender.pcap"), "-T", "fields", *shown]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_sampling_changes_no_packet(twice: tuple[Path, Path]) -> None:
    sampled, unsampled = twice

    assert (sampled / SAMPLES_NAME).exists()
    assert not (unsampled / SAMPLES_NAME).exists()
    assert packets(sampled) == packets(unsampled)


def test_sampling_changes_no_time_by_more_than_the_clock_can_tell(twice: tuple[Path, Path]) -> None:
    sessions_s = [json.loads((run / "record.json").read_text()) for run in twice]
    lasted_s = [(record["file_delivered_at_ns"] - record["started_at_ns"]) / 1e9 for record in sessions_s]

    assert lasted_s[0] == pytest.approx(lasted_s[1], abs=1e-3)


def test_the_numbers_are_those_of_ss_and_nstat(guest: Guest) -> None:
    require_command("ss")
    require_command("nstat")
    done = guest.run(Path(__file__).parent / "guest_scripts" / "tcp_looks.py")
    assert done.returncode == 0, done.stderr
    ours, theirs = (json.loads(line) for line in done.stdout.splitlines())

    assert ours == theirs
    assert ours["retrans"] > 0
