"""The progress of a sweep: a bar with the remaining time on a terminal, elsewhere a log.

Either way, one line for each run that did not complete.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from owlt.orchestrator.commands.output import Verbosity, verbosity
from owlt.orchestrator.hosts.printable import printable_lines
from owlt.orchestrator.planning.estimate import duration_text
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.run.events import (
    ChannelCertified,
    ChannelDisturbed,
    Entry,
    Event,
    ImplementationQuarantined,
    Observe,
    QuietAwaited,
    RepetitionsDue,
    RunAnalysed,
    RunPublished,
    RunRepeated,
    RunStarted,
    SweepInterrupted,
    SweepPaused,
    SweepResumed,
    WorkerLost,
)
from owlt.orchestrator.steady_clock import SteadyTime
from owlt.orchestrator.sweep.journal import Activities
from owlt.orchestrator.sweep.state import activity_text, duration, recorded_parts, stamp
from owlt.orchestrator.sweep.state_reader import channel_labels, runs_per_s, time_left_s
from owlt.results.operator import PAUSE_NAME
from owlt.results.record import Outcome

LINE_EVERY_S = 30.0


class ProgressLog:
    """Takes in the events of a start of a sweep, and writes a line each half minute while it is open as a context."""

    def __init__(
        self,
        out: TextIO,
        total: int,
        recorded: int,
        now_s: Callable[[], float] | None = None,
        every_s: float = LINE_EVERY_S,
        channels: Mapping[str, str] | None = None,
    ) -> None:
        """`channels` are in words, by key."""
        self._out = out
        self._total = total
        self._recorded = recorded
        self._now_s = now_s or SteadyTime()
        self._every_s = every_s
        self._channels = channels or {}
        self._started_s = self._now_s()
        self._outcomes: Counter[str] = Counter()
        self._activities = Activities()
        self._lock = threading.RLock()  # a signal's event may come while the same thread writes
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def open(self) -> None:
        """Write a line, and one each half minute from now on."""
        self.write()
        self._ticker.start()

    def close(self) -> None:
        """Write the last line."""
        self._over.set()
        self._ticker.join()
        self.write()

    def take(self, entry: Entry) -> None:
        """Take in an event."""
        with self._lock:
            self._activities.take(entry)
            if isinstance(entry.event, RunPublished):
                self._recorded += 1
                self._outcomes[str(entry.event.outcome)] += 1
            elif isinstance(entry.event, RepetitionsDue):
                self._total = entry.event.runs

    def write(self) -> None:
        """Write a line: how far the sweep is, the failures of this start, the remaining time, what each worker does."""
        with self._lock:
            print(f"{stamp(time.time())} owlt: {printable_lines(self.line())}", file=self._out, flush=True)

    def line(self) -> str:
        """The line without its time."""
        now_s = self._now_s()
        parts = recorded_parts(self._recorded, self._total, self._outcomes)
        published_s = self._activities.published_s
        from_s = self._activities.paced_from_s or self._started_s
        if pace := runs_per_s(from_s, published_s, now_s):
            parts.append(f"{60 * pace:.1f} per minute")
        left_s = time_left_s(self._total - self._recorded, from_s, published_s, now_s)
        parts += [f"about {duration_text(left_s)} left"] if left_s else []
        now = [
            f"{activity_text(each, self._channels)} for {duration(now_s - each.since_s)}"
            for each in self._activities.by_batch.values()
        ]
        return "; ".join([", ".join(parts), *now])

    def _tick(self) -> None:
        while not self._over.wait(self._every_s):
            self.write()


class FirstRuns:
    """The implementations, each with its parameters, of which no run has ended yet."""

    def __init__(self, plan: Plan, done: Collection[str]) -> None:
        """`done` are the runs that were recorded before."""
        self._implementations = {run.run_id: run.permutation.implementation for run in plan.runs}
        self._planned = Counter(self._implementations.values())
        self._ended = {self._implementations[run_id] for run_id in done if run_id in self._implementations}

    def take(self, event: RunPublished) -> str:
        """Take in the end of a run. Returns a sentence if it is the first of its implementation and did not
        complete."""
        name = self._implementations.get(event.run_id)
        if name is None or name in self._ended or event.outcome is Outcome.ABORTED:
            return ""
        self._ended.add(name)
        more = self._planned[name] - 1
        if event.outcome is Outcome.COMPLETED or not more:
            return ""
        end = event.outcome.replace("_", " ")
        end = end if event.outcome in (Outcome.FAILED, Outcome.TIMED_OUT) else f"is {end}"
        return (
            f"{name}: its first run {end}, and {more} more follow; if you expect the same of them, end the sweep with "
            "Ctrl-C, correct it, and start it again"
        )


class SweepProgress:
    """A context that shows events. Call it with the plan and the runs done before; it returns the observer.

    `again` is the command that resumes after an interrupt; `report`: a report is made afterwards. A log is written to
    `log` if it or the console is not a terminal; lines on a console that is no terminal begin with their time. If
    `shown` is quiet, only runs that did not complete are shown; if it is verbose, every run. Of the
    `expected_failures`, runs that should not complete, the ends are shown only then.
    """

    def __init__(
        self,
        console: Console,
        again: str = "the same command",
        report: bool = False,
        log: TextIO | None = None,
        shown: Verbosity = verbosity,
        expected_failures: Collection[str] = (),
    ) -> None:
        self._console = console
        self._expected_failures = expected_failures
        self._again = again
        self._report = report
        self._log = log or sys.stderr
        self._shown = shown
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=console,
            disable=shown.quiet or not console.is_terminal,
        )
        self._drawn = False
        self._plain: ProgressLog | None = None

    def __enter__(self) -> SweepProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            self._bar.stop()
        if self._plain:
            self._plain.close()

    def __call__(self, plan: Plan, done: set[str]) -> Observe:
        total = len(plan.runs)
        recorded = len(done & {run.run_id for run in plan.runs})
        self._start(total, recorded, channel_labels(plan))
        task = self._bar.add_task(plan.sweep.name, total=total, completed=recorded)
        firsts = FirstRuns(plan, done)
        one_at_a_time = threading.RLock()  # events come from each worker's thread, interrupts in between

        def observe(entry: Entry) -> None:
            with one_at_a_time:
                if self._plain:
                    self._plain.take(entry)
                show(entry.event)

        def show(event: Event) -> None:
            nonlocal recorded, total
            match event:
                case SweepInterrupted():
                    self._print(self._interrupted(event.times, recorded, total))
                case RunPublished():
                    recorded += 1
                    self._bar.advance(task)
                case RepetitionsDue():
                    total = event.runs
                    self._bar.update(task, total=total)
            if isinstance(event, RunPublished) and event.run_id in self._expected_failures and not self._shown.verbose:
                return
            for line in _lines_about(event, self._shown.verbose):
                self._print(line)
            if isinstance(event, RunPublished) and (warning := firsts.take(event)):
                self._print(f"warning: {warning}")

        return observe

    def _start(self, total: int, recorded: int, channels: Mapping[str, str]) -> None:
        """Show the bar, or begin the log. `channels` are in words, by key."""
        if recorded >= total:
            self._note(f"nothing to do: all {total} runs have a record")
            return
        self._bar.start()
        self._drawn = True
        is_drawn = self._console.is_terminal and self._log.isatty()
        if recorded:
            self._note(f"{recorded} of {total} runs have a record already; resuming")
        if not (is_drawn or self._shown.quiet):
            self._plain = ProgressLog(self._log, total, recorded, channels=channels)
            self._plain.open()

    def _note(self, line: str) -> None:
        if not self._shown.quiet:
            self._print(line)

    def _print(self, line: str) -> None:
        time_of_line = "" if self._console.is_terminal else f"{stamp(time.time())} "
        self._console.print(f"{time_of_line}{printable_lines(line)}", markup=False)

    def _interrupted(self, times: int, recorded: int, total: int) -> str:
        if times > 1:
            return "interrupted again: ending the workers" + ("; the report is skipped" if self._report else "")
        report = "making the report of these; Ctrl-C again skips the report; " if self._report and recorded else ""
        return f"interrupted: {recorded} of {total} runs are recorded; {report}resume with: {self._again}"


def _lines_about(event: Event, verbose: bool) -> list[str]:
    """The lines about an event beside the progress."""
    match event:
        case ChannelCertified(verdict="failed"):
            return [f"channel {event.channel} failed certification: its runs will be suspect"]
        case ChannelDisturbed():
            return [f"channel {event.channel} failed certification while the machine was busy; it is measured again"]
        case WorkerLost():
            return [f"a guest was lost ({event.reason}); a new one is started"]
        case RunRepeated():
            why = "" if event.fault == event.outcome else f"; {event.fault}"
            return [f"{_ending(event)}{why}; it is repeated"]
        case ImplementationQuarantined():
            return [f"{event.implementation}: quarantined ({event.reason.removeprefix('not launched: ')})"]
        case RunPublished(outcome=Outcome.QUARANTINED) if not verbose:
            return []
        case QuietAwaited():
            return ["waiting for a quiet machine"]
        case SweepPaused():
            return [
                f"paused: no run is started until the file '{PAUSE_NAME}' is removed from the results directory, by "
                "hand or on the dashboard"
            ]
        case SweepResumed():
            return ["resumed"]
        case RunStarted() if verbose:
            return [f"{event.run_id}: started"]
        case RunPublished():
            return [_ending(event)] if verbose or event.outcome is not Outcome.COMPLETED else []
        case RunAnalysed() if event.problem:
            return [f"{event.run_id}: {event.problem}"]
    return []


def _ending(event: RunPublished | RunRepeated) -> str:
    """How a run ended, in a line."""
    attempt = f" (attempt {event.attempt})" if event.attempt > 1 else ""
    reason = f": {event.reason}" if event.reason else ""
    return f"{event.run_id}: {event.outcome}{reason}{attempt}"
