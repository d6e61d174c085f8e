"""The limits of the service against misuse: sizes, times and numbers, and the token bucket that limits the rate."""

import contextlib
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any


@dataclass(frozen=True)
class Limits:
    """What the service accepts."""

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
