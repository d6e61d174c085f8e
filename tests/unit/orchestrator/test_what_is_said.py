"""What commands say: a sweep that is interrupted, refused or finished, a plan, what this machine lacks, help."""

from __future__ import annotations

import signal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from orchestrator import campaign, cli, doctor
from orchestrator.campaign import Performed, perform_plan
from orchestrator.catalogue import find_implementation, implementations_of
from orchestrator.doctor import Finding, examine
from orchestrator.errors import Missing, OwltError, ResultsConflict
from orchestrator.plan import Plan, Run, plan_sweep
from orchestrator.progress import SweepProgress
from orchestrator.record import Outcome, RunRecord, write_record
from orchestrator.schemas import SCHEMAS
from orchestrator.supervisor import Event, Observe, WorkerFailed
from orchestrator.sweep import Sweep

AGAIN = "owlt run small.yaml --guests 1"


def small_plan(**changes: object) -> Plan:
    settings = {"name": "small", "seed": 7, "implementations": ["cfdp"], "file_size": "1 kB", "rate": "1 Mbit/s"}
    axes = {"delay": "1 ms", "packet_error_rate": [0, 0.1], "repetitions": 2, "certify": False}
    sweep = Sweep.model_validate(settings | axes | changes)
    return plan_sweep(sweep, implementations_of(sweep))


def record(run: Run, results: Path) -> None:
    directory = results / "runs" / run.run_id
    directory.mkdir(parents=True)
    written = RunRecord(
        run_id=run.run_id,
        sweep="small",
        title="",
        protocol="",
        **run.permutation.model_dump(),
        repetition=run.repetition,
        order=run.order,
        seed=run.seed,
        clock="exact",
        rig="virtual",
        outcome=Outcome.COMPLETED,
    )
    write_record(written, directory)


