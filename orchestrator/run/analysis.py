"""The analysis of recorded runs: summaries beside the records; the captures are then kept as the sweep specifies.

Every run has a summary; the protocol view, which takes longer, is made of one run of each permutation. During a sweep,
`Analyses` makes them in processes of their own, so that no worker waits. A few runs at most wait for their analysis;
then the next worker waits too, so that complete captures do not pile up.
"""

from __future__ import annotations

import errno
import fcntl
import math
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from owlt.captures.accounting.cutting import is_cut, keep_only_headers
from owlt.captures.accounting.derived_files import CAPTURES
from owlt.captures.accounting.measures import direction_counters
from owlt.captures.accounting.summary import NO_LINKS, CaptureSummary, Links, Transfer, load_or_summarise, load_summary
from owlt.captures.accounting.suspicion import Expected
from owlt.captures.files.blocks import CutShort, NotACapture
from owlt.captures.frames.session import Session
from owlt.captures.inspection.critical_path import PROMPT_BY_REAL_CLOCK_NS, PROMPT_NS
from owlt.captures.inspection.inspection import Case
from owlt.captures.inspection.time_account import NoTime, load_or_account
from owlt.captures.matches.bottleneck import Link
from owlt.captures.pool import shared
from owlt.captures.protocols.tshark import NoDissection
from owlt.captures.protocols.view import ProtocolView, load_or_view, load_view
from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from owlt.inputs.axes import base_name
from owlt.inputs.mistake import Mistake, Place, ResultsConflict
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import HOW_TO_WRITE_PLAN, read_plan_values
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.orchestrator.rigs.processor_time import Waited
from owlt.results.files import FAILURE_NAME, PLAN_NAME, ReportError
from owlt.results.judgements import described, disturbance
from owlt.results.plain_files import DISK_IS_FULL, is_plain, names_in, open_to_lock, remove, require_plain, write_whole
from owlt.results.record import (
    RECORD_NAME,
    SUMMARY,
    VIEW,
    MachineDelay,
    Outcome,
    RunRecord,
    Side,
    read_record,
    refusals_text,
    write_record,
)
from owlt.results.recorded_runs import recorded_directories
from owlt.results.waits import TimedWait, described_waits, read_run_waits

WORTH_A_PROCESS = 20
"""Runs per process; with fewer, starting the process takes longer than it saves."""
VIEWED_REPETITION = 1
WITHOUT_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)

Dissectors = Mapping[str, Sequence[str]]
"""The dissector options of each implementation's profile (owlt.captures.protocols.tshark), by name."""


def analyse_run(directory: Path, keep: str, dissectors: Dissectors, known: RunRecord | None = None) -> str:
    """Summarise the captures of one run, unless that is done, and keep them "full", as "headers" or not at all.

    With "headers", the captures of a run that did not complete stay full: they may show why. The first repetition of a
    permutation gets a protocol view too; if it cannot be made, the reason is returned, else "". A run that ended before
    its captures began has no summary, nor has an unsupported one. `known` is the record if another process has read it.
    Raises NotACapture, RuntimeError, OSError.
    """
    record = known or read_record(directory)
    captures = [directory / name for name in CAPTURES]
    if not record.session or record.outcome is Outcome.UNSUPPORTED:
        return ""
    if not all(map(is_plain, captures)):
        if record.captures and load_summary(directory) is None:
            unreadable = "is missing, damaged or of another version"
            raise RuntimeError(f"{SUMMARY} {unreadable}, and the captures that it was made from are gone")
        return ""
    session = Session.model_validate(record.session)
    _summary_of(directory, record, session)
    viewless = ""
    if record.repetition == VIEWED_REPETITION:
        try:
            load_or_view(directory, session, dissectors.get(record.implementation, ()))
        except (NoDissection, ValueError, OSError) as problem:
            viewless = str(problem)
    if keep == "headers" and record.outcome is Outcome.COMPLETED and not all(is_cut(path) for path in captures):
        keep_only_headers(directory, session, {VIEW: ProtocolView})
    elif keep == "none":
        for path in captures:
            remove(path)
    return viewless


