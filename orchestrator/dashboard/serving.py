"""Serves the dashboard with waitress until it is interrupted. Answers are short, so that no page holds a thread."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from pathlib import Path

from flask import Flask
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

from owlt.emulator.service.client import EmulatorClient
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.dashboard.app import new_app
from owlt.orchestrator.dashboard.emulator_page import EmulatorWatch
from owlt.orchestrator.dashboard.index import Directories
from owlt.orchestrator.dashboard.packet_views import (
    LONGEST_LIST_S,
    AnalysisProcesses,
    PacketViews,
    list_missing,
    lists_in,
)
from owlt.orchestrator.dashboard.protection import Token
from owlt.orchestrator.ending import ended_by_signals
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.own_directories import process_directory

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
    ):
        watch = EmulatorWatch(emulator) if emulator else None
        lists = lists_in(keep, list_packets)
        app = new_app(directories, PacketViews(keep, analyse), names, watch, Token(token), lists=lists)
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
