"""The pages of all sweeps, of one sweep and of a condition, and the files of a results directory.

The files are those of runs, certificates, and the report, whose links lead to the others. No script of a file runs,
except those that owlt itself writes into the page of a report.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from flask import Flask, abort, make_response, render_template, request, send_file
from werkzeug.wrappers import Response
from werkzeug.wsgi import wrap_file

from owlt.orchestrator.dashboard.child_processes import Answers, SoFar
from owlt.orchestrator.dashboard.index import SHOWN_METRICS, Directories, Snapshot, SweepIndex
from owlt.orchestrator.dashboard.protection import FILE_POLICY, report_policy
from owlt.orchestrator.dashboard.sweep_content import (
    Filter,
    MachineLoad,
    activity_text,
    box_plot,
    changed_cells,
    channels_of,
    choices,
    condition_title,
    headline_of,
    machines_of,
    matrix_of,
)
from owlt.reports.comparison.metrics import Metric
from owlt.reports.rendering import SCRIPT, is_script, page_script
from owlt.reports.results.load import labels_of
from owlt.results.files import CERTIFICATES
from owlt.results.operator import read_note
from owlt.results.plain_files import NotPlain, as_file_name, is_plain, open_plain
from owlt.results.recorded_runs import run_directory

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
        abort(404, f"run {run_id!r}: the sweep has no run of this name")
    return run_directory(index.directory, run_id)


@dataclass(frozen=True)
class Tags:
    """Tags of the contents of pages. Tags of another start of the server always differ."""

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


class _LiveParts:
    """The part of each sweep's page that may change every second, made once for all pages that are open."""

    def __init__(self, answers: Answers | None) -> None:
        self._answers = answers
        self._load = MachineLoad()
        self._parts: dict[str, tuple[Snapshot, SoFar | None, str]] = {}

    def of(self, index: SweepIndex, name: str, snapshot: Snapshot) -> str:
        """The part as HTML."""
        answer = self._answers.of(index.directory, snapshot) if self._answers else None
        shown, answered, text = self._parts.get(name, (None, None, ""))
        if shown is not snapshot or answered is not answer:
            headline = headline_of(snapshot)
            values = _live_values(name, snapshot) | {
                "headline": headline,
                "note": read_note(index.directory),
                "answer": answer,
                "load": self._load.text() if headline.process in ("running", "paused") else "",
                "channels": channels_of(index.directory, snapshot),
            }
            text = render_template("live.html", **values)
            self._parts[name] = snapshot, answer, text
        return text


def add_sweep_pages(app: Flask, directories: Directories, tags: Tags, answers: Answers | None) -> None:
    """Add them to the application."""
    live_parts = _LiveParts(answers)

    @app.get("/")
    def sweeps() -> Response:
        shown = {name: index.snapshot() for name, index in directories.indexes().items()}
        headlines = {name: headline_of(each) for name, each in shown.items() if each.state is not None}
        if is_part():
            return tags.answer(render_template("sweeps_table.html", shown=shown, headlines=headlines))
        return make_response(render_template("sweeps.html", shown=shown, headlines=headlines))

    @app.get("/sweeps/<name>/")
    def sweep(name: str) -> Response:
        index, snapshot = sweep_of(directories, name)
        selected = _selected()
        text = render_template(
            "sweep.html",
            directory=index.directory,
            matrix=matrix_of(snapshot, selected),
            channels=channels_of(index.directory, snapshot),
            choices=choices(snapshot.planned),
            selected=selected,
            tag=tags.of(snapshot),
            labels=labels_of(snapshot.plan.implementations) if snapshot.plan else {},
            has_report=is_plain(index.directory / "report" / "index.html"),
            live=live_parts.of(index, name, snapshot),
            name=name,
            snapshot=snapshot,
        )
        return make_response(text)

    @app.get("/sweeps/<name>/certificates/")
    def certificates(name: str) -> Response:
        index, snapshot = sweep_of(directories, name)
        channels = channels_of(index.directory, snapshot)
        return tags.answer(render_template("certificates.html", name=name, channels=channels))

    @app.get("/sweeps/<name>/changes")
    def changes(name: str) -> Response:
        """What has changed since the version that the page shows; the whole page again if that is of another plan."""
        index, snapshot = sweep_of(directories, name)
        since = tags.version_in(request.headers.get(TAG, ""), snapshot)
        if since is None:
            return make_response("", 200, {"HX-Refresh": "true"})
        live = live_parts.of(index, name, snapshot)
        tag = tags.of(snapshot, live)
        if tag == request.headers.get(TAG):
            return make_response("", 304)
        changed = changed_cells(snapshot, _selected(), since)
        return make_response(live + render_template("changed_cells.html", name=name, cells=changed), 200, {TAG: tag})

    @app.get("/sweeps/<name>/conditions/<key>")
    def condition(name: str, key: str) -> Response:
        _, snapshot = sweep_of(directories, name)
        values = _condition_values(name, key, snapshot)
        if is_part():
            return tags.answer(render_template("condition_live.html", **values))
        return make_response(render_template("condition.html", **values))


