"""The receiver's side: a server for one connection, which stores the data of its first stream and answers with the
SHA-256 of the stored data."""

import hashlib
from pathlib import Path
from typing import BinaryIO

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, QuicEvent, StreamDataReceived, StreamReset

from owlt.agents.endpoint.exit import Failed
from owlt.agents.quic.line import Line, accepted, ending
from owlt.agents.quic.settings import Settings
from owlt.agents.quic.tally import Tally

FILE_STREAM = 0
"""The first bidirectional stream that a client opens (RFC 9000 section 2.1)."""


class Receiving:
    """A `Party` that receives one file into `output`, which appears when it is complete. Raises from `advance`: Failed:
    nobody connected, or the connection ended before the file was complete.
    """

    def __init__(
        self, output: Path, store: BinaryIO, settings: Settings, configuration: QuicConfiguration, now_s: float
    ) -> None:
        """`store` is an open file beside `output`."""
        self._output = output
        self._store = store
        self._settings = settings
        self._configuration = configuration
        self._tally = Tally()
        self._line: Line | None = None
        self._digest = hashlib.sha256()
        self._whole = False
        self.ended = False
        self.wakes_at_s = now_s + settings.idle_timeout_s

    def advance(self, now_s: float) -> None:
        if self._line is None:
            if now_s >= self.wakes_at_s:
                raise Failed(f"no connection for {self._settings.idle_timeout_s} s; {self._tally.facts()}")
            return
        if self._line.is_due(now_s):
            for event in self._line.events(now_s):
                self._act(self._line, event)
            self._line.collect(now_s)
        self.wakes_at_s = self._line.wakes_at_s
        self.ended = self._line.end is not None

    def hear(self, datagram: bytes, now_s: float) -> None:
        if self._line is not None:
            self._line.hear(datagram, now_s)
            return
        self._line = accepted(datagram, self._configuration, self._tally, now_s)
        self._tally.strange += self._line is None

    def has_datagram(self) -> bool:
        return bool(self._line)

    def next_datagram(self, now_s: float) -> bytes:
        assert self._line is not None
        return self._line.next(now_s)

    def facts(self) -> str:
        """The last line of output."""
        return self._tally.facts()

    def _act(self, line: Line, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived) and event.stream_id == FILE_STREAM and not self._whole:
            self._store.write(event.data)
            self._digest.update(event.data)
            if event.end_stream:
                self._keep(line)
        elif isinstance(event, StreamReset):
            raise Failed(f"the sender reset its stream; {self._tally.facts()}")
        elif isinstance(event, ConnectionTerminated) and not self._whole:
            raise Failed(f"{ending(event)} before the file was complete; {self._tally.facts()}")

    def _keep(self, line: Line) -> None:
        self._store.close()
        Path(self._store.name).replace(self._output)
        self._whole = True
        line.quic.send_stream_data(FILE_STREAM, self._digest.digest(), end_stream=True)