class Start:
    """One start of a plan whose first two runs end well and in which then something happens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, results: Path, happens: Any) -> None:
        self.plan, self.results = small_plan(), results
        self.shown = StringIO()
        monkeypatch.setattr(campaign, "lacks_of", lambda plan: [])
        monkeypatch.setattr(campaign, "_launcher", lambda plan, cpus: None)
        monkeypatch.setattr(campaign, "supervise", self._supervise)
        self._happens = happens

    def _supervise(self, plan: Plan, results: Path, launch: Any, slots: int, observe: Observe, analyse: Any) -> None:
        for run in plan.runs[:2]:
            record(run, results)
            observe(Event(0.0, 0, "published", {"run_id": run.run_id, "outcome": "completed", "reason": ""}))
        self._happens()

    def perform(self, report: bool = True) -> Performed:
        with SweepProgress(Console(file=self.shown, width=300), AGAIN, report) as observe:
            return perform_plan(self.plan, self.results, 1, observe, AGAIN)


def interrupt(times: int = 1) -> None:
    """Ctrl-C; what comes after the first comes while the workers are being ended."""
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        for _ in range(times - 1):
            signal.raise_signal(signal.SIGINT)


def test_an_interrupt_is_answered_at_once_with_what_comes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Start(monkeypatch, tmp_path, interrupt)

    done = start.perform()

    said = "interrupted: 2 of 4 runs are recorded; making the report of these; Ctrl-C again skips the report"
    assert f"{said}; resume with: {AGAIN}" in start.shown.getvalue()
    assert (done.interrupted, done.interrupted_again, done.recorded) == (True, False, 2)


def test_an_interrupt_without_a_report_speaks_of_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Start(monkeypatch, tmp_path, interrupt)

    start.perform(report=False)

    assert f"interrupted: 2 of 4 runs are recorded; resume with: {AGAIN}" in start.shown.getvalue()


def test_a_second_interrupt_leaves_the_report_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Start(monkeypatch, tmp_path, lambda: interrupt(times=2))

    done = start.perform()

    assert "interrupted again: ending the workers; the report is skipped" in start.shown.getvalue()
    assert done.interrupted_again


def test_the_handler_from_before_is_there_again_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)

    Start(monkeypatch, tmp_path, interrupt).perform()

    assert signal.getsignal(signal.SIGINT) is before


def test_a_rig_that_does_not_come_up_ends_with_what_is_recorded_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise WorkerFailed("the rig of batch 0 did not come up: why; see its log")

    with pytest.raises(OwltError) as raised:
        Start(monkeypatch, tmp_path, fail).perform()

    said = str(raised.value).splitlines()
    assert said[0].endswith("see its log")
    assert said[1] == f"2 of 4 runs recorded in {tmp_path}: 2 completed; 2 not recorded yet: run '{AGAIN}' again"


def test_a_finished_sweep_has_nothing_to_do_and_needs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, shown = small_plan(), StringIO()
    for run in plan.runs:
        record(run, tmp_path)
    monkeypatch.setattr(campaign, "lacks_of", lambda plan: ["a kernel"])

    with SweepProgress(Console(file=shown)) as observe:
        done = perform_plan(plan, tmp_path, None, observe, AGAIN)

    assert shown.getvalue() == "nothing to do: all 4 runs have a record\n"
    assert (done.recorded, done.interrupted) == (4, False)


def test_everything_that_is_missing_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "lacks_of", lambda plan: ["one thing", "another"])

    with pytest.raises(Missing, match=r"^one thing\nanother$"):
        perform_plan(small_plan(), tmp_path / "results", None, lambda plan, done: lambda event: None, AGAIN)

    assert not (tmp_path / "results").exists()


def test_nothing_is_printed_before_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "lacks_of", lambda plan: ["a kernel"])
    shown = StringIO()

    with pytest.raises(Missing), SweepProgress(Console(file=shown)) as observe:
        perform_plan(small_plan(), tmp_path, None, observe, AGAIN)

    assert shown.getvalue() == ""


def written(directory: Path) -> str:
    path = directory / "small.yaml"
    path.write_text(small_plan().sweep.model_dump_json(exclude_none=True))
    return str(path)


def performed(results: Path, **changes: bool) -> Performed:
    return Performed(results, "2 of 4", **{"interrupted": True, "recorded": 2} | changes)  # type: ignore[arg-type]


def test_the_command_that_goes_on_has_the_options_of_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr(campaign, "perform_sweep", lambda *given: heard.append(given[-1]) or performed(tmp_path))

    CliRunner().invoke(cli.app, ["run", "a b.yaml", "--results", "out", "--guests", "2", "--no-report"])

    assert heard == ["owlt run 'a b.yaml' --results out --guests 2 --no-report"]


def test_an_interrupt_during_the_report_leaves_it_out_and_says_how_to_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(results: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(campaign, "perform_sweep", lambda *given: performed(tmp_path))
    monkeypatch.setattr(campaign, "make_report", stop)

    ended = CliRunner().invoke(cli.app, ["run", "small.yaml"])

    assert f"the report was skipped; make it with: owlt report {tmp_path}" in ended.output
    assert ended.exit_code == 130


def test_no_report_is_made_after_a_second_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "perform_sweep", lambda *given: performed(tmp_path, interrupted_again=True))
    monkeypatch.setattr(campaign, "make_report", lambda results: pytest.fail("a report"))

    assert CliRunner().invoke(cli.app, ["run", "small.yaml"]).exit_code == 130


def test_a_plan_that_cannot_run_here_is_shown_and_ends_as_the_run_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "lacks_of", lambda plan: ["implementation 'cfdp' needs mine"])
    sweep, results = written(tmp_path), str(tmp_path / "results")

    planned = CliRunner().invoke(cli.app, ["plan", sweep, "--results", results])
    performed = CliRunner().invoke(cli.app, ["run", sweep, "--results", results])

    assert "4 runs, about" in planned.stdout
    assert isinstance(planned.exception, Missing)
    assert str(planned.exception) == str(performed.exception) == "implementation 'cfdp' needs mine"


def test_a_plan_of_another_sweeps_results_is_refused_as_the_run_is(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    sweep = written(tmp_path)

    planned, performed = (
        CliRunner().invoke(cli.app, [command, sweep, "--results", str(tmp_path)]) for command in ("plan", "run")
    )

    assert isinstance(planned.exception, ResultsConflict)
    assert str(planned.exception) == str(performed.exception)


def test_a_plan_counts_boots_and_takes_the_number_of_guests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "lacks_of", lambda plan: [])

    ended = CliRunner().invoke(cli.app, ["plan", written(tmp_path), "--guests", "1"])

    assert "boot" in ended.stdout.splitlines()[0]
    assert "1 at a time" in ended.stdout


def test_a_build_that_is_missing_is_told_once_for_all_its_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    lack = Finding("mine", False, "not found", "cfdp", "install mine")
    monkeypatch.setattr(campaign, "lacks_for", lambda build: [lack])

    lacks = campaign.lacks_of(small_plan(parameters={"cfdp": {"segment_bytes": [500, 1000]}}))

    assert [each for each in lacks if "implementation" in each] == [
        "implementation 'cfdp' needs mine (not found), which is not here: install mine"
    ]


def test_what_several_want_is_listed_once_with_all_of_them() -> None:
    builds = [find_implementation(name) for name in ("norm", "norm-cc", "cfdp")]

    found = [finding for finding in examine(builds) if finding.name == "libnorm.so.1"]

    assert [finding.wanted_for for finding in found] == ["norm, norm-cc"]


def test_the_doctor_breaks_no_word_at_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/a/very/long/path/" + "x" * 60 + "/of-a/program"
    found = [
        Finding("mine", True, path, "one, another, and yet another build", ""),
        Finding("q", False, "no", "z", "m" * 90),
    ]
    monkeypatch.setattr(doctor, "examine", lambda builds: found)
    monkeypatch.setattr(cli, "out", Console(width=80, soft_wrap=True))

    said = CliRunner().invoke(cli.app, ["doctor"]).output

    assert path in said
    assert "m" * 90 in said


@pytest.mark.parametrize("command", ["run", "plan"])
def test_help_names_its_argument_as_people_write_it(command: str) -> None:
    said = CliRunner().invoke(cli.app, [command, "--help"]).output

    assert "SWEEP_FILE" in said
    assert "{sweep_file}" not in said


def test_the_help_of_schema_has_the_kinds_and_an_example() -> None:
    said = CliRunner().invoke(cli.app, ["schema", "--help"]).output

    assert all(kind in said for kind in SCHEMAS)
    assert "owlt schema sweep > sweep.json" in said
