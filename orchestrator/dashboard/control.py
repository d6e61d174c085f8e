"""Those who have the token control a sweep from its pages: runs performed again, more repetitions, pause, resume, stop,
and a note that is kept with the sweep.

Runs are performed by `owlt retry` and `owlt extend` in a process of its own, one for each results directory. The
process continues when the dashboard ends, and holds the lock of the results directory like any other sweep. A pause is
a file in the results directory, and a stop is what Ctrl-C does to its `owlt run`. A sweep that was stopped is resumed
by `owlt extend` without further repetitions, with the selection of its latest start.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flask import Flask, abort, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from owlt.inputs.mistake import Invalid, MistakeError, OwltError
from owlt.orchestrator.dashboard.index import Directories, Snapshot
from owlt.orchestrator.dashboard.protection import Token
from owlt.orchestrator.dashboard.sweep_pages import Tags, directory_of, sweep_of
from owlt.orchestrator.ending import INTERRUPTED_STATUS
from owlt.orchestrator.planning.selection import selected_by
from owlt.results.lock import Holder, interrupt_holder
from owlt.results.operator import MOST_NOTE_CHARACTERS, kept_options, pause, read_note, resume, write_note

LAST_LINES = 5
Command = Callable[[Path, str, bool], Sequence[str]]
"""The command for a results directory, a run, and whether the run has another seed."""


def owlt_retry(results: Path, run_id: str, new_seed: bool) -> list[str]:
    """`owlt retry RESULTS --run RUN`."""
    owlt = Path(sys.executable).with_name("owlt")
    return [str(owlt), "-q", "retry", str(results), "--run", run_id, *(["--new-seed"] if new_seed else [])]


def owlt_extend(results: Path) -> list[str]:
    """`owlt extend RESULTS`, which adds five repetitions."""
    return [str(Path(sys.executable).with_name("owlt")), "-q", "extend", str(results)]


def owlt_resume(results: Path, repetitions: int) -> list[str]:
    """`owlt extend RESULTS --to REPETITIONS`, which performs what is missing of what the latest start had selected."""
    return [*owlt_extend(results), "--to", str(repetitions), *kept_options(results)]


def lab_command(subcommand: str, results: Path, *options: str) -> str:
    """The command that a user types for runs on a lab rig, with a placeholder for the inventory."""
    return f"{shlex.join(['owlt', subcommand, str(results), *options])} --rig INVENTORY"


MORE_REPETITIONS, RESUMED = "", "(resumed)"
"""Take the place of a run: repetitions are added to the sweep, or it is resumed."""


class IsRetrying(Exception):
    """A retry in the same results directory has not ended; the text is its run."""

    @property
    def words(self) -> str:
        """What has not ended, in words."""
        if str(self) == RESUMED:
            return "the sweep is being resumed"
        return f"{self} is being performed again" if str(self) else "repetitions are being added to the sweep"


@dataclass(frozen=True)
class Retry:
    """A retry that was started from a page."""

    run_id: str
    process: subprocess.Popen[bytes]
    errors: Path
    """What it writes on standard error."""

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    @property
    def problem(self) -> str:
        """The last lines that it wrote, if it was refused; "" if it runs, or performed the run with any outcome."""
        if self.is_running or self.process.returncode in RESULT_STATUSES:
            return ""
        lines = self.errors.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return "\n".join(lines).removeprefix("owlt: ") or f"it ended with status {self.process.returncode}"


RESULT_STATUSES = (0, 1, 3, 4, INTERRUPTED_STATUS)
"""Exit statuses of `owlt retry` that are results: all completed, some are missing, some failed, an assertion is not
met; or it was stopped."""
LAB_RIG = "lab"
"""The rig whose runs need an inventory (`--rig`), which the results do not name: a user performs them again."""


class Retries:
    """The latest retry in each results directory. `keep` is the directory for what the processes write."""

    def __init__(
        self,
        keep: Path,
        command: Command = owlt_retry,
        more: Callable[[Path], Sequence[str]] = owlt_extend,
        missing: Callable[[Path, int], Sequence[str]] = owlt_resume,
    ) -> None:
        self._more = more
        self._missing = missing
        self._keep = keep
        self._number = 0
        self._command = command
        self._latest: dict[Path, Retry] = {}
        self._lock = threading.Lock()

    def latest(self, results: Path, run_id: str) -> Retry | None:
        """The latest retry there, if it is of this run."""
        retry = self._latest.get(results)
        return retry if retry is not None and retry.run_id == run_id else None

    def start(self, results: Path, run_id: str, new_seed: bool) -> None:
        """Perform a run again. Raises IsRetrying, OSError."""
        self._start(results, run_id, self._command(results, run_id, new_seed))

    def extend(self, results: Path) -> None:
        """Add repetitions to the sweep. Raises IsRetrying, OSError."""
        self._start(results, MORE_REPETITIONS, self._more(results))

    def resume(self, results: Path, repetitions: int) -> None:
        """Perform what is missing of a sweep with so many repetitions. Raises IsRetrying, OSError."""
        self._start(results, RESUMED, self._missing(results, repetitions))

    def _start(self, results: Path, run_id: str, command: Sequence[str]) -> None:
        with self._lock:
            before = self._latest.get(results)
            if before is not None and before.is_running:
                raise IsRetrying(before.run_id)
            self._number += 1
            errors = self._keep / f"retry-{self._number}.err"
            with errors.open("wb") as file:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=file,
                    start_new_session=True,
                )
            self._latest[results] = Retry(run_id, process, errors)


def add_retry_pages(app: Flask, directories: Directories, retries: Retries, token: Token) -> None:
    """Add those that perform runs to the application; templates have `retry_values` and `extend_values`."""

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


def add_control_pages(app: Flask, directories: Directories, retries: Retries, token: Token, tags: Tags) -> None:
    """Add pause, resume, stop and the note to the application; templates have `control_values`."""
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
        "by_hand": _resumed_by_hand(snapshot, results),
        "options": shlex.join(kept_options(results)),
        "note": read_note(results),
        "most_note": MOST_NOTE_CHARACTERS,
    }


def _may_start(snapshot: Snapshot, results: Path) -> bool:
    """Whether the dashboard can resume a sweep that no process performs: it needs no inventory."""
    assert snapshot.state is not None
    return snapshot.state.rig != LAB_RIG and _is_left(snapshot, results)


def _resumed_by_hand(snapshot: Snapshot, results: Path) -> str:
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