def _selected() -> Filter:
    return Filter.of_query(request.args.to_dict(flat=False))


def _live_values(name: str, snapshot: Snapshot) -> dict[str, object]:
    """What the page of a sweep shows beside its matrix: it may change every second."""
    state = snapshot.state
    assert state is not None
    activities = [(each.slot, each.run_id, activity_text(each, state.read_at_s)) for each in state.activities]
    return {
        "name": name,
        "snapshot": snapshot,
        "activities": sorted(activities),
        "machines": machines_of(state),
    }


def _condition_values(name: str, key: str, snapshot: Snapshot) -> dict[str, object]:
    """What the page of a condition shows; an answer that says what is wrong if the sweep has no such condition."""
    cells = [each for each in snapshot.planned if each.condition.key == key]
    if not cells or snapshot.plan is None:
        abort(404, f"condition {key!r}: the sweep has no condition of this name")
    metric = _metric()
    labels = labels_of(snapshot.plan.implementations)
    rows = {labels[each.implementation]: snapshot.rows_of(each) for each in cells}
    numbers = {labels[implementation]: number for number, implementation in enumerate(snapshot.plan.implementations)}
    return {
        "name": name,
        "condition": cells[0].condition,
        "title": condition_title(snapshot.planned, cells[0].condition),
        "rows": rows,
        "names": {labels[each.implementation]: each.implementation for each in cells},
        "metric": metric,
        "plot": box_plot(rows, metric, numbers),
    }


def _metric() -> Metric:
    """The metric in the address."""
    metrics = {metric.slug: metric for metric in SHOWN_METRICS}
    slug = request.args.get("metric", SHOWN_METRICS[0].slug)
    if slug not in metrics:
        abort(404, f"metric: got {slug!r:.80}, expected {', '.join(metrics)}")
    return metrics[slug]


SHOWN_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    **dict.fromkeys((".out", ".err", ".log", ".txt", ".csv"), "text/plain; charset=utf-8"),
}
"""By the ending of a file's name, how a browser shows it; it downloads other files."""
REPORT, PAGE = "report", "index.html"
MOST_SCRIPT_BYTES = 64_000_000


def add_file_pages(app: Flask, directories: Directories) -> None:
    """Add them to the application."""
    policy = report_policy(page_script())

    @app.get("/sweeps/<name>/runs/<run_id>/files/<file>")
    @app.get("/sweeps/<name>/runs/<run_id>/<file>", endpoint="run_file_of_report")
    def run_file(name: str, run_id: str, file: str) -> Response:
        return file_answer(directory_of(*sweep_of(directories, name), run_id), file)

    @app.get("/sweeps/<name>/certificates/<file>")
    def certificate(name: str, file: str) -> Response:
        index, _ = sweep_of(directories, name)
        return file_answer(index.directory / CERTIFICATES, file)

    @app.get("/sweeps/<name>/report/<path:file>")
    def report(name: str, file: str) -> Response:
        index, _ = sweep_of(directories, name)
        if file.endswith(SCRIPT):
            return _script(index.directory / REPORT, file)
        response = file_answer(index.directory / REPORT, file)
        if file == PAGE:
            response.headers["Content-Security-Policy"] = policy
        return response


def file_answer(directory: Path, name: str) -> Response:
    """A file within a directory."""
    shown = SHOWN_TYPES.get(Path(name).suffix)
    file = _opened(directory, name)
    status = os.fstat(file.fileno())
    response = send_file(
        file,
        mimetype=shown or "application/octet-stream",
        as_attachment=shown is None,
        download_name=Path(name).name,
        last_modified=status.st_mtime,
        etag=f"{status.st_mtime_ns:x}-{status.st_size:x}",
        conditional=False,
    )
    response.content_length = status.st_size
    response.headers["Content-Security-Policy"] = FILE_POLICY
    response.make_conditional(request.environ, accept_ranges=True, complete_length=status.st_size)
    if (
        response.content_range and "wsgi.file_wrapper" in request.environ
    ):  # waitress then sends the part without a thread
        file.seek(response.content_range.start or 0)
        response.response = wrap_file(request.environ, file)
    return response


def _script(directory: Path, name: str) -> Response:
    """A script that adds a figure or a table to a report, and does nothing else."""
    with _opened(directory, name) as file:
        text = file.read(MOST_SCRIPT_BYTES).decode(errors="replace")
    if not is_script(text):
        abort(404, f"{name}: is no script of a report; make the report again with 'owlt report'")
    return make_response(text, {"Content-Type": "text/javascript; charset=utf-8"})


def _opened(directory: Path, name: str) -> BinaryIO:
    """A plain file of a directory, or of one in it."""
    try:
        return open_plain(directory.joinpath(*map(as_file_name, name.split("/"))))
    except NotPlain as problem:
        abort(404, f"{name}: {problem.strerror}")
    except (OSError, ValueError):
        abort(404, f"{name}: there is no such file")
