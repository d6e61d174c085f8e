"""The journal of a results directory: an event a line, appended by every start of the sweep; read even if damaged."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pydantic_core import from_json

from owlt.captures.files.plain_files import open_in_place
from owlt.orchestrator.steady_clock import SteadyTime
from owlt.orchestrator.workers.events import Entry, Event, Observe, decode, encode

JOURNAL_NAME = "journal.jsonl"


class Journal:
    """Appends events with their times, and passes them on to an observer. Any thread may note one.

    The times continue evenly if the machine's clock is set while a sweep runs.
    """

    def __init__(self, file: IO[str], observe: Observe) -> None:
        self._now_s = SteadyTime()
        self._file = file
        self._observe = observe
        self._lock = threading.Lock()

    def note(self, batch: int | None, event: Event) -> None:
        """Append an event that has just happened."""
        entry = Entry(self._now_s(), batch, event)
        with self._lock:
            self._file.write(json.dumps({"at_s": round(entry.at_s, 4), "batch": entry.batch, **encode(event)}) + "\n")
        self._observe(entry)


@contextmanager
def open_journal(results: Path, observe: Observe) -> Iterator[Journal]:
    """The journal of a results directory, for appending."""
    with open_in_place(results / JOURNAL_NAME, "a") as file:
        yield Journal(file, observe)


def entries_in(lines: Iterable[str]) -> Iterator[Entry]:
    """The entries of a journal's lines. Those that are cut, damaged or of unknown events are skipped."""
    for line in lines:
        try:
            values = from_json(line)
            batch = values["batch"]
            entry = Entry(float(values["at_s"]), None if batch is None else int(batch), decode(values))
        except (ValueError, LookupError, TypeError):
            continue
        yield entry
