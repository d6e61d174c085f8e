"""The application: its pages, its protection, what all templates share; and the server, waitress, until an interrupt.

Answers are short, so that no page holds a thread.
"""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from flask import Flask, Response, render_template, send_file
from jinja2 import StrictUndefined
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher
from werkzeug.exceptions import HTTPException

from owlt.emulator.service.client import EmulatorClient
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.dashboard.child_processes import (
    LONGEST_LIST_S,
    AnalysisProcesses,
    Answers,
    PacketViews,
    list_missing,
    lists_in,
)
from owlt.orchestrator.dashboard.control import Retries, add_control_pages, add_retry_pages
from owlt.orchestrator.dashboard.emulator_page import EmulatorWatch, add_emulator_page
from owlt.orchestrator.dashboard.index import LEVELS, SHOWN_METRICS, Directories
from owlt.orchestrator.dashboard.protection import Token, protect
from owlt.orchestrator.dashboard.run_pages import add_run_pages
from owlt.orchestrator.dashboard.sweep_pages import Tags, add_file_pages, add_sweep_pages
from owlt.orchestrator.ending import ended_by_signals
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.own_directories import process_directory
from owlt.reports.comparison.metrics import TIME_TO_DELIVERY
from owlt.reports.looks import SERIES, Looks
from owlt.reports.rendering import TEMPLATES, CompiledTemplates
from owlt.reports.results.channels import channel_head
from owlt.reports.units import measured_text, number_text

POLL_S = 3


@dataclass(frozen=True)
class Background:
    """What pages start beside the server, and show once it is there: `views` are complete analyses of runs, `lists` the
    packets that did not arrive. Without `answers`, pages have none."""

    views: PacketViews
    lists: PacketViews
    retries: Retries
    answers: Answers | None = None

    @classmethod
    def of(
        cls,
        views: PacketViews,
        lists: PacketViews | None = None,
        retries: Retries | None = None,
        answers: Answers | None = None,
    ) -> Background:
        """Those that are not given have their files in the directory of the views."""
        return cls(
            views,
            lists or lists_in(views.keep, AnalysisProcesses(list_missing)),
            retries or Retries(views.keep),
            answers,
        )


def new_app(
    directories: Directories,
    background: Background,
    names: Collection[str] = (),
    emulator: EmulatorWatch | None = None,
    token: Token | None = None,
) -> Flask:
    """The dashboard of these results directories, for requests to these names of the server.

    `emulator` has a panel. Those who have the `token` change its channel and perform runs again; None: nobody does.
    """
    app = Flask("owlt.orchestrator.dashboard")
    app.jinja_env.undefined = StrictUndefined
    app.jinja_env.bytecode_cache = CompiledTemplates()
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters |= {
        "series": _series,
        "looks": _looks,
        "measured": measured_text,
        "number": number_text,
        "seconds": TIME_TO_DELIVERY.quantity_text,
        "channel": channel_head,
    }
    app.jinja_env.globals |= {"poll_s": POLL_S, "levels": LEVELS, "metrics": SHOWN_METRICS}
    app.jinja_env.globals["has_emulator"] = emulator is not None
    protect(app, names)
    tags = Tags()
    add_sweep_pages(app, directories, tags, background.answers)
    add_run_pages(app, directories, background.views, background.lists)
    add_file_pages(app, directories)
    token = token or Token(secrets.token_urlsafe())
    token.protect(app)
    app.jinja_env.globals["has_token"] = token.is_given
    add_retry_pages(app, directories, background.retries, token)
    add_control_pages(app, directories, background.retries, token, tags)
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


THREADS = 6
CONNECTIONS = 400
"""The most open connections. A further one replaces the oldest without a request in progress."""
LONGEST_REQUEST_BYTES = 64 * 1024


def serve(
    results: Sequence[Path],
    address: tuple[str, int],
    names: Collection[str],
    emulator: EmulatorClient | None,
    started: Callable[[str, str], None],
) -> None:
    """Serve the dashboard of results directories, and of an emulator, until an interrupt.

    `started` is called with its URL, and with the URL that has the token. Raises OwltError if a directory is missing or
    the address is not free.
    """
    host, port = address
    token = secrets.token_urlsafe()
    directories = Directories(results)
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # it warns when two requests come at once
    with (
        ended_by_signals(),
        process_directory("dashboard") as keep,
        closing(AnalysisProcesses()) as analyse,
        closing(AnalysisProcesses(list_missing, LONGEST_LIST_S)) as list_packets,
        closing(Answers()) as answers,
    ):
        watch = EmulatorWatch(emulator) if emulator else None
        background = Background.of(PacketViews(keep, analyse), lists_in(keep, list_packets), answers=answers)
        app = new_app(directories, background, names, watch, Token(token))
        try:
            server = _server(app, host, port)
        except OSError as problem:
            raise OwltError(
                Mistake(
                    f"{host}:{port}: cannot be served ({problem.strerror})",
                    fix="choose another port with --port, or 0 for any that is free",
                )
            ) from problem
        url = _url(host, server.effective_port)
        started(url, f"{url}?token={token}")
        server.run()


class _Server(TcpWSGIServer):  # type: ignore[misc]
    """Closes the oldest connections if there are too many, or if all threads wait for clients that do not read their
    answers, so that slow clients cannot block the dashboard.
    """

    def readable(self) -> bool:
        """Called before each wait for events."""
        channels = sorted(self.active_channels.values(), key=lambda channel: channel.creation_time)
        without_request = [channel for channel in channels if not (channel.requests or channel.will_close)]
        waited_for = [channel for channel in channels if channel.requests and _is_full(channel)]
        for channel in without_request[: max(len(channels) - CONNECTIONS + 1, 0)]:
            _end(channel)
        for channel in waited_for[: max(len(waited_for) - THREADS + 1, 0)]:
            _end(channel)
        return bool(super().readable())


def _is_full(channel: HTTPChannel) -> bool:
    """Whether the thread of an answer waits until the client has read a part of it."""
    return bool(channel.total_outbufs_len > channel.adj.outbuf_high_watermark)


def _end(channel: HTTPChannel) -> None:
    channel.will_close = True
    with suppress(OSError):  # otherwise a full socket stays open until the client reads
        channel.socket.shutdown(socket.SHUT_RDWR)


def _server(app: Flask, host: str, port: int) -> _Server:
    """Raises OSError if the address is not free."""
    settings = Adjustments(
        host=host,
        port=port,
        connection_limit=2 * CONNECTIONS,
        max_request_body_size=LONGEST_REQUEST_BYTES,
        ident=None,
        asyncore_use_poll=True,  # select(2) ends the server at the descriptor 1024
        clear_untrusted_proxy_headers=True,
    )
    dispatcher = ThreadedTaskDispatcher()
    dispatcher.set_thread_count(THREADS)
    return _Server(app, {}, dispatcher=dispatcher, adj=settings, sockinfo=settings.listen[0])


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
