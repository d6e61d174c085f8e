"""One start of a sweep: check what is needed, perform what has no record yet, conclude; also after an interrupt.

On a lab rig, host baselines show what its hosts can transfer over the unrestricted link, before and after the sweep. As
in the NASA Glenn evaluation of NACK-oriented protocols (Iannicca, Hylton, Ishac), each implementation transfers one
file; iperf3 sends for some seconds. Each start of the sweep has its own baselines, in results directories of their own.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from owlt.agents.contract.implementation import Implementation
from owlt.inputs.mistake import Mistake, Place, ResultsConflict
from owlt.orchestrator.errors import Missing, OwltError
from owlt.orchestrator.hosts.printable import printable_lines
from owlt.orchestrator.kernel.kernel import kernels_directory
from owlt.orchestrator.planning.estimate import WITHOUT_RECORDS, guests_side_by_side
from owlt.orchestrator.planning.plan import Plan, PlanChange, plan_sweep
from owlt.orchestrator.planning.repetitions import due_runs
from owlt.orchestrator.planning.selection import Selection
from owlt.orchestrator.planning.stored_plan import require_extension, write_plan
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.orchestrator.rigs.provenance import write_provenance
from owlt.orchestrator.run.analysis import Analyse, analyse_or_mark, is_marked, is_to_analyse
from owlt.orchestrator.run.events import Entry, Observe, SweepInterrupted
from owlt.orchestrator.run.same_failures import failed_again, same_failures_text
from owlt.orchestrator.sweep.forecast import pace_of
from owlt.orchestrator.sweep.machine import THIS_MACHINE, Machine
from owlt.orchestrator.sweep.monitoring import WorkerFailed
from owlt.orchestrator.sweep.publishing import note_seeds, noted_seeds, set_aside
from owlt.orchestrator.sweep.scheduling import Deadline, StopTime, Timing
from owlt.orchestrator.sweep.supervisor import Workers, supervise, uncertified
from owlt.results.files import BASELINES_NAME, FAILURE_NAME
from owlt.results.judgements import doubts_of
from owlt.results.lock import locked, require_free
from owlt.results.operator import keep_options
from owlt.results.plain_files import DISK_IS_FULL, directories_in
from owlt.results.record import NOT_DELIVERED, Outcome, ReasonCode, RunRecord
from owlt.results.recorded_runs import RUNS, Recorded, read_recorded, recorded_directories, standing


class Interrupts:
    """A context in which the first signal raises KeyboardInterrupt; later ones are only observed and counted.

    SIGHUP (a closed terminal) counts once, because the shell repeats it. It is ignored from then on, also after this
    context, so that the report is made. Under nohup it is ignored from the start.
    """

    def __init__(self, observe: Observe) -> None:
        self.count = 0
        self._observe = observe
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            numbers = [signal.SIGINT, signal.SIGTERM]
            numbers += [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
            self._before = {number: signal.signal(number, self._take) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)

    def _take(self, number: int, _frame: types.FrameType | None) -> None:
        if number == signal.SIGHUP:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            if self.count:
                return
        self.count += 1
        self._observe(Entry(time.time(), None, SweepInterrupted(times=self.count)))
        if self.count == 1:
            raise KeyboardInterrupt


MOST_UNCERTIFIED = 3
"""The most channels with a timeline that the summary names."""
UNSUPPORTED_TEXT = (
    "the emulator's kernel does not support their channels: repeating them changes nothing until it has what the "
    "reasons in the records name; provide that, or leave these cells out with 'exclude' in the sweep"
)
BeginObserving = Callable[[Plan, set[str]], Observe]
"""Gets the plan and the runs that were done before; returns what observes every event."""
Supervise = Callable[..., None]
"""Called as `supervise` is: performs what is missing of a plan in a results directory."""


@dataclass(frozen=True)
class Performed:
    """The result of a start of a sweep."""

    results: Path
    summary: str
    interrupted: bool
    recorded: int
    """Runs that have a record now."""
    is_complete: bool = True
    """Whether every run has a record, and none blames the rig."""
    interrupted_again: bool = False
    """Whether it was interrupted a second time, before all workers had ended."""
    failed: int = 0
    """Runs that are recorded and did not complete: failed, timed out, incomplete, corrupt or quarantined."""
    change: PlanChange | None = None
    """What this start changed in the plan of earlier ones."""
    same_failures: tuple[str, ...] = ()
    """Runs that failed again exactly as an earlier attempt did."""
    stopped: str = ""
    """How far it came until its deadline; "": it was not ended by one."""


@dataclass(frozen=True)
class Start:
    """One start of a sweep: what is performed of a plan, in which directory, and on what."""

    plan: Plan
    directory: Path
    again: str
    """The command that resumes it."""
    selection: Selection | None = None
    """None: all runs."""
    machine: Machine = THIS_MACHINE
    guests: int | None = None
    """How many run side by side; None: one per core."""

    def is_finished(self) -> bool:
        """Whether every run, or every selected one, has a record that stands, and its channel a certificate."""
        plan, selection = self.plan, self.selection
        if selection and selection.again:
            return not selection.run_ids
        recorded = _recorded(plan, self.directory)
        is_recorded = self.selected(recorded) <= standing(recorded)
        return is_recorded and not uncertified(selection.applied(plan) if selection else plan, self.directory)

    def selected(self, recorded: Recorded) -> set[str]:
        """The runs that are due, or those of them that are selected."""
        due = due_runs(self.plan, self.directory, recorded.records)
        return due if self.selection is None else due & self.selection.run_ids

    def require_ready(self) -> None:
        """Raise OwltError for all that `perform_plan` refuses; changes nothing.

        The machine is examined for the runs that are left and selected, and for all implementations of the plan.
        """
        require_extension(self.plan, self.directory, _recorded_ids(self.directory))
        require_free(self.directory)
        left = self._left()
        if (left.runs or not self.is_finished()) and (missing := self.machine.missing(left)):
            raise Missing(*missing)

    def _left(self) -> Plan:
        """The plan with those of its runs that `perform_plan` would perform."""
        if self.selection and self.selection.again:
            return self.selection.alone(self.plan)
        recorded = _recorded(self.plan, self.directory)
        return Selection(frozenset(self.selected(recorded) - standing(recorded))).alone(self.plan)


def planned_change(plan: Plan, results: Path) -> PlanChange | None:
    """What a plan would change in the one of earlier starts; None: nothing, or `Start.require_ready` refuses it."""
    try:
        return require_extension(plan, results, _recorded_ids(results))
    except ResultsConflict:
        return None


def standing_runs(plan: Plan, results: Path) -> set[str]:
    """The runs of a plan that need not be performed; none if `Start.require_ready` refuses the records."""
    try:
        require_extension(plan, results, _recorded_ids(results))
        return standing(_recorded(plan, results))
    except ResultsConflict:
        return set()


def perform_until(start: Start, observe: BeginObserving, stop: StopTime | None) -> Performed:
    """Perform as `perform_plan` does, without the runs that are expected to end after `stop`."""
    pace = WITHOUT_RECORDS if stop is None else pace_of(start.plan, start.directory)
    deadline = Deadline(start.plan.sweep.clock, stop, pace=pace)
    performed = perform_plan(start, observe, partial(supervise, timing=Timing(deadline=deadline)))
    if not deadline.is_over:
        return performed
    return replace(performed, stopped=f"{_balance(start.plan, start.directory)}; {deadline.left}")


def _balance(plan: Plan, results: Path) -> str:
    """How many repetitions the cells have of a sweep that its deadline ended."""
    records = _recorded(plan, results).records
    counts = Counter({run.permutation: 0 for run in plan.runs})
    counts.update(run.permutation for run in plan.runs if run.run_id in records and not run.is_baseline)
    least, most = min(counts.values()), max(counts.values())
    bound = "at most " if plan.sweep.adaptive else ""
    number = str(most) if least == most else f"{least} to {most}"
    of = f"{bound}{plan.sweep.most_repetitions}"
    return f"stopped at the time of --until or --for: every cell has {number} of {of} repetitions"


def perform_plan(start: Start, observe: BeginObserving, perform: Supervise = supervise) -> Performed:
    """Perform every run without a record that stands, and analyse each as it is published.

    With a selection, only its runs; those that are performed again are set aside first. `perform` is called as
    `supervise` is. A plan without runs left needs nothing of the machine. Raises OwltError if something is missing or
    wrong before the first run; then nothing was changed.
    """
    start.require_ready()
    plan, directory, selection = start.plan, start.directory, start.selection
    with files_may_fail(directory, start.again), locked(directory) as holder:
        if holder:
            warn(
                f"{directory}: {holder} did not release its lock; if it is still running, interrupt it or this command"
            )
        change = write_plan(plan, directory, _recorded_ids(directory))
        if selection and selection.again:
            note_seeds(directory, selection.run_ids, selection.new_seeds)
            _set_aside(directory, selection.run_ids)
        else:
            guests = ["--guests", str(start.guests)] if start.guests else []
            keep_options(directory, [*(selection.words if selection else ()), *guests])
        recorded = _recorded(plan, directory)
        for warning in recorded.warnings:
            warn(warning)
        analyse = _analysis(plan)
        for run_id, record in recorded.records.items():
            if is_to_analyse(directory / RUNS / run_id, record, plan.sweep.keep_captures):
                analyse(directory / RUNS / run_id)
        due = Selection(frozenset(start.selected(recorded)))
        observe_event = observe(due.alone(plan), standing(recorded))
        interrupts = 0
        if not start.is_finished():
            if selection:
                perform = partial(perform, only=selection.run_ids)
            interrupts = _perform_missing(start, observe_event, analyse, perform)
        return replace(_performed(start, interrupts), change=change)


def _with_seeds(plan: Plan, results: Path, selection: Selection | None) -> Plan:
    """What is performed of a plan, with the seeds that a retry has given, which may have been interrupted."""
    selected = selection or Selection(frozenset(run.run_id for run in plan.runs))
    return replace(selected, new_seeds=noted_seeds(results)).applied(plan)


def _set_aside(results: Path, run_ids: Iterable[str]) -> None:
    for run_id in sorted(run_ids):
        if (results / RUNS / run_id).is_dir():
            set_aside(results, results / RUNS / run_id)


def _analysis(plan: Plan) -> Analyse:
    dissectors = {name: each.dissector for name, each in plan.implementations.items()}
    return partial(analyse_or_mark, keep=plan.sweep.keep_captures, dissectors=dissectors)


def _perform_missing(start: Start, observe: Observe, analyse: Analyse, perform: Supervise) -> int:
    """Perform what is missing. Returns how often it was interrupted."""
    plan, machine = _with_seeds(start.plan, start.directory, start.selection), start.machine
    if os.geteuid() == 0 and plan.sweep.rig != "lab":
        _note_root()
    cores = sorted(os.sched_getaffinity(0))
    cpus = cores[: start.guests or guests_side_by_side(plan.sweep.clock, len(cores))]
    slots = len(cpus) if plan.sweep.rig == "virtual" else 1
    with Interrupts(observe) as interrupts, closing(machine.launcher(plan, cpus)) as launch:
        write_provenance(launch.provenance, start.directory)
        try:
            workers = Workers(launch, machine.places(slots), partial(machine.analysis_executor, plan))
            perform(plan, start.directory, workers, observe, analyse)
        except KeyboardInterrupt:
            pass
        except WorkerFailed as problem:
            raise OwltError(str(problem), _performed(replace(start, selection=None), 0).summary) from problem
    return interrupts.count


@contextmanager
def files_may_fail(directory: Path, again: str) -> Iterator[None]:
    """Raise OwltError, with what to do, if a file cannot be read or written."""
    try:
        yield
    except OSError as problem:
        is_full = problem.errno in DISK_IS_FULL
        wrong = "no space left on its file system" if is_full else str(problem)
        fix = "free some space" if is_full else "fix the problem"
        then = f"all recorded runs are kept; {fix}, then run '{again}' again"
        raise OwltError(Mistake(wrong, fix=then, where=Place(str(directory)))) from problem


def warn(text: str) -> None:
    """Print a warning on standard error."""
    print(f"owlt: warning: {printable_lines(text)}", file=sys.stderr)


def _note_root() -> None:
    """Print a note about running implementations as root, once; a file in the user's cache records this."""
    said = kernels_directory().parent / "root-was-noted"
    if said.exists():
        return
    with suppress(OSError):
        said.parent.mkdir(parents=True, exist_ok=True)
        said.touch()
    print(
        "owlt: note: implementations run as root, and their confinement, including a guest, is not a security "
        "boundary: run implementations that you do not trust as an ordinary user (docs/implementations.md#trust)",
        file=sys.stderr,
    )


