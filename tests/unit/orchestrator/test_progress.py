"""What a sweep says of its progress where there is no terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from orchestrator.progress import PlainProgress, SweepProgress
from orchestrator.supervisor import Event
from tests.unit.orchestrator.test_supervisor import small_plan


class Told:
    """Progress of 60 runs, 20 of them recorded before, at times that a test sets."""

    def __init__(self) -> None:
        self.out, self.now_s = StringIO(), 100.0
        self.progress = PlainProgress(self.out, total=60, recorded=20, now_s=lambda: self.now_s)

    def advance(self, runs: int, every_s: float) -> list[str]:
        for _ in range(runs):
            self.now_s += every_s
            self.progress.advance()
        return self.out.getvalue().splitlines()


def test_every_line_has_counts_rate_and_the_remaining_time() -> None:
    assert Told().advance(1, every_s=30)[-1] == "owlt: 21 of 60 runs recorded, 2.0 per minute, about 20 min left"


def test_slow_runs_have_a_line_each() -> None:
    assert len(Told().advance(5, every_s=60)) == 5


def test_fast_runs_have_a_line_every_ten_seconds() -> None:
    assert len(Told().advance(31, every_s=1)) == 4


def test_the_last_run_has_a_line_whenever_it_ends() -> None:
    assert Told().advance(40, every_s=0.01)[-1].startswith("owlt: 60 of 60 runs recorded")


def test_work_is_told_before_the_first_run_has_ended() -> None:
    told = Told()

    told.progress.tell("certifying channels")

    assert told.out.getvalue() == "owlt: 20 of 60 runs recorded, certifying channels\n"


def test_without_a_terminal_a_sweep_logs_its_progress() -> None:
    log, plan = StringIO(), small_plan()

    with SweepProgress(Console(file=StringIO()), log=log) as observer:
        observe = observer(plan, set())
        observe(Event(0.0, 0, "run", {"run_id": plan.runs[0].run_id}))

    assert log.getvalue() == f"owlt: 0 of 6 runs recorded, performing {plan.runs[0].run_id}\n"


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_there_is_a_bar_and_no_log() -> None:
    log, plan = Terminal(), small_plan()

    with SweepProgress(Console(file=StringIO(), force_terminal=True), log=log) as observer:
        observer(plan, set())(Event(0.0, 0, "run", {"run_id": plan.runs[0].run_id}))

    assert log.getvalue() == ""
