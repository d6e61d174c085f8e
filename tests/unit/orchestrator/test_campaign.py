"""What is checked before the first run, and what a results directory that cannot be used says. No run is performed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import campaign
from orchestrator.campaign import perform_plan, perform_sweep, require_ready
from orchestrator.errors import Missing, OwltError
from orchestrator.plan import Plan
from orchestrator.results_lock import locked
from orchestrator.supervisor import Event
from tests.unit.orchestrator.test_supervisor import Workers, small_plan

LOCAL = """\
name: base
seed: 1
rig: local
clock: real
implementations: cfdp
file_size: 1 kB
rate: unlimited
delay: 0 s
packet_error_rate: 0
"""


def nobody_observes(_plan: object, _done: object) -> object:
    def observe(_event: Event) -> None:
        return None

    return observe


def test_the_local_rig_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(LOCAL)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(Missing, match="needs root: run owlt with sudo"):
        perform_sweep(sweep, tmp_path / "results", None, nobody_observes)  # type: ignore[arg-type]

    assert not (tmp_path / "results").exists()


def perform(plan: Plan, results: Path, monkeypatch: pytest.MonkeyPatch) -> campaign.Performed:
    """A plan, performed by workers that speak the language of real ones."""
    monkeypatch.setattr(campaign, "lacks_of", lambda plan: [])
    monkeypatch.setattr(campaign, "_launcher", lambda plan, cpus: Workers(plan))
    return perform_plan(plan, results, 1, nobody_observes, "owlt run small.yaml")  # type: ignore[arg-type]


def sweep_file(directory: Path, **changes: object) -> Path:
    path = directory / "sweep.yaml"
    path.write_text(json.dumps(small_plan().sweep.model_dump(mode="json", exclude_none=True) | changes))
    return path


def owlt(*arguments: object, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from orchestrator.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False)


def test_a_second_run_on_a_directory_in_use_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    results = tmp_path / "results"
    with locked(results):
        before = {path.name: path.read_text() for path in results.iterdir()}

        ended = owlt("run", sweep_file(tmp_path), "--results", results)

        assert {path.name: path.read_text() for path in results.iterdir()} == before
    assert ended.returncode == 2
    assert f"in use by another 'owlt run' (process {os.getpid()} on {os.uname().nodename}" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_sweep_is_refused_where_a_program_that_it_needs_is_missing(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("tshark", "python3"):
        if found := shutil.which(name):
            (programs / name).symlink_to(found)

    ended = owlt("plan", sweep_file(tmp_path), "--results", tmp_path / "results", path=str(programs))

    assert ended.returncode == 2
    assert "the sweep needs tcpdump for captures" in ended.stderr
    assert "apt-get install tcpdump" in ended.stderr
    assert "6 runs, about" in ended.stdout


def test_strays_in_the_runs_are_ignored_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = small_plan()
    (tmp_path / "runs" / "of_another_sweep_r1").mkdir(parents=True)
    (tmp_path / "runs" / "notes.txt").touch()

    done = perform(plan, tmp_path, monkeypatch)

    assert done.summary.startswith("6 of 6 runs recorded")
    assert done.is_complete
    warned = capsys.readouterr().err
    assert all(f"runs/{name}: is no run of this sweep" in warned for name in ("notes.txt", "of_another_sweep_r1"))


def test_runs_that_stay_aborted_make_a_start_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small_plan()
    monkeypatch.setattr(campaign, "lacks_of", lambda plan: [])
    victim = f"if run.run_id == {plan.runs[0].run_id!r}: outcome = 'aborted'"
    monkeypatch.setattr(campaign, "_launcher", lambda plan, cpus: Workers(plan, victim))

    done = perform_plan(plan, tmp_path, 1, nobody_observes, "owlt run small.yaml")  # type: ignore[arg-type]

    assert not done.is_complete
    assert "1 aborted by a fault of the rig, to be repeated: run 'owlt run small.yaml' again" in done.summary


def test_a_run_that_cannot_be_analysed_does_not_end_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small_plan()
    monkeypatch.setattr(campaign, "lacks_of", lambda plan: [])
    victim = plan.runs[0].run_id
    monkeypatch.setattr(campaign, "_launcher", lambda plan, cpus: Workers(plan, f"spoil = run.run_id == {victim!r}"))

    done = perform_plan(plan, tmp_path, 1, nobody_observes, "owlt run small.yaml")  # type: ignore[arg-type]

    assert done.recorded == len(plan.runs)
    assert not done.is_complete
    assert "1 not analysed (see analysis-failed.txt in their directories)" in done.summary
    assert (tmp_path / "runs" / victim / "analysis-failed.txt").exists()


def test_a_full_disk_ends_a_start_with_what_to_do_and_the_sweep_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "journal.jsonl").symlink_to("/dev/full")

    with pytest.raises(
        OwltError, match=r"no space left on its file system; .*free some space, then run 'owlt run small"
    ):
        perform(small_plan(), tmp_path, monkeypatch)

    (tmp_path / "journal.jsonl").unlink()
    assert perform(small_plan(), tmp_path, monkeypatch).is_complete


def test_a_journal_that_cannot_be_written_ends_a_start_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "journal.jsonl").mkdir()

    with pytest.raises(OwltError, match=r"journal\.jsonl"):
        perform(small_plan(), tmp_path, monkeypatch)


def test_a_finished_sweep_needs_nothing_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    perform(small_plan(), tmp_path, monkeypatch)
    monkeypatch.setattr(campaign, "lacks_of", lambda plan: ["a kernel"])

    require_ready(small_plan(), tmp_path)