def _recorded_ids(results: Path) -> set[str]:
    return {path.name for path in recorded_directories(results)}


def _recorded(plan: Plan, results: Path) -> Recorded:
    return read_recorded(results, {run.run_id for run in plan.runs})


def _not_completed(records: Iterable[RunRecord]) -> str:
    """The runs that did not complete, and why: "; udp-blast: 6 exited with an error; ltp: 1 time limit"."""
    codes: dict[str, Counter[str]] = {}
    for record in records:
        if record.reason_code is not None:
            codes.setdefault(record.implementation, Counter())[record.reason_code] += 1
    return "".join(
        f"; {name}: {', '.join(f'{count} {_phrase(code)}' for code, count in counts.most_common())}"
        for name, counts in codes.items()
    )


def _suspect(records: Mapping[str, RunRecord], results: Path) -> str:
    """Whose runs are suspect, and where the reasons are: "; 3 suspect: tcp 2, ltp 1 (...)"."""
    suspects = Counter(
        record.implementation for run_id, record in records.items() if doubts_of(record, results / RUNS / run_id)
    )
    if not suspects:
        return ""
    of_each = ", ".join(f"{name} {count}" for name, count in suspects.most_common())
    return f"; {suspects.total()} suspect: {of_each} (for the reasons: owlt status {shlex.quote(str(results))})"


