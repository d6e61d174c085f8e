"""Those who have the token pause, resume and stop a sweep from its page, and keep a note with it.

A pause is a file in the results directory, and a stop is what Ctrl-C does to its `owlt run`. A sweep that was stopped
is resumed by `owlt extend` without further repetitions, with the selection of its latest start.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from flask import Flask, abort, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from owlt.inputs.mistake import Invalid, MistakeError, OwltError
from owlt.orchestrator.dashboard.index import Directories, Snapshot
from owlt.orchestrator.dashboard.protection import Token
from owlt.orchestrator.dashboard.retrying import LAB_RIG, RESUMED, IsRetrying, Retries, lab_command
from owlt.orchestrator.dashboard.sweep_pages import Tags, sweep_of
from owlt.orchestrator.planning.selection import selected_by
from owlt.results.lock import Holder, interrupt_holder
from owlt.results.operator import MOST_NOTE_CHARACTERS, kept_options, pause, read_note, resume, write_note


def add_control_pages(app: Flask, directories: Directories, retries: Retries, token: Token, tags: Tags) -> None:
    """Add them to the application; templates have `control_values`."""
    stopped: dict[Path, Holder] = {}
    """The process of each results directory that was interrupted last: a second interrupt would skip the report."""

    def control_values(name: str) -> dict[str, object]:
        index, snapshot = sweep_of(directories, name)
        return _state_values(index.directory, snapshot, stopped.get(index.directory)) | {
            "may_change": token.is_given(),
            "latest": retries.latest(index.directory, RESUMED),
        }

    app.jinja_env.globals["control_values"] = control_values

    @app.get("/sweeps/<name>/control")
    def control(name: str) -> Response:
        return tags.answer(render_template("control.html", name=name))

    def changing(name: str, change: Callable[[Path, Snapshot], None]) -> Response:
        """Change something in a results directory, and show the page of its sweep again."""
        index, snapshot = sweep_of(directories, name)
        try:
            change(index.directory, snapshot)
        except (OwltError, OSError) as problem:
            abort(409, str(problem))
        index.look_soon()
        return redirect(url_for("sweep", name=name, _anchor="control"), 303)

    @app.post("/sweeps/<name>/pause", endpoint="pause")
    def pause_sweep(name: str) -> Response:
        return changing(name, lambda results, _: pause(results))

    @app.post("/sweeps/<name>/resume", endpoint="resume")
    def resume_sweep(name: str) -> Response:
        def change(results: Path, snapshot: Snapshot) -> None:
            resume(results)
            if _may_start(snapshot, results):
                assert snapshot.plan is not None
                with suppress(IsRetrying):  # its process continues now
                    retries.resume(results, snapshot.plan.sweep.most_repetitions)

        return changing(name, change)

    @app.post("/sweeps/<name>/stop", endpoint="stop")
    def stop_sweep(name: str) -> Response:
        def change(results: Path, snapshot: Snapshot) -> None:
            assert snapshot.state is not None
            if snapshot.state.process.holder is None or stopped.get(results) != snapshot.state.process.holder:
                stopped[results] = interrupt_holder(results)

        return changing(name, change)

    @app.post("/sweeps/<name>/note", endpoint="note")
    def note_sweep(name: str) -> Response:
        try:
            return changing(name, lambda results, _: write_note(results, request.form.get("note", "")))
        except Invalid as problem:
            abort(400, f"note: {problem}")


def _state_values(results: Path, snapshot: Snapshot, stopped: Holder | None) -> dict[str, object]:
    """What the panel shows of a sweep, of which the process `stopped` was interrupted last."""
    assert snapshot.state is not None
    process = snapshot.state.process
    return {
        "is_running": process.state == "running",
        "is_paused": snapshot.state.paused_since_s is not None,
        "is_stopped": process.holder is not None and stopped == process.holder,
        "may_start": _may_start(snapshot, results),
        "by_hand": _by_hand(snapshot, results),
        "options": shlex.join(kept_options(results)),
        "note": read_note(results),
        "most_note": MOST_NOTE_CHARACTERS,
    }


def _may_start(snapshot: Snapshot, results: Path) -> bool:
    """Whether the dashboard can resume a sweep that no process performs: it needs no inventory."""
    assert snapshot.state is not None
    return snapshot.state.rig != LAB_RIG and _is_left(snapshot, results)


def _by_hand(snapshot: Snapshot, results: Path) -> str:
    """The command with which a user resumes a sweep on a lab rig; "" for other rigs, and if nothing is left."""
    assert snapshot.state is not None and snapshot.plan is not None
    if snapshot.state.rig != LAB_RIG or not _is_left(snapshot, results):
        return ""
    number = str(snapshot.plan.sweep.most_repetitions)
    return lab_command("extend", results, "--to", number, *kept_options(results))


def _is_left(snapshot: Snapshot, results: Path) -> bool:
    """Whether the latest start of a sweep ended before all of its runs had."""
    state, plan = snapshot.state, snapshot.plan
    assert state is not None
    left = {run.run_id for run in state.runs if run.is_left}
    if plan is None or state.process.state not in ("ended", "killed") or not left:
        return False
    try:
        selection = selected_by(plan, kept_options(results))
    except MistakeError:
        return False
    return selection is None or bool(left & selection.run_ids)
