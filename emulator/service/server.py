"""The emulator over HTTP or HTTPS: which requests are accepted, how many, and the answers to wrong ones.

Requests are not trusted: `Limits` bounds their size, time and number, and each ends in an answer, a fault with a stable
code (`faults`) or an HTTP error. Reading them, and who may call what, belong to `methods`.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import math
import socket
import ssl
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BufferedReader, RawIOBase
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from threading import BoundedSemaphore, Lock
from typing import Any

from owlt.emulator.service.access import Credentials, LeaseKeeper, credentials_of
from owlt.emulator.service.emulator import Emulator
from owlt.emulator.service.methods import Methods


@dataclass(frozen=True)
class Limits:
    """The limits of the service."""

    request_bytes: int = 2**24
    """A plain channel takes about 1 kB; an error pattern, a jitter table or a long timeline, many times that. Steps
    with two delays take 420 bytes each, steps with a jitter table 900."""
    request_bytes_without_token: int = 2**16
    """The largest request without the token in its header; calls that only read need 1 kB."""
    header_bytes: int = 2**15
    large_at_a_time: int = 2
    """Requests longer than `request_bytes_without_token` that are read and answered; more wait up to `request_s`.
    The values of a request take about four times its memory."""
    request_s: float = 30.0
    """From waiting for the first byte to the last byte of a request; idle connections are closed after it too."""
    at_a_time: int = 16
    """Requests being answered; more wait up to `request_s`."""
    connections: int = 64
    """A further one replaces the one that has waited longest for its request; without any, it is closed."""
    requests_per_s: float = 200.0
    burst: int = 400


class Connections:
    """The open connections, at most `most`. A further one replaces the one that has waited longest for its request.

    So slow clients cannot block the service. A connection is identified by the client's address.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._waiting: dict[Any, socket.socket] = {}
        """In the order in which they began to wait."""
        self._answered: dict[Any, socket.socket] = {}

    def admit(self, client: Any, connection: socket.socket) -> bool:
        """Admit a new connection, and close another one if necessary; False if there is no place."""
        with self._lock:
            if len(self._waiting) + len(self._answered) >= self._most:
                if not self._waiting:
                    return False
                longest = self._waiting.pop(next(iter(self._waiting)))
                with contextlib.suppress(OSError):  # it has ended by itself
                    socket.socket.shutdown(longest, socket.SHUT_RDWR)  # of TLS too, without a TLS message
            self._waiting[client] = connection
        return True

    def replace(self, client: Any, channel: socket.socket) -> bool:
        """Register the TLS socket that replaces a client's socket, whose descriptor is gone; False if the connection
        was closed already."""
        with self._lock:
            if client not in self._waiting:
                return False
            self._waiting[client] = channel
        return True

    def wait(self, client: Any) -> None:
        """Record that the connection waits for a request."""
        self._move(client, self._answered, self._waiting)

    def answer(self, client: Any) -> None:
        """Record that a client has sent a request, or a header with the token: it stays open until the answer."""
        self._move(client, self._waiting, self._answered)

    def end(self, client: Any) -> None:
        """Forget it."""
        with self._lock:
            self._waiting.pop(client, None)
            self._answered.pop(client, None)

    def _move(self, client: Any, origin: dict[Any, socket.socket], to: dict[Any, socket.socket]) -> None:
        with self._lock:
            if (connection := origin.pop(client, None)) is not None:
                to[client] = connection