def _not_certified(plan: Plan) -> str:
    """What of the channels no certificate measures: "; not certified: the 4 steps of the timeline of gap"."""
    names = {run.channel_key: run.permutation.channel_name for run in plan.runs}
    steps = {
        name: len(channel.timeline.steps)
        for key, name in names.items()
        if (channel := plan.channels[key]).timeline is not None
    }
    if not steps or not plan.sweep.certify:
        return ""
    of_each = [f"{'the step' if count == 1 else f'the {count} steps'} of {name}" for name, count in steps.items()]
    shown, more = of_each[:MOST_UNCERTIFIED], len(of_each) - MOST_UNCERTIFIED
    rest = [f"those of {more} more channels"] if more > 0 else []
    return f"; not certified, in contrast to the links before the first step: {', '.join([*shown, *rest])}"


def _phrase(code: str) -> str:
    return "exited with an error" if code == ReasonCode.EXITED else code.replace("_", " ")


def _performed(start: Start, interrupts: int) -> Performed:
    results, again = start.directory, start.again
    recorded = _recorded(start.plan, results)
    selected = start.selected(recorded)
    records = {run_id: each for run_id, each in recorded.records.items() if run_id in selected}
    outcomes = Counter(str(record.outcome) for record in records.values())
    counted = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    unsupported = sum(record.reason_code is ReasonCode.CHANNEL_UNSUPPORTED for record in records.values())
    aborted, missing = outcomes[Outcome.ABORTED] - unsupported, len(selected) - len(records)
    not_analysed = sum(is_marked(results / RUNS / run_id) for run_id in records)
    to_do = [f"{missing} not recorded yet"] if missing else []
    to_do += [f"{aborted} aborted by a fault of the rig, to be repeated"] if aborted else []
    to_do += [f"{not_analysed} not analysed (see {FAILURE_NAME} in their directories)"] if not_analysed else []
    counted += _not_completed(records.values())
    counted += _suspect(records, results)
    counted += _not_certified(start.plan)
    same = tuple(sorted(run_id for run_id, record in records.items() if failed_again(results, record)))
    counted += f"; {same_failures_text(results, same)}" if same else ""
    more = f"; {', '.join(to_do)}: run '{again}' again" if to_do else ""
    more += f"; {unsupported} aborted because {UNSUPPORTED_TEXT}" if unsupported else ""
    failed = sum(outcomes[outcome] for outcome in (*NOT_DELIVERED, Outcome.QUARANTINED))
    of = f"{len(selected)} selected runs" if start.selection else f"{len(selected)} runs"
    summary = f"{len(records)} of {of} recorded in {results}: {counted or 'none'}{more}"
    is_complete = not to_do and not unsupported
    return Performed(
        results, summary, interrupts > 0, len(records), is_complete, interrupts > 1, failed, same_failures=same
    )


