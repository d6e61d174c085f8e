"""The leases that `owlt rig lease` took for this user: the file that later commands find them in."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from owlt.installation import cache_directory


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
