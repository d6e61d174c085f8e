"""Real TCP transfers between two programs on the loopback interface."""

import random
import re
import signal
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from tests.programs.agents.conftest import Start

CHANNEL = ["--rate-bps", 0, "--rtt-s", 0.001]
Listen = Callable[..., "Popen[str]"]


@pytest.fixture
def place() -> str:
    """An address on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(random.Random(1).randbytes(1_000_000))
    return path


@pytest.fixture
def listen(start: Start, place: str, tmp_path: Path) -> Listen:
    def listening(*options: object, file_bytes: int = 1_000_000) -> "Popen[str]":
        given = ["--output", tmp_path / "output", "--file-bytes", file_bytes, "--local", place, *CHANNEL, *options]
        program = start("owlt.agents.tcp", "receive", *given)
        assert program.stdout is not None
        assert program.stdout.readline() == f"listening on {place}\n"
        return program

    return listening


@pytest.fixture
def send(start: Start, place: str, file: Path) -> Callable[..., "Popen[str]"]:
    return lambda *options: start("owlt.agents.tcp", "send", "--file", file, "--peer", place, *CHANNEL, *options)


@pytest.mark.parametrize("size_bytes", [0, 1, 1_000_000])
def test_a_file_arrives_complete_and_both_sides_end(listen: Listen, send: Listen, file: Path, size_bytes: int) -> None:
    file.write_bytes(file.read_bytes()[:size_bytes])
    receiver, sender = listen(file_bytes=size_bytes), send()
    said = [program.communicate(timeout=120) for program in (sender, receiver)]

    assert (sender.returncode, receiver.returncode) == (0, 0), said
    assert (file.parent / "output").read_bytes() == file.read_bytes()
    assert {path.name for path in file.parent.iterdir()} == {"file", "output"}


def test_a_segment_has_the_data_that_was_asked_for(listen: Listen, send: Listen) -> None:
    listen("--buffers", "kernel")
    told, error = send("--segment-bytes", 500, "--buffers", "kernel").communicate(timeout=120)

    segments = re.search(r"data_segments=(\d+)", told)
    assert segments, error
    assert 2000 <= int(segments[1]) < 2200
    assert "segment_bytes=500 " in told


def test_the_congestion_control_is_the_one_that_was_asked_for(listen: Listen, send: Listen) -> None:
    listen()
    told, error = send("--congestion-control", "reno").communicate(timeout=120)

    assert "congestion_control=reno " in told, error


def test_a_congestion_control_that_the_kernel_has_not_got_is_unsupported_with_those_that_it_has(send: Listen) -> None:
    sender = send("--congestion-control", "nosuch")
    _, error = sender.communicate(timeout=120)

    assert sender.returncode == 127
    assert error.startswith("unsupported: congestion control 'nosuch' is not in this kernel; it has: ")
    assert "cubic" in error


def test_a_sender_without_a_receiver_fails_and_says_so(send: Listen, place: str) -> None:
    sender = send()
    _, error = sender.communicate(timeout=120)

    assert sender.returncode == 1
    assert error == f"failed: no program listens on {place}\n"


def test_a_receiver_without_a_sender_ends_with_a_reason(listen: Listen) -> None:
    receiver = listen("--idle-limit-s", 0.2)
    _, error = receiver.communicate(timeout=120)

    assert receiver.returncode == 1
    assert error == "failed: no connection for 0.2 s\n"


@pytest.mark.parametrize(
    ("size_bytes", "said"), [(999_999, "bytes arrived, more than the file of"), (1_000_001, "the sender ended")]
)
def test_more_or_less_than_the_file_fails_on_both_sides(
    listen: Listen, send: Listen, file: Path, size_bytes: int, said: str
) -> None:
    receiver, sender = listen(file_bytes=size_bytes), send()
    _, receiver_error = receiver.communicate(timeout=120)
    _, sender_error = sender.communicate(timeout=120)

    assert (receiver.returncode, sender.returncode) == (1, 1)
    assert said in receiver_error
    assert "failed: " in sender_error
    assert not (file.parent / "output").exists()


def test_a_receiver_that_falls_silent_ends_the_sender(send: Listen, place: str) -> None:
    """It takes the connection and a little, and then nothing: its window closes."""
    host, port = place.split(":")
    with socket.create_server((host, int(port))) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sender = send("--idle-limit-s", 0.3, "--buffers", "kernel")
        taken, _ = server.accept()
        with taken:
            _, error = sender.communicate(timeout=120)

    assert sender.returncode == 1
    assert "failed: the receiver was silent for 0.3 s" in error


def test_a_receiver_that_never_closes_ends_the_sender(send: Listen, place: str) -> None:
    host, port = place.split(":")
    with socket.create_server((host, int(port))) as server:
        sender = send("--idle-limit-s", 0.3)
        taken, _ = server.accept()
        with taken:
            while taken.recv(65536):
                pass
            _, error = sender.communicate(timeout=120)

    assert sender.returncode == 1
    assert "failed: the receiver was silent for 0.3 s" in error


def test_a_sender_that_falls_silent_ends_the_receiver(listen: Listen, place: str) -> None:
    receiver = listen("--idle-limit-s", 0.3)
    host, port = place.split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(bytes(10))
        _, error = receiver.communicate(timeout=120)

    assert receiver.returncode == 1
    assert error == "failed: the sender was silent for 0.3 s; 10 of 1000000 bytes came\n"


def test_a_killed_receiver_leaves_no_orphan_behind(listen: Listen, place: str) -> None:
    """The peer's connection is reset. An orphan would go on with its FIN for as long as the endpoint has patience."""
    receiver = listen()
    host, port = place.split(":")
    with socket.create_connection((host, int(port))) as connection:
        receiver.send_signal(signal.SIGTERM)
        with pytest.raises(ConnectionResetError):
            connection.recv(1)


