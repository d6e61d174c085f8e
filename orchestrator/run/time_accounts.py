"""The time accounts of the runs of a results directory: computed in parallel and kept beside the records."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from owlt.captures.files.blocks import NotACapture
from owlt.captures.inspection.time_account import NoTime, load_or_account
from owlt.captures.pool import processes
from owlt.captures.protocols.tshark import NoDissection
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.run.analysis import (
    WORTH_A_PROCESS,
    Dissectors,
    case_of_run,
    links_of,
    problem_sentences,
    settings_of,
)
from owlt.results.recorded_runs import recorded_directories


def account_runs(results: Path) -> list[str]:
    """Make the time account of each recorded run that has none for its present captures and code.

    Runs are shared among the processor's cores. Returns a sentence for each reason why runs have no account.
    Raises ResultsConflict if the plan cannot be read.
    """
    runs = recorded_directories(results)
    account = partial(_problem_of, dissectors=settings_of(results).dissectors)
    cores = min(len(os.sched_getaffinity(0)), len(runs) // WORTH_A_PROCESS)
    if cores < 2:
        return problem_sentences(zip(runs, map(account, runs), strict=True))
    with processes(cores) as pool:
        return problem_sentences(zip(runs, pool.map(account, runs, chunksize=WORTH_A_PROCESS // 2), strict=True))


def _problem_of(directory: Path, dissectors: Dissectors) -> str:
    """Make the account of a run; why it has none, "" if it has one."""
    try:
        record, case = case_of_run(directory, dissectors)
        forward, reverse = links_of(record)
        load_or_account(directory, replace(case, forward_link=forward, reverse_link=reverse))
    except (OwltError, NoTime, NoDissection, NotACapture, ValueError, OSError) as problem:
        text = " ".join(str(problem).split())
        return text.replace(f"{directory}: ", "").replace(f"{directory}/", "")
    return ""
