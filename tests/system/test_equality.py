"""Runs of the demo's implementations, and what owlt and tshark say of them: the same."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from owlt.orchestrator.profiles.catalogue import PROFILES
from tests.conftest import require_command
from tests.equality import differences_from_tshark, main, runs_of
from tests.system.sweeps import RECORDED, owlt

CUT = {"file_size": "100 kB", "delay": "25 ms", "packet_error_rate": 0.01, "repetitions": 1}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """The demo with one run of each implementation."""
    directory = tmp_path_factory.mktemp("equality")
    demo = YAML(typ="safe").load(PROFILES / "sweeps" / "demo.yaml")
    sweep = directory / "sweep.yaml"
    sweep.write_text(json.dumps(demo | CUT))
    done = owlt("run", sweep, "--results", directory / "results", "--no-report")
    assert done.returncode in RECORDED, done.stdout + done.stderr
    return directory / "results"


def test_owlt_and_tshark_say_the_same_of_every_run(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(results)
    told = capsys.readouterr().out
    assert status == 0, told
    assert told == "equality: 6 runs, 12 captures, 0 differences\n"


@pytest.fixture
def run(results: Path, tmp_path: Path) -> Path:
    """A copy of a run, to be changed."""
    copied: Path = shutil.copytree(runs_of(results)[0], tmp_path / "run")
    return copied


def without_frame(capture: Path, number: int) -> None:
    partial = capture.with_suffix(".partial")
    editcap = [require_command("editcap"), "-F", "nsecpcap", str(capture), str(partial), str(number)]
    subprocess.run(editcap, capture_output=True, check=True)
    partial.replace(capture)


def test_a_packet_that_is_not_in_the_capture_any_more_makes_a_difference(run: Path) -> None:
    assert differences_from_tshark(run) == []
    without_frame(run / "receiver.pcap", 5)
    assert any("delivered" in difference for difference in differences_from_tshark(run))


def test_a_number_of_the_summary_that_is_one_off_makes_a_difference(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(summary | {"str_sent": summary["str_sent"] + 1}))
    (difference,) = differences_from_tshark(run)
    assert difference == f"str_sent {summary['str_sent'] + 1}, and tshark says {summary['str_sent']}"


def test_a_run_without_a_summary_makes_a_difference(run: Path) -> None:
    (run / "summary.json").unlink()
    assert differences_from_tshark(run) == ["there is no summary of this version"]
