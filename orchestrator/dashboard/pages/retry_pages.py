"""The part of a run's page with which the run is performed again, and of a sweep's with which repetitions are added."""

from __future__ import annotations

from pathlib import Path

from flask import Flask, abort, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from owlt.orchestrator.dashboard.pages.protection import Token, require_same_origin
from owlt.orchestrator.dashboard.pages.retrying import LAB_RIG, MORE_REPETITIONS, IsRetrying, Retries, lab_command
from owlt.orchestrator.dashboard.pages.snapshots import directory_of, sweep_of
from owlt.orchestrator.dashboard.sweeps.directories import Directories
from owlt.orchestrator.dashboard.sweeps.index import Snapshot


def add_retry_pages(app: Flask, directories: Directories, retries: Retries, token: Token) -> None:
    """Add it to the application; templates have `retry_values`."""

    def retry_values(name: str, run_id: str) -> dict[str, object]:
        index, snapshot = sweep_of(directories, name)
        retry = retries.latest(index.directory, run_id)
        is_busy = snapshot.state is not None and snapshot.state.process.state == "running"
        by_hand = _by_hand(snapshot, "retry", index.directory, "--run", run_id)
        row = snapshot.rows[run_id]
        return {"retry": retry, "is_busy": is_busy, "may_change": token.is_given(), "row": row, "by_hand": by_hand}

    def extend_values(name: str) -> dict[str, object]:
        index, snapshot = sweep_of(directories, name)
        is_busy = snapshot.state is not None and snapshot.state.process.state == "running"
        is_adaptive = snapshot.state is not None and snapshot.state.repetitions is not None
        latest = retries.latest(index.directory, MORE_REPETITIONS)
        return {
            "latest": latest,
            "is_busy": is_busy,
            "is_adaptive": is_adaptive,
            "may_change": token.is_given(),
            "by_hand": _by_hand(snapshot, "extend", index.directory),
        }

    app.jinja_env.globals |= {"retry_values": retry_values, "extend_values": extend_values}

    @app.get("/sweeps/<name>/extend")
    def extend_state(name: str) -> Response:
        sweep_of(directories, name)
        return make_response(render_template("extend.html", name=name))

    @app.post("/sweeps/<name>/extend")
    def extend(name: str) -> Response:
        require_same_origin()
        token.require()
        index, snapshot = sweep_of(directories, name)
        _refuse_by_hand(_by_hand(snapshot, "extend", index.directory))
        try:
            retries.extend(index.directory)
        except IsRetrying as other:
            abort(409, f"{other.words}; try again when it has ended")
        return redirect(url_for("sweep", name=name, _anchor="extend"), 303)

    @app.get("/sweeps/<name>/runs/<run_id>/again")
    def retry_state(name: str, run_id: str) -> Response:
        directory_of(*sweep_of(directories, name), run_id)
        return make_response(render_template("retry.html", name=name, run_id=run_id))

    @app.post("/sweeps/<name>/runs/<run_id>/again")
    def retry(name: str, run_id: str) -> Response:
        require_same_origin()
        token.require()
        index, snapshot = sweep_of(directories, name)
        directory_of(index, snapshot, run_id)
        _refuse_by_hand(_by_hand(snapshot, "retry", index.directory, "--run", run_id))
        try:
            retries.start(index.directory, run_id, "new_seed" in request.form)
        except IsRetrying as other:
            abort(409, f"{other.words}; try again when it has ended")
        return redirect(url_for("run", name=name, run_id=run_id, _anchor="retry"), 303)


def _by_hand(snapshot: Snapshot, subcommand: str, results: Path, *options: str) -> str:
    """The command that a user has to type instead, for a sweep on a lab rig; "" for the other rigs."""
    is_lab = snapshot.state is not None and snapshot.state.rig == LAB_RIG
    return lab_command(subcommand, results, *options) if is_lab else ""


def _refuse_by_hand(command: str) -> None:
    if command:
        abort(409, f"the runs of a lab rig need its inventory, which the dashboard does not know; use: {command}")
