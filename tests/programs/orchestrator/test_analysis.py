"""What is made of a run's captures, and what of it stays when they are cut or removed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from owlt.captures.accounting.cutting import is_cut
from owlt.captures.accounting.derived_files import PAIRS
from owlt.captures.accounting.summary import load_summary
from owlt.captures.frames.columns import read_columns
from owlt.captures.protocols.view import load_view
from owlt.inputs.mistake import ResultsConflict
from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.rigs.processor_time import Waited
from owlt.orchestrator.run.analysis import (
    analyse_or_mark,
    analyse_run,
    analyse_runs,
    is_marked,
    is_to_analyse,
    note_machine_delay,
)
from owlt.results.files import FAILURE_NAME, PLAN_NAME
from owlt.results.judgements import disturbance
from owlt.results.record import SUMMARY, VIEW, CaptureCounters, Outcome, read_record, write_record
from tests.conftest import require_command
from tests.unit.captures.making import DATA, SESSION, write_headers
from tests.unit.captures.octets import CFDP, CFDP_RUN
from tests.unit.orchestrator.making import record
from tests.unit.reports.conftest import write_captures

DISSECTORS = {"cfdp": list(CFDP)}
Make = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> Make:
    """Makes the directory of a run of ten packets, not yet analysed."""
    require_command("tshark")

    def make(run_id: str = "a_r1", repetition: int = 1, outcome: Outcome = Outcome.COMPLETED) -> Path:
        directory = tmp_path / "runs" / run_id
        directory.mkdir(parents=True)
        write_captures(directory)
        said = {"run_id": run_id, "repetition": repetition, "outcome": outcome, "file_size_bytes": 2500}
        write_record(record(**said, session=SESSION.model_dump(mode="json")), directory)
        return directory

    return make


@pytest.fixture(scope="module")
def analysed_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run that was analysed; a test that changes it makes a copy."""
    require_command("tshark")
    directory = tmp_path_factory.mktemp("analysed") / "a_r1"
    directory.mkdir()
    write_captures(directory)
    said = {"run_id": "a_r1", "repetition": 1, "outcome": Outcome.COMPLETED, "file_size_bytes": 2500}
    write_record(record(**said, session=SESSION.model_dump(mode="json")), directory)
    analyse_run(directory, "full", DISSECTORS)
    return directory


def write_plan(results: Path, keep: str = "full", dissectors: Mapping[str, list[str]] = DISSECTORS) -> Path:
    builds = {name: {"dissector": dissector} for name, dissector in dissectors.items()}
    (results / PLAN_NAME).write_text(json.dumps({"sweep": {"keep_captures": keep}, "implementations": builds}))
    return results


def without_tshark(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """A path on which there is nothing."""
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))


def test_the_messages_of_a_first_repetition_are_looked_at_as_its_profile_says(make_run: Make) -> None:
    run = make_run()

    assert analyse_run(run, "full", DISSECTORS) == ""

    view = load_view(run)
    assert view is not None
    assert view.counts["receiver"] == {"ACK of EOF": 1, "NAK": 1, "Finished": 1}
    assert view.repeated_file_bytes == 1000


def test_those_of_a_second_one_are_not(make_run: Make) -> None:
    run = make_run(repetition=2)

    analyse_run(run, "full", DISSECTORS)

    assert load_view(run) is None
    assert load_summary(run) is not None


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CORRUPT])
def test_those_of_a_run_that_did_not_complete_are(make_run: Make, outcome: Outcome) -> None:
    run = make_run(outcome=outcome)

    analyse_run(run, "full", DISSECTORS)

    assert load_view(run) is not None


def test_an_implementation_without_a_dissector_has_its_packets_counted(make_run: Make) -> None:
    run = make_run()

    analyse_run(run, "full", {})

    view = load_view(run)
    assert view is not None
    assert sum(view.counts["sender"].values()) + sum(view.counts["receiver"].values()) == len(CFDP_RUN)


def put_captures(run: Path, name: str = "netem-half") -> Path:
    """Let the run have captures of a real channel, which damaged and lost packets: datagrams of no known protocol."""
    write_record(read_record(run).model_copy(update={"implementation": "udp-blast"}), run)
    for side in ("sender", "receiver"):
        shutil.copy(DATA / f"{name}-{side}.pcap", run / f"{side}.pcap")
    return run


