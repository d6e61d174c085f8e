"""One aioquic connection as an endpoint drives it: received datagrams, timers, datagrams to send, how it ended; and
what a client and a server do with it, for any application. aioquic's configuration of either side from the settings,
the receiver's certificate, and the logs that it may keep, stand first. Key and certificate are made from the seed
alone, so that runs repeat; they do not authenticate anything.

aioquic 1.7, and what is done about it here: once it is closed it neither sends nor receives anything, but RFC 9000
section 10.2.1 requires the CONNECTION_CLOSE again for a peer that missed it. It is kept and retransmitted here.
"""

from __future__ import annotations

import hashlib
import math
import ssl
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, QuicEvent
from aioquic.quic.logger import QuicFileLogger
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import Certificate, CertificateBuilder, Name, NameAttribute
from cryptography.x509.oid import NameOID

from owlt.agents.endpoint.exit import Failed
from owlt.agents.quic.settings import NO_LOG, SMALLEST_DATAGRAM_BYTES, Settings

BEGINS, ENDS = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


Key = Ed25519PrivateKey | EllipticCurvePrivateKey


def identity(seed: int, application: str = "push") -> tuple[Certificate, Key]:
    """Certificate and key of the server: Ed25519, whose signatures have a fixed length and need no random numbers (RFC
    8032). Over HTTP/3 it is NIST P-256, because not every client of others offers Ed25519."""
    secret = hashlib.sha256(f"owlt {seed}".encode()).digest()
    is_push = application == "push"
    key: Key = (
        Ed25519PrivateKey.from_private_bytes(secret)
        if is_push
        else derive_private_key(int.from_bytes(secret[:-1]), SECP256R1())
    )
    name = Name([NameAttribute(NameOID.COMMON_NAME, "owlt receiver")])
    unsigned = (
        CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(BEGINS)
        .not_valid_after(ENDS)
    )
    return unsigned.sign(key, None if is_push else SHA256()), key


ALPN = {"push": "owlt", "http3": "h3"}


@dataclass(frozen=True)
class Logs:
    """Where the secrets of the connection go, in the format of tshark's tls.keylog_file, and where its qlog."""

    secrets: TextIO | None = None
    qlog_directory: Path | None = None


@contextmanager
def kept_logs(settings: Settings, side: str) -> Iterator[Logs]:
    """The logs that were asked for; `none`, or `-` for standard output. aioquic calls the qlogs of both
    sides alike, so each has a directory.

    Raises:
        OSError: one cannot be written.
    """
    directory = None if settings.qlog_dir == NO_LOG else Path(settings.qlog_dir) / side
    if directory:
        directory.mkdir(parents=True, exist_ok=True)
    if settings.secrets_log in (NO_LOG, "-"):
        yield Logs(sys.stdout if settings.secrets_log == "-" else None, directory)
        return
    with Path(settings.secrets_log).open("a", encoding="ascii") as secrets:
        yield Logs(secrets, directory)


def client_configuration(settings: Settings, logs: Logs) -> QuicConfiguration:
    """A client that accepts any certificate."""
    configuration = _common(settings, logs, is_client=True)
    configuration.verify_mode = ssl.CERT_NONE
    return configuration


def server_configuration(settings: Settings, logs: Logs) -> QuicConfiguration:
    """A server with a certificate of its own."""
    configuration = _common(settings, logs, is_client=False)
    configuration.certificate, configuration.private_key = identity(settings.seed, settings.application)
    return configuration


def _common(settings: Settings, logs: Logs, *, is_client: bool) -> QuicConfiguration:
    return QuicConfiguration(
        is_client=is_client,
        alpn_protocols=[ALPN[settings.application]],
        congestion_control_algorithm=settings.congestion_control,
        idle_timeout=settings.idle_timeout_s,
        initial_rtt=settings.first_rtt_s,
        max_data=settings.window_bytes,
        max_stream_data=settings.window_bytes,
        max_datagram_size=settings.datagram_bytes,
        quic_logger=QuicFileLogger(str(logs.qlog_directory)) if logs.qlog_directory else None,
        secrets_log_file=logs.secrets,
    )


