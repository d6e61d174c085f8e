"""The emulator of a lab rig: a service that others can reach, leased to one engineer at a time."""

from __future__ import annotations

import getpass
import math
import socket
import time
from contextlib import suppress

from owlt.emulator.faults import EmulatorError, LeaseLost
from owlt.emulator.service.access import read_token
from owlt.emulator.service.client import EmulatorClient, Transport
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import Missing
from owlt.orchestrator.profiles.inventory import EmulatorEntry
from owlt.orchestrator.rigs.lab.reservations import Reservation, read_reservation, write_reservation


class LabEmulator(EmulatorClient):
    """A client whose lease names the engineer, and is that of `owlt rig lease` if this user has one.

    Without a reservation no lease lasts longer than `longest_s`, for whoever renews it regularly.
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
