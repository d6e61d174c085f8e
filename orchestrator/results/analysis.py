"""The analysis of recorded runs: summaries beside the records; the captures are then kept as the sweep specifies.

Every run has a summary; the protocol view, which takes longer, is made of one run of each permutation.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from owlt.captures.accounting.counts import direction_counters
from owlt.captures.accounting.cutting import is_cut, keep_only_headers
from owlt.captures.accounting.derived_files import CAPTURES, SUMMARY
from owlt.captures.accounting.summary import NO_LINKS, CaptureSummary, Links, Transfer, load_or_summarise, load_summary
from owlt.captures.accounting.suspicion import Expected
from owlt.captures.files.blocks import CutShort, NotACapture
from owlt.captures.files.plain_files import DISK_IS_FULL, is_plain, open_to_lock, remove, write_whole
from owlt.captures.frames.session import Session
from owlt.captures.matches.bottleneck import Link
from owlt.captures.pool import processes
from owlt.captures.protocols.tshark import NoDissection
from owlt.captures.protocols.view import VIEW, ProtocolView, load_or_view
from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.errors import ResultsConflict
from owlt.orchestrator.planning.plan import HOW_TO_WRITE_PLAN, PLAN_NAME, read_plan_values
from owlt.orchestrator.results.disturbance import disturbance
from owlt.orchestrator.results.record import RECORD_NAME, MachineDelay, Outcome, RunRecord, read_record, write_record
from owlt.orchestrator.results.recorded_runs import recorded_directories
from owlt.orchestrator.rigs.waits import Waited

WORTH_A_PROCESS = 20
"""Runs per process; with fewer, starting the process takes longer than it saves."""
VIEWED_REPETITION = 1
FAILURE_NAME = "analysis-failed.txt"
"""Beside a run that could not be analysed: the reason in the first line, then the traceback."""
WITHOUT_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)

Dissectors = Mapping[str, Sequence[str]]
"""The dissector options of each implementation's profile (owlt.captures.protocols.dissector), by name."""


def analyse_run(directory: Path, keep: str, dissectors: Dissectors) -> str:
    """Summarise the captures of one run, unless that is done, and keep them "full", as "headers" or not at all.

    With "headers", the captures of a run that did not complete stay full: they may show why. The first repetition of a
    permutation gets a protocol view too; if it cannot be made, the reason is returned, else "". A run that ended before
    its captures began has no summary, nor has an unsupported one. Raises NotACapture, RuntimeError, OSError.
    """
    record = read_record(directory)
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
    settings = _settings(results)
    analyse = partial(analyse_or_mark, keep=settings.keep, dissectors=settings.dissectors)
    runs = recorded_directories(results)
    cores = min(len(os.sched_getaffinity(0)), len(runs) // WORTH_A_PROCESS)
    if cores < 2:
        return _sentences(zip(runs, map(analyse, runs), strict=True))
    with processes(cores) as pool:
        return _sentences(zip(runs, pool.map(analyse, runs, chunksize=WORTH_A_PROCESS), strict=True))


@dataclass(frozen=True)
class _Settings:
    """What the plan of a results directory has for the analysis of its runs."""

    keep: str
    dissectors: Dissectors


def _settings(results: Path) -> _Settings:
    path = results / PLAN_NAME
    try:
        plan = read_plan_values(results)
        implementations = plan.get("implementations", {})
        dissectors = {name: values.get("dissector", []) for name, values in implementations.items()}
        return _Settings(plan["sweep"]["keep_captures"], dissectors)
    except FileNotFoundError as problem:
        raise ResultsConflict(
            Mistake(f"cannot be read ({problem.strerror})", fix=HOW_TO_WRITE_PLAN, where=Place(str(path)))
        ) from problem
    except (LookupError, TypeError, AttributeError) as problem:
        raise ResultsConflict(
            Mistake(f"damaged ({problem})", fix=f"remove it, and {HOW_TO_WRITE_PLAN}", where=Place(str(path)))
        ) from problem


def analyse_or_mark(directory: Path, keep: str, dissectors: Dissectors) -> str:
    """Analyse a run with `analyse_run`; a failure is noted beside the record and returned; "" if there is none.

    One process at a time analyses a run; another waits for it. Raises OSError if the disk is full.
    """
    try:
        with _locked(directory):
            without_view = _analyse_marked(directory, keep, dissectors)
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


def _analyse_marked(directory: Path, keep: str, dissectors: Dissectors) -> str:
    try:
        without_view = analyse_run(directory, keep, dissectors)
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


def _sentences(problems: Iterable[tuple[Path, str]]) -> list[str]:
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
        **{way: direction_counters(stages) for way, stages in record.emulator_statistics.items()},
    )


def links_of(record: RunRecord) -> Links:
    """The links that delays of packets are compared with: the directions of a channel that do not vary."""
    channel = ChannelSpec.from_wire(record.channel or {})
    if record.channel is None or channel.timeline is not None:
        return NO_LINKS
    return _steady_link(channel.forward), _steady_link(channel.reverse)


def _steady_link(link: LinkSpec) -> Link | None:
    if link.jitter or link.reordering or not link.up:
        return None
    return Link(link.delay_ns, link.rate_bps or math.inf, link.overhead_bytes)


def steady_rate_bps(record: RunRecord) -> float | None:
    """The forward channel's rate; None: unlimited or variable."""
    return None if record.channel is None or "timeline" in record.channel else record.rate_bps