@pytest.mark.parametrize("name", ["netem-all", "netem-half", "netem-tcp"])
def test_the_tables_of_a_run_are_the_same_before_and_after_its_captures_are_cut(
    make_run: Make, tmp_path: Path, name: str
) -> None:
    run = put_captures(make_run(), name)
    analyse_run(run, "full", DISSECTORS)
    before = tables_of(run, tmp_path / "before")
    analyse_run(run, "headers", DISSECTORS)
    assert is_cut(run / "sender.pcap")
    after = tables_of(run, tmp_path / "after")

    assert after == before
    assert b"corrupted" in before["packets.csv"]
    assert b"damaged" in before["trace-losses-forward.csv"]


def tables_of(run: Path, directory: Path) -> dict[str, bytes]:
    done = CliRunner().invoke(app, ["analyse", str(run), "--out", str(directory)], catch_exceptions=False)
    assert done.exit_code == 0
    return {path.name: path.read_bytes() for path in directory.glob("*.csv")}


def test_where_nothing_is_kept_of_packets_the_fate_of_those_that_were_cut_is_unknown(
    make_run: Make, tmp_path: Path
) -> None:
    """The control: what the test before this one compares is not in the captures that were cut."""
    run = put_captures(make_run())
    analyse_run(run, "headers", DISSECTORS)
    for name in (PAIRS, "sender.pcap", "receiver.pcap"):
        (run / name).unlink()
    for side in ("sender", "receiver"):
        write_headers(DATA / f"netem-half-{side}.pcap", run / f"{side}.pcap", 60)

    packets = tables_of(run, tmp_path / "after")["packets.csv"].decode()

    assert ",unknown," in packets and ",lost," in packets
    assert ",delivered," not in packets


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CORRUPT, Outcome.TIMED_OUT])
def test_captures_of_a_run_that_did_not_complete_are_not_cut(make_run: Make, outcome: Outcome) -> None:
    run = make_run(outcome=outcome)
    analyse_run(run, "headers", DISSECTORS)
    assert not is_cut(run / "sender.pcap")


def test_what_whole_frames_said_stays_when_they_are_cut(make_run: Make) -> None:
    run = put_captures(make_run())
    analyse_run(run, "headers", DISSECTORS)
    made = (run / VIEW).read_bytes()

    analyse_run(run, "headers", DISSECTORS)

    columns = read_columns(run / "sender.pcap")
    assert (columns.captured_bytes < columns.wire_bytes).any()
    assert (run / VIEW).read_bytes() == made


def test_what_captures_said_stays_when_they_are_removed(make_run: Make) -> None:
    run = make_run()

    analyse_run(run, "none", DISSECTORS)
    analyse_run(run, "none", DISSECTORS)

    assert not (run / "sender.pcap").exists()
    assert load_view(run) is not None


@pytest.mark.parametrize("keep", ["full", "headers", "none"])
def test_a_missing_tshark_is_reported_once_and_costs_no_summary(
    make_run: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keep: str
) -> None:
    runs = [make_run("a_r1"), make_run("b_r1"), make_run("b_r2", repetition=2)]
    without_tshark(monkeypatch, tmp_path / "bin")

    (told,) = analyse_runs(write_plan(tmp_path, keep, {"cfdp": ["-d", "udp.port==9000,udt"]}))

    assert told.startswith("a_r1 and 1 more: without the protocol's messages: tshark: not found")
    assert None not in map(load_summary, runs)


