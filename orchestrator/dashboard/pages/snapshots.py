"""What the pages ask first: the sweep of an address, as it is now, and whether a page shows it already."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from flask import abort, make_response, request
from werkzeug.wrappers import Response

from owlt.orchestrator.dashboard.sweeps.directories import Directories
from owlt.orchestrator.dashboard.sweeps.index import Snapshot, SweepIndex
from owlt.orchestrator.results.recorded_runs import run_directory

TAG = "HX-PTag"
"""The header with the state that a page shows: it comes with an answer, and goes with the next request."""


def is_part() -> bool:
    """Whether a page asks for a part of itself."""
    return "HX-Request" in request.headers


def sweep_of(directories: Directories, name: str) -> tuple[SweepIndex, Snapshot]:
    """The sweep of an address; an answer that says what is wrong if there is none, or it cannot be read."""
    index = directories.indexes().get(name)
    if index is None:
        abort(404, f"sweep {name!r}: there are no results of this name")
    snapshot = index.snapshot()
    if snapshot.state is None:
        abort(503, snapshot.problem)
    return index, snapshot


def directory_of(index: SweepIndex, snapshot: Snapshot, run_id: str) -> Path:
    """The directory of a planned run, recorded or not."""
    if run_id not in snapshot.rows:
        abort(404, f"run {run_id!r}: the sweep has none of this name")
    return run_directory(index.directory, run_id)


@dataclass(frozen=True)
class Tags:
    """Tags of what pages show. Those of another start of the server are never the same."""

    start: str = field(default_factory=lambda: secrets.token_hex(4))

    def of(self, snapshot: Snapshot, text: str = "") -> str:
        """The tag of a sweep, and of a text that is shown with it."""
        return f"{self.start}.{snapshot.plan_version}.{snapshot.version}.{crc32(text.encode()):08x}"

    def version_in(self, tag: str, snapshot: Snapshot) -> int | None:
        """The version of the sweep in a tag; None if it is of another server or plan."""
        parts = tag.split(".")
        if len(parts) != 4 or parts[:2] != [self.start, str(snapshot.plan_version)] or not parts[2].isdecimal():
            return None
        return int(parts[2])

    def answer(self, text: str) -> Response:
        """A part of a page; nothing (304) if the page has the same text already."""
        tag = f"{self.start}.{crc32(text.encode()):08x}"
        return make_response("", 304) if request.headers.get(TAG) == tag else make_response(text, 200, {TAG: tag})
