"""The Saratoga endpoint as the program that it is: its command line, its sockets and its last words."""

from __future__ import annotations

import random
import re
import socket
from pathlib import Path

import pytest

from owlt.agents.contract.implementation import load_implementation
from tests.programs.agents.conftest import REPOSITORY, Start

COMMON = ["--rate-bps", 50e6, "--rtt-s", 0.001, "--timer-margin-s", 0.02]
PROFILES = REPOSITORY / "profiles" / "implementations"


def free_addresses() -> list[str]:
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for bound in sockets:
        bound.bind(("127.0.0.1", 0))
    addresses = ["{}:{}".format(*bound.getsockname()) for bound in sockets]
    for bound in sockets:
        bound.close()
    return addresses


@pytest.mark.parametrize(
    "way",
    [["--transfer", "put"], ["--transfer", "get"], ["--transfer", "get", "--version", 0]],
    ids=["put", "get", "v0"],
)
def test_two_programs_carry_a_file(start: Start, tmp_path: Path, way: list[object]) -> None:
    content = random.Random(3).randbytes(200_000)
    (tmp_path / "file").write_bytes(content)
    one, other = free_addresses()
    wanted = ["--wanted", "/somewhere/file"] if "get" in way else []
    programs = {
        "send": ["--file", tmp_path / "file", "--local", one, "--peer", other],
        "receive": ["--output", tmp_path / "output", "--local", other, "--peer", one, *wanted],
    }
    said = {}
    running = []
    for side in ("send", "receive") if wanted else ("receive", "send"):
        running.append((side, start("owlt.agents.saratoga", side, *programs[side], *way, *COMMON)))
        assert running[-1][1].stdout is not None
        assert running[-1][1].stdout.readline().startswith("listening on 127.0.0.1:")
    for side, program in running:
        said[side], _ = program.communicate(timeout=120)
        assert program.returncode == 0

    assert (tmp_path / "output").read_bytes() == content
    sent = re.match(r"complete sent=(\d+) \(Data=(\d+) Metadata=(\d+)", said["send"])
    received = re.search(r"received=(\d+)", said["receive"])
    assert sent and received
    # more if a program had to wait for a processor, and its peer sent again
    assert int(sent[2]) >= 200 <= int(received[1])
    assert int(sent[1]) >= int(sent[2]) + int(sent[3]) > 200


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["send", "--file", "/no/such/file"], 1, "failed: /no/such/file: No such file or directory"),
        (["send", "--file", "/dev/null", "--segment-bytes", 0], 127, "unsupported: segments of 0 bytes"),
        (["send", "--file", "/dev/null", "--version", 0], 127, "unsupported: a put; version 0 has none"),
        (["send", "--file", "/dev/null", "--descriptor-bits", 24], 2, "got '24', expected auto or one of 16, 32, 64"),
        (["send", "--file", "/dev/null", "--rtt-s", "-1"], 2, "got '-1', expected a number of at least 0"),
        (["send", "--file", "/dev/null", "--local", "192.0.2.1:7542"], 1, "failed: cannot listen on 192.0.2.1:7542"),
        (["send", "--file", "/dev/null", "--checksum", "crc8"], 2, "invalid choice: 'crc8'"),
        (
            ["receive", "--output", "/tmp/x", "--transfer", "get"],
            2,
            "expected --wanted with --transfer get, and only with it",
        ),
        (
            ["receive", "--output", "/tmp/x", "--wanted", "f"],
            2,
            "expected --wanted with --transfer get, and only with it",
        ),
        (["receive", "--output", "/no/such/directory/x"], 1, "failed: /no/such/directory/x.part: No such file"),
    ],
)
def test_what_cannot_be_done_ends_with_one_line(start: Start, arguments: list[object], status: int, said: str) -> None:
    one, other = free_addresses()
    usual = ["--local", one, "--peer", other, "--transfer", "put", *COMMON]

    program = start("owlt.agents.saratoga", arguments[0], *usual, *arguments[1:])
    _, error = program.communicate(timeout=120)

    assert program.returncode == status
    assert said in error.splitlines()[-1]


def test_a_file_beyond_the_offsets_of_version_0_is_not_supported(start: Start, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(2**32)
    one, other = free_addresses()

    usual = ["--local", one, "--peer", other, "--transfer", "get", "--version", 0, *COMMON]
    program = start("owlt.agents.saratoga", "send", "--file", tmp_path / "huge", *usual)
    _, error = program.communicate(timeout=120)

    assert program.returncode == 127
    assert "unsupported: a file of 4294967296 bytes; offsets of 32 bits reach 4294967295" in error


@pytest.mark.parametrize("name", ["saratoga", "saratoga-get", "saratoga-v0"])
def test_every_option_of_the_program_can_be_varied_by_a_sweep(name: str) -> None:
    build = load_implementation(PROFILES / f"{name}.yaml")

    for side in (build.sender, build.receiver):
        for parameter in build.parameters.keys() - {"port"}:
            option = "--" + parameter.replace("_", "-")
            assert side.command[side.command.index(option) + 1] == f"{{{parameter}}}"