IPERF3_NS = 10 * 10**9
_UNRESTRICTED: dict[str, Any] = {
    "channel": None,
    "rate": [None],
    "delay": [0],
    "packet_error_rate": [0.0],
    "together": [],
    "exclude": [],
    "include": [],
    "baseline": None,
    "repetitions": 1,
    "advertised": {},
    "queue_packets": None,
    "certify": False,
    "host_captures": False,
}


def file_baseline(plan: Plan, size_bytes: int) -> Plan:
    """One transfer of a file of this size for each implementation of a plan. Raises ProfileError."""
    changes = {"name": f"{plan.sweep.name}-baseline", "file_size": [size_bytes], "duration": None}
    return _planned(plan, changes, plan.implementations)


def iperf3_baseline(plan: Plan, iperf3: Implementation) -> Plan:
    """One run of iperf3 for IPERF3_NS. Raises ProfileError."""
    changes = {"name": f"{plan.sweep.name}-iperf3", "file_size": None, "duration": [IPERF3_NS]}
    return _planned(plan, {**changes, "implementations": [iperf3.name], "parameters": {}}, {iperf3.name: iperf3})


def _planned(plan: Plan, changes: dict[str, Any], implementations: dict[str, Implementation]) -> Plan:
    title = f"Host baseline of {plan.sweep.name} over the unrestricted link"
    sweep = plan.sweep.model_copy(update=_UNRESTRICTED | {"title": title} | changes)
    return plan_sweep(sweep, implementations)


