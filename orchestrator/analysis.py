"""What a run's captures say, kept beside its record; then the captures themselves are kept as the sweep asks."""

from __future__ import annotations

import json
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from captures.blocks import NotACapture
from captures.cache import load_or_summarise
from captures.headers import keep_only_headers
from captures.kept import CAPTURES
from captures.session import Session
from captures.stages import counted
from captures.suspicion import Expected
from captures.tcpdump import CaptureCounters
from orchestrator.plan import PLAN_NAME
from orchestrator.record import RECORD_NAME, Outcome, RunRecord, read_record

MTU_BYTES = 1500
WORTH_A_PROCESS = 20
"""With fewer runs, starting processes takes longer than they save."""


def analyse_run(directory: Path, keep: str) -> None:
    """Summarise the captures of one run, unless that is done, and keep them "whole", as "headers" or not at all.

    A run that has no captures, because it ended before them, has no summary, nor has one that its build cannot do.
    Raises NotACapture, RuntimeError, OSError.
    """
    record = read_record(directory)
    captures = [directory / name for name in CAPTURES]
    if not record.session or record.outcome is Outcome.UNSUPPORTED or not all(path.exists() for path in captures):
        return
    summary = load_or_summarise(
        directory,
        Session.model_validate(record.session),
        record.file_size_bytes,
        record.file_whole_at_ns,
        _expected(record),
        _steady_rate_bps(record),
    )
    if keep == "headers" and not summary.headers_only:
        keep_only_headers(directory, {})
    elif keep == "none":
        for path in captures:
            path.unlink()


def analyse_runs(results: Path) -> list[str]:
    """Summarise every recorded run of which the captures, or the code, are others than those of its summary.

    Runs are shared among the processor's cores. Returns a sentence for each run that cannot be summarised.
    """
    keep = json.loads((results / PLAN_NAME).read_text())["sweep"]["keep_captures"]
    runs = [path for path in sorted((results / "runs").iterdir()) if (path / RECORD_NAME).exists()]
    analyse = partial(_problem_with, keep=keep)
    cores = min(len(os.sched_getaffinity(0)), len(runs) // WORTH_A_PROCESS)
    if cores < 2:
        return [told for told in map(analyse, runs) if told]
    with ProcessPoolExecutor(cores, get_context("spawn")) as pool:
        return [told for told in pool.map(analyse, runs, chunksize=WORTH_A_PROCESS) if told]


def _problem_with(directory: Path, keep: str) -> str:
    try:
        analyse_run(directory, keep)
    except (NotACapture, RuntimeError, OSError) as problem:
        return f"{directory.name} is not summarised: {problem}"
    return ""


def _expected(record: RunRecord) -> Expected:
    counters = {role: CaptureCounters(**values) for role, values in record.captures.items()}
    return Expected(
        sender_counters=counters.get("sender"),
        receiver_counters=counters.get("receiver"),
        mtu_bytes=MTU_BYTES,
        **{way: counted(stages) for way, stages in record.emulator_statistics.items()},
    )


def _steady_rate_bps(record: RunRecord) -> float | None:
    """The forward channel's rate; None: unlimited, or it may change."""
    return None if record.channel is None or "timeline" in record.channel else record.rate_bps