def test_datagrams_of_an_unknown_protocol_are_counted_without_tshark(
    make_run: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = make_run()
    of_udp = SESSION.model_copy(update={"tcp_ports": (), "sctp_ports": ()}).model_dump(mode="json")
    write_record(read_record(run).model_copy(update={"session": of_udp}), run)
    without_tshark(monkeypatch, tmp_path / "bin")

    assert analyse_runs(write_plan(tmp_path, "full", {"cfdp": []})) == []
    view = load_view(run)
    assert view is not None
    assert set(view.counts["sender"]) == {"UDP datagram", "UDP repeat"}


def test_a_dissector_that_is_not_known_is_reported_and_costs_no_summary(make_run: Make) -> None:
    run = make_run()

    assert "'-x'" in analyse_run(run, "full", {"cfdp": ["-x", "y"]})
    assert load_summary(run) is not None


def test_a_run_that_cannot_be_summarised_is_reported_by_its_name(make_run: Make, tmp_path: Path) -> None:
    (make_run() / "sender.pcap").write_bytes(b"no capture")

    (told,) = analyse_runs(write_plan(tmp_path))

    assert told.startswith("a_r1: analysis failed: ")


def test_a_capture_of_a_run_that_is_cut_short_leads_to_the_messages_of_tcpdump(make_run: Make, tmp_path: Path) -> None:
    (make_run() / "sender.pcap").write_bytes(bytes(10))

    (sentence,) = analyse_runs(write_plan(tmp_path))

    assert "sender.pcap: not a complete pcap file: it ends at byte 10" in sentence
    assert "see 'suspect' in record.json" in sentence


def test_a_run_whose_analysis_failed_is_marked_until_it_succeeds(make_run: Make, tmp_path: Path) -> None:
    run = make_run()
    capture = (run / "sender.pcap").read_bytes()
    (run / "sender.pcap").write_bytes(b"no capture")
    analyse_runs(write_plan(tmp_path))
    why, *traceback = (run / FAILURE_NAME).read_text().splitlines()
    assert "sender.pcap" in why
    assert any("Traceback" in line for line in traceback)

    (run / "sender.pcap").write_bytes(capture)

    assert analyse_runs(tmp_path) == []
    assert not is_marked(run)
    assert load_summary(run) is not None


@pytest.mark.parametrize("keep", ["full", "headers", "none"])
def test_a_run_is_to_be_analysed_until_its_captures_are_kept_as_specified(make_run: Make, keep: str) -> None:
    run = make_run()
    assert is_to_analyse(run, read_record(run), keep)

    assert analyse_or_mark(run, keep, DISSECTORS) == ""

    assert not is_to_analyse(run, read_record(run), keep)


def test_a_run_that_has_a_summary_and_complete_captures_is_to_be_analysed_if_headers_are_kept(make_run: Make) -> None:
    run = make_run()
    analyse_or_mark(run, "full", DISSECTORS)

    assert is_to_analyse(run, read_record(run), "headers")


def test_a_session_that_is_none_is_a_failed_analysis_and_no_traceback(make_run: Make) -> None:
    run = make_run()
    write_record(record(run_id="a_r1", session={"sender": 7}), run)

    assert analyse_or_mark(run, "full", DISSECTORS).startswith("analysis failed: ")


@pytest.mark.parametrize("content", [b"", b'{"schema_ver', bytes(range(256)), b"[]"])
@pytest.mark.parametrize("name", [SUMMARY, VIEW])
def test_a_damaged_summary_or_view_is_made_again(analysed_run: Path, tmp_path: Path, name: str, content: bytes) -> None:
    run = shutil.copytree(analysed_run, tmp_path / "a_r1")
    before = (load_summary(run), load_view(run))
    (run / name).write_bytes(content)

    assert analyse_or_mark(run, "full", DISSECTORS) == ""

    assert (load_summary(run), load_view(run)) == before


def test_a_damaged_summary_whose_captures_are_gone_is_a_failed_analysis(make_run: Make) -> None:
    run = make_run()
    counters = CaptureCounters(captured=10, received_by_filter=10, dropped_by_kernel=0, dropped_by_interface=0)
    written = read_record(run).model_copy(update={"captures": {"sender": counters}})
    write_record(written, run)
    analyse_run(run, "none", DISSECTORS)
    (run / SUMMARY).write_bytes(b"")

    assert "summary.json is missing, damaged or of another version" in analyse_or_mark(run, "none", DISSECTORS)


def test_two_processes_that_analyse_one_run_at_once_leave_one_good_summary(make_run: Make, tmp_path: Path) -> None:
    run = make_run()
    write_plan(tmp_path, "headers")
    program = "import sys; from pathlib import Path; from owlt.orchestrator.run.analysis import analyse_runs; "
    program += "sys.exit('; '.join(analyse_runs(Path(sys.argv[1]))) or 0)"
    both = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) for _ in range(2)]

    assert [process.wait(120) for process in both] == [0, 0]
    assert load_summary(run) is not None
    assert sorted(path.name for path in run.glob(".*")) == []


@pytest.mark.parametrize("content", [b"", b'{"sweep": {', bytes(range(256)), b"[]", b'{"sweep": 1}'])
def test_results_with_a_damaged_plan_are_refused_with_how_to_fix_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / PLAN_NAME).write_bytes(content)

    with pytest.raises(ResultsConflict, match=r"plan\.json: damaged .*remove it, and 'owlt run'"):
        analyse_runs(tmp_path)


