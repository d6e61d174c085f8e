"""What a sweep shows while it works: a bar with the time left, and one line for each run that did not complete."""

from __future__ import annotations

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
    """A context in which events are drawn. Call it with the plan and what was done before to get the observer."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=console,
        )

    def __enter__(self) -> SweepProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, plan: Plan, done: set[str]) -> Observe:
        task = self._bar.add_task(plan.sweep.name, total=len(plan.runs), completed=len(done))
        if done:
            self._console.print(f"{len(done)} of {len(plan.runs)} runs have a record already; going on")

        def observe(event: Event) -> None:
            if event.name == "certified" and event.facts["verdict"] == "failed":
                self._console.print(f"channel {event.facts['channel']} is not as asked: its runs will be suspect")
            if event.name != "published":
                return
            self._bar.advance(task)
            if event.facts["outcome"] != Outcome.COMPLETED:
                self._console.print(
                    f"{event.facts['run_id']}: {event.facts['outcome']}: {event.facts['reason']}",
                    markup=False,
                )

        return observe
