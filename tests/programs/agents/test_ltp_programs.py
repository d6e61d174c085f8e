"""The LTP endpoint as the two programs that it is, on loopback."""

import random
import socket
from pathlib import Path

import pytest

from tests.programs.agents.conftest import Start

COMMON = ["--rate-bps", "50e6", "--rtt-s", "0.001", "--timer-margin-s", "0.05"]


def free_ports() -> tuple[str, str]:
    with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as other:
        for end in (one, other):
            end.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}", f"127.0.0.1:{other.getsockname()[1]}"


@pytest.mark.parametrize(
    ("told_to_both", "told_to_the_sender"),
    [([], []), (["--block-bytes", 30_000], ["--sessions", 2, "--checkpoint-every", 10]), ([], ["--red-bytes", 50_000])],
    ids=["one block", "blocks", "half green"],
)
def test_a_file_goes_from_program_to_program(
    told_to_both: list[object], told_to_the_sender: list[object], start: Start, tmp_path: Path
) -> None:
    file, output = tmp_path / "file", tmp_path / "output"
    file.write_bytes(random.Random(1).randbytes(100_000))
    near, far = free_ports()
    common = [*COMMON, *told_to_both]
    receiver = start(
        "owlt.agents.ltp",
        "receive",
        "--output",
        output,
        "--local",
        far,
        "--peer",
        near,
        "--file-bytes",
        100_000,
        *common,
    )
    assert receiver.stdout is not None
    assert receiver.stdout.readline() == f"listening on {far}\n"
    sender = start(
        "owlt.agents.ltp", "send", "--file", file, "--local", near, "--peer", far, *common, *told_to_the_sender
    )
    for side in (sender, receiver):
        said, complained = side.communicate(timeout=120)
        assert side.returncode == 0, complained
        assert said.splitlines()[-1].startswith("complete ")
    assert output.read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("told", "status", "said"),
    [
        (["--sessions", "0"], 2, "expected a whole number of at least 1"),
        (["--red-bytes", "half"], 2, "expected a whole number of at least 0"),
        (["--segment-bytes", "70000"], 127, "unsupported: segments of 70000 bytes"),
    ],
)
def test_what_cannot_be_is_answered_at_once(
    told: list[str], status: int, said: str, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"content")
    near, far = free_ports()
    sender = start(
        "owlt.agents.ltp", "send", "--file", tmp_path / "file", "--local", near, "--peer", far, *COMMON, *told
    )
    _, complained = sender.communicate(timeout=120)

    assert (sender.returncode, said in complained) == (status, True), complained


def test_a_receiver_of_several_blocks_must_be_given_the_size(start: Start, tmp_path: Path) -> None:
    near, far = free_ports()
    told = ["--output", tmp_path / "output", "--local", far, "--peer", near, *COMMON, "--block-bytes", 1000]
    receiver = start("owlt.agents.ltp", "receive", *told)
    _, complained = receiver.communicate(timeout=120)

    assert (receiver.returncode, "give --file-bytes too" in complained) == (2, True), complained
