"""`owlt run`, `owlt plan`, `owlt doctor`: a sweep interrupted, refused or finished, a plan, what is missing."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from owlt.agents.contract.requirements import Need
from owlt.inputs.mistake import Mistake, ResultsConflict
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.checks.doctor import Requirement, examine, missing_for_plan
from owlt.orchestrator.commands import cli
from owlt.orchestrator.commands.machine import print_requirements
from owlt.orchestrator.commands.output import Printer, Verbosity
from owlt.orchestrator.commands.performing import Performing, Selected, as_typed, conclude, exit_status, report_of
from owlt.orchestrator.commands.progress import SweepProgress
from owlt.orchestrator.ending import outlasting_readers
from owlt.orchestrator.errors import Missing, OwltError
from owlt.orchestrator.planning.plan import Plan, Run, plan_sweep
from owlt.orchestrator.profiles.catalogue import PROFILES, find_implementation, implementations_of, sweep_path
from owlt.orchestrator.profiles.schemas import SCHEMAS
from owlt.orchestrator.run.events import Entry, Observe, RunPublished
from owlt.orchestrator.sweep import campaign
from owlt.orchestrator.sweep.campaign import Performed, perform_plan
from owlt.orchestrator.sweep.monitoring import WorkerFailed
from owlt.orchestrator.sweep.report import CheckedAssertions
from owlt.results.record import Outcome, RunRecord, write_record
from tests.unit.orchestrator.workers_in_memory import InMemoryWorkers

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

    def __init__(self, results: Path, happens: Any) -> None:
        self.plan, self.results = small_plan(), results
        self.shown = StringIO()
        self._happens = happens

    def _supervise(self, plan: Plan, results: Path, _workers: Any, observe: Observe, _analyse: Any) -> None:
        for run in plan.runs[:2]:
            record(run, results)
            observe(Entry(0.0, 0, RunPublished(run_id=run.run_id, outcome=Outcome.COMPLETED)))
        self._happens()

    def perform(self, report: bool = True) -> Performed:
        with SweepProgress(Console(file=self.shown, width=300), AGAIN, report) as observe:
            start = campaign.Start(self.plan, self.results, AGAIN, machine=InMemoryWorkers(self.plan), guests=1)
            return perform_plan(start, observe, self._supervise)


class Without(InMemoryWorkers):
    """A machine that is missing something."""

    def __init__(self, *problems: str) -> None:
        super().__init__(small_plan())
        self.problems = problems

    def missing(self, plan: Plan) -> list[Mistake]:
        return [Mistake(problem) for problem in self.problems]


def interrupt(times: int = 1) -> None:
    """Ctrl-C; what comes after the first comes while the workers are being ended."""
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        for _ in range(times - 1):
            signal.raise_signal(signal.SIGINT)


def test_an_interrupt_is_answered_at_once_with_the_next_step(tmp_path: Path) -> None:
    start = Start(tmp_path, interrupt)

    done = start.perform()

    text = "interrupted: 2 of 4 runs are recorded; making the report of these; Ctrl-C again skips the report"
    assert f"{text}; resume with: {AGAIN}" in start.shown.getvalue()
    assert (done.interrupted, done.interrupted_again, done.recorded) == (True, False, 2)


def test_an_interrupt_of_a_sweep_without_a_report_does_not_mention_one(tmp_path: Path) -> None:
    start = Start(tmp_path, interrupt)

    start.perform(report=False)

    assert f"interrupted: 2 of 4 runs are recorded; resume with: {AGAIN}" in start.shown.getvalue()


def test_a_closed_terminal_interrupts_the_sweep_and_the_report_is_made(tmp_path: Path) -> None:
    """The shell and the kernel both send SIGHUP. The tests themselves may run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)

    def hang_up() -> None:
        try:
            signal.raise_signal(signal.SIGHUP)
        finally:
            signal.raise_signal(signal.SIGHUP)

    try:
        done = Start(tmp_path, hang_up).perform()

        assert (done.interrupted, done.interrupted_again, done.recorded) == (True, False, 2)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, "nothing ends the report either"
    finally:
        signal.signal(signal.SIGHUP, before)