def note_machine_delay(directory: Path, waited: Callable[[int, int], Waited | None]) -> None:
    """Enter the machine delay of a run into its record, and suspect the run if the delay is above the limits.

    `waited` gives the waits of the rig's processes between two times. A run without a summary stays as it is.
    """
    record = read_record(directory)
    if not _is_summarised(directory, record):
        return
    try:
        summary = _summary_of(directory, record, Session.model_validate(record.session))
    except Exception:  # the analysis that follows meets the same problem and reports it
        return
    if summary.first_packet_ns is None or summary.last_packet_ns is None:
        return
    waits = waited(summary.first_packet_ns, summary.last_packet_ns)
    machine_delay = MachineDelay(
        session_ns=summary.last_packet_ns - summary.first_packet_ns,
        overdue_ns=summary.overdue_ns,
        waited_ns=None if waits is None else waits.waited_ns,
        dispatches=None if waits is None else waits.dispatches,
    )
    reason = disturbance(machine_delay)
    suspect = [*record.suspect, *([reason] if reason else [])]
    write_record(record.model_copy(update={"machine_delay": machine_delay, "suspect": suspect}), directory)


def _is_summarised(directory: Path, record: RunRecord) -> bool:
    """Whether a run has captures to summarise."""
    has_captures = all(is_plain(directory / name) for name in CAPTURES)
    return bool(record.session) and record.outcome is not Outcome.UNSUPPORTED and has_captures


def _summary_of(directory: Path, record: RunRecord, session: Session) -> CaptureSummary:
    try:
        return load_or_summarise(
            directory,
            session,
            Transfer(
                file_size_bytes=delivered_bytes(record),
                file_delivered_at_ns=record.file_delivered_at_ns,
                expected=expected_of(record),
                rate_bps=steady_rate_bps(record),
                links=links_of(record),
                duration_s=duration_s(record),
            ),
        )
    except CutShort as problem:
        hint = f"tcpdump ended before it captured; see 'suspect' in {RECORD_NAME} for its messages"
        raise NotACapture(f"{problem}; {hint}") from problem


def delivered_bytes(record: RunRecord) -> int | None:
    """The bytes that goodput counts: of a delivered file, or those received in a duration; None: not completed."""
    if record.outcome is not Outcome.COMPLETED:
        return None
    return record.file_size_bytes if record.duration_ns is None else record.received_bytes


def duration_s(record: RunRecord) -> float | None:
    """How long the sender was to send; None if it sent a file."""
    return None if record.duration_ns is None else record.duration_ns / 1e9


def analyse_runs(results: Path) -> list[str]:
    """Summarise every recorded run whose summary was made from other captures or by other code.

    Runs are shared among the processor's cores. Returns a sentence for each reason why runs have no summary, or why
    they have no protocol view.
    """
    settings = settings_of(results)
    analyse = partial(_analyse_known, keep=settings.keep, dissectors=settings.dissectors)
    runs = recorded_directories(results)
    return _in_parallel(analyse, runs, list(map(_readable_record, runs)))


def account_runs(results: Path) -> list[str]:
    """Make the time account of each recorded run that has none for its present captures and code.

    Runs are shared among the processor's cores. Returns a sentence for each reason why runs have no account.
    Raises ResultsConflict if the plan cannot be read.
    """
    account = partial(_problem_of_account, dissectors=settings_of(results).dissectors)
    return _in_parallel(account, recorded_directories(results))


