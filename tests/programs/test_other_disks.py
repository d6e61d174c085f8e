"""The messages of commands about results on a read-only or full disk. Each command has its own mount, without root."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import require, require_command
from tests.unit.orchestrator.analysing import RECEIVER, SENDER
from tests.unit.reports.conftest import sweep, write_results

SWEEP = sweep(implementations="cfdp", file_size="1 MB", delay="25 ms", packet_error_rate=0, repetitions=1)
OWLT = str(Path(sys.executable).with_name("owlt"))


@pytest.fixture(scope="module")
def unshare() -> list[str]:
    """A command with its own mounts."""
    command = [require_command("unshare"), "--user", "--map-root-user", "--mount"]
    require(subprocess.run([*command, "true"], check=False).returncode == 0, "user namespaces")
    return command


def run(unshare: list[str], script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A shell script with its own mounts, of which $1, $2, ... are the arguments."""
    command = [*unshare, "sh", "-ec", script, "sh", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_a_report_of_read_only_results_is_made_elsewhere(unshare: list[str], tmp_path: Path) -> None:
    results = write_results(tmp_path / "theirs", SWEEP)
    read_only = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && "$2" report "$1"'

    refused = run(unshare, read_only, results, OWLT)
    made = run(unshare, f'{read_only} --out "$3"', results, OWLT, tmp_path / "mine")

    assert refused.returncode == 2
    assert "cannot be written by this user" in refused.stderr
    assert f"owlt report {results} --out DIRECTORY" in refused.stderr
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "mine" / "report" / "index.html").is_file()
    assert not (results / "report").exists()


def test_a_home_that_cannot_be_written_is_no_matter_for_a_report(unshare: list[str], tmp_path: Path) -> None:
    results = write_results(tmp_path / "results", SWEEP)
    (tmp_path / "home").mkdir()
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && HOME="$1" "$2" report "$3"'

    made = run(unshare, script, tmp_path / "home", OWLT, results)

    assert (made.returncode, made.stderr) == (0, "")


def test_a_full_disk_is_named_with_what_to_do(unshare: list[str], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    script = 'mount -t tmpfs -o size=8k none "$1" && "$2" analyse "$3" "$4" --out "$1"'

    full = run(unshare, script, tmp_path / "out", OWLT, SENDER, RECEIVER)

    assert full.returncode == 2
    assert full.stderr.startswith(f"owlt: {tmp_path / 'out'}")
    assert "No space left on device; free some space, or name another directory with --out" in full.stderr