def test_under_nohup_a_closed_terminal_does_not_interrupt(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        done = Start(tmp_path, lambda: signal.raise_signal(signal.SIGHUP)).perform()
    finally:
        signal.signal(signal.SIGHUP, before)

    assert not done.interrupted


def test_output_is_discarded_without_an_error_once_its_reader_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", stream)
        with outlasting_readers():
            print("read", flush=True)
            assert os.read(reader, 100) == b"read\n"
            os.close(reader)
            print("lost", flush=True)
            print("lost too", flush=True)


def test_a_second_interrupt_skips_the_report(tmp_path: Path) -> None:
    start = Start(tmp_path, lambda: interrupt(times=2))

    done = start.perform()

    assert "interrupted again: ending the workers; the report is skipped" in start.shown.getvalue()
    assert done.interrupted_again


def test_the_earlier_signal_handler_is_restored(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)

    Start(tmp_path, interrupt).perform()

    assert signal.getsignal(signal.SIGINT) is before


def test_a_rig_that_does_not_come_up_ends_with_a_count_and_the_command_that_resumes(tmp_path: Path) -> None:
    def fail() -> None:
        raise WorkerFailed("the rig of batch 0 did not come up: why; see its log")

    with pytest.raises(OwltError) as raised:
        Start(tmp_path, fail).perform()

    text = str(raised.value).splitlines()
    assert text[0].endswith("see its log")
    assert text[1] == f"2 of 4 runs recorded in {tmp_path}: 2 completed; 2 not recorded yet: run '{AGAIN}' again"


def test_a_finished_sweep_has_nothing_to_do_and_needs_nothing(tmp_path: Path) -> None:
    plan, shown = small_plan(), StringIO()
    for run in plan.runs:
        record(run, tmp_path)

    with SweepProgress(Console(file=shown)) as observe:
        done = perform_plan(campaign.Start(plan, tmp_path, AGAIN, machine=Without("a kernel")), observe)

    assert shown.getvalue()[20:] == "nothing to do: all 4 runs have a record\n"
    assert (done.recorded, done.interrupted) == (4, False)


def test_everything_that_is_missing_is_listed_at_once(tmp_path: Path) -> None:
    start = campaign.Start(small_plan(), tmp_path / "results", AGAIN, machine=Without("one thing", "another"))

    with pytest.raises(Missing, match=r"^one thing\nanother$"):
        perform_plan(start, lambda plan, done: lambda event: None)

    assert not (tmp_path / "results").exists()


def test_nothing_is_printed_before_a_refusal(tmp_path: Path) -> None:
    shown = StringIO()

    with pytest.raises(Missing), SweepProgress(Console(file=shown)) as observe:
        perform_plan(campaign.Start(small_plan(), tmp_path, AGAIN, machine=Without("a kernel")), observe)

    assert shown.getvalue() == ""


def written(directory: Path) -> str:
    path = directory / "small.yaml"
    path.write_text(small_plan().sweep.model_dump_json(exclude_none=True))
    return str(path)


def performed(results: Path, **changes: bool) -> Performed:
    return Performed(results, "2 of 4", **{"interrupted": True, "recorded": 2} | changes)  # type: ignore[arg-type]


def test_the_command_that_resumes_has_the_options_of_this_one() -> None:
    assert (
        as_typed("a b.yaml", Path("out"), Performing(guests=2, report=False).words, Selected())
        == "owlt run 'a b.yaml' --results out --guests 2 --no-report"
    )


def test_an_interrupt_during_the_report_skips_it_and_names_the_command_that_makes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(results: Path) -> tuple[Path, CheckedAssertions]:
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as ended:
        report_of(performed(tmp_path), Printer(False), stop)

    text = "".join(capsys.readouterr())
    assert f"the report was skipped; make it with: owlt report {tmp_path}" in text
    assert ended.value.exit_code == 130


def test_a_run_with_json_prints_one_value_and_notes_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conclude(performed(tmp_path, interrupted=False), Printer(as_json=True), report=False)

    out, err = capsys.readouterr()
    assert json.loads(out) == {
        "results": str(tmp_path),
        "recorded": 2,
        "complete": True,
        "failed": 0,
        "summary": "2 of 4",
        "same_failures": [],
        "interrupted": False,
        "report": None,
        "assertions": [],
    }
    assert err == "2 of 4\n"


def test_a_quiet_run_that_succeeds_prints_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conclude(performed(tmp_path, interrupted=False), Printer(shown=Verbosity(quiet=True)), report=False)

    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 130),
        ({"interrupted": False, "is_complete": False, "failed": 1}, 1),
        ({"interrupted": False, "failed": 1}, 3),
        ({"interrupted": False}, 0),
    ],
)
def test_the_exit_status_says_how_a_run_ended(tmp_path: Path, changes: dict[str, bool], status: int) -> None:
    assert exit_status(performed(tmp_path, **changes)) == status


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 130),
        ({"interrupted": False, "is_complete": False}, 1),
        ({"interrupted": False, "failed": 1}, 4),
        ({"interrupted": False}, 4),
    ],
)
def test_assertions_that_are_not_met_are_the_exit_status_of_a_complete_sweep(
    tmp_path: Path, changes: dict[str, bool], status: int
) -> None:
    assert exit_status(performed(tmp_path, **changes), checks_failed=1) == status


def test_a_sweep_that_comes_with_owlt_is_found_by_its_name() -> None:
    assert sweep_path("demo") == PROFILES / "sweeps" / "demo.yaml"


def test_no_report_is_made_after_a_second_interrupt(tmp_path: Path) -> None:
    with pytest.raises(typer.Exit) as ended:
        report_of(performed(tmp_path, interrupted_again=True), Printer(False), lambda results: pytest.fail("a report"))

    assert ended.value.exit_code == 130


