"""The file over HTTP/3 (RFC 9114) instead of a stream of its own, so that programs of others can be the other side: the
sender is a server for one client, the receiver a client that fetches the file."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from aioquic.h3.connection import ErrorCode, H3Connection
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated

from owlt.agents.endpoint.exit import Failed
from owlt.agents.quic.connection import Client, Connection, Server, Tally, ending
from owlt.agents.quic.push import CHUNK_BYTES
from owlt.agents.quic.settings import Settings


class _Http3:
    """HTTP/3 on a connection, once the handshake has chosen it."""

    _http: H3Connection | None = None
    _tally: Tally

    def _events(self, connection: Connection, now_s: float) -> list[H3Event]:
        """The events of HTTP/3. Raises Failed if the connection ended and the file is not delivered."""
        found: list[H3Event] = []
        for event in connection.events(now_s):
            if isinstance(event, ProtocolNegotiated):
                self._http = H3Connection(connection.quic)
            if isinstance(event, ConnectionTerminated) and not self._is_done(event):
                raise Failed(f"{ending(event)} before the file was complete; {self._tally.facts()}")
            if self._http is not None:
                found += self._http.handle_event(event)
        return found

    def _is_done(self, event: ConnectionTerminated) -> bool:
        raise NotImplementedError


class Serving(_Http3, Server):
    """A `Party`: the server with the file. Raises from `advance`: Failed: nobody connected, or the client did not end
    the connection without an error."""

    def __init__(self, file: BinaryIO, settings: Settings, configuration: QuicConfiguration, now_s: float) -> None:
        super().__init__(settings, configuration, now_s)
        self._file = file
        self._stream_id: int | None = None
        self._written_bytes = 0
        self._all_written = False

    def _serve(self, connection: Connection, now_s: float) -> None:
        for event in self._events(connection, now_s):
            if isinstance(event, HeadersReceived) and self._stream_id is None:
                self._answer(event.stream_id)
        self._feed(connection)

    def _answer(self, stream_id: int) -> None:
        assert self._http is not None
        self._stream_id = stream_id
        length = self._file.seek(0, 2)
        self._file.seek(0)
        self._http.send_headers(stream_id, [(b":status", b"200"), (b"content-length", str(length).encode())])

    def _feed(self, connection: Connection) -> None:
        """Keep the engine supplied with data, without the complete file in memory."""
        while self._http and self._stream_id is not None and not self._all_written:
            sent_bytes = connection.quic._streams[self._stream_id].sender.highest_offset
            if self._written_bytes - sent_bytes >= CHUNK_BYTES:
                return
            chunk = self._file.read(CHUNK_BYTES)
            self._all_written = len(chunk) < CHUNK_BYTES
            self._http.send_data(self._stream_id, chunk, end_stream=self._all_written)
            self._written_bytes += len(chunk)

    def _is_done(self, event: ConnectionTerminated) -> bool:
        return self._all_written and event.error_code in (0, ErrorCode.H3_NO_ERROR)


class Fetching(_Http3, Client):
    """A `Party`: the client, which stores the file in `output`, which appears when it is complete. Raises from
    `advance`: Failed: the connection ended before, or the server has no such file."""

    def __init__(
        self, output: Path, store: BinaryIO, settings: Settings, configuration: QuicConfiguration, now_s: float
    ) -> None:
        """`store` is an open file beside `output`."""
        super().__init__(configuration, now_s)
        self._name = settings.wanted
        self._output = output
        self._store = store
        self._is_whole = False

    def advance(self, now_s: float) -> None:
        if self._connection.is_due(now_s):
            is_new = self._http is None
            events = self._events(self._connection, now_s)
            if is_new and self._http is not None:
                self._request(self._connection, self._http)
            for event in events:
                self._act(self._connection, event)
            self._connection.collect(now_s)
        self.wakes_at_s = self._connection.wakes_at_s
        self.ended = self._connection.end is not None

    def _request(self, connection: Connection, http: H3Connection) -> None:
        path = f"/{self._name}".encode()
        fields = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"owlt"), (b":path", path)]
        http.send_headers(connection.quic.get_next_available_stream_id(), fields, end_stream=True)

    def _act(self, connection: Connection, event: H3Event) -> None:
        if isinstance(event, HeadersReceived) and dict(event.headers).get(b":status") != b"200":
            raise Failed(
                f"the server has no {self._name}: {dict(event.headers).get(b':status')!r}; {self._tally.facts()}"
            )
        if isinstance(event, DataReceived):
            self._store.write(event.data)
        if isinstance(event, HeadersReceived | DataReceived) and event.stream_ended:
            self._store.close()
            Path(self._store.name).replace(self._output)
            self._is_whole = True
            connection.close(ErrorCode.H3_NO_ERROR)

    def _is_done(self, event: ConnectionTerminated) -> bool:
        return self._is_whole