class HostBaselines:
    """The host baselines of one start: `host-baselines/N/before` and `.../after` of the sweep's results directory.

    Raises ProfileError if an implementation cannot do without the sweep's channel.
    """

    def __init__(self, start: Start, size_bytes: int) -> None:
        self._start = start
        self._files = file_baseline(start.plan, size_bytes)
        self._iperf3 = iperf3_baseline(start.plan, find_implementation("iperf3"))
        root = start.directory / BASELINES_NAME
        starts = [int(path.name) for path in directories_in(root) if path.name.isdecimal()]
        self._directory = root / str(max(starts, default=0) + 1)

    def perform(self, moment: Literal["before", "after"], observe: BeginObserving) -> list[Performed]:
        """Perform them before or after the sweep. Without iperf3 on the hosts, a warning says how to install it."""
        done = [self._perform(self._files, self._directory / moment / "files", observe)]
        if missing := self._start.machine.missing(self._iperf3):
            warn(f"no host baseline with iperf3: {'; '.join(map(str, missing))}")
        elif not done[0].interrupted:
            done.append(self._perform(self._iperf3, self._directory / moment / "iperf3", observe))
        return done

    def _perform(self, plan: Plan, directory: Path, observe: BeginObserving) -> Performed:
        return perform_plan(Start(plan, directory, self._start.again, machine=self._start.machine), observe)
