"""Who may change the channel: a client that sends the service's token, a secret in a file, and holds the lease while
there is one.

The token is sent with each HTTP request, as `Authorization: Bearer TOKEN`, or Basic with any user name and the token as
password, so that http://owlt:TOKEN@HOST works as a URL in any client (RFC 6750 section 2.1, RFC 7617).

A lease is exclusive access. A client that was killed cannot clear its channel. If it held a lease, the channel is
cleared when the lease is not renewed in time, so that an abandoned test path carries packets unimpaired again.
`LeaseBook` has the rules, with the time from its clock; `LeaseKeeper` has the threads.
"""

import binascii
import hmac
import logging
import os
import secrets
import stat
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from email.message import Message
from pathlib import Path
from threading import Condition, Thread
from typing import Any

from owlt.emulator.faults import EmulatorError, InvalidLease, LeaseHeld, LeaseLost, NotAllowed
from owlt.inputs.mistake import Mistake

LEASE_HEADER = "X-Owlt-Lease"
API = 3
"""The version of the methods: counts up with each that is new, and with each change that breaks older clients."""
SHORTEST_TOKEN = 16
_LONGEST_TOKEN = 1000
_NEW_TOKEN = "python3 -c 'import secrets; print(secrets.token_hex())'"


@dataclass(frozen=True)
class Credentials:
    """The token and the lease that a request carries; None if it carries none."""

    token: str | None = None
    lease: str | None = None


def read_token(path: Path) -> str:
    """Return the token in a file. Raises ValueError if others may read the file, or if it has no token, and OSError."""
    with path.open(encoding="utf-8", errors="replace") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        token = file.read(_LONGEST_TOKEN + 2).strip()
    if mode & (stat.S_IRWXG | stat.S_IRWXO) and not _guarded_by_systemd(path):
        raise ValueError(
            f"token file {path}: others may read it (mode {mode:04o}); expected a file that only its owner can read: "
            f"chmod 600 {path}, and write a new token to it if others may have read it"
        )
    if not SHORTEST_TOKEN <= len(token) <= _LONGEST_TOKEN or not _goes_in_a_header(token):
        raise ValueError(
            f"token file {path}: expected one line of {SHORTEST_TOKEN} to {_LONGEST_TOKEN} ASCII characters without "
            f"spaces, got {len(token)} characters: {_NEW_TOKEN} > {path}"
        )
    return token


def credentials_of(headers: Message) -> Credentials:
    """Return the credentials in the headers of a request."""
    return Credentials(_token_of(headers.get("Authorization", "")), headers.get(LEASE_HEADER))


def check_token(expected: str | None, sent: str | None) -> None:
    """Raise NotAllowed unless the token is the expected one, or none is expected. Takes equally long for any token."""
    if expected is None:
        return
    if sent is None:
        raise NotAllowed(Mistake.of("token", "got none", "that of the service", "send 'Authorization: Bearer TOKEN'"))
    if not hmac.compare_digest(expected.encode(), sent.encode(errors="replace")):
        raise NotAllowed(Mistake.of("token", "got a wrong one", "that of the service, which is in its --token-file"))


def _token_of(authorization: str) -> str | None:
    scheme, _, value = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return b64decode(value.strip(), validate=True).decode("utf-8", "replace").partition(":")[2]
        except (binascii.Error, ValueError):
            return None
    return None


def _goes_in_a_header(token: str) -> bool:
    return token.isascii() and token.isprintable() and " " not in token


def _guarded_by_systemd(path: Path) -> bool:
    """LoadCredential may give the file an access list, whose mask shows as the group's bits; the directory is the
    service's alone (systemd.exec(5)).
    """
    directory = os.environ.get("CREDENTIALS_DIRECTORY")
    return directory is not None and path.parent == Path(directory)


SHORTEST_LEASE_S = 0.1
LONGEST_LEASE_S = 60 * 24 * 3600.0
"""Runs over propagation delays of 20 minutes may last a month of virtual time."""
LONGEST_NAME = 100
LONGEST_WAIT_S = 5.0
"""How long a client that wants the lease waits for an earlier client's call to end."""
CLEAR_AGAIN_S = (1.0, 60.0)
"""The pause before a channel that could not be cleared is cleared again doubles from the first to the second."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Lease:
    """`holder` has exclusive access until `end_s`, on the book's clock."""

    id: str
    holder: str
    end_s: float


