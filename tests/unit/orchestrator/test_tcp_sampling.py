"""What a run keeps of what its samplers tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from owlt.orchestrator.run.observing import SAMPLES_NAME, stop_sampling
from owlt.results.record import HostTcp, Outcome, RunRecord, read_record, write_record
from tests.unit.results.test_record import RECORD

SOCKET = {"port": 40000, "peer_port": 5001, "congestion_control": "cubic", "sack": True, "total_rto": None}
COUNTS = {
    "sockets": [SOCKET],
    "counters": {"TcpRetransSegs": 467},
    "others_retransmitted": 0,
    "dsack": True,
    "period_ns": 10_000_000,
}
SAMPLES = "time_ns,socket,cwnd_segments\n1,0,10\n"


class ToldProgram:
    """A sampler that has told this, and whose logs are there."""

    def __init__(self, directory: Path, role: str, output: str, status: int = 0) -> None:
        self._output = output
        self._status = status
        self.last_words = "; its last line: 'no socket diagnostics'"
        (directory / f"tcp-{role}.out").write_text(output)
        (directory / f"tcp-{role}.err").write_text("sampling\n")

    def stop(self, first: str, grace_s: float) -> int:
        return self._status

    def output(self) -> str:
        return self._output


def stopped(directory: Path, **outputs: str) -> dict[str, HostTcp]:
    programs = {role: ToldProgram(directory, role, output) for role, output in outputs.items()}
    return {**stop_sampling(programs, directory)}  # type: ignore[arg-type]


def test_the_counts_go_into_the_record_and_the_samples_beside_it(tmp_path: Path) -> None:
    told = stopped(tmp_path, sender=f"{json.dumps(COUNTS)}\n{SAMPLES}")

    assert told["sender"] == HostTcp.model_validate(COUNTS)
    assert (tmp_path / SAMPLES_NAME).read_text() == SAMPLES
    assert [path.name for path in tmp_path.iterdir()] == [SAMPLES_NAME]


def test_a_host_that_is_not_sampled_leaves_no_samples(tmp_path: Path) -> None:
    stopped(tmp_path, receiver=f"{json.dumps(COUNTS | {'period_ns': 0})}\n{SAMPLES}")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output", ["", "{}}", '{"counters": 3}\n'])
def test_a_sampler_that_tells_nothing_of_use_is_a_problem_and_keeps_its_logs(tmp_path: Path, output: str) -> None:
    told = stopped(tmp_path, sender=output)

    assert "no socket diagnostics" in told["sender"].problem
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tcp-sender.err", "tcp-sender.out"]


def test_a_run_without_samplers_has_nothing_of_tcp(tmp_path: Path) -> None:
    assert stopped(tmp_path) == {}


def test_a_record_with_what_tcp_says_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = RECORD.model_copy(update={"tcp": {"sender": HostTcp.model_validate(COUNTS)}})
    write_record(record, tmp_path)

    assert read_record(tmp_path) == record
    assert read_record(tmp_path).tcp["sender"].sockets[0]["sack"] is True


def test_a_record_from_before_tcp_was_sampled_is_read(tmp_path: Path) -> None:
    written = RECORD.model_dump(mode="json")
    del written["tcp"]
    (tmp_path / "record.json").write_text(json.dumps(written))

    assert read_record(tmp_path) == RunRecord.model_validate(written)
    assert read_record(tmp_path).outcome is Outcome.FAILED
