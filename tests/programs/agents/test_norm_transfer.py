"""Real NORM transfers between two programs over multicast on the loopback interface."""

import random
import re
import socket
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from owlt.agents.endpoint.event_loop import frame_bytes
from owlt.agents.norm.settings import Settings
from tests.programs.agents.conftest import Start

GROUP = "224.1.2.3"
RTT_S = 0.02
UNICAST = ["--destination", "address", "--receiver-address", "127.0.0.1"]


@pytest.fixture
def common() -> list[object]:
    """Options of both sides, on a port that nobody uses, and that no kernel gives to anybody who asks for any."""
    port = next(filter(_is_free, (random.SystemRandom().randrange(10_000, 30_000) for _ in range(100))))
    return ["--session", f"{GROUP}:{port}", "--interface", "lo", "--rate-bps", 20e6, "--rtt-s", RTT_S]


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(random.Random(1).randbytes(100_000))
    return path


@pytest.fixture
def receiver(start: Start, common: list[object], tmp_path: Path) -> Callable[..., "Popen[str]"]:
    def listening(*options: object) -> "Popen[str]":
        output = ["--output", tmp_path / "output", "--file-bytes", 100_000, "--tx-port", 0]
        program = start("owlt.agents.norm", "receive", *output, *common, *options)
        assert program.stdout is not None
        assert program.stdout.readline().startswith("listening on ")
        return program

    return listening


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--parity-segments", 0],
        ["--auto-parity-segments", 4],
        ["--segment-bytes", 1400, "--block-segments", 20],
        ["--probing", "active", "--backoff-factor", 4, "--group-size", 1000, "--repair-boundary", "block"],
        ["--end", "flushed", "--robust-factor", 3],
        UNICAST,
        [*UNICAST, "--end", "flushed", "--robust-factor", 3, "--probing", "active"],
        ["--congestion-control", "cc", "--least-rate-bps", 1e6],
        ["--congestion-control", "cce", "--least-rate-bps", 1e6],
        ["--congestion-control", "ccl", *UNICAST],
    ],
    ids=[
        "defaults",
        "no-parity",
        "auto-parity",
        "segments",
        "library-defaults",
        "flushed",
        "unicast",
        "unicast-flushed",
        "congestion-control",
        "ecn",
        "unicast-loss-tolerant",
    ],
)
def test_a_file_arrives_and_both_sides_end(
    start: Start, receiver: Callable[..., "Popen[str]"], common: list[object], file: Path, options: list[object]
) -> None:
    listener = receiver(*options)
    sender = start("owlt.agents.norm", "send", "--file", file, "--tx-port", 0, *common, *options)
    said = [program.communicate(timeout=120) for program in (sender, listener)]

    assert (sender.returncode, listener.returncode) == (0, 0), said
    assert (file.parent / "output").read_bytes() == file.read_bytes()
    assert {path.name for path in file.parent.iterdir()} == {"file", "output"}


def test_a_sender_keeps_to_its_rate(
    start: Start, receiver: Callable[..., "Popen[str]"], common: list[object], file: Path
) -> None:
    receiver("--rate-bps", 2e6)
    sender = start("owlt.agents.norm", "send", "--file", file, "--tx-port", 0, *common, "--rate-bps", 2e6)
    output, error = sender.communicate(timeout=120)

    duration = re.search(r"duration_s=([0-9.]+)", output)
    least_s = 100 * 8 * frame_bytes(1032) / 2e6
    assert duration, error
    assert least_s < float(duration[1]) < least_s + 0.5


def test_congestion_control_keeps_to_its_greatest_rate(
    start: Start, receiver: Callable[..., "Popen[str]"], common: list[object], file: Path
) -> None:
    options = ["--congestion-control", "cc", "--least-rate-bps", 2e6, "--greatest-rate-bps", 2e6]
    receiver(*options)
    sender = start("owlt.agents.norm", "send", "--file", file, "--tx-port", 0, *common, *options)
    output, error = sender.communicate(timeout=120)

    said = re.search(r"message_rate_bps=([0-9]+) duration_s=([0-9.]+)", output)
    assert said, error
    assert int(said[1]) == pytest.approx(2e6 * 1032 / 1074, abs=1)
    assert 0.4 < float(said[2]) < 1


