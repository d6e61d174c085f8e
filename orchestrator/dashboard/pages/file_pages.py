"""Files of a results directory: those of runs, certificates, and the report, whose links lead to the others.

No script of a file runs. The page of a report has scripts: only those that owlt itself writes are allowed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from flask import Flask, abort, make_response, request, send_file
from werkzeug.wrappers import Response
from werkzeug.wsgi import wrap_file

from owlt.captures.files.plain_files import NotPlain, as_file_name, open_plain
from owlt.orchestrator.dashboard.pages.protection import FILE_POLICY, report_policy
from owlt.orchestrator.dashboard.pages.snapshots import directory_of, sweep_of
from owlt.orchestrator.dashboard.sweeps.directories import Directories
from owlt.orchestrator.results.certificates import DIRECTORY_NAME as CERTIFICATES
from owlt.reports.page.parts import SCRIPT, is_script, page_script

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