PEER = ("peer", 0)
"""The only address that the engine ever sees: an endpoint talks to nobody else."""

INITIAL_BITS, VERSION_1 = 0xC0, bytes([0, 0, 0, 1])

SHORTEST_ID_BYTES, LONGEST_ID_BYTES = 8, 20
"""The lengths of the destination connection id in a client's first packet (RFC 9000 section 7.2)."""

TIMER_STEP_S = 1e-6
"""How soon a timer may fire again.

When it is called exactly on time, the engine's rounding may place the timer slightly later; on a clock that stands
still during computation, it would then be called again and again, without end.
"""


@dataclass
class Tally:
    """Counts datagrams and bytes of UDP payload each way. Only the engine can read their content."""

    sent_datagrams: int = 0
    sent_bytes: int = 0
    received_datagrams: int = 0
    received_bytes: int = 0
    strange: int = 0
    first_s: float | None = None
    last_s: float = 0.0

    def sent(self, datagram: bytes, now_s: float) -> None:
        self.sent_datagrams += 1
        self.sent_bytes += len(datagram)
        self._note(now_s)

    def received(self, datagram: bytes, now_s: float) -> None:
        self.received_datagrams += 1
        self.received_bytes += len(datagram)
        self._note(now_s)

    def _note(self, now_s: float) -> None:
        self.first_s = now_s if self.first_s is None else self.first_s
        self.last_s = now_s

    def facts(self) -> str:
        """One line: datagrams and bytes each way, datagrams before the connection that did not begin one, first to
        last datagram."""
        return (
            f"sent={self.sent_datagrams} sent_bytes={self.sent_bytes} "
            f"received={self.received_datagrams} received_bytes={self.received_bytes} strange={self.strange} "
            f"duration_s={self.last_s - (self.first_s or 0.0):.6f}"
        )


class Connection:
    """A connection. Calls of its owner on `quic` take effect with the next `collect`."""

    def __init__(self, quic: QuicConnection, tally: Tally) -> None:
        self.quic = quic
        self.closed = False
        self.end: ConnectionTerminated | None = None
        self.wakes_at_s = -math.inf
        self._tally = tally
        self._outgoing: deque[bytes] = deque()
        self._news = True
        self._farewell: list[bytes] = []

    def hear(self, datagram: bytes, now_s: float) -> None:
        """Pass a datagram to the engine. One that cannot be decrypted has no effect."""
        self._tally.received(datagram, now_s)
        if self._farewell:
            self._outgoing.extend(self._farewell)
            return
        self.quic.receive_datagram(datagram, PEER, now_s)
        self._news = True

    def is_due(self, now_s: float) -> bool:
        """Whether the engine has something to do."""
        return self._news or now_s >= self.wakes_at_s

    def events(self, now_s: float) -> Iterator[QuicEvent]:
        """The events since the last call, timers included."""
        if -math.inf < self.wakes_at_s <= now_s:
            self.quic.handle_timer(now_s)
        while (event := self.quic.next_event()) is not None:
            if isinstance(event, ConnectionTerminated):
                self.end = event
            yield event

    def close(self, error_code: int = 0) -> None:
        """Close the connection, with the next `collect` and in answer to every datagram that still arrives."""
        self.quic.close(error_code)
        self.closed = True

    def collect(self, now_s: float) -> None:
        """Take the datagrams that the engine wants to send, and the time of its next timer."""
        datagrams = [datagram for datagram, _ in self.quic.datagrams_to_send(now_s)]
        self._outgoing.extend(datagrams)
        if self.closed and not self._farewell:
            self._farewell = datagrams
        timer_s = self.quic.get_timer()
        self.wakes_at_s = math.inf if timer_s is None else max(timer_s, now_s + TIMER_STEP_S)
        self._news = False

    def __bool__(self) -> bool:
        """Whether there is something to send."""
        return bool(self._outgoing)

    def next(self, now_s: float) -> bytes:
        """The next datagram to send."""
        datagram = self._outgoing.popleft()
        self._tally.sent(datagram, now_s)
        return datagram


