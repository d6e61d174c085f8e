"""Runs that failed again exactly as before: on the exact clock, with the same seed, their packets were the same.

Another attempt with that seed fails too. Captures of earlier attempts are not kept, so records have their digests.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from pathlib import Path

from owlt.captures.accounting.derived_files import CAPTURES
from owlt.inputs.mistake import ResultsConflict
from owlt.results.plain_files import directories_in, is_plain, open_plain
from owlt.results.record import NOT_DELIVERED, RunRecord, read_record, write_record

ATTEMPTS = "attempts"
"""The directory in a results directory for earlier attempts: `attempts/RUN/N/` has the files of the N-th attempt at a
repeated run."""
MOST_NAMED = 3


def note_captures(directory: Path, record: RunRecord) -> RunRecord:
    """Enter the digests of a run's captures into its record, if a later attempt may be the same. Returns the record."""
    captures = [directory / name for name in CAPTURES]
    may_be_compared = record.clock == "exact" and record.outcome in NOT_DELIVERED and not record.captures_sha256
    if not may_be_compared or not all(map(is_plain, captures)):
        return record
    digests = {path.stem: _sha256(path) for path in captures}
    record = record.model_copy(update={"captures_sha256": digests})
    write_record(record, directory)
    return record


def is_same_failure(record: RunRecord, earlier: RunRecord) -> bool:
    """Whether two attempts with the same seed ended in the same way, with the same packets at the same times."""
    decisive = [(each.seed, each.outcome, each.reason, each.captures_sha256) for each in (record, earlier)]
    return bool(record.captures_sha256) and record.outcome in NOT_DELIVERED and decisive[0] == decisive[1]


def failed_again(results: Path, record: RunRecord) -> bool:
    """Whether a run failed as one of its earlier attempts did."""
    if record.attempt == 1 or not record.captures_sha256:
        return False
    return any(is_same_failure(record, each) for each in _earlier(results / ATTEMPTS / record.run_id))


def same_failures_text(results: Path, run_ids: Sequence[str]) -> str:
    """A sentence about such runs, with what to do; "" without one."""
    if not run_ids:
        return ""
    more = f" and {len(run_ids) - MOST_NAMED} more" if len(run_ids) > MOST_NAMED else ""
    options = [] if more else [word for run_id in run_ids for word in ("--run", run_id)]
    command = shlex.join(["owlt", "retry", str(results), *options, "--new-seed"])
    named = f"{', '.join(run_ids[:MOST_NAMED])}{more}"
    failures = "the failure is" if len(run_ids) == 1 else "the failures are"
    sentence = f"failed again in the same way, with the same packets: {named}: {failures} deterministic"
    return f"{sentence}; to use another seed: {command}"


def _sha256(path: Path) -> str:
    with open_plain(path) as file:  # a capture may be larger than what memory is free
        return hashlib.file_digest(file, "sha256").hexdigest()


def _earlier(of_run: Path) -> list[RunRecord]:
    records = []
    for directory in directories_in(of_run):
        try:
            records.append(read_record(directory))
        except (ResultsConflict, OSError):
            continue  # damaged, or of another version: nothing is known about it
    return records