def test_a_receiver_of_its_own_port_shares_it_with_nobody(
    start: Start, receiver: Callable[..., "Popen[str]"], common: list[object], tmp_path: Path
) -> None:
    receiver(*UNICAST)
    output = ["--output", tmp_path / "other", "--file-bytes", 100_000, "--tx-port", 0]
    second = start("owlt.agents.norm", "receive", *output, *common, *UNICAST)
    _, error = second.communicate(timeout=120)

    assert second.returncode == 1
    assert "is the interface up, the port free?" in error


def test_a_sender_without_a_receiver_fails_and_says_so(start: Start, common: list[object], file: Path) -> None:
    options = ["--tx-port", 0, "--robust-factor", 3]
    sender = start("owlt.agents.norm", "send", "--file", file, *common, *options)
    _, error = sender.communicate(timeout=120)

    assert sender.returncode == 1
    assert error == "failed: the receiver did not acknowledge 3 flushes\n"


def test_a_sender_without_a_receiver_ends_well_when_it_only_flushes(
    start: Start, common: list[object], file: Path
) -> None:
    options = ["--tx-port", 0, "--robust-factor", 3, "--end", "flushed"]
    sender = start("owlt.agents.norm", "send", "--file", file, *common, *options)
    sender.communicate(timeout=120)

    assert sender.returncode == 0


def test_a_receiver_without_a_sender_ends_with_a_reason(receiver: Callable[..., "Popen[str]"]) -> None:
    listener = receiver("--idle-limit-s", 0.5)
    _, error = listener.communicate(timeout=120)

    assert listener.returncode == 1
    assert error == "failed: no progress for 0.5 s\n"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--rtt-s", 1001], 127, "unsupported: a round trip of 1001.0 s; a NORM message can carry at most 1000.0 s"),
        (["--block-segments", 250], 127, "unsupported: blocks of 250 + 8 segments"),
        (["--segment-bytes", 0], 127, "unsupported: segments of 0 bytes"),
        (["--interface", "nosuch0"], 1, "failed: libnorm "),
        (["--session", "224.1.2.3"], 2, "expected ADDRESS:PORT"),
        (["--end", "never"], 2, "invalid End value"),
        (["--destination", "address"], 2, "got no --receiver-address, expected the receiver's own"),
        (
            ["--greatest-rate-bps", 1, "--least-rate-bps", 2],
            2,
            "got 2.0, expected no more than --greatest-rate-bps",
        ),
        (["--file", "/no/such/file"], 1, "failed: /no/such/file: No such file or directory"),
    ],
)
def test_what_cannot_be_done_ends_with_one_line(
    start: Start, common: list[object], file: Path, arguments: list[object], status: int, said: str
) -> None:
    program = start("owlt.agents.norm", "send", "--file", file, "--tx-port", 0, *common, *arguments)
    _, error = program.communicate(timeout=120)

    assert program.returncode == status
    assert said in error.splitlines()[-1]


def test_the_rate_is_scaled_so_that_whole_frames_count() -> None:
    settings = Settings(rate_bps=10e6, rtt_s=0.05, file_bytes=1)

    assert settings.message_rate_bps == pytest.approx(10e6 * 1032 / 1074)


def test_a_long_light_time_raises_the_limit_of_the_round_trip() -> None:
    assert Settings(rate_bps=1e6, rtt_s=400, file_bytes=1).grtt_limit_s == 1000


def test_the_limit_of_the_round_trip_can_be_given() -> None:
    assert Settings(rate_bps=1e6, rtt_s=0.05, file_bytes=1, greatest_grtt_s=3).grtt_limit_s == 3


def test_a_long_file_on_a_slow_channel_is_no_silence() -> None:
    settings = Settings(rate_bps=9600, rtt_s=0.05, file_bytes=10_000_000)

    assert settings.silence_limit_s > 8 * 10_000_000 / 9600
