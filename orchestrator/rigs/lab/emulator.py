"""The emulator of a lab rig: a service that others can reach, leased to one engineer at a time.

The leases that `owlt rig lease` took for this user are in files, in which later commands find them.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import math
import os
import socket
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from owlt.emulator.faults import EmulatorError, LeaseLost
from owlt.emulator.service.access import read_token
from owlt.emulator.service.client import EmulatorClient, Transport
from owlt.inputs.mistake import Mistake
from owlt.installation import cache_directory
from owlt.orchestrator.errors import Missing
from owlt.orchestrator.profiles.inventory import EmulatorEntry


@dataclass(frozen=True)
class Reservation:
    """A lease of the emulator at `service` until `until_s`, in s since 1970. `lease` is its secret id."""

    service: str
    lease: str
    until_s: float

    @property
    def seconds_left(self) -> float:
        """How long it lasts, at least a tenth of a second."""
        return max(self.until_s - time.time(), 0.1)


def read_reservation(service: str) -> Reservation | None:
    """This user's reservation of a service; None: there is none, or it is over."""
    try:
        reservation = Reservation(**json.loads(_place(service).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return reservation if reservation.until_s > time.time() else None


def write_reservation(reservation: Reservation) -> None:
    """Keep it, readable for this user only."""
    place = _place(reservation.service)
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    place.unlink(missing_ok=True)
    with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(reservation), file)


def forget_reservation(service: str) -> None:
    """Remove it."""
    _place(service).unlink(missing_ok=True)


def _place(service: str) -> Path:
    return cache_directory() / "leases" / hashlib.sha256(service.encode()).hexdigest()[:16]


class LabEmulator(EmulatorClient):
    """A client whose lease names the engineer, and is that of `owlt rig lease` if this user has one.

    Without a reservation no lease is longer than `longest_s`, because its holder renews it regularly.
    """

    def __init__(self, entry: EmulatorEntry, transport: Transport | None = None, longest_s: float = math.inf) -> None:
        token = token_of(entry)
        self._service = entry.service
        self._longest_s = longest_s
        try:
            super().__init__(entry.service, token=token, ca_file=entry.service_ca, transport=transport)
        except OSError as problem:  # ssl.SSLError is one
            fix = "copy the certificate from the emulator; 'owlt rig provision' does"
            wrong = f"{entry.service_ca}: {problem.strerror or problem}"
            raise Missing(Mistake.of("owlt_service_ca", wrong, fix=fix)) from None

    def lease(self, holder: str, seconds: float) -> str:
        """Take the lease, or go on with the one that this client has or that was reserved."""
        if self._lease is not None:
            self.renew(seconds)
            return self._lease
        reserved = self.adopt_reserved()
        if reserved is not None:
            with suppress(LeaseLost):
                self.renew(seconds)
                return reserved
            self._lease = None
        return super().lease(f"{engineer()}: {holder}", min(seconds, self._longest_s))

    def adopt_reserved(self) -> str | None:
        """Let further calls carry the lease that was reserved, and return it; None if there is none: take none."""
        reserved = read_reservation(self._service)
        if reserved is None:
            return None
        self.adopt(reserved.lease)
        return reserved.lease

    def reserve(self, seconds: float) -> None:
        """Keep the rig for this user until so long from now, also if that is sooner than before."""
        lease = self._lease or self.adopt_reserved()  # with a lease of its own, one that was reserved has ended
        if lease is not None:
            try:
                super().renew(seconds)
            except LeaseLost:
                lease = self._lease = None
        if lease is None:
            lease = self.lease("owlt rig lease", seconds)
        write_reservation(Reservation(self._service, lease, time.time() + seconds))

    def renew(self, seconds: float) -> None:
        """Let the lease end so many seconds from now, but not before the end of the reservation."""
        super().renew(max(min(seconds, self._longest_s), self._reserved_s()))

    def give_back(self) -> None:
        """Clear the channel; end the lease, unless it is reserved for longer."""
        if self._lease is None:
            return
        left_s = self._reserved_s()
        with suppress(EmulatorError):
            if left_s > 0:
                self.clear()
                self.renew(left_s)
            else:
                self.release()

    def _reserved_s(self) -> float:
        """For how long the lease of this client is reserved; `owlt rig lease` may change it at any time."""
        reserved = read_reservation(self._service)
        return reserved.seconds_left if reserved is not None and reserved.lease == self._lease else 0.0


def engineer() -> str:
    """Who leases a rig: USER@MACHINE, as the others see it."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def token_of(entry: EmulatorEntry) -> str:
    """The token of the service. Raises Missing."""
    try:
        return read_token(entry.token_file)
    except OSError as problem:
        fix = "copy the token from the emulator into a file that only you can read (chmod 600)"
        raise Missing(
            Mistake.of("owlt_service_token_file", f"{entry.token_file}: {problem.strerror}", fix=fix)
        ) from None
    except ValueError as problem:
        raise Missing(Mistake.of("owlt_service_token_file", str(problem))) from None