def test_a_sender_that_gives_up_ends_the_receiver(listen: Listen, place: str) -> None:
    receiver = listen()
    host, port = place.split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(bytes(10))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    _, error = receiver.communicate(timeout=120)

    assert receiver.returncode == 1
    assert error.startswith("failed: the sender gave up; ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--buffers", "many"], "got 'many', expected channel, kernel or bytes"),
        (["--peer", "127.0.0.1"], "expected ADDRESS:PORT"),
        (["--segment-bytes", "-1"], "expected a whole number of at least 0"),
    ],
)
def test_a_wrong_option_is_refused_with_what_was_wanted(send: Listen, options: list[str], said: str) -> None:
    sender = send(*options)
    _, error = sender.communicate(timeout=120)

    assert sender.returncode == 2
    assert said in error


def test_an_address_of_another_host_is_refused(start: Start, tmp_path: Path) -> None:
    given = ["--output", tmp_path / "output", "--file-bytes", 1, "--local", "192.0.2.1:5001", *CHANNEL]
    receiver = start("owlt.agents.tcp", "receive", *given)
    _, error = receiver.communicate(timeout=120)

    assert receiver.returncode == 1
    assert error.startswith("failed: cannot listen on 192.0.2.1:5001: ")


def test_data_for_a_time_is_counted_and_not_stored(start: Start, place: str, tmp_path: Path) -> None:
    receiver = start("owlt.agents.tcp", "receive", "--duration-s", 0.5, "--local", place, *CHANNEL)
    assert receiver.stdout is not None
    receiver.stdout.readline()
    sender = start("owlt.agents.tcp", "send", "--duration-s", 0.5, "--peer", place, *CHANNEL)
    (of_sender, _), (of_receiver, _) = sender.communicate(timeout=120), receiver.communicate(timeout=120)

    assert (sender.returncode, receiver.returncode) == (0, 0)
    counted = re.search(r"^complete received_bytes=([0-9]+) late_bytes=([0-9]+) ", of_receiver, re.MULTILINE)
    lasted = re.search(r"duration_s=([0-9.]+)", of_sender)
    assert counted is not None and int(counted[1]) > 0
    assert (int(counted[1]) + int(counted[2])) % (1 << 16) == 0, "what one call hands over arrives as a whole"
    assert lasted is not None and float(lasted[1]) >= 0.5
    assert list(tmp_path.iterdir()) == []


def test_a_receiver_of_a_file_needs_its_size(start: Start, place: str, tmp_path: Path) -> None:
    receiver = start("owlt.agents.tcp", "receive", "--output", tmp_path / "output", "--local", place, *CHANNEL)
    _, complaint = receiver.communicate(timeout=120)

    assert receiver.returncode == 2
    assert "--output needs --file-bytes" in complaint