class LeaseBook:
    """One lease at a time. `clock` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.lease: Lease | None = None

    def grant(self, holder: object, seconds: object) -> Lease:
        """Grant a lease. Raises InvalidLease, or LeaseHeld, which names the holder and the time left."""
        name, length_s = _checked_name(holder), _checked_length(seconds)
        if self.lease is not None:
            raise LeaseHeld(
                Mistake.of("lease", self._holder_text(), fix="wait until it ends, or ask the holder to release it")
            )
        self.lease = Lease(secrets.token_hex(8), name, self._clock() + length_s)
        return self.lease

    def renew(self, id: object, seconds: object) -> Lease:
        """Let a lease end so many seconds from now. Raises InvalidLease or LeaseLost."""
        length_s = _checked_length(seconds)
        self.lease = replace(self.held(id), end_s=self._clock() + length_s)
        return self.lease

    def release(self, id: object) -> Lease:
        """End a lease and return it. Raises LeaseLost."""
        lease = self.held(id)
        self.lease = None
        return lease

    def held(self, id: object) -> Lease:
        """Return the lease of this id; LeaseLost if there is none."""
        if self.lease is None or not isinstance(id, str) or not _same(id, self.lease.id):
            raise LeaseLost(
                Mistake.of(
                    "lease",
                    f"got {id!r:.50}, which is unknown or has ended ({self._holder_text()})",
                    fix="take a new one",
                )
            )
        return self.lease

    def check(self, id: str | None) -> None:
        """Accept a call with the lease, and one without while there is none. Raises LeaseLost or LeaseHeld."""
        if id is not None:
            self.held(id)
        elif self.lease is not None:
            raise LeaseHeld(
                Mistake.of("lease", self._holder_text(), fix="wait until it ends, or send its id if it is yours")
            )

    def expired(self) -> Lease | None:
        """End the lease if its time is over, and return it."""
        lease = self.lease
        if lease is None or self._clock() < lease.end_s:
            return None
        self.lease = None
        return lease

    @property
    def seconds_left(self) -> float | None:
        """How long the lease will last; None: there is none."""
        return None if self.lease is None else max(self.lease.end_s - self._clock(), 0.0)

    def status(self) -> dict[str, Any]:
        """Return `held`, `holder` ("" if none) and `seconds_left` (0 if none)."""
        held = self.lease
        return {
            "held": held is not None,
            "holder": "" if held is None else held.holder,
            "seconds_left": self.seconds_left or 0.0,
        }

    def overdue_s(self, lease: Lease) -> float:
        """How long ago a lease should have been renewed."""
        return self._clock() - lease.end_s

    def _holder_text(self) -> str:
        return (
            "no client holds one"
            if self.lease is None
            else f"{self.lease.holder} holds it for {self.seconds_left:.1f} s"
        )


class LeaseKeeper:
    """A lease book for many threads, and a thread that clears the channel when a lease ends.

    The thread sleeps until the lease expires, or until there is one. Until it has cleared the channel, and while a call
    of an ended lease still runs, no other client changes anything. `wait` waits on a condition for so many
    seconds of `clock`, or until it is notified.
    """

    def __init__(
        self,
        clear: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
        clear_again_s: tuple[float, float] = CLEAR_AGAIN_S,
        wait: Callable[[Condition, float | None], object] = Condition.wait,
    ) -> None:
        self._clear = clear
        self._clear_again_s = clear_again_s
        self._wait = wait
        self._book = LeaseBook(clock)
        self._changed = Condition()
        self._running: list[str | None] = []
        """The lease that each call under way carries."""
        self._endings = 0
        self._cleared_endings = 0
        Thread(target=self._watch, name="lease", daemon=True).start()

    def lease(self, holder: str, seconds: float) -> dict[str, Any]:
        """Get exclusive access for so many seconds; return the `lease`, an id, and the `seconds`.

        Calls that change something must then carry the id, in the HTTP header X-Owlt-Lease. If the lease is not renewed
        or released in time, the channel is cleared. `holder` is the name that other clients see. Fault 5 if another
        client holds the lease, 9 if the name is empty or the time is not from 0.1 s to 60 days.
        """
        with self._changed:
            self._wait_for_those_before(lambda: self._current is None and bool(self._running))
            lease = self._book.grant(holder, seconds)
            self._changed.notify_all()
        log.info("leased to %s for %g s", lease.holder, seconds)
        return {"lease": lease.id, "seconds": float(seconds)}

    def renew(self, lease: str, seconds: float) -> dict[str, Any]:
        """Make the lease end so many seconds from now; return what `lease` does. Fault 6 if it has ended."""
        with self._changed:
            self._expire()
            renewed = self._book.renew(lease, seconds)
            self._changed.notify_all()
        return {"lease": renewed.id, "seconds": float(seconds)}

    def release(self, lease: str) -> bool:
        """End the lease and clear the channel. Return true. Fault 6 if it has ended."""
        with self._changed:
            self._expire()
            log.info("released by %s: clearing the channel", self._book.release(lease).holder)
            self._have_cleared()
        return True

    def lease_status(self) -> dict[str, Any]:
        """Return whether the lease is `held`, its `holder` and the `seconds_left` until it ends."""
        with self._changed:
            self._expire()
            return self._book.status()

    @contextmanager
    def changing(self, lease: str | None) -> Iterator[None]:
        """Let a call change something that carries the lease, or that carries none while there is none.

        Raises LeaseHeld or LeaseLost. If the lease ends before the call, what it changed is cleared: LeaseLost.
        """
        with self._changed:
            self._wait_for_those_before(lambda: False)
            self._book.check(lease)
            self._running.append(lease)
        try:
            yield
        finally:
            with self._changed:
                self._expire()
                self._running.remove(lease)
                self._changed.notify_all()
                lost = lease != self._current
                if lost:
                    self._have_cleared()
        if lost:
            problem = f"{lease} ended before the call did; what it changed is cleared"
            raise LeaseLost(Mistake.of("lease", problem, fix="take a new one"))

    @property
    def _current(self) -> str | None:
        return None if self._book.lease is None else self._book.lease.id

    def _wait_for_those_before(self, also: Callable[[], bool]) -> None:
        """Wait until all that an ended lease changed is cleared, its calls are over, and `also` no longer holds."""

        def settled() -> bool:
            self._expire()
            stale = any(lease != self._current for lease in self._running)
            return self._cleared_endings == self._endings and not stale and not also()

        if not self._changed.wait_for(settled, LONGEST_WAIT_S):
            problem = "an earlier call is still running or being cleared"
            raise LeaseHeld(Mistake.of("lease", problem, fix="try again when it is over"))

    def _expire(self) -> None:
        """End a lease whose time is over."""
        lease = self._book.expired()
        if lease is not None:
            overdue_ms = self._book.overdue_s(lease) * 1000
            log.warning("lease of %s not renewed, %.0f ms overdue: clearing the channel", lease.holder, overdue_ms)
            self._endings += 1
            self._changed.notify_all()

    def _have_cleared(self) -> None:
        """Wait until the thread has cleared the channel. Raises EmulatorError if it cannot."""
        self._endings += 1
        ending = self._endings
        self._changed.notify_all()
        if not self._changed.wait_for(lambda: self._cleared_endings >= ending, LONGEST_WAIT_S):
            problem = "the channel could not be cleared yet; the service continues trying"
            raise EmulatorError(Mistake.of("lease", problem, fix="see its log"))

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._expire()
                if self._cleared_endings == self._endings:
                    self._wait(self._changed, self._book.seconds_left)
                    continue
                ending = self._endings
            self._clear_at_last()
            with self._changed:
                self._cleared_endings = ending
                self._changed.notify_all()

    def _clear_at_last(self) -> None:
        pause_s, longest_pause_s = self._clear_again_s
        while True:
            try:
                self._clear()
                return
            except Exception:
                log.exception("the channel could not be cleared; trying again in %g s", pause_s)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, longest_pause_s)


def _same(id: str, other: str) -> bool:
    return hmac.compare_digest(id.encode(errors="replace"), other.encode())


def _checked_name(holder: object) -> str:
    if not isinstance(holder, str) or not 0 < len(holder) <= LONGEST_NAME or not holder.isprintable():
        expected = f"a name of 1 to {LONGEST_NAME} printable characters"
        raise InvalidLease(Mistake.of("holder", f"got {holder!r:.120}", expected))
    return holder


def _checked_length(seconds: object) -> float:
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not SHORTEST_LEASE_S <= seconds <= LONGEST_LEASE_S:  # type: ignore[operator]
        expected = f"a number from {SHORTEST_LEASE_S:g} to {LONGEST_LEASE_S:.0f}"
        fix = "renew the lease when half of it is over"
        raise InvalidLease(Mistake.of("seconds", f"got {seconds!r:.50}", expected, fix))
    return float(seconds)  # type: ignore[arg-type]
