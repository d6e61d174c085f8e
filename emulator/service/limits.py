"""The limits of the service against misuse: sizes, times and numbers, and the token bucket that limits the rate."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock


@dataclass(frozen=True)
class Limits:
    """What the service accepts."""

    request_bytes: int = 2**24
    """A plain channel takes about 1 kB; an error pattern, a jitter table or a long timeline, many times that. Steps
    with two delays take 420 bytes each, steps with a jitter table 900."""
    request_s: float = 30.0
    """From waiting for the first byte to the last byte of a request; idle connections are closed after it too."""
    at_a_time: int = 16
    """Requests being answered; more wait up to `request_s`."""
    connections: int = 64
    """Further ones are closed at once."""
    requests_per_s: float = 200.0
    burst: int = 400


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
