"""What a run's captures say, kept beside its record; then the captures themselves are kept as the sweep asks.

Every run has its summary; the protocol view, which takes longer, is made of one run of each permutation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from captures.accounting.stages import counted
from captures.accounting.suspicion import Expected
from captures.cache import load_or_summarise
from captures.files.blocks import NotACapture
from captures.files.cutting import HEADER_BYTES, keep_only_headers
from captures.files.pcap import read_header
from captures.files.tcpdump import CaptureCounters
from captures.kept import CAPTURES
from captures.protocols.tshark import NoDissection
from captures.protocols.view import VIEW, ProtocolView, load_or_view
from captures.session import Session
from orchestrator.plan import PLAN_NAME
from orchestrator.record import RECORD_NAME, Outcome, RunRecord, read_record

MTU_BYTES = 1500
WORTH_A_PROCESS = 20
"""With fewer runs, starting processes takes longer than they save."""
VIEWED_REPETITION = 1

Dissectors = Mapping[str, Sequence[str]]
"""By implementation, what its profile says of its packets (captures.protocols.dissector)."""


def analyse_run(directory: Path, keep: str, dissectors: Dissectors) -> str:
    """Summarise the captures of one run, unless that is done, and keep them "whole", as "headers" or not at all.

    Of a permutation's first repetition the protocol view is made too; without one a run is as good as with it: the
    reason is returned, "" if there is none. A run that has no captures, because it ended before them, has no summary,
    nor has one that its build cannot do. Raises NotACapture, RuntimeError, OSError.
    """
    record = read_record(directory)
    captures = [directory / name for name in CAPTURES]
    if not record.session or record.outcome is Outcome.UNSUPPORTED or not all(path.exists() for path in captures):
        return ""
    session = Session.model_validate(record.session)
    load_or_summarise(
        directory,
        session,
        record.file_size_bytes,
        record.file_whole_at_ns,
        expected_of(record),
        steady_rate_bps(record),
    )
    viewless = ""
    if record.repetition == VIEWED_REPETITION:
        try:
            load_or_view(directory, session, dissectors.get(record.implementation, ()))
        except (NoDissection, ValueError, OSError) as problem:
            viewless = str(problem)
    if keep == "headers" and any(read_header(path).snaplen_bytes > HEADER_BYTES for path in captures):
        keep_only_headers(directory, {VIEW: ProtocolView})
    elif keep == "none":
        for path in captures:
            path.unlink()
    return viewless


def analyse_runs(results: Path) -> list[str]:
    """Summarise every recorded run of which the captures, or the code, are others than those of its summary.

    Runs are shared among the processor's cores. Returns a sentence for each reason why runs have no summary, or no
    protocol view although they should.
    """
    plan = json.loads((results / PLAN_NAME).read_text())
    builds = plan.get("implementations", {})
    runs = [path for path in sorted((results / "runs").iterdir()) if (path / RECORD_NAME).exists()]
    analyse = partial(
        _problem_with,
        keep=plan["sweep"]["keep_captures"],
        dissectors={name: build.get("dissector", []) for name, build in builds.items()},
    )
    cores = min(len(os.sched_getaffinity(0)), len(runs) // WORTH_A_PROCESS)
    if cores < 2:
        return _told(zip(runs, map(analyse, runs), strict=True))
    with ProcessPoolExecutor(cores, get_context("spawn")) as pool:
        return _told(zip(runs, pool.map(analyse, runs, chunksize=WORTH_A_PROCESS), strict=True))


def _problem_with(directory: Path, keep: str, dissectors: Dissectors) -> str:
    try:
        viewless = analyse_run(directory, keep, dissectors)
    except (NotACapture, RuntimeError, OSError) as problem:
        return f"not summarised: {problem}"
    return f"without the protocol's messages: {viewless}" if viewless else ""


def _told(problems: Iterable[tuple[Path, str]]) -> list[str]:
    """A sentence for each problem, with the first run that has it and how many more."""
    runs: dict[str, list[str]] = {}
    for directory, problem in problems:
        if problem:
            runs.setdefault(problem, []).append(directory.name)
    return [
        f"{names[0]} is {problem}" if len(names) == 1 else f"{names[0]} and {len(names) - 1} more are {problem}"
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


def steady_rate_bps(record: RunRecord) -> float | None:
    """The forward channel's rate; None: unlimited, or it may change."""
    return None if record.channel is None or "timeline" in record.channel else record.rate_bps
