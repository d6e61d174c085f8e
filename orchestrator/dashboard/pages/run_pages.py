"""The page of a run, and its packets."""

from __future__ import annotations

from pathlib import Path

from flask import Flask, abort, make_response, redirect, render_template, url_for
from werkzeug.wrappers import Response

from captures.summary.derived_files import CAPTURES
from orchestrator.dashboard.pages.file_pages import file_answer
from orchestrator.dashboard.pages.packet_views import PacketView, PacketViews, TooMany, missing_packets
from orchestrator.dashboard.pages.run_details import run_details
from orchestrator.dashboard.pages.snapshots import directory_of, is_part, sweep_of
from orchestrator.dashboard.sweeps.directories import Directories
from reports.results.records import ReportError

FIGURES = ("traces", "ladder")


def add_run_pages(app: Flask, directories: Directories, views: PacketViews) -> None:
    """Add them to the application."""

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
        }
        try:
            details = run_details(index.directory, snapshot.plan, run_id)
        except FileNotFoundError:
            return make_response(render_template("unrecorded.html", **values))
        except ReportError as problem:
            abort(500, str(problem))
        return make_response(render_template("run.html", details=details, **values))

    @app.get("/sweeps/<name>/runs/<run_id>/packets")
    def run_packets(name: str, run_id: str) -> Response:
        directory = directory_of(*sweep_of(directories, name), run_id)
        values = _packet_values(directory, views.view(directory))
        return make_response(render_template("packets.html", name=name, run_id=run_id, **values))

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
    """The values of the part of the page that shows packets."""
    values = {"view": view, "has_captures": all((run / name).is_file() for name in CAPTURES)}
    if view is None or not view.is_ready or view.problem:
        return {**values, "missing": (), "missing_count": 0, "figures": ()}
    missing, count = missing_packets(view.directory)
    figures = [name for name in FIGURES if (view.directory / f"{name}.svg").is_file()]
    return {**values, "missing": missing, "missing_count": count, "figures": figures}