def test_strays_beside_runs_are_not_analysed(make_run: Make, tmp_path: Path) -> None:
    make_run()
    (tmp_path / "runs" / "notes.txt").touch()
    (tmp_path / "runs" / "empty").mkdir()

    assert analyse_runs(write_plan(tmp_path)) == []


def test_runs_of_a_plan_that_names_no_implementation_are_analysed(make_run: Make, tmp_path: Path) -> None:
    run = make_run()
    (tmp_path / PLAN_NAME).write_text(json.dumps({"sweep": {"keep_captures": "full"}}))

    assert analyse_runs(tmp_path) == []
    assert load_summary(run) is not None


@pytest.mark.parametrize("outcome", [Outcome.INCOMPLETE, Outcome.CORRUPT, Outcome.FAILED, Outcome.TIMED_OUT])
def test_a_file_that_was_not_delivered_has_no_goodput(make_run: Make, analysed_run: Path, outcome: Outcome) -> None:
    undelivered = make_run("b_r1", outcome=outcome)
    analyse_run(undelivered, "full", DISSECTORS)

    of_both = load_summary(analysed_run), load_summary(undelivered)

    assert [summary and summary.goodput_bps is not None for summary in of_both] == [True, False]


def over(run: Path, delay: str) -> None:
    """Let the run have been over a channel of that delay; its packets took 25 ms."""
    channel = {"forward": {"delay": delay}, "reverse": {"delay": delay}}
    write_record(read_record(run).model_copy(update={"channel": channel, "clock": "real"}), run)


def test_a_run_whose_packets_came_late_says_so_in_its_record(make_run: Make) -> None:
    run = make_run()
    over(run, "15 ms")

    note_machine_delay(run, lambda first_ns, last_ns: None)

    noted = read_record(run)
    summary = load_summary(run)
    assert noted.machine_delay is not None and summary is not None and summary.session_s is not None
    assert noted.machine_delay.session_ns == pytest.approx(summary.session_s * 1e9)
    assert noted.machine_delay.overdue_ns == summary.overdue_ns
    assert noted.machine_delay.waited_ns is None
    assert noted.suspect == [disturbance(noted.machine_delay)]
    assert "packets were overdue in the emulator for" in noted.suspect[0]


def test_a_run_whose_packets_came_in_time_is_not_suspect(make_run: Make) -> None:
    run = make_run()
    over(run, "25 ms")

    note_machine_delay(run, lambda first_ns, last_ns: Waited(0, 0))

    noted = read_record(run)
    assert noted.machine_delay is not None
    assert (noted.machine_delay.overdue_ns, noted.machine_delay.waited_ns) == (0, 0)
    assert noted.suspect == []


def test_processes_are_asked_what_they_waited_in_the_session_alone(make_run: Make) -> None:
    run = make_run()
    over(run, "25 ms")
    asked: list[tuple[int, int]] = []

    def waited(first_ns: int, last_ns: int) -> Waited:
        asked.append((first_ns, last_ns))
        return Waited(last_ns - first_ns, 0)

    note_machine_delay(run, waited)

    summary = load_summary(run)
    assert summary is not None
    assert asked == [(summary.first_packet_ns, summary.last_packet_ns)]
    assert "waited" in read_record(run).suspect[0]


def test_of_a_channel_whose_delay_varies_it_is_not_known_whether_packets_are_late(make_run: Make) -> None:
    run = make_run()
    over(run, "15 ms")
    jittery = {"forward": {"delay": "15 ms", "jitter": {"amount": "1 ms", "distribution": "uniform"}}}
    write_record(read_record(run).model_copy(update={"channel": jittery}), run)

    note_machine_delay(run, lambda first_ns, last_ns: None)

    noted = read_record(run).machine_delay
    assert noted is not None
    assert noted.overdue_ns is None


def test_the_record_of_a_run_without_captures_stays_as_it_is(make_run: Make) -> None:
    run = make_run()
    (run / "sender.pcap").unlink()
    before = (run / "record.json").read_bytes()

    note_machine_delay(run, lambda first_ns, last_ns: Waited(10**9, 0))

    assert (run / "record.json").read_bytes() == before