class TokenBucket:
    """Lets `burst` pass at once and `rate_per_s` in the long run. `clock` gives seconds that never go back."""

    def __init__(self, rate_per_s: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._clock = clock
        self._full_at_s = clock()
        self._lock = Lock()

    def wait_s(self) -> float:
        """Take one and return 0, or take none and return how long until there is one."""
        with self._lock:
            now_s = self._clock()
            full_at_s = max(self._full_at_s, now_s) + 1 / self._rate_per_s
            wait_s = full_at_s - now_s - self._burst / self._rate_per_s
            if wait_s > 1e-9:
                return wait_s
            self._full_at_s = full_at_s
            return 0.0


_PATHS = ("/", "/RPC2")
_LINGER_S = 1.0

log = logging.getLogger(__name__)


def parse_listen_address(text: str) -> tuple[str, int]:
    """Return host and port of "ADDRESS:PORT" (an IPv6 address in brackets).

    Raises ValueError unless the address is loopback, private or link-local: everybody who can reach the service sees
    the channel, and can keep the service busy.
    """
    host, separator, port = text.rpartition(":")
    expected = "expected ADDRESS:PORT, as in 127.0.0.1:8765 or [::1]:8765"
    if not separator or not port.isdecimal() or not 0 <= int(port) < 2**16:
        raise ValueError(f"--listen: got {text!r}, {expected}")
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        address = getattr(address, "ipv4_mapped", None) or address
    except ValueError:
        raise ValueError(f"--listen: {host!r} is not an IP address, {expected}") from None
    if address.is_unspecified or not (address.is_loopback or address.is_private or address.is_link_local):
        raise ValueError(
            f"--listen: got {address}, expected a loopback address or the management interface's, because anyone who "
            "can reach the service can keep it busy"
        )
    return str(address), int(port)


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the TLS settings of a server with this certificate (chain included): TLS 1.2 or later. Raises OSError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


class EmulatorServer(ThreadingMixIn, TCPServer):
    """Serves an emulator, its lease and introspection at an address, which it binds at once; OSError if it cannot.

    With a `token`, calls that change something need it. With `tls`, it serves HTTPS.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        emulator: Emulator,
        host: str,
        port: int,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.limits = limits or Limits()
        self.methods = Methods(emulator, LeaseKeeper(emulator.clear), token)
        self.places = BoundedSemaphore(self.limits.at_a_time)
        self.bucket = TokenBucket(self.limits.requests_per_s, self.limits.burst)
        self.large_places = BoundedSemaphore(self.limits.large_at_a_time)
        self.connections = Connections(self.limits.connections)
        self._tls = tls
        super().__init__((host, port), _Connection)

    @property
    def address(self) -> str:
        """Where it listens, as ADDRESS:PORT; port 0 has become the one that the kernel chose."""
        host, port = self.socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def serve(self) -> None:
        """Answer requests until the process ends. `serve_forever` would wake twice in each second of virtual time."""
        while True:
            self.handle_request()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, unless there are too many."""
        if not self.connections.admit(client_address, request):
            log.warning("connection from %s turned away: %d are open", client_address[0], self.limits.connections)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.connections.end(client_address)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.end(client_address)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Shake hands, in this connection's own thread, and answer its requests."""
        if self._tls is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(self.limits.request_s)
        with self._tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False) as channel:
            if self.connections.replace(client_address, channel):
                channel.do_handshake()
                super().finish_request(channel, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log unexpected errors; other connections are served. Broken connections are normal and not logged."""
        if not isinstance(sys.exception(), OSError):
            log.exception("connection from %s", client_address[0])


class _Connection(BaseHTTPRequestHandler):
    """The requests of one connection, one after the other."""

    protocol_version = "HTTP/1.1"
    server: EmulatorServer
    wbufsize = -1
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self._reader = _TimedReader(self.connection)
        self.rfile = BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        limits = self.server.limits
        self._reader.end_s, self._reader.left_bytes = time.monotonic() + limits.request_s, limits.header_bytes
        self.server.connections.wait(self.client_address)
        super().handle_one_request()

    def do_POST(self) -> None:
        lengths = self.headers.get_all("Content-Length", [])
        length = lengths[0] if lengths else ""
        if len(lengths) > 1:
            self._refuse(HTTPStatus.BAD_REQUEST, "Expected one Content-Length", last=True)
            return
        if not (length.isascii() and length.isdecimal()) or "Transfer-Encoding" in self.headers:
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "Expected a Content-Length", last=True)
            return
        limits, methods, credentials = self.server.limits, self.server.methods, credentials_of(self.headers)
        number, knows_token = int(length) if len(length) <= 9 else 10**9, methods.knows(credentials)
        self._keep_if_trusted()
        if number > limits.request_bytes:
            expected = f"Expected at most {limits.request_bytes} bytes"
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, expected, last=True)
        elif number <= limits.request_bytes_without_token:
            self._take(number, credentials)
        elif not knows_token:
            self._send_last(
                HTTPStatus.OK, "text/xml", methods.too_long(limits.request_bytes_without_token, credentials)
            )
        elif not self.server.large_places.acquire(timeout=limits.request_s):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "Busy with other long requests", retry_after_s=1, last=True)
        else:
            try:
                self._take(number, credentials)
            finally:
                self.server.large_places.release()

    def handle_expect_100(self) -> bool:
        self._keep_if_trusted()
        is_expected = super().handle_expect_100()
        self.wfile.flush()  # otherwise client and service would wait for each other
        return is_expected

    def _keep_if_trusted(self) -> None:
        """Keep the connection of a request with the token open while the request is sent."""
        if self.server.methods.has_token and self.server.methods.knows(credentials_of(self.headers)):
            self.server.connections.answer(self.client_address)

    def _take(self, length: int, credentials: Credentials) -> None:
        """Read and answer a request, or refuse it."""
        self._reader.left_bytes = length
        body = self.rfile.read(length)
        self.server.connections.answer(self.client_address)
        refusal = self._refusal()
        if refusal is not None:
            self._refuse(*refusal)
            return
        wait_s = self.server.bucket.wait_s()
        if wait_s:
            self._refuse(HTTPStatus.TOO_MANY_REQUESTS, "Expected fewer requests a second", retry_after_s=wait_s)
        elif not self.server.places.acquire(timeout=self.server.limits.request_s):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "Busy with other requests", retry_after_s=1)
        else:
            try:
                answer = self.server.methods.answer(body, credentials)
            finally:
                self.server.places.release()
            self._send(HTTPStatus.OK, "text/xml", answer)

    def _refusal(self) -> tuple[HTTPStatus, str] | None:
        """Among the rest: a page in a browser can post to us, but not as text/xml unless we had allowed it first."""
        if self.path not in _PATHS:
            return HTTPStatus.NOT_FOUND, f"Expected one of {', '.join(_PATHS)}"
        if self.headers.get("Content-Encoding", "identity") != "identity":
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Expected an uncompressed body"
        if self.headers.get_content_type() != "text/xml":
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Expected Content-Type: text/xml"
        return None

    def _refuse(
        self, status: HTTPStatus, reason: str, *, retry_after_s: float | None = None, last: bool = False
    ) -> None:
        headers = {} if retry_after_s is None else {"Retry-After": str(math.ceil(retry_after_s))}
        send = self._send_last if last else self._send
        send(status, "text/plain", f"{reason}\n".encode(), headers)

    def _send(self, status: HTTPStatus, kind: str, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.connection.settimeout(self.server.limits.request_s)
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def _send_last(self, status: HTTPStatus, kind: str, content: bytes, headers: dict[str, str] | None = None) -> None:
        """Send an answer and close the connection, after discarding what the client still sends for a while: closing
        with unread bytes would reset the connection and lose the answer.
        """
        self.close_connection = True
        self._send(status, kind, content, headers)
        self.wfile.flush()
        self._reader.end_s = time.monotonic() + _LINGER_S
        self._reader.left_bytes = 4 * self.server.limits.request_bytes
        with contextlib.suppress(OSError):
            while self.rfile.read1(2**16):
                pass

    def log_message(self, format: str, *args: Any) -> None:
        """Log neither successes nor a sender's mistakes: requests that are not trusted would fill the log."""


class _TimedReader(RawIOBase):
    """Reads bytes from a socket until a deadline, even if they arrive slowly, and at most a given number."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.end_s = math.inf
        self.left_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self.end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("too slow")
        if self.left_bytes <= 0:
            raise TimeoutError("too long")
        self._connection.settimeout(left_s)
        count = self._connection.recv_into(memoryview(buffer)[: self.left_bytes])
        self.left_bytes -= count
        return count
