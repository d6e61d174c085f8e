"""What a sweep shows while it works: on a terminal a bar with the time left; elsewhere lines of text now and then.

Either way, one line for each run that did not complete.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from orchestrator.estimate import duration_text
from orchestrator.plan import Plan
from orchestrator.record import Outcome
from orchestrator.supervisor import Event, Observe

LINE_EVERY_S = 10.0
"""At most so often; with fewer runs than that, one for each run."""


class PlainProgress:
    """How far a sweep is, in lines of text, for a log."""

    def __init__(self, out: TextIO, total: int, recorded: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._total = total
        self._before = self._recorded = recorded
        self._now_s = now_s
        self._started_s = now_s()
        self._last_line_s = self._started_s - LINE_EVERY_S

    def advance(self) -> None:
        """One more run is recorded."""
        self._recorded += 1
        self._line(is_due=self._recorded == self._total)

    def tell(self, what: str) -> None:
        """What is done now, unless the last line is not long ago."""
        self._line(what)

    def _line(self, what: str = "", is_due: bool = False) -> None:
        now_s = self._now_s()
        if not is_due and now_s - self._last_line_s < LINE_EVERY_S:
            return
        self._last_line_s = now_s
        parts = [f"{self._recorded} of {self._total} runs recorded", *self._rate(now_s), *([what] if what else [])]
        print(f"owlt: {', '.join(parts)}", file=self._out, flush=True)

    def _rate(self, now_s: float) -> list[str]:
        """How fast, and how much longer; nothing before the first run of this start."""
        elapsed_s, done = now_s - self._started_s, self._recorded - self._before
        if not done or elapsed_s <= 0:
            return []
        left_s = (self._total - self._recorded) * elapsed_s / done
        left = [f"about {duration_text(left_s)} left"] if self._recorded < self._total else []
        return [f"{60 * done / elapsed_s:.1f} per minute", *left]


class SweepProgress:
    """A context in which events are drawn. Call it with the plan and what was done before to get the observer.

    `again` is the command that resumes after an interrupt; `report`: whoever performs the plan makes a report then.
    `log` is where lines of plain text go when it is not a terminal, or the console is none.
    """

    def __init__(
        self, console: Console, again: str = "the same command", report: bool = False, log: TextIO | None = None
    ) -> None:
        self._console = console
        self._again = again
        self._report = report
        self._log = log or sys.stderr
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
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
        plain = None
        if recorded >= total:
            self._print(f"nothing to do: all {total} runs have a record")
        else:
            self._bar.start()
            self._drawn = True
            if not (self._console.is_terminal and self._log.isatty()):
                plain = PlainProgress(self._log, total, recorded)
            if done:
                self._print(f"{recorded} of {total} runs have a record already; resuming")
        task = self._bar.add_task(plan.sweep.name, total=total, completed=recorded)

        one_at_a_time = threading.RLock()  # events come from each worker's thread, interrupts in between

        def observe(event: Event) -> None:
            with one_at_a_time:
                show(event)

        def show(event: Event) -> None:
            nonlocal recorded
            if event.name == "interrupted":
                self._print(self._interrupted(event.facts["times"], recorded, total))
            if event.name == "published":
                recorded += 1
                self._bar.advance(task)
                if plain:
                    plain.advance()
            if plain and event.name in ("certify", "run"):
                plain.tell("certifying channels" if event.name == "certify" else f"performing {event.facts['run_id']}")
            for line in _lines_about(event):
                self._print(line)

        return observe

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False)

    def _interrupted(self, times: int, recorded: int, total: int) -> str:
        if times > 1:
            return "interrupted again: ending the workers" + ("; the report is skipped" if self._report else "")
        report = "making the report of these; Ctrl-C again skips the report; " if self._report and recorded else ""
        return f"interrupted: {recorded} of {total} runs are recorded; {report}resume with: {self._again}"


def _lines_about(event: Event) -> list[str]:
    """What a user is told of an event beside the progress."""
    facts = event.facts
    if event.name == "certified" and facts["verdict"] == "failed":
        return [f"channel {facts['channel']} failed certification: its runs will be suspect"]
    if event.name == "recertify":
        return [f"channel {facts['channel']} failed certification while the machine was busy; it is measured again"]
    if event.name == "lost":
        return [f"a guest was lost ({facts['reason']}); a new one is started"]
    if event.name == "retry":
        why = "" if facts["fault"] == facts["outcome"] else f"; {facts['fault']}"
        return [f"{_ending(facts)}{why}; it is repeated"]
    if event.name == "wait":
        return [f"waiting for {facts['for']}"]
    if event.name != "published":
        return []
    told = [_ending(facts)] if facts["outcome"] != Outcome.COMPLETED else []
    return told + ([f"{facts['run_id']}: {facts['analysis']}"] if facts.get("analysis") else [])


def _ending(facts: dict[str, Any]) -> str:
    """How a run ended, in a line."""
    attempt = f" (attempt {facts['attempt']})" if facts.get("attempt", 1) > 1 else ""
    reason = f": {facts['reason']}" if facts["reason"] else ""
    return f"{facts['run_id']}: {facts['outcome']}{reason}{attempt}"
