"""Real blasts between two programs on the loopback interface."""

import random
import re
import socket
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from owlt.agents.endpoint.event_loop import frame_bytes
from owlt.agents.endpoint.udp import RECEIVE_BUFFER_BYTES
from tests.programs.agents.conftest import Start

Launch = Callable[..., "Popen[str]"]


@pytest.fixture
def places() -> dict[str, list[str]]:
    """The addresses of both sides, as each is told them."""
    probes = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    sender, receiver = (f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes)
    for probe in probes:
        probe.close()
    return {"send": ["--local", sender, "--peer", receiver], "receive": ["--local", receiver, "--peer", sender]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(random.Random(1).randbytes(300_300))
    return path


@pytest.fixture
def listen(start: Start, places: dict[str, list[str]], file: Path) -> Launch:
    def listening(*options: object) -> "Popen[str]":
        given = ["--output", file.parent / "output", "--file-bytes", 300_300, "--one-way-delay-s", 0, *options]
        program = start("owlt.agents.blast", "receive", *given, *places["receive"], "--rate-bps", 0)
        assert program.stdout is not None
        assert program.stdout.readline().startswith("listening on 127.0.0.1:")
        return program

    return listening


@pytest.fixture
def send(start: Start, places: dict[str, list[str]], file: Path) -> Launch:
    return lambda *options: start("owlt.agents.blast", "send", "--file", file, *places["send"], *options)


@pytest.mark.parametrize("rate_bps", [100e6, 1e9], ids=["few-together", "many-together"])
def test_a_file_arrives_and_both_sides_end(listen: Launch, send: Launch, file: Path, rate_bps: float) -> None:
    receiver, sender = listen(), send("--rate-bps", rate_bps)
    said = [program.communicate(timeout=120) for program in (sender, receiver)]

    assert (sender.returncode, receiver.returncode) == (0, 0), said
    assert (file.parent / "output").read_bytes() == file.read_bytes()
    assert "301 of 301 datagrams came; again=0 unreadable=0" in said[1][0]


def test_many_together_are_datagrams_of_their_own(send: Launch, places: dict[str, list[str]]) -> None:
    """What a socket gets is what goes over a wire: 300 of a full segment, a shorter one, the end markers."""
    _, _, _, receiver = places["send"]
    host, port = receiver.split(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        endpoint.bind((host, int(port)))
        endpoint.settimeout(10)
        sender = send("--rate-bps", 1e9)
        sizes = [len(endpoint.recv(65536)) for _ in range(306)]
        sender.communicate(timeout=120)

    assert sizes == [1008] * 300 + [308] + [8] * 5


def test_a_sender_keeps_to_its_rate(send: Launch) -> None:
    told, error = send("--rate-bps", 20e6).communicate(timeout=120)

    duration = re.search(r"duration_s=([0-9.]+)", told)
    least_s = 300 * 8 * frame_bytes(1008) / 20e6
    assert duration, error
    assert least_s < float(duration[1]) < least_s + 0.3


def test_each_pass_sends_the_complete_file(listen: Launch, send: Launch) -> None:
    listen()
    told, error = send("--rate-bps", 100e6, "--passes", 3).communicate(timeout=120)

    assert "sent=903 end_markers=5 passes=3 " in told, error


def test_a_receiver_without_a_sender_ends_with_a_reason(listen: Launch) -> None:
    receiver = listen("--idle-limit-s", 0.2)
    _, error = receiver.communicate(timeout=120)

    assert receiver.returncode == 1
    assert error.startswith("failed: file incomplete: 0 of 301 datagrams came")


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (["--segment-bytes", 0], 127, "unsupported: segments of 0 bytes"),
        (["--passes", 0], 127, "unsupported: 0 passes"),
        (["--local", "192.0.2.1:5011"], 1, "failed: cannot send from 192.0.2.1:5011: "),
        (["--file", "/no/such/file"], 1, "failed: /no/such/file: No such file or directory"),
        (["--rate-bps", "fast"], 2, "expected a number of at least 0"),
    ],
)
def test_what_cannot_be_done_ends_with_one_line(send: Launch, options: list[object], status: int, said: str) -> None:
    sender = send("--rate-bps", 0, *options)
    _, error = sender.communicate(timeout=120)

    assert sender.returncode == status
    assert said in error.splitlines()[-1]


def test_data_for_a_time_is_counted(start: Start, places: dict[str, list[str]]) -> None:
    options = ["--duration-s", 0.3, "--rate-bps", 10e6]
    receiver = start("owlt.agents.blast", "receive", *options, "--one-way-delay-s", 0, *places["receive"])
    assert receiver.stdout is not None
    receiver.stdout.readline()
    sender = start("owlt.agents.blast", "send", *options, *places["send"])
    (of_sender, _), (of_receiver, _) = sender.communicate(timeout=120), receiver.communicate(timeout=120)

    sent = re.search(r"sent=([0-9]+)", of_sender)
    counted = re.search(
        r"^complete received_bytes=([0-9]+) datagrams=([0-9]+) late=([0-9]+) ", of_receiver, re.MULTILINE
    )
    assert sent is not None and counted is not None, (of_sender, of_receiver)
    assert int(counted[1]) == 1000 * int(counted[2])
    assert int(counted[2]) + int(counted[3]) == int(sent[1])
