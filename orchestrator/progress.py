"""What a sweep shows while it works: a bar with the time left, and one line for each run that did not complete."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from orchestrator.plan import Plan
from orchestrator.record import Outcome
from orchestrator.supervisor import Event, Observe


class SweepProgress:
    """A context in which events are drawn. Call it with the plan and what was done before to get the observer.

    `again` is the command that goes on after an interrupt; `report`: whoever performs the plan makes a report then.
    """

    def __init__(self, console: Console, again: str = "the same command", report: bool = False) -> None:
        self._console = console
        self._again = again
        self._report = report
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=console,
        )
        self._drawn = False

    def __enter__(self) -> SweepProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            self._bar.stop()

    def __call__(self, plan: Plan, done: set[str]) -> Observe:
        total = len(plan.runs)
        recorded = len(done)
        if recorded >= total:
            self._console.print(f"nothing to do: all {total} runs have a record")
        else:
            self._bar.start()
            self._drawn = True
            if done:
                self._console.print(f"{recorded} of {total} runs have a record already; going on")
        task = self._bar.add_task(plan.sweep.name, total=total, completed=recorded)

        def observe(event: Event) -> None:
            nonlocal recorded
            if event.name == "interrupted":
                self._console.print(self._interrupted(event.facts["times"], recorded, total), markup=False)
            if event.name == "certified" and event.facts["verdict"] == "failed":
                self._console.print(f"channel {event.facts['channel']} is not as asked: its runs will be suspect")
            if event.name == "retry":
                self._console.print(_described(event.facts) + "; it is tried again", markup=False)
            if event.name == "lost":
                self._console.print(f"a guest was lost ({event.facts['reason']}); another is started", markup=False)
            if event.name != "published":
                return
            recorded += 1
            self._bar.advance(task)
            if event.facts["outcome"] != Outcome.COMPLETED:
                self._console.print(_described(event.facts), markup=False)

        return observe

    def _interrupted(self, times: int, recorded: int, total: int) -> str:
        if times > 1:
            return "interrupted again: ending the workers" + ("; the report is left out" if self._report else "")
        report = "making the report of these; Ctrl-C again leaves it out; " if self._report and recorded else ""
        return f"interrupted: {recorded} of {total} runs are recorded; {report}go on with: {self._again}"


def _described(facts: dict[str, Any]) -> str:
    """How a run ended, in a line."""
    attempt = f" (attempt {facts['attempt']})" if facts.get("attempt", 1) > 1 else ""
    return f"{facts['run_id']}: {facts['outcome']}: {facts['reason']}{attempt}"
