"""The QUIC endpoint as the two programs that it is, on this host's loopback."""

import json
import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.programs.agents.conftest import Start

PORTS: Iterator[int] = count(25030)


@pytest.fixture
def usual() -> dict[str, list[object]]:
    """Options of both sides by side."""
    one, other = (f"127.0.0.1:{next(PORTS)}" for _ in range(2))
    common: list[object] = ["--rate-bps", 0, "--rtt-s", 0, "--timer-margin-s", 0.02]
    return {
        "send": ["--local", one, "--peer", other, *common],
        "receive": ["--local", other, "--peer", one, *common],
    }


def test_a_file_arrives_complete_and_both_programs_say_so(
    start: Start, usual: dict[str, list[object]], tmp_path: Path
) -> None:
    file, output = tmp_path / "file", tmp_path / "output"
    file.write_bytes(random.Random(1).randbytes(3_000_000))
    logs = ["--secrets-log", tmp_path / "secrets", "--qlog-dir", tmp_path / "qlog"]
    receiver = start(
        "owlt.agents.quic", "receive", "--output", output, *usual["receive"], "--qlog-dir", tmp_path / "qlog"
    )
    assert receiver.stdout is not None
    assert receiver.stdout.readline().startswith("listening on 127.0.0.1:")
    sender = start("owlt.agents.quic", "send", "--file", file, *usual["send"], *logs)
    (sender_said, _), (receiver_said, _) = (side.communicate(timeout=120) for side in (sender, receiver))

    assert (sender.returncode, receiver.returncode) == (0, 0)
    assert output.read_bytes() == file.read_bytes()
    assert sender_said.splitlines()[-1].startswith("complete sent=")
    assert receiver_said.splitlines()[-1].startswith("complete sent=")
    assert "CLIENT_TRAFFIC_SECRET_0 " in (tmp_path / "secrets").read_text()
    for side in ("send", "receive"):
        (qlog,) = (tmp_path / "qlog" / side).iterdir()
        assert json.loads(qlog.read_text())["traces"][0]["events"]


def test_the_secrets_may_go_to_standard_output_before_the_last_line(
    start: Start, usual: dict[str, list[object]], tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(bytes(1000))
    receiver = start("owlt.agents.quic", "receive", "--output", tmp_path / "output", *usual["receive"])
    assert receiver.stdout is not None
    receiver.stdout.readline()
    sender = start("owlt.agents.quic", "send", "--file", tmp_path / "file", *usual["send"], "--secrets-log", "-")
    lines = sender.communicate(timeout=120)[0].splitlines()

    assert [line.partition(" ")[0] for line in lines[-2:]] == ["CLIENT_TRAFFIC_SECRET_0", "complete"]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--datagram-bytes", 1000], 127, "unsupported: datagrams of 1000 bytes; over IPv4 QUIC takes 1200 to 1472"),
        (["--idle-limit-s", 0.1], 1, "failed: the connection ended (Idle timeout, error 0x1)"),
        (["--congestion-control", "bbr"], 2, "invalid choice: 'bbr'"),
        (["--secrets-log", "/nowhere/at/all"], 1, "failed: /nowhere/at/all: No such file or directory"),
    ],
)
def test_what_goes_wrong_is_said_in_one_line(
    start: Start, usual: dict[str, list[object]], tmp_path: Path, arguments: list[object], status: int, said: str
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    program = start("owlt.agents.quic", "send", "--file", tmp_path / "file", *usual["send"], *arguments)
    _, error = program.communicate(timeout=120)

    assert program.returncode == status
    assert said in error.splitlines()[-1]
