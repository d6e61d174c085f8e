"""A worker on a rig in memory: its task, its events, what it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from owlt.emulator.faults import LeaseHeld
from owlt.orchestrator.rigs.rig import Rig
from owlt.orchestrator.run.events import RigFailed, event_in, worker_line
from owlt.orchestrator.run.task import read_task, write_task
from owlt.orchestrator.run.worker import lease_s, work
from owlt.results.record import Outcome, read_record
from tests.memory.process import Process, printing
from tests.unit.orchestrator.performing import Stage, send


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def worked(
    stage: Stage, capsys: pytest.CaptureFixture[str], versions: dict[str, str] | None = None, forgets: str = ""
) -> list[Any]:
    """Have a worker do all batches of the plan as one; returns its events. It asks for versions that are not known.

    The rig prints `forgets` when its hosts forget.
    """
    stage.install()
    plan = stage.plan
    (batch,) = plan.batches
    keys = [key for each in plan.certifications for key in each.certify]
    write_task(plan, batch.model_copy(update={"certify": keys}), stage.directory, 1000, {}, versions)

    rig = replace(stage.rig.rig, forget=partial(print, forgets))

    @contextmanager
    def raised(directory: Path, logs: Path, third_party: Path) -> Iterator[Rig]:
        yield rig

    work(stage.directory, stage.directory / "rig", raised)
    return [event for line in capsys.readouterr().out.splitlines() if (event := event_in(line)) is not None]


def test_a_worker_certifies_performs_and_reports_each_step(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.sweep = {"certify": True}
    events = worked(stage, capsys)

    phases = ["phase"] * 7
    assert [each.event for each in events] == ["connect", "certify", "certified", "run", *phases, "done", "end"]
    run_id = stage.plan.runs[0].run_id
    assert read_record(stage.directory / "runs" / run_id).outcome is Outcome.COMPLETED
    assert [path.stem for path in (stage.directory / "certificates").iterdir()] == list(stage.plan.channels)


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ({"copy": "1.2"}, ["run", "failed", "run", "failed", "run"]),
        (None, ["failed", "run", "failed", "run", "failed", "run"]),
    ],
)
def test_hosts_forget_what_programs_left_before_each_run_that_others_preceded(
    stage: Stage, capsys: pytest.CaptureFixture[str], versions: dict[str, str] | None, expected: list[str]
) -> None:
    """A version command is a program of the implementation too."""
    stage.sweep = {"repetitions": 3, "runs_per_guest": 3}

    events = worked(stage, capsys, versions, forgets=worker_line(RigFailed(reason="a marker")))

    assert [each.event for each in events if each.event in expected] == expected


def test_a_worker_has_the_emulator_to_itself(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    worked(stage, capsys)

    with pytest.raises(LeaseHeld, match="owlt, sweep small"):
        stage.rig.rig.channel.lease("somebody else", 1)


def test_a_lease_outlasts_the_run(stage: Stage) -> None:
    plan = stage.plan
    write_task(plan, plan.batches[0], stage.directory, None, {})

    assert lease_s(plan.runs[0], read_task(stage.directory)) > 60


@pytest.mark.parametrize(
    ("script", "version"),
    [
        (printing("copy 1.2"), "copy 1.2"),
        (printing("copy 1.2", "with zlib"), "copy 1.2\nwith zlib"),
        (printing(), "unknown: the version_command exited with status 0: no output"),
        (printing("no display", exit_status=3), "unknown: the version_command exited with status 3: no display"),
        (printing(forever=True), "unknown: the version_command did not finish within 20 s"),
    ],
)
def test_a_version_is_what_the_version_command_prints(
    stage: Stage, capsys: pytest.CaptureFixture[str], script: Any, version: str
) -> None:
    stage.implementation = {"version_command": ["{send}", "--version"]}

    def send_or_tell(process: Process) -> int | None:
        return script(process) if process.arguments == ["--version"] else send(process)

    stage.sender = send_or_tell
    worked(stage, capsys)

    record = read_record(stage.directory / "runs" / stage.plan.runs[0].run_id)
    found, _, digests = record.versions["implementation"].rpartition(" (sha256 ")
    assert found == version
    assert len(digests.rstrip(")").split(", ")) == 2


def asked_for_versions(stage: Stage, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    """The hosts that print a version, each another one, and what is recorded."""
    asked: list[str] = []

    def send_or_tell(process: Process) -> int | None:
        if process.arguments == ["--version"]:
            asked.append("sender" if process.host is stage.rig.sender else "receiver")
            process.print(f"copy of the {asked[-1]}")
            return 0
        return send(process)

    stage.implementation = {"version_command": ["{send}", "--version"]}
    stage.sender = send_or_tell
    worked(stage, capsys)
    return asked, read_record(stage.directory / "runs" / stage.plan.runs[0].run_id).versions["implementation"]


def test_the_receivers_version_is_recorded_too_if_its_machine_has_another(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.rig.rig = replace(stage.rig.rig, has_machines=True)

    asked, version = asked_for_versions(stage, capsys)

    assert asked == ["sender", "receiver"]
    sender, separator, receiver = version.partition("; on the receiver: ")
    assert (sender.split(" (")[0], bool(separator), receiver.split(" (")[0]) == (
        "copy of the sender",
        True,
        "copy of the receiver",
    )


def test_hosts_on_one_machine_print_a_version_once(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    asked, version = asked_for_versions(stage, capsys)

    assert asked == ["sender"]
    assert version.startswith("copy of the sender")
    assert "on the receiver" not in version


def test_without_a_version_command_the_version_is_unknown(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    worked(stage, capsys)

    record = read_record(stage.directory / "runs" / stage.plan.runs[0].run_id)
    assert record.versions["implementation"].startswith("unknown (sha256 ")