def test_a_second_interrupt_leaves_one_value_with_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        conclude(performed(tmp_path, interrupted_again=True), Printer(as_json=True), report=True)

    assert json.loads(capsys.readouterr().out)["report"] is None
    assert ended.value.exit_code == 130


def test_a_plan_that_cannot_run_here_is_shown_and_ends_with_the_error_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache without a kernel"))
    sweep, results = written(tmp_path), str(tmp_path / "results")

    planned = CliRunner().invoke(cli.app, ["plan", sweep, "--results", results])
    performed = CliRunner().invoke(cli.app, ["run", sweep, "--results", results])

    assert "4 runs, about" in planned.stdout
    assert isinstance(planned.exception, Missing)
    assert "the virtual rig needs a kernel to boot, and none is built" in str(planned.exception)
    assert str(planned.exception) == str(performed.exception)


def test_a_plan_says_what_it_adds_to_recorded_runs(tmp_path: Path) -> None:
    results = tmp_path / "results"
    plan = small_plan()
    start = campaign.Start(plan, results, AGAIN, machine=InMemoryWorkers(plan))
    perform_plan(start, lambda plan, done: lambda event: None)
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(plan.sweep.model_copy(update={"repetitions": 3}).model_dump_json(exclude_none=True))

    ended = CliRunner().invoke(cli.app, ["plan", str(sweep), "--results", str(results)])

    assert f"{len(plan.runs)} of {3 * len(plan.runs) // plan.sweep.repetitions} runs recorded" in ended.stdout
    assert f"runs added (repetitions: {plan.sweep.repetitions} -> 3)" in ended.stdout.replace("\n", " ")


def test_a_plan_of_another_sweeps_results_is_refused_as_the_run_is(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    sweep = written(tmp_path)

    planned, performed = (
        CliRunner().invoke(cli.app, [command, sweep, "--results", str(tmp_path)]) for command in ("plan", "run")
    )

    assert isinstance(planned.exception, ResultsConflict)
    assert str(planned.exception) == str(performed.exception)


def test_a_plan_shows_cells_and_takes_the_number_of_guests(tmp_path: Path) -> None:
    ended = CliRunner().invoke(cli.app, ["plan", written(tmp_path), "--guests", "1"])

    assert ended.stdout.splitlines()[0].split() == ["cell", "runs", "recorded", "time", "limit", "infeasible"]
    assert "1 at a time" in ended.stdout


@pytest.mark.parametrize(
    ("options", "runs"), [((), 4), (("--only", "packet_error_rate=0"), 2), (("--shard", "1/4"), 1)]
)
def test_a_plan_of_selected_runs_is_about_these_only(tmp_path: Path, options: tuple[str, ...], runs: int) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(small_plan().sweep.model_dump_json(exclude_none=True))

    shown = CliRunner().invoke(cli.app, ["plan", str(path), "--results", str(tmp_path / "results"), "--json", *options])

    values = json.loads(shown.stdout)
    assert (values["left"], len(values["runs"]), sum(cell["runs"] for cell in values["cells"])) == (runs,) * 3


def test_a_missing_implementation_is_listed_once_for_all_its_variants() -> None:
    plan = small_plan(parameters={"cfdp": {"segment_bytes": [500, 1000]}})
    needs = [Need(command="no-such-program", fix="install mine")]
    implementations = {name: each.model_copy(update={"needs": needs}) for name, each in plan.implementations.items()}

    missing = missing_for_plan(plan.model_copy(update={"implementations": implementations}))

    (text,) = [str(each) for each in missing if "implementation" in each.problem]
    assert len(implementations) == 2
    assert text.startswith("implementation 'cfdp' needs no-such-program, which is missing (")
    assert text.endswith("; install mine")


def test_a_shared_requirement_is_listed_once_with_all_that_need_it() -> None:
    implementations = [find_implementation(name) for name in ("norm", "norm-cc", "cfdp")]

    found = [finding for finding in examine(implementations) if finding.name == "libnorm.so.1"]

    assert [finding.needed_by for finding in found] == ["norm, norm-cc"]


def test_the_doctor_breaks_no_word_of_a_long_line(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/a/very/long/path/" + "x" * 60 + "/of-a/program"
    found = [
        Requirement("mine", True, path, "one, another, and yet another implementation", ""),
        Requirement("q", False, "no", "z", "m" * 90),
    ]

    with suppress(typer.Exit):
        print_requirements(Printer(False), found)

    text = capsys.readouterr().out
    assert path in text
    assert "m" * 90 in text


@pytest.mark.parametrize("command", ["run", "plan"])
def test_the_help_page_names_the_argument(command: str) -> None:
    text = CliRunner().invoke(cli.app, [command, "--help"], prog_name="owlt").output

    assert f"owlt {command} [OPTIONS] SWEEP" in text


def test_the_help_page_of_schema_has_the_kinds_and_an_example() -> None:
    text = CliRunner().invoke(cli.app, ["schema", "--help"]).output

    assert all(kind in text for kind in SCHEMAS)
    assert "owlt schema sweep > sweep.json" in " ".join(text.split())
