"""The sender's side: a client that pushes one file and closes the connection once the receiver has it all."""

import hashlib
from typing import BinaryIO

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, QuicEvent, StreamDataReceived

from owlt.agents.endpoint.exit import Failed
from owlt.agents.quic.line import PEER, Line, ending
from owlt.agents.quic.settings import Settings
from owlt.agents.quic.tally import Tally

CHUNK_BYTES = 1 << 20
"""How much unsent data of the file is kept in the engine: more than it sends in one call."""

LONGEST_ANSWER_BYTES = 64
"""How much of the receiver's answer is kept: a SHA-256, and enough to see that it is not one."""


class Sending:
    """A `Party` that sends one file and stays until the receiver has certainly received its last answer.

    Raises from `advance`:
        Failed: the connection ended before the receiver had confirmed the file.
    """

    def __init__(self, file: BinaryIO, settings: Settings, configuration: QuicConfiguration, now_s: float) -> None:
        self._file = file
        self._all_written = False
        self._settings = settings
        self._tally = Tally()
        self._line = Line(QuicConnection(configuration=configuration), self._tally)
        self._line.quic.connect(PEER, now_s)
        self._stream_id = self._line.quic.get_next_available_stream_id()
        self._digest = hashlib.sha256()
        self._connected = False
        self._written_bytes = 0
        self._answer = b""
        self._quiet_since_s = now_s
        self.ended = False
        self.wakes_at_s = now_s

    def advance(self, now_s: float) -> None:
        if self._line.is_due(now_s):
            for event in self._line.events(now_s):
                self._act(event)
            self._feed()
            self._line.collect(now_s)
        self.wakes_at_s = self._line.wakes_at_s
        if self._line.end is not None:
            self._linger(now_s)

    def hear(self, datagram: bytes, now_s: float) -> None:
        self._quiet_since_s = now_s
        self._line.hear(datagram, now_s)

    def has_datagram(self) -> bool:
        return bool(self._line)

    def next_datagram(self, now_s: float) -> bytes:
        return self._line.next(now_s)

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
                self._line.close()
        elif isinstance(event, ConnectionTerminated) and not self._line.closed:
            raise Failed(f"{ending(event)} before the receiver had confirmed the file; {self._tally.facts()}")

    def _feed(self) -> None:
        """Keep the engine supplied with data, without the complete file in memory."""
        while self._connected and not self._all_written and self._unsent_bytes() < CHUNK_BYTES:
            chunk = self._file.read(CHUNK_BYTES)
            self._all_written = len(chunk) < CHUNK_BYTES
            self._line.quic.send_stream_data(self._stream_id, chunk, end_stream=self._all_written)
            self._digest.update(chunk)
            self._written_bytes += len(chunk)

    def _unsent_bytes(self) -> int:
        if self._written_bytes == 0:
            return 0
        # the engine does not say how much of a stream waits to be sent
        return self._written_bytes - self._line.quic._streams[self._stream_id].sender.highest_offset

    def _linger(self, now_s: float) -> None:
        """The engine has ended; a peer that missed its CONNECTION_CLOSE is still answered."""
        stays_until_s = self._quiet_since_s + self._settings.linger_s
        self.wakes_at_s = stays_until_s
        self.ended = now_s >= stays_until_s