def ending(event: ConnectionTerminated) -> str:
    """Why a connection ended, in words."""
    return f"the connection ended ({event.reason_phrase or 'no reason given'}, error 0x{event.error_code:x})"


def accepted(datagram: bytes, configuration: QuicConfiguration, tally: Tally, now_s: float) -> Connection | None:
    """A server's connection, if the datagram begins one and the engine has an answer to it."""
    connection_id = initial_destination(datagram)
    if connection_id is None:
        return None
    quic = QuicConnection(configuration=configuration, original_destination_connection_id=connection_id)
    connection = Connection(quic, tally)
    connection.hear(datagram, now_s)
    if quic.get_peer_address() is None:
        return None
    connection.collect(now_s)
    return connection if connection else None


def initial_destination(datagram: bytes) -> bytes | None:
    """The destination connection id of a client's first packet, an Initial of version 1 (RFC 9000 section 17.2.2); None
    for any other datagram."""
    length = datagram[5] if len(datagram) >= SMALLEST_DATAGRAM_BYTES else 0
    is_initial = datagram[:1] and datagram[0] & 0xF0 == INITIAL_BITS and datagram[1:5] == VERSION_1
    return datagram[6 : 6 + length] if is_initial and SHORTEST_ID_BYTES <= length <= LONGEST_ID_BYTES else None


class Client:
    """The side of a `Party` that connects when it is made."""

    def __init__(self, configuration: QuicConfiguration, now_s: float) -> None:
        self._tally = Tally()
        self._connection = Connection(QuicConnection(configuration=configuration), self._tally)
        self._connection.quic.connect(PEER, now_s)
        self.ended = False
        self.wakes_at_s = now_s

    def hear(self, datagram: bytes, now_s: float) -> None:
        self._connection.hear(datagram, now_s)

    def has_datagram(self) -> bool:
        return bool(self._connection)

    def next_datagram(self, now_s: float) -> bytes:
        return self._connection.next(now_s)

    def facts(self) -> str:
        """The last line of output."""
        return self._tally.facts()


class Server:
    """The side of a `Party` that waits for one connection. Raises from `advance`: Failed: nobody connected."""

    def __init__(self, settings: Settings, configuration: QuicConfiguration, now_s: float) -> None:
        self._settings = settings
        self._configuration = configuration
        self._tally = Tally()
        self._connection: Connection | None = None
        self.ended = False
        self.wakes_at_s = now_s + settings.idle_timeout_s

    def advance(self, now_s: float) -> None:
        if self._connection is None:
            if now_s >= self.wakes_at_s:
                raise Failed(f"no connection for {self._settings.idle_timeout_s} s; {self._tally.facts()}")
            return
        if self._connection.is_due(now_s):
            self._serve(self._connection, now_s)
            self._connection.collect(now_s)
        self.wakes_at_s = self._connection.wakes_at_s
        self.ended = self._connection.end is not None

    def _serve(self, connection: Connection, now_s: float) -> None:
        """Act on the events of the connection, and give it what it has to send."""
        raise NotImplementedError

    def hear(self, datagram: bytes, now_s: float) -> None:
        if self._connection is not None:
            self._connection.hear(datagram, now_s)
            return
        self._connection = accepted(datagram, self._configuration, self._tally, now_s)
        self._tally.strange += self._connection is None

    def has_datagram(self) -> bool:
        return bool(self._connection)

    def next_datagram(self, now_s: float) -> bytes:
        assert self._connection is not None
        return self._connection.next(now_s)

    def facts(self) -> str:
        """The last line of output."""
        return self._tally.facts()
