"""The application: its pages, its protection, and what all templates share."""

from __future__ import annotations

import secrets
from collections.abc import Collection

from flask import Flask, Response, render_template, send_file
from jinja2 import StrictUndefined
from werkzeug.exceptions import HTTPException

from owlt.orchestrator.dashboard.emulator_page import EmulatorWatch, add_emulator_page
from owlt.orchestrator.dashboard.index import LEVELS, Directories
from owlt.orchestrator.dashboard.packet_views import AnalysisProcesses, PacketViews, list_missing, lists_in
from owlt.orchestrator.dashboard.protection import Token, protect
from owlt.orchestrator.dashboard.retrying import Retries, add_retry_pages
from owlt.orchestrator.dashboard.run_pages import add_run_pages
from owlt.orchestrator.dashboard.sweep_pages import Tags, add_file_pages, add_sweep_pages
from owlt.reports.comparison.metrics import METRICS
from owlt.reports.looks import SERIES, Looks
from owlt.reports.rendering import TEMPLATES
from owlt.reports.results.channels import channel_head
from owlt.reports.units import measured_text, number_text

POLL_S = 3


def new_app(
    directories: Directories,
    views: PacketViews,
    names: Collection[str] = (),
    emulator: EmulatorWatch | None = None,
    token: Token | None = None,
    retries: Retries | None = None,
    lists: PacketViews | None = None,
) -> Flask:
    """The dashboard of these results directories, for requests to these names of the server.

    `emulator` has a panel. Those who have the `token` change its channel and perform runs again; None: nobody does.
    `lists` are the packets that did not arrive, of runs whose pages were opened.
    """
    app = Flask("owlt.orchestrator.dashboard")
    app.jinja_env.undefined = StrictUndefined
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters |= {
        "series": _series,
        "looks": _looks,
        "measured": measured_text,
        "number": number_text,
        "channel": channel_head,
    }
    app.jinja_env.globals |= {"poll_s": POLL_S, "levels": LEVELS, "metrics": METRICS}
    app.jinja_env.globals["has_emulator"] = emulator is not None
    protect(app, names)
    tags = Tags()
    add_sweep_pages(app, directories, tags)
    add_run_pages(app, directories, views, lists or lists_in(views.keep, AnalysisProcesses(list_missing)))
    add_file_pages(app, directories)
    token = token or Token(secrets.token_urlsafe())
    token.protect(app)
    app.jinja_env.globals["has_token"] = token.is_given
    add_retry_pages(app, directories, retries or Retries(views.keep), token)
    if emulator is not None:
        add_emulator_page(app, emulator, tags, token)

    @app.errorhandler(HTTPException)
    def show_problem(problem: HTTPException) -> tuple[str, int]:
        return render_template("problem.html", problem=problem), problem.code or 500

    @app.get("/static/report.css")
    def report_css() -> Response:
        return send_file(TEMPLATES / "report.css", mimetype="text/css")

    return app


def _series(number: int) -> str:
    """The class of an implementation's colour."""
    return f"series-{number % len(SERIES)}"


def _looks(number: int) -> str:
    """The classes of an implementation's mark: its colour and its shape."""
    return f"{_series(number)} shape-{Looks(number).shape}"
