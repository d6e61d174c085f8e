"""The page of a run, and its packets."""

from __future__ import annotations

from pathlib import Path

from flask import Flask, abort, make_response, redirect, render_template, url_for
from werkzeug.wrappers import Response

from owlt.captures.accounting.derived_files import CAPTURES
from owlt.captures.accounting.summary import CaptureSummary, load_summary
from owlt.captures.files.plain_files import is_plain
from owlt.orchestrator.dashboard.pages.file_pages import file_answer
from owlt.orchestrator.dashboard.pages.packet_views import PacketView, PacketViews, TooMany, may_list
from owlt.orchestrator.dashboard.pages.run_details import run_details
from owlt.orchestrator.dashboard.pages.snapshots import directory_of, is_part, sweep_of
from owlt.orchestrator.dashboard.sweeps.directories import Directories
from owlt.orchestrator.dashboard.sweeps.missing_packets import read_missing
from owlt.reports.results.records import ReportError

FIGURES = ("traces", "ladder")
TABLE = "packets.csv"
FATES = {
    "lost": "lost by the channel",
    "corrupted": "damaged by the channel",
    "queue": "dropped by a full queue",
    "mtu": "too long for the link",
    "in_flight": "in the emulator when the captures ended",
    "unrecognised": "arrived, but too damaged to be recognised",
    "undetermined": "did not arrive; the cause is unknown",
    "unexplained_missing": "did not arrive; no recorded drop",
}
"""The fates of packets that did not arrive as they were sent, in words."""


def add_run_pages(app: Flask, directories: Directories, views: PacketViews, lists: PacketViews) -> None:
    """Add them to the application. `lists` are of the packets that did not arrive, `views` complete analyses."""

    @app.get("/sweeps/<name>/runs/<run_id>/")
    def run(name: str, run_id: str) -> Response:
        index, snapshot = sweep_of(directories, name)
        directory = directory_of(index, snapshot, run_id)
        assert snapshot.plan is not None
        values = {
            "name": name,
            "run_id": run_id,
            "row": snapshot.rows[run_id],
            **_packet_values(directory, views.view(directory)),
            **_missing_values(directory, lists.view(directory)),
        }
        try:
            details = run_details(index.directory, snapshot.plan, run_id)
        except FileNotFoundError:
            return make_response(render_template("unrecorded.html", **values))
        except ReportError as problem:
            abort(409, str(problem))
        return make_response(render_template("run.html", details=details, **values))

    @app.get("/sweeps/<name>/runs/<run_id>/packets")
    def run_packets(name: str, run_id: str) -> Response:
        directory = directory_of(*sweep_of(directories, name), run_id)
        values = _packet_values(directory, views.view(directory))
        return make_response(render_template("packets.html", name=name, run_id=run_id, **values))

    @app.get("/sweeps/<name>/runs/<run_id>/missing")
    def run_missing(name: str, run_id: str) -> Response:
        """The list of packets; begins to make it if a page of the dashboard asks, which other sites cannot imitate."""
        directory = directory_of(*sweep_of(directories, name), run_id)
        view, must_wait = lists.view(directory), False
        if view is None and is_part() and _missing_count(load_summary(directory)) and may_list(directory):
            try:
                view = lists.request(directory)
            except TooMany:
                must_wait = True
        values = _missing_values(directory, view, must_wait)
        return make_response(render_template("missing.html", name=name, run_id=run_id, **values))

    @app.post("/sweeps/<name>/runs/<run_id>/packets")
    def analyse(name: str, run_id: str) -> Response:
        directory = directory_of(*sweep_of(directories, name), run_id)
        try:
            view = views.request(directory)
        except TooMany:
            abort(503, "too many analyses wait; try again when they are done")
        if is_part():
            values = _packet_values(directory, view)
            return make_response(render_template("packets.html", name=name, run_id=run_id, **values))
        return redirect(url_for("run", name=name, run_id=run_id, _anchor="packets"), 303)

    @app.get("/sweeps/<name>/runs/<run_id>/packets/<file>")
    def packet_file(name: str, run_id: str, file: str) -> Response:
        view = views.view(directory_of(*sweep_of(directories, name), run_id))
        if view is None or not view.is_ready:
            abort(404, "this run is not analysed; start the analysis on its page")
        return file_answer(view.directory, file)


def _packet_values(run: Path, view: PacketView | None) -> dict[str, object]:
    """The values of the part of the page that shows the analysis."""
    values = {"view": view, "has_captures": all(is_plain(run / name) for name in CAPTURES)}
    if view is None or not view.is_ready or view.problem:
        return {**values, "figures": (), "has_table": False}
    figures = [name for name in FIGURES if is_plain(view.directory / f"{name}.svg")]
    return {**values, "figures": figures, "has_table": is_plain(view.directory / TABLE)}


def _missing_values(run: Path, view: PacketView | None, must_wait: bool = False) -> dict[str, object]:
    """The values of the part of the page that lists the packets which did not arrive as they were sent."""
    summary = load_summary(run)
    return {
        "missing_view": view,
        "missing_count": _missing_count(summary),
        "unseen_count": _unseen_count(summary),
        "may_list_missing": may_list(run),
        "must_wait": must_wait,
        "missing": read_missing(view.directory) if view is not None and view.is_ready else None,
        "fates": FATES,
    }


def _missing_count(summary: CaptureSummary | None) -> int | None:
    """How many of the packets that did not arrive as they were sent can be listed; None if the run has no summary."""
    if summary is None:
        return None
    ledgers = (summary.ledger_forward, summary.ledger_reverse)
    return sum(each.sent - each.delivered - each.corrupted_unseen for each in ledgers)


def _unseen_count(summary: CaptureSummary | None) -> int:
    """How many packets were corrupted behind the bytes that the captures have: the emulator counted them, and nothing
    shows which they are.
    """
    if summary is None:
        return 0
    return summary.ledger_forward.corrupted_unseen + summary.ledger_reverse.corrupted_unseen
