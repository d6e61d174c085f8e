"""What a run's captures say, kept beside its record; then the captures themselves are kept as the sweep asks.

Every run has its summary; the protocol view, which takes longer, is made of one run of each permutation.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from captures.accounting.stages import counted
from captures.accounting.suspicion import Expected
from captures.cache import SUMMARY, load_or_summarise, load_summary
from captures.files.cutting import is_cut
from captures.files.tcpdump import CaptureCounters
from captures.kept import CAPTURES
from captures.kept_headers import keep_only_headers
from captures.pool import processes
from captures.protocols.tshark import NoDissection
from captures.protocols.view import VIEW, ProtocolView, load_or_view
from captures.session import Session
from captures.summary import NO_LINKS, CaptureSummary, Links
from captures.traces.bottleneck import Link
from emulator.channel import ChannelSpec, LinkSpec
from orchestrator.disturbance import disturbance
from orchestrator.errors import ResultsConflict
from orchestrator.plan import HOW_TO_WRITE_PLAN, PLAN_NAME
from orchestrator.record import RECORD_NAME, Outcome, RunRecord, Withheld, read_record, write_record
from orchestrator.rigs.waits import Waited
from orchestrator.whole_file import DISK_IS_FULL, write_whole

MTU_BYTES = 1500
WORTH_A_PROCESS = 20
"""With fewer runs, starting processes takes longer than they save."""
VIEWED_REPETITION = 1
FAILURE_NAME = "analysis-failed.txt"
"""Beside a run that could not be analysed: why, in the first line, and where in the code."""
WITHOUT_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)

Dissectors = Mapping[str, Sequence[str]]
"""By implementation, what its profile says of its packets (captures.protocols.dissector)."""


def analyse_run(directory: Path, keep: str, dissectors: Dissectors) -> str:
    """Summarise the captures of one run, unless that is done, and keep them "whole", as "headers" or not at all.

    Those of a run that did not complete are kept "whole" where "headers" is asked for: they may tell why.
    Of a permutation's first repetition the protocol view is made too; without one a run is as good as with it: the
    reason is returned, "" if there is none. A run that has no captures, because it ended before them, has no summary,
    nor has one that its build cannot do. Raises NotACapture, RuntimeError, OSError.
    """
    record = read_record(directory)
    captures = [directory / name for name in CAPTURES]
    if not record.session or record.outcome is Outcome.UNSUPPORTED:
        return ""
    if not all(path.exists() for path in captures):
        if record.captures and load_summary(directory) is None:
            raise RuntimeError(f"{SUMMARY} is missing or damaged, and the captures that it was made from are gone")
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
            path.unlink()
    return viewless


def note_withheld(directory: Path, waited: Callable[[int, int], Waited | None]) -> None:
    """Enter into a run's record what the machine withheld while its session lasted, and whether that was too much.

    `waited` tells what the rig's processes waited between two times. A run without a summary stays as it is.
    """
    record = read_record(directory)
    if not _is_summarised(directory, record):
        return
    try:
        summary = _summary_of(directory, record, Session.model_validate(record.session))
    except Exception:  # whatever it is, the analysis that follows meets it as well, and says so
        return
    if summary.first_packet_ns is None or summary.last_packet_ns is None:
        return
    seen = waited(summary.first_packet_ns, summary.last_packet_ns)
    withheld = Withheld(
        session_ns=summary.last_packet_ns - summary.first_packet_ns,
        overdue_ns=summary.overdue_ns,
        waited_ns=None if seen is None else seen.waited_ns,
        dispatches=None if seen is None else seen.dispatches,
    )
    why = disturbance(withheld)
    suspect = [*record.suspect, *([why] if why else [])]
    write_record(record.model_copy(update={"withheld": withheld, "suspect": suspect}), directory)


def _is_summarised(directory: Path, record: RunRecord) -> bool:
    """Whether a run has what a summary is made of: it came to its captures, and its build can do it."""
    has_captures = all((directory / name).exists() for name in CAPTURES)
    return bool(record.session) and record.outcome is not Outcome.UNSUPPORTED and has_captures


def _summary_of(directory: Path, record: RunRecord, session: Session) -> CaptureSummary:
    return load_or_summarise(
        directory,
        session,
        record.file_size_bytes if record.outcome is Outcome.COMPLETED else None,
        record.file_whole_at_ns,
        expected_of(record),
        steady_rate_bps(record),
        links_of(record),
    )


def analyse_runs(results: Path) -> list[str]:
    """Summarise every recorded run of which the captures, or the code, are others than those of its summary.

    Runs are shared among the processor's cores. Returns a sentence for each reason why runs have no summary, or no
    protocol view although they should.
    """
    analyse = partial(analyse_or_mark, **_settings(results))
    runs = [path for path in sorted((results / "runs").glob("*/")) if (path / RECORD_NAME).exists()]
    cores = min(len(os.sched_getaffinity(0)), len(runs) // WORTH_A_PROCESS)
    if cores < 2:
        return _told(zip(runs, map(analyse, runs), strict=True))
    with processes(cores) as pool:
        return _told(zip(runs, pool.map(analyse, runs, chunksize=WORTH_A_PROCESS), strict=True))


def _settings(results: Path) -> dict[str, Any]:
    """What the plan of a results directory says of captures and dissectors, as `analyse_run` wants it."""
    path = results / PLAN_NAME
    try:
        plan = json.loads(path.read_bytes())
        builds = plan.get("implementations", {})
        dissectors = {name: build.get("dissector", []) for name, build in builds.items()}
        return {"keep": plan["sweep"]["keep_captures"], "dissectors": dissectors}
    except OSError as problem:
        raise ResultsConflict(f"{path}: cannot be read ({problem.strerror}); {HOW_TO_WRITE_PLAN}") from problem
    except (ValueError, LookupError, TypeError, AttributeError) as problem:
        raise ResultsConflict(f"{path}: damaged ({problem}); remove it, and {HOW_TO_WRITE_PLAN}") from problem


def analyse_or_mark(directory: Path, keep: str, dissectors: Dissectors) -> str:
    """Analyse a run as `analyse_run` does; a failure is noted beside the record, and returned: "" is none.

    One process at a time analyses a run; another waits for it. Raises OSError when the disk is full.
    """
    try:
        with _alone_with(directory):
            without_view = _analyse_marked(directory, keep, dissectors)
    except AnalysisFailed as problem:
        return f"analysis failed: {problem}"
    return f"without the protocol's messages: {without_view}" if without_view else ""


def is_marked(directory: Path) -> bool:
    """Whether the last analysis of a run failed."""
    return (directory / FAILURE_NAME).exists()


class AnalysisFailed(Exception):
    """A run that has a record and no summary; its text says why."""


def _analyse_marked(directory: Path, keep: str, dissectors: Dissectors) -> str:
    mark = directory / FAILURE_NAME
    try:
        without_view = analyse_run(directory, keep, dissectors)
    except Exception as problem:
        if isinstance(problem, OSError) and problem.errno in DISK_IS_FULL:
            raise
        why = " ".join(str(problem).split()) or type(problem).__name__
        write_whole(mark, f"{why}\n\n{traceback.format_exc()}")
        raise AnalysisFailed(why) from problem
    mark.unlink(missing_ok=True)
    return without_view


@contextmanager
def _alone_with(directory: Path) -> Iterator[None]:
    """Wait until no other process analyses the run; where the file system has no locks, do not wait."""
    try:
        with (directory / RECORD_NAME).open("r+b") as record:
            try:
                fcntl.flock(record, fcntl.LOCK_EX)
            except OSError as problem:
                if problem.errno not in WITHOUT_LOCKS:
                    raise
            yield
    except FileNotFoundError as problem:
        raise AnalysisFailed(f"{problem.filename} is gone; the run is being repeated") from problem


def _told(problems: Iterable[tuple[Path, str]]) -> list[str]:
    """A sentence for each problem, with the first run that has it and how many more."""
    runs: dict[str, list[str]] = {}
    for directory, problem in problems:
        if problem:
            runs.setdefault(problem, []).append(directory.name)
    return [
        f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {problem}"
        for problem, names in runs.items()
    ]


def expected_of(record: RunRecord) -> Expected:
    """What tcpdump and the emulator counted in a run, which its captures are held against."""
    counters = {role: CaptureCounters(**values) for role, values in record.captures.items()}
    return Expected(
        sender_counters=counters.get("sender"),
        receiver_counters=counters.get("receiver"),
        mtu_bytes=MTU_BYTES,
        **{way: counted(stages) for way, stages in record.emulator_statistics.items()},
    )


def links_of(record: RunRecord) -> Links:
    """What packets are held against that may have been late: the directions of a channel in which nothing varies."""
    channel = ChannelSpec.from_wire(record.channel or {})
    if record.channel is None or channel.timeline is not None:
        return NO_LINKS
    return _steady_link(channel.forward), _steady_link(channel.reverse)


def _steady_link(link: LinkSpec) -> Link | None:
    if link.jitter or link.reordering or not link.up:
        return None
    return Link(link.delay_ns, link.rate_bps or math.inf, link.overhead_bytes)


def steady_rate_bps(record: RunRecord) -> float | None:
    """The forward channel's rate; None: unlimited, or it may change."""
    return None if record.channel is None or "timeline" in record.channel else record.rate_bps