def _in_parallel(work: Callable[..., str], runs: Sequence[Path], *further: Sequence[object]) -> list[str]:
    """Sentences for the problems that a function of a run finds. `further` are its other arguments, for each run."""
    with shared(len(runs), WORTH_A_PROCESS, WORTH_A_PROCESS // 2) as each_of:
        return problem_sentences(zip(runs, each_of(work, runs, *further), strict=True))


def _problem_of_account(directory: Path, dissectors: Dissectors) -> str:
    """Make the time account of a run; why it has none, "" if it has one."""
    try:
        record, case = case_of_run(directory, dissectors)
        forward, reverse = links_of(record)
        load_or_account(directory, replace(case, forward_link=forward, reverse_link=reverse))
    except (OwltError, NoTime, NoDissection, NotACapture, ValueError, OSError) as problem:
        text = " ".join(str(problem).split())
        return text.replace(f"{directory}: ", "").replace(f"{directory}/", "")
    return ""


def _analyse_known(directory: Path, known: RunRecord | None, keep: str, dissectors: Dissectors) -> str:
    return analyse_or_mark(directory, keep, dissectors, known)


def _readable_record(directory: Path) -> RunRecord | None:
    """The record of a run; None if it cannot be read, which the analysis of the run reports."""
    try:
        return read_record(directory)
    except (ResultsConflict, OSError):
        return None


@dataclass(frozen=True)
class Settings:
    """The values of a results directory's plan that the analysis of its runs needs."""

    keep: str
    dissectors: Dissectors


def settings_of(results: Path) -> Settings:
    """The settings in the plan of a results directory. Raises ResultsConflict if it cannot be read."""
    path = results / PLAN_NAME
    try:
        plan = read_plan_values(results)
        implementations = plan.get("implementations", {})
        dissectors = {name: values.get("dissector", []) for name, values in implementations.items()}
        return Settings(plan["sweep"]["keep_captures"], dissectors)
    except FileNotFoundError as problem:
        raise ResultsConflict(
            Mistake(f"cannot be read ({problem.strerror})", fix=HOW_TO_WRITE_PLAN, where=Place(str(path)))
        ) from problem
    except (LookupError, TypeError, AttributeError) as problem:
        raise ResultsConflict(
            Mistake(f"damaged ({problem})", fix=f"remove it, and {HOW_TO_WRITE_PLAN}", where=Place(str(path)))
        ) from problem


def analyse_or_mark(directory: Path, keep: str, dissectors: Dissectors, known: RunRecord | None = None) -> str:
    """Analyse a run as `analyse_run` does; a failure is noted beside the record and returned; "" if there is none.

    One process at a time analyses a run; another waits for it. Raises OSError if the disk is full.
    """
    try:
        with _locked(directory):
            without_view = _analyse_marked(directory, keep, dissectors, known)
    except AnalysisFailed as problem:
        return f"analysis failed: {problem}"
    return f"without the protocol's messages: {without_view}" if without_view else ""


def is_marked(directory: Path) -> bool:
    """Whether the last analysis of a run failed."""
    return (directory / FAILURE_NAME).exists()


def is_to_analyse(directory: Path, record: RunRecord, keep: str) -> bool:
    """Whether the analysis of a run failed or was interrupted, as by the end of its process; `keep` as `analyse_run`.

    Reads the first bytes of a capture at most, so that thousands of runs take a moment.
    """
    if is_marked(directory) or not _is_summarised(directory, record):
        return is_marked(directory)
    if not (directory / SUMMARY).exists() or keep == "none":
        return True
    try:
        return (
            keep == "headers"
            and record.outcome is Outcome.COMPLETED
            and not all(is_cut(directory / name) for name in CAPTURES)
        )
    except (NotACapture, OSError):
        return True


def mark_failed(directory: Path, reason: str, trace: str = "") -> None:
    """Note beside a run why its analysis failed; the next start of the sweep analyses it again."""
    write_whole(directory / FAILURE_NAME, f"{reason}\n\n{trace}")


class AnalysisFailed(Exception):
    """A run that has a record and no summary; the text is the reason."""


def _analyse_marked(directory: Path, keep: str, dissectors: Dissectors, known: RunRecord | None) -> str:
    try:
        without_view = analyse_run(directory, keep, dissectors, known)
    except Exception as problem:
        if isinstance(problem, OSError) and problem.errno in DISK_IS_FULL:
            raise
        reason = " ".join(str(problem).split()) or type(problem).__name__
        mark_failed(directory, reason, traceback.format_exc())
        raise AnalysisFailed(reason) from problem
    remove(directory / FAILURE_NAME)
    return without_view


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Wait until no other process analyses the run; do not wait if the file system has no locks."""
    try:
        with open_to_lock(directory / RECORD_NAME) as record:
            try:
                fcntl.flock(record, fcntl.LOCK_EX)
            except OSError as problem:
                if problem.errno not in WITHOUT_LOCKS:
                    raise
            yield
    except FileNotFoundError as problem:
        raise AnalysisFailed(f"{problem.filename} is gone; the run is being repeated") from problem


def problem_sentences(problems: Iterable[tuple[Path, str]]) -> list[str]:
    """A sentence for each problem, with the first run that has it and the number of others."""
    runs: dict[str, list[str]] = {}
    for directory, problem in problems:
        if problem:
            runs.setdefault(problem, []).append(directory.name)
    return [
        f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {problem}"
        for problem, names in runs.items()
    ]


def expected_of(record: RunRecord) -> Expected:
    """The counters of tcpdump and the emulator in a run, which its captures are compared with."""
    return Expected(
        sender_counters=record.captures.get("sender"),
        receiver_counters=record.captures.get("receiver"),
        mtu_bytes=ChannelSpec.from_wire(record.channel or {}).path_mtu_bytes,
        received_bytes=record.received_bytes,
        why_silent=_why_silent(record.sender),
        **{way: direction_counters(stages) for way, stages in record.emulator_statistics.items()},
    )


def _why_silent(sender: Side) -> str:
    """Why a sender may have sent nothing; "" if it was still running when it was stopped."""
    if not sender.command:
        return "the sender was not launched"
    return "" if sender.stopped or sender.exit_status is None else "the sender ended before it sent one"


def links_of(record: RunRecord) -> Links:
    """The links that delays of packets are compared with: the directions of a channel that do not vary, and whose
    packets no aimed fault delays."""
    channel = ChannelSpec.from_wire(record.channel or {})
    if record.channel is None or channel.timeline is not None:
        return NO_LINKS
    delayed = {fault.direction for fault in channel.faults if not fault.action.drop}
    forward, reverse = _steady_link(channel.forward), _steady_link(channel.reverse)
    return None if "forward" in delayed else forward, None if "reverse" in delayed else reverse


def _steady_link(link: LinkSpec) -> Link | None:
    if link.jitter or link.reordering or not link.up:
        return None
    return Link(link.delay_ns, link.rate_bps or math.inf, link.overhead_bytes)


def steady_rate_bps(record: RunRecord) -> float | None:
    """The forward channel's rate; None: unlimited or variable."""
    return None if record.channel is None or "timeline" in record.channel else record.rate_bps


Analyse = Callable[[Path], str]
"""Analyses a published run. Returns the problem, "" if there is none. Pickled, if the executor is a process pool."""
MakeExecutor = Callable[[], Executor]
Note = Callable[[str, str], None]
"""Gets the id of a run and the problem of its analysis, "" if there is none; from any thread."""

MOST_WAITING = 8
"""Runs that are published and not yet analysed: some seconds of work, and at most some 200 MB of complete captures."""
PROCESS_ENDED = "a process of the analysis ended unexpectedly; if memory ran out, run fewer guests at a time"


class Analyses:
    """Starts the analysis of each published run, and notes its result."""

    def __init__(self, analyse: Analyse, make_executor: MakeExecutor, note: Note) -> None:
        self._analyse = analyse
        self._make_executor = make_executor
        self._note = note
        self._executor: Executor | None = None
        self._lock = threading.Lock()
        self._room = threading.Semaphore(MOST_WAITING)
        self._problem: BaseException | None = None

    def start(self, directory: Path) -> None:
        """Start the analysis of a run. Waits if too many wait already. Raises what an earlier analysis raised."""
        self._raise_problem()
        self._room.acquire()
        self._submit(directory).add_done_callback(partial(self._take, directory))

    def finish(self) -> None:
        """Wait for all that were started. Raises what one of them raised."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown()
        self._raise_problem()

    def _submit(self, directory: Path) -> Future[str]:
        with self._lock:
            if self._executor is None:
                self._executor = self._make_executor()
            try:
                return self._executor.submit(self._analyse, directory)
            except BrokenProcessPool:
                self._executor = self._make_executor()
                return self._executor.submit(self._analyse, directory)

    def _take(self, directory: Path, done: Future[str]) -> None:
        """Note the result of an analysis, from a thread of the executor."""
        try:
            self._note(directory.name, self._result(directory, done))
        except BaseException as raised:  # the executor would drop it
            self._problem = self._problem or raised
        finally:
            self._room.release()

    def _result(self, directory: Path, done: Future[str]) -> str:
        """The problem of an analysis, "" if there is none; what it raised is kept."""
        try:
            return done.result()
        except (BrokenProcessPool, CancelledError):
            mark_failed(directory, PROCESS_ENDED)
            return f"analysis failed: {PROCESS_ENDED}"
        except BaseException as raised:
            self._problem = self._problem or raised
            return f"analysis failed: {raised}"

    def _raise_problem(self) -> None:
        if self._problem is not None:
            raise self._problem


def unavailable(results: Path) -> list[str]:
    """A sentence for each value of the sweep that cannot take effect on some runs, with their number.

    Runs whose records cannot be read are not counted. Raises FileNotFoundError without a plan, ResultsConflict,
    LookupError if the plan is damaged.
    """
    plan = read_plan_values(results)
    keep = plan["sweep"]["keep_captures"]
    counts: dict[str, int] = {}
    for directory in recorded_directories(results):
        try:
            record = read_record(directory)
        except ResultsConflict:  # the analysis and the report name it
            continue
        if not record.captures or record.outcome is Outcome.UNSUPPORTED:
            continue
        for sentence in _of_run(directory, record, keep, plan["implementations"]):
            counts[sentence] = counts.get(sentence, 0) + 1
    return [f"{sentence} ({count} {'run' if count == 1 else 'runs'})" for sentence, count in counts.items()]


def _of_run(directory: Path, record: RunRecord, keep: str, implementations: dict[str, Any]) -> Iterator[str]:
    captures = [directory / name for name in CAPTURES]
    are_there = all(map(is_plain, captures))
    if keep != "none" and not are_there:
        yield f"keep_captures: {keep}: the captures were removed earlier and cannot be restored"
    elif keep == "full" and any(map(is_cut, captures)):
        yield "keep_captures: full: the captures were cut to headers earlier and cannot be restored"
    name = record.implementation
    dissector = list(implementations.get(name, {}).get("dissector", []))
    view = None if are_there else load_view(directory)
    if view is not None and view.dissector != dissector:
        yield f"dissector of {name}: the captures were removed earlier, so the view of an earlier dissector stays"


def case_of_run(directory: Path, dissectors: Dissectors | None = None) -> tuple[RunRecord, Case]:
    """The record of a run and its case, without its channel's links. `dissectors`: those of the plan, if it has been
    read.

    Raises OwltError if its captures are not there, OSError.
    """
    record = read_record(directory)
    missing = [name for name in CAPTURES if name not in names_in(directory)]
    if missing or not record.session:
        why = f"there is no {' and no '.join(missing)}" if missing else "it ended before its session was known"
        raise OwltError(
            Mistake(f"cannot be analysed, for {why}", "a run that kept its captures", where=Place(str(directory)))
        )
    for name in CAPTURES:
        require_plain(directory / name)
    waits, timed_out = _timed_out(directory)
    return record, Case(
        session=Session.model_validate(record.session),
        dissector=_dissector(directory, record) if dissectors is None else dissectors.get(record.implementation, ()),
        file_size_bytes=record.file_size_bytes if record.duration_ns is None else record.received_bytes,
        duration_s=duration_s(record),
        file_delivered_at_ns=record.file_delivered_at_ns,
        rate_bps=steady_rate_bps(record),
        expected=expected_of(record),
        outcome=record.outcome.value,
        reason=record.reason,
        beside=[*described(record.clock, record.machine_delay), *_refused(record), *timed_out],
        faults=record.faults,
        waits=waits,
        launched_at_ns=record.started_at_ns,
        prompt_ns=PROMPT_NS if record.clock == "exact" else PROMPT_BY_REAL_CLOCK_NS,
    )


def _timed_out(directory: Path) -> tuple[Sequence[TimedWait], list[tuple[str, str]]]:
    """The waits of the programs that timed out, and as a name and a value; nothing if none was recorded."""
    try:
        waits = read_run_waits(directory)
    except ReportError as problem:
        return (), [("waits that timed out", f"not known: {problem}")]
    return () if waits is None else waits.waits, described_waits(waits)


def _refused(record: RunRecord) -> list[tuple[str, str]]:
    """The packets that the hosts refused to send, as a name and a value; [] if they sent everything."""
    text = refusals_text(record.host_refusals)
    return [("not sent, because the host had no room", text)] if text else []


def _dissector(directory: Path, record: RunRecord) -> Sequence[str]:
    """The dissector options of the planned implementation; if the plan is missing or damaged, those of the current
    profile of the same name; none if there is none."""
    with suppress(OSError, ResultsConflict, LookupError, TypeError, AttributeError):
        plan = read_plan_values(directory.parent.parent)
        return list(plan["implementations"][record.implementation].get("dissector", []))
    with suppress(OwltError):
        return find_implementation(base_name(record.implementation)).dissector
    return ()
