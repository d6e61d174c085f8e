"""A stream with the file: the client pushes it, and closes the connection once the server has confirmed all of it with
the SHA-256 of what it stored."""

import hashlib
from pathlib import Path
from typing import BinaryIO

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, QuicEvent, StreamDataReceived, StreamReset

from owlt.agents.endpoint.exit import Failed
from owlt.agents.quic.connection import Client, Connection, Server, ending
from owlt.agents.quic.settings import Settings

CHUNK_BYTES = 1 << 20
"""How much unsent data of the file is kept in the engine: more than it sends in one call."""

LONGEST_ANSWER_BYTES = 64
"""How much of the receiver's answer is kept: a SHA-256, and enough to see that it is not one."""


FILE_STREAM = 0
"""The first bidirectional stream that a client opens (RFC 9000 section 2.1)."""


class Sending(Client):
    """A `Party` that sends one file and stays until the receiver has certainly received its last answer.

    Raises from `advance`:
        Failed: the connection ended before the receiver had confirmed the file.
    """

    def __init__(self, file: BinaryIO, settings: Settings, configuration: QuicConfiguration, now_s: float) -> None:
        super().__init__(configuration, now_s)
        self._file = file
        self._all_written = False
        self._settings = settings
        self._stream_id = self._connection.quic.get_next_available_stream_id()
        self._digest = hashlib.sha256()
        self._connected = False
        self._written_bytes = 0
        self._answer = b""
        self._quiet_since_s = now_s

    def advance(self, now_s: float) -> None:
        if self._connection.is_due(now_s):
            for event in self._connection.events(now_s):
                self._act(event)
            self._feed()
            self._connection.collect(now_s)
        self.wakes_at_s = self._connection.wakes_at_s
        if self._connection.end is not None:
            self._linger(now_s)

    def hear(self, datagram: bytes, now_s: float) -> None:
        self._quiet_since_s = now_s
        super().hear(datagram, now_s)

    def facts(self) -> str:
        """The last line of output. Raises Failed when the receiver has stored another file."""
        if self._answer != self._digest.digest():
            raise Failed(f"the receiver has stored other data; {self._tally.facts()}")
        return self._tally.facts()

    def _act(self, event: QuicEvent) -> None:
        if isinstance(event, HandshakeCompleted):
            self._connected = True
        elif isinstance(event, StreamDataReceived) and event.stream_id == self._stream_id:
            self._answer = (self._answer + event.data)[:LONGEST_ANSWER_BYTES]
            if event.end_stream:
                self._connection.close()
        elif isinstance(event, ConnectionTerminated) and not self._connection.closed:
            raise Failed(f"{ending(event)} before the receiver had confirmed the file; {self._tally.facts()}")

    def _feed(self) -> None:
        """Keep the engine supplied with data, without the complete file in memory."""
        while self._connected and not self._all_written and self._unsent_bytes() < CHUNK_BYTES:
            chunk = self._file.read(CHUNK_BYTES)
            self._all_written = len(chunk) < CHUNK_BYTES
            self._connection.quic.send_stream_data(self._stream_id, chunk, end_stream=self._all_written)
            self._digest.update(chunk)
            self._written_bytes += len(chunk)

    def _unsent_bytes(self) -> int:
        if self._written_bytes == 0:
            return 0
        # the engine does not say how much of a stream waits to be sent
        return self._written_bytes - self._connection.quic._streams[self._stream_id].sender.highest_offset

    def _linger(self, now_s: float) -> None:
        """The engine has ended; a peer that missed its CONNECTION_CLOSE is still answered."""
        stays_until_s = self._quiet_since_s + self._settings.linger_s
        self.wakes_at_s = stays_until_s
        self.ended = now_s >= stays_until_s


class Receiving(Server):
    """A `Party` that receives one file into `output`, which appears when it is complete. Raises from `advance`: Failed:
    nobody connected, or the connection ended before the file was complete.
    """

    def __init__(
        self, output: Path, store: BinaryIO, settings: Settings, configuration: QuicConfiguration, now_s: float
    ) -> None:
        """`store` is an open file beside `output`."""
        super().__init__(settings, configuration, now_s)
        self._output = output
        self._store = store
        self._digest = hashlib.sha256()
        self._whole = False

    def _serve(self, connection: Connection, now_s: float) -> None:
        for event in connection.events(now_s):
            self._act(connection, event)

    def _act(self, connection: Connection, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived) and event.stream_id == FILE_STREAM and not self._whole:
            self._store.write(event.data)
            self._digest.update(event.data)
            if event.end_stream:
                self._keep(connection)
        elif isinstance(event, StreamReset):
            raise Failed(f"the sender reset its stream; {self._tally.facts()}")
        elif isinstance(event, ConnectionTerminated) and not self._whole:
            raise Failed(f"{ending(event)} before the file was complete; {self._tally.facts()}")

    def _keep(self, connection: Connection) -> None:
        self._store.close()
        Path(self._store.name).replace(self._output)
        self._whole = True
        connection.quic.send_stream_data(FILE_STREAM, self._digest.digest(), end_stream=True)
