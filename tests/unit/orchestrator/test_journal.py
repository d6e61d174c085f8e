"""What the journal says of earlier starts of a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchestrator.journal import JOURNAL_NAME, batches_without_progress, read_journal


def event(name: str, batch: int = 0) -> dict[str, Any]:
    return {"at_s": 1.0, "batch": batch, "event": name}


def test_a_batch_that_twice_only_repeated_published_runs_has_made_no_progress() -> None:
    start, repeated = [event("boot"), event("published")], [event("boot"), event("run")]

    assert batches_without_progress([*start, *repeated]) == set()
    assert batches_without_progress([*start, *repeated, *repeated]) == {0}


def test_a_batch_that_published_something_in_every_start_has_made_progress() -> None:
    assert batches_without_progress([event("boot"), event("published")] * 5) == set()


def test_a_batch_that_never_published_a_run_is_performed_as_planned() -> None:
    assert batches_without_progress([event("boot"), event("run")] * 5) == set()


def test_starts_of_other_batches_do_not_count() -> None:
    events = [event("boot"), event("published"), *[event("boot", 1)] * 3, event("boot")]

    assert batches_without_progress(events) == set()


def test_damaged_lines_of_a_journal_are_skipped(tmp_path: Path) -> None:
    lines = b'{"at_s": 1.0, "batch": 3, "event": "boot"}\n\xff\x00\xfe\n[]\n{"batch": "x"}\n{"at_s": 2.0, "ba'
    (tmp_path / JOURNAL_NAME).write_bytes(lines)

    assert [each["batch"] for each in read_journal(tmp_path)] == [3]
