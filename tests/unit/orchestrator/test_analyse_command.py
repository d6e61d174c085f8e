"""Mistakes in what `owlt analyse` is given: each is refused with what to do, and nothing is written."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import astuple
from pathlib import Path

import pytest

from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.run.analysis import case_of_run
from owlt.results.record import Outcome, read_record, write_record
from owlt.results.waits import WAITS_NAME, TimedWait, summarised, write_waits
from tests.unit.captures.making import DATA, GOLDEN
from tests.unit.orchestrator.analysing import RECEIVER, SENDER, analyse, run_of_owlt


def refusal(*arguments: object) -> str:
    with pytest.raises(OwltError) as refused:
        analyse(*arguments)
    return str(refused.value)


@pytest.mark.parametrize("plan", ['{"schema_version": 1}', '{"implementations": {"tc', "[]", "\xff"])
def test_a_plan_that_is_damaged_or_of_an_older_form_does_not_matter(tmp_path: Path, plan: str) -> None:
    (tmp_path / "runs").mkdir()
    run = run_of_owlt(tmp_path / "runs" / "run", Outcome.COMPLETED)
    without = case_of_run(run)
    (tmp_path / "plan.json").write_text(plan, encoding="latin-1")

    assert case_of_run(run) == without


def test_a_run_without_a_packet_of_its_session_is_refused_with_its_outcome(tmp_path: Path) -> None:
    run = run_of_owlt(tmp_path / "run", Outcome.FAILED, "no file came")
    for name in ("sender.pcap", "receiver.pcap"):
        shutil.copy(GOLDEN / "no-packets.pcap", run / name)
    assert "FAILED: no file came; sender.pcap and receiver.pcap: no packets" in refusal(run)
    assert not (run / "analysis").exists()


def test_several_runs_are_refused_with_what_to_do(tmp_path: Path) -> None:
    runs = [run_of_owlt(tmp_path / name, Outcome.COMPLETED) for name in ("a", "b")]
    assert "analyse each run separately" in refusal(*runs)


def test_a_place_that_cannot_be_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "got a file, expected a directory" in refusal(SENDER, DATA / "none.pcap", "--out", tmp_path / "file")
    assert "file is not writable; name another directory with --out" in refusal(
        SENDER, RECEIVER, "--out", tmp_path / "file" / "x"
    )


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    said = refusal(tmp_path / "pipe", "--at", "sender", "--out", tmp_path / "out")
    assert "expected a file, because it is read several times, got a pipe or a device" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([SENDER], "name the host where it was taken: --at sender or --at receiver"),
        ([SENDER, RECEIVER, "--at", "sender"], "--at sender: got two captures"),
        ([SENDER, RECEIVER, SENDER], "got 3 paths, expected"),
        ([DATA], "is a directory without a record.json, expected one of a run"),
        ([SENDER, "--at", "elsewhere"], "--at: got 'elsewhere', expected sender or receiver"),
        ([SENDER, RECEIVER, "--clocks", "three"], "--clocks: got 'three', expected one or two"),
        ([SENDER, RECEIVER, "--tables", "xls"], "--tables: got 'xls', expected csv or parquet"),
        ([SENDER, RECEIVER, "--port", "1113"], "--port: got '1113', expected udp/PORT, tcp/PORT or sctp/PORT"),
        ([SENDER, RECEIVER, "--port", "udp/0"], "--port: got 'udp/0'"),
        ([SENDER, RECEIVER, "--sender", "here"], "--sender: got 'here', expected an address such as"),
        (
            [SENDER, RECEIVER, "--receiver", "10.0.0.9"],
            "no packets from or to 10.0.0.9; captured: TCP 5223 between 10.77.0.1",
        ),
        ([SENDER, RECEIVER, "--sender", "fe80::1"], "no packets from or to fe80::1; captured:"),
        (
            [SENDER, RECEIVER, "--sender", "10.0.0.1", "--receiver", "fe80::1"],
            "--group: got IPv4 and IPv6 addresses, expected one kind",
        ),
        ([SENDER, RECEIVER, "--sender", "10.0.0.1", "--receiver", "10.0.0.1"], "got 10.0.0.1 for both"),
        ([SENDER, RECEIVER, "--sender", "224.1.2.3"], "--sender: got the group 224.1.2.3"),
        ([SENDER, RECEIVER, "--group", "10.0.0.1"], "--group: got 10.0.0.1, expected a multicast group"),
        ([SENDER, RECEIVER, "--port", "udp/9"], "no packets on UDP 9; captured: TCP 5223 between"),
        (
            [SENDER, RECEIVER, "--port", "udp/9", "--sender", "10.77.0.1", "--receiver", "10.77.0.2"],
            "no packets between 10.77.0.1 and 10.77.0.2 on UDP 9; captured: TCP 5223",
        ),
        ([GOLDEN / "no-packets.pcap", GOLDEN / "no-packets.pcap"], "no frames"),
        ([SENDER, "--at", "sender", "--clocks", "two"], "--clocks two: one capture has one clock"),
        ([SENDER, RECEIVER, "--file-size", "10000"], 'write the unit, as in "10000 B"'),
        ([SENDER, RECEIVER, "--delay", "25"], "--delay: "),
        ([SENDER, RECEIVER, "--rate", "fast"], "--rate: "),
        ([SENDER, RECEIVER, "--implementation", "cdfp"], "cdfp"),
        ([DATA / "README.md", RECEIVER], "README.md: is not a pcap or pcapng file"),
        ([DATA / "none.pcap", RECEIVER], "expected a run's directory, such as results/demo/runs/RUN, two captures"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(tmp_path: Path, arguments: list[object], said: str) -> None:
    place = tmp_path / "out"
    assert said in refusal(*arguments, "--out", place)
    assert not place.exists()


def test_the_profile_in_the_plan_is_used_for_an_implementation_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    run = run_of_owlt(tmp_path / "runs" / "run", Outcome.COMPLETED)
    record = read_record(run)
    write_record(record.model_copy(update={"implementation": "of-the-user"}), run)

    assert case_of_run(run)[1].dissector == ()  # neither a plan nor a profile is there
    for dissector in ([], ["-d", "udp.port==1,cfdp"]):
        plan = {"schema_version": 9, "implementations": {"of-the-user": {"dissector": dissector}}}
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        assert case_of_run(run)[1].dissector == dissector
    assert case_of_run(run, {"another": ["-x"]})[1].dissector == ()  # these are of a plan that has been read


def test_of_the_options_a_run_takes_only_another_dissector(tmp_path: Path) -> None:
    run = run_of_owlt(tmp_path / "run", Outcome.COMPLETED)

    assert "leave out all options but --implementation" in refusal(run, "--port", "udp/5")
    assert "implementation 'no-such': not found" in refusal(run, "--implementation", "no-such")


def test_the_waits_of_a_run_are_those_of_its_case(tmp_path: Path) -> None:
    run = run_of_owlt(tmp_path / "run", Outcome.COMPLETED)
    wait = TimedWait("receiver", "ltp", "epoll_wait", begin_ns=1, length_ns=3_750_000_000)
    write_waits(summarised([astuple(wait)]), run)

    case = case_of_run(run)[1]

    assert case.waits == (wait,)
    assert ("waits that timed out", "receiver: 1 wait of 3.75 s (epoll_wait)") in case.beside


def test_damaged_waits_are_named_and_do_not_keep_a_run_from_its_analysis(tmp_path: Path) -> None:
    run = run_of_owlt(tmp_path / "run", Outcome.COMPLETED)
    (run / WAITS_NAME).write_text("{")

    case = case_of_run(run)[1]

    assert case.waits == ()
    assert any(f"{WAITS_NAME}: damaged" in value for name, value in case.beside if name == "waits that timed out")
