"""The file over HTTP/3 (RFC 9114) instead of a stream of its own, so that programs of others can be the other side: the
sender is a server for one client, the receiver a client that fetches the file."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from aioquic.h3.connection import ErrorCode, H3Connection
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated

from owlt.agents.endpoint.exit import Failed
from owlt.agents.quic.line import PEER, Line, accepted, ending
from owlt.agents.quic.sending import CHUNK_BYTES
from owlt.agents.quic.settings import Settings
from owlt.agents.quic.tally import Tally


class _Side:
    """What both sides share: a connection with HTTP/3 on it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tally = Tally()
        self._line: Line | None = None
        self._http: H3Connection | None = None
        self.ended = False
        self.wakes_at_s = -1.0

    def has_datagram(self) -> bool:
        return bool(self._line)

    def next_datagram(self, now_s: float) -> bytes:
        assert self._line is not None
        return self._line.next(now_s)

    def facts(self) -> str:
        """The last line of output."""
        return self._tally.facts()

    def _events(self, line: Line, now_s: float) -> list[H3Event]:
        """The events of HTTP/3. Raises Failed if the connection ended and the file is not delivered."""
        found: list[H3Event] = []
        for event in line.events(now_s):
            if isinstance(event, ProtocolNegotiated):
                self._http = H3Connection(line.quic)
            if isinstance(event, ConnectionTerminated) and not self._is_done(event):
                raise Failed(f"{ending(event)} before the file was complete; {self._tally.facts()}")
            if self._http is not None:
                found += self._http.handle_event(event)
        return found

    def _is_done(self, event: ConnectionTerminated) -> bool:
        raise NotImplementedError


class Serving(_Side):
    """A `Party`: the server with the file. Raises from `advance`: Failed: nobody connected, or the client did not end
    the connection without an error."""

    def __init__(self, file: BinaryIO, settings: Settings, configuration: QuicConfiguration, now_s: float) -> None:
        super().__init__(settings)
        self._file = file
        self._configuration = configuration
        self._stream_id: int | None = None
        self._written_bytes = 0
        self._all_written = False
        self.wakes_at_s = now_s + settings.idle_timeout_s

    def advance(self, now_s: float) -> None:
        if self._line is None:
            if now_s >= self.wakes_at_s:
                raise Failed(f"no connection for {self._settings.idle_timeout_s} s; {self._tally.facts()}")
            return
        if self._line.is_due(now_s):
            for event in self._events(self._line, now_s):
                if isinstance(event, HeadersReceived) and self._stream_id is None:
                    self._answer(event.stream_id)
            self._feed(self._line)
            self._line.collect(now_s)
        self.wakes_at_s = self._line.wakes_at_s
        self.ended = self._line.end is not None

    def hear(self, datagram: bytes, now_s: float) -> None:
        if self._line is not None:
            self._line.hear(datagram, now_s)
            return
        self._line = accepted(datagram, self._configuration, self._tally, now_s)
        self._tally.strange += self._line is None

    def _answer(self, stream_id: int) -> None:
        assert self._http is not None
        self._stream_id = stream_id
        length = self._file.seek(0, 2)
        self._file.seek(0)
        self._http.send_headers(stream_id, [(b":status", b"200"), (b"content-length", str(length).encode())])

    def _feed(self, line: Line) -> None:
        """Keep the engine supplied with data, without the complete file in memory."""
        while self._http and self._stream_id is not None and not self._all_written:
            sent_bytes = line.quic._streams[self._stream_id].sender.highest_offset
            if self._written_bytes - sent_bytes >= CHUNK_BYTES:
                return
            chunk = self._file.read(CHUNK_BYTES)
            self._all_written = len(chunk) < CHUNK_BYTES
            self._http.send_data(self._stream_id, chunk, end_stream=self._all_written)
            self._written_bytes += len(chunk)

    def _is_done(self, event: ConnectionTerminated) -> bool:
        return self._all_written and event.error_code in (0, ErrorCode.H3_NO_ERROR)


class Fetching(_Side):
    """A `Party`: the client, which stores the file in `output`, which appears when it is complete. Raises from
    `advance`: Failed: the connection ended before, or the server has no such file."""

    def __init__(
        self,
        name: str,
        output: Path,
        store: BinaryIO,
        settings: Settings,
        configuration: QuicConfiguration,
        now_s: float,
    ) -> None:
        """`store` is an open file beside `output`."""
        super().__init__(settings)
        self._name = name
        self._output = output
        self._store = store
        self._is_whole = False
        self._line = Line(QuicConnection(configuration=configuration), self._tally)
        self._line.quic.connect(PEER, now_s)
        self.wakes_at_s = now_s

    def advance(self, now_s: float) -> None:
        assert self._line is not None
        if self._line.is_due(now_s):
            is_new = self._http is None
            events = self._events(self._line, now_s)
            if is_new and self._http is not None:
                self._request(self._line, self._http)
            for event in events:
                self._act(self._line, event)
            self._line.collect(now_s)
        self.wakes_at_s = self._line.wakes_at_s
        self.ended = self._line.end is not None

    def hear(self, datagram: bytes, now_s: float) -> None:
        assert self._line is not None
        self._line.hear(datagram, now_s)

    def _request(self, line: Line, http: H3Connection) -> None:
        path = f"/{self._name}".encode()
        fields = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"owlt"), (b":path", path)]
        http.send_headers(line.quic.get_next_available_stream_id(), fields, end_stream=True)

    def _act(self, line: Line, event: H3Event) -> None:
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
            line.close(ErrorCode.H3_NO_ERROR)

    def _is_done(self, event: ConnectionTerminated) -> bool:
        return self._is_whole
