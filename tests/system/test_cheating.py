"""A receiver cannot learn the file without the channel: the machine shows nothing, and a guess is marked."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from owlt.orchestrator.run.staging import file_content
from tests.commands import owlt
from tests.system.conftest import in_guest
from tests.system.programs.cheat import seed_in, ways
from tests.system.sweeps import PROJECT, RECORDED, records, sweep_file

PROGRAM = in_guest(str(PROJECT / "tests" / "system" / "programs" / "cheat.py"))
SEED, SIZE_BYTES = 20_26, 20_000
COMMON = {
    "protocol": "NONE",
    "description": "for tests of what passes beside the channel",
    "session": {"udp_ports": [5000]},
    "time_limit": {"rtts": 0, "file_times": 0, "extra_s": 30},
}
ASKS = "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x' * 100, ('10.77.0.2', 5000))"


def profile(directory: Path, name: str, sender: list[str], receiver: list[str], **more: Any) -> str:
    path = directory / f"{name}.yaml"
    sides = {"sender": {"command": ["{python}", *sender]} | more, "receiver": {"command": ["{python}", *receiver]}}
    path.write_text(json.dumps({"name": name, "title": name} | COMMON | sides | {"starts_first": "sender"}))
    return str(path)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Iterator[Path]:
    """A receiver that looks for the file in every place, one that guesses the seed, and an honest one.

    The results are where users have them: a guest has its own /tmp. Other results with the same seed are beside
    programs, in a directory whose name is not UTF-8.
    """
    directory = tmp_path_factory.mktemp("cheating")
    (PROJECT / "results").mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="cheating-", dir=PROJECT / "results") as name,
        tempfile.TemporaryDirectory(prefix=os.fsdecode(b"owlt-test-r\xe9sultats-"), dir="/opt") as beside_programs,
    ):
        Path(beside_programs).chmod(0o755)
        Path(beside_programs, "plan.json").write_text(json.dumps({"sweep": {"seed": SEED}}))
        yield performed(directory, Path(name, "results"))


def performed(directory: Path, results: Path) -> Path:
    looks = [PROGRAM, "receive", str(results), str(Path.home()), "{file_size_bytes}", "{received_file}"]
    implementations = [
        profile(directory, "looks", [PROGRAM, "send", "{file}"], looks, ready={"line": "^offered"}),
        profile(
            directory,
            "guesses",
            ["-c", ASKS],
            [PROGRAM, "guess", str(SEED), "{file_size_bytes}", "{received_file}"],
        ),
        "cfdp",
    ]
    sweep = sweep_file(directory, seed=SEED, implementations=implementations, file_size=f"{SIZE_BYTES} B")
    done = owlt("run", sweep, "--results", results, "--no-report", "--guests", 1)
    assert done.returncode in RECORDED, done.stderr
    return results


def record_of(results: Path, name: str) -> dict[str, Any]:
    return next(record for record in records(results).values() if record["implementation"] == name)


def found_by(results: Path) -> dict[str, str]:
    run = next(path.parent for path in results.glob("runs/looks_*/record.json"))
    return dict(json.loads((run / "receiver.out").read_text()))


def test_every_way_is_tried(results: Path) -> None:
    assert found_by(results).keys() == ways("", "", 0).keys()


@pytest.mark.parametrize("way", ways("", "", 0))
def test_a_receiver_finds_nothing_of_the_file_on_its_machine(results: Path, way: str) -> None:
    assert found_by(results)[way] == ""


def test_the_receiver_that_looks_for_the_file_does_not_have_it(results: Path) -> None:
    assert record_of(results, "looks")["outcome"] == "failed"


def test_the_seed_of_the_results_would_have_given_the_file(results: Path) -> None:
    """The control: the same search, where the results can be read."""
    seed = seed_in(f"{results}/plan.json")

    assert seed == SEED
    assert file_content(seed, SIZE_BYTES) == file_content(SEED, SIZE_BYTES)
    found = ways(str(results), str(Path.home()), SIZE_BYTES)
    assert found["home"]()
    assert found["plan beside programs"]()


def summary_reasons(results: Path, name: str) -> list[str]:
    path = next(results.glob(f"runs/{name}_*/summary.json"))
    return list(json.loads(path.read_text())["suspect"])


def test_a_receiver_that_guesses_the_seed_is_suspect(results: Path) -> None:
    assert record_of(results, "guesses")["outcome"] == "completed"
    assert any("bytes had arrived" in reason for reason in summary_reasons(results, "guesses"))


def test_a_receiver_that_receives_the_file_is_not_suspect(results: Path) -> None:
    assert record_of(results, "cfdp")["outcome"] == "completed"
    assert summary_reasons(results, "cfdp") == []
