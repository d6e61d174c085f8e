"""The journal of a results directory: an event a line, appended by every start of the sweep; read even if damaged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

JOURNAL_NAME = "journal.jsonl"
FRUITLESS_STARTS = 2
"""After so many starts of a batch that reached no new run, its runs are performed one by one."""


def read_journal(results: Path) -> Iterator[dict[str, Any]]:
    """The events of all starts, oldest first; lines that are cut or damaged are skipped."""
    path = results / JOURNAL_NAME
    if not path.is_file():
        return
    with path.open(errors="replace") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and isinstance(event.get("batch"), int) and "event" in event:
                yield event


def batches_without_progress(events: Iterable[dict[str, Any]]) -> set[int]:
    """The batches that were ended `FRUITLESS_STARTS` times while they only repeated runs that had been published."""
    published: set[int] = set()
    repeating: set[int] = set()
    fruitless: Counter[int] = Counter()
    for event in events:
        batch = event["batch"]
        if event["event"] == "boot":
            fruitless[batch] += batch in repeating
            if batch in published:
                repeating.add(batch)
        elif event["event"] in ("published", "retry"):
            published.add(batch)
            repeating.discard(batch)
    fruitless.update(repeating)
    return {batch for batch, count in fruitless.items() if count >= FRUITLESS_STARTS}
