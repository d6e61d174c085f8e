"""What a sweep says of its progress where there is no terminal."""

from __future__ import annotations

import re
import threading
from io import StringIO

import pytest
from rich.console import Console

from owlt.orchestrator.commands.output import Verbosity
from owlt.orchestrator.commands.progress import ProgressLog, SweepProgress
from owlt.orchestrator.run.events import Entry, PhaseStarted, RunPublished, RunStarted
from owlt.results.record import Outcome
from tests.unit.orchestrator.small_sweep import small_plan


class Log:
    """The log of 60 runs, 20 of them recorded before, at times that a test sets."""

    def __init__(self) -> None:
        self.out, self.now_s = StringIO(), 100.0
        self.log = ProgressLog(self.out, total=60, recorded=20, now_s=lambda: self.now_s)

    def publish(self, runs: int, every_s: float, outcome: Outcome = Outcome.COMPLETED) -> str:
        for _ in range(runs):
            self.now_s += every_s
            self.log.take(Entry(self.now_s, 0, RunPublished(run_id="R", outcome=outcome)))
        return self.log.line()


def test_a_line_has_counts_pace_and_the_remaining_time() -> None:
    assert Log().publish(1, every_s=30) == "21 of 60 runs recorded, 2.0 per minute, about 20 min left"


def test_a_line_has_the_failures_of_this_start() -> None:
    assert Log().publish(2, every_s=30, outcome=Outcome.TIMED_OUT).startswith("22 of 60 runs recorded, 2 timed out")


def test_a_line_says_what_each_worker_does_and_for_how_long() -> None:
    log = Log()
    log.log.take(Entry(log.now_s, 3, RunStarted(run_id="R")))
    log.log.take(Entry(log.now_s, 3, PhaseStarted(run_id="R", phase="transfer")))
    log.now_s += 15

    assert log.log.line() == "20 of 60 runs recorded; perform R: transfer for 15 s"


def test_the_log_goes_on_while_nothing_happens() -> None:
    out, written = StringIO(), threading.Event()

    class Out(StringIO):
        def write(self, text: str) -> int:
            if out.getvalue().count("runs recorded") >= 2:
                written.set()
            return out.write(text)

    log = ProgressLog(Out(), total=60, recorded=20, every_s=0.001)
    log.open()
    assert written.wait(60)
    log.close()

    assert re.fullmatch(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d owlt: 20 of 60 runs recorded\n){3,}", out.getvalue())


def test_without_a_terminal_a_sweep_logs_its_progress() -> None:
    log, plan = StringIO(), small_plan()

    with SweepProgress(Console(file=StringIO()), log=log) as observer:
        observe = observer(plan, set())
        observe(Entry(0.0, 0, RunPublished(run_id=plan.runs[0].run_id, outcome=Outcome.COMPLETED)))

    assert [line[20:44] for line in log.getvalue().splitlines()] == [
        "owlt: 0 of 6 runs record",
        "owlt: 1 of 6 runs record",
    ]


@pytest.mark.parametrize(
    ("shown", "lines"),
    [
        (Verbosity(), []),
        (Verbosity(verbose=True), ["R: started", "R: completed"]),
    ],
)
def test_runs_that_complete_are_printed_with_v_only(shown: Verbosity, lines: list[str]) -> None:
    printed, plan = StringIO(), small_plan()

    with SweepProgress(Console(file=printed), log=StringIO(), shown=shown) as observer:
        observe = observer(plan, set())
        observe(Entry(0.0, 0, RunStarted(run_id="R")))
        observe(Entry(0.0, 0, RunPublished(run_id="R", outcome=Outcome.COMPLETED)))

    assert [line[20:] for line in printed.getvalue().splitlines()] == lines


def test_a_quiet_sweep_shows_only_runs_that_did_not_complete() -> None:
    log, printed, plan = StringIO(), StringIO(), small_plan()

    with SweepProgress(Console(file=printed), log=log, shown=Verbosity(quiet=True)) as observer:
        observe = observer(plan, {"another"})
        observe(Entry(0.0, 0, RunPublished(run_id="A", outcome=Outcome.COMPLETED)))
        observe(Entry(0.0, 0, RunPublished(run_id="B", outcome=Outcome.FAILED, reason="the hash differs")))

    assert (log.getvalue(), printed.getvalue()[20:]) == ("", "B: failed: the hash differs\n")


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_there_is_a_bar_and_no_log() -> None:
    log, plan = Terminal(), small_plan()

    with SweepProgress(Console(file=StringIO(), force_terminal=True), log=log) as observer:
        observer(plan, set())(Entry(0.0, 0, RunStarted(run_id=plan.runs[0].run_id)))

    assert log.getvalue() == ""


def shown_of(*outcomes: Outcome, done: int = 0) -> str:
    """What is shown of the first runs of a sweep, of which so many were recorded before."""
    plan, out = small_plan("exact", implementations=["cfdp", "ltp"]), StringIO()
    cfdp = [run.run_id for run in plan.runs if run.permutation.implementation == "cfdp"]
    with SweepProgress(Console(file=out, width=300), log=StringIO()) as progress:
        observe = progress(plan, set(cfdp[:done]))
        for run_id, outcome in zip(cfdp[done:], outcomes, strict=False):
            observe(Entry(0.0, 0, RunPublished(run_id=run_id, outcome=outcome, reason="no bbr3")))
    return out.getvalue()


@pytest.mark.parametrize(
    ("outcome", "end"),
    [
        (Outcome.UNSUPPORTED, "is unsupported"),
        (Outcome.INCOMPLETE, "is incomplete"),
        (Outcome.FAILED, "failed"),
        (Outcome.TIMED_OUT, "timed out"),
    ],
)
def test_an_implementation_whose_first_run_does_not_complete_is_reported_once(outcome: Outcome, end: str) -> None:
    text = f"warning: cfdp: its first run {end}, and 5 more follow; if you expect the same of them, end the sweep"

    assert shown_of(outcome, outcome).count(text) == shown_of(outcome).count("warning") == 1


def test_a_later_failure_is_no_reason_to_end_the_sweep() -> None:
    assert "warning" not in shown_of(Outcome.COMPLETED, Outcome.FAILED)
    assert "warning" not in shown_of(Outcome.FAILED, done=1)
    assert "warning" not in shown_of(Outcome.ABORTED)


@pytest.mark.parametrize("is_expected", [True, False])
def test_a_failure_that_is_expected_is_not_shown(is_expected: bool) -> None:
    plan, out = small_plan("exact", implementations=["cfdp"]), StringIO()
    first = plan.runs[0].run_id
    with SweepProgress(
        Console(file=out, width=300), log=StringIO(), expected_failures={first} if is_expected else ()
    ) as progress:
        progress(plan, set())(Entry(0.0, 0, RunPublished(run_id=first, outcome=Outcome.TIMED_OUT, reason="dead")))

    assert (first in out.getvalue(), "warning" in out.getvalue()) == (not is_expected, not is_expected)
