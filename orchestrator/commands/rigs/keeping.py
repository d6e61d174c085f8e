"""Keeps the lease of a lab rig while playbooks change its hosts, so that nobody else starts a sweep meanwhile.

The lease is in the service's memory: if a playbook restarts the service, it is taken again at the end only if the user
has reserved it. `owlt rig provision` and `remove` also work without a service, or with one that is dead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agents.inputs.mistake import Mistake
from orchestrator.errors import Missing, OwltError

if TYPE_CHECKING:
    from orchestrator.profiles.inventory import LabRig
    from orchestrator.rigs.lab.emulator import LabEmulator

PLAYING_S = 3600.0
"""Longer than a playbook takes."""
STARTING_S = 30.0
"""How long the service may take to answer after it was restarted."""

ClientOf = Callable[["LabRig"], "LabEmulator"]


@dataclass(frozen=True)
class Kept:
    """What is done to a rig, in words: `purpose` for the holder of the lease, `action` for a refusal."""

    purpose: str
    action: str
    needs_service: bool = False
    """A service that does not answer is an error; otherwise it has no lease."""
    removes_service: bool = False
    """There is no lease to return at the end."""


@contextmanager
def kept(rig: LabRig, what: Kept, client_of: ClientOf) -> Iterator[None]:
    """Have the lease meanwhile; then release it, or go on with the user's own. Raises OwltError if it is refused.

    An emulator that the playbooks do not change is not leased.
    """
    lease = _take(rig, what, client_of) if rig.emulator.provision else None
    try:
        yield
    except BaseException:
        if lease is not None:
            with suppress(OwltError):
                _return(rig, lease, client_of, 0.0)
        raise
    if what.removes_service:
        _forget(rig)
    elif lease is not None:
        _return(rig, lease, client_of, STARTING_S)


def _take(rig: LabRig, what: Kept, client_of: ClientOf) -> str | None:
    """The lease; None without a service, or with one that does not accept the token that this user has."""
    from emulator.faults import EmulatorError

    try:
        emulator = client_of(rig)
    except Missing:  # never provisioned from here
        if what.needs_service:
            raise
        return None
    try:
        return emulator.lease(what.purpose, PLAYING_S)
    except EmulatorError as problem:
        _require_not_leased(rig, what, emulator)
        if what.needs_service:
            raise OwltError(Mistake(f"{rig.name} cannot be {what.action}: {problem}")) from problem
        return None


def _require_not_leased(rig: LabRig, what: Kept, emulator: LabEmulator) -> None:
    """Raise OwltError with who has the lease. Nobody has it if the service does not answer."""
    from emulator.faults import EmulatorError

    with suppress(EmulatorError):
        lease = emulator.lease_status()
        if lease["held"]:
            held = f"it is leased to {lease['holder']} for {lease['seconds_left']:.0f} s"
            fix = "wait, or ask them for: owlt rig release"
            raise OwltError(
                Mistake(f"{rig.name} cannot be {what.action}: {held}", "a rig that nobody else has leased", fix)
            )


def _return(rig: LabRig, lease: str, client_of: ClientOf, within_s: float) -> None:
    """End the lease, or go on with the user's own. Raises OwltError if the service does not answer in time."""
    from emulator.faults import EmulatorError
    from orchestrator.rigs.lab.reservations import read_reservation

    reserved = read_reservation(rig.emulator.service)
    emulator = client_of(rig)  # the playbook may have replaced token and certificate
    if reserved is None:
        emulator.adopt(lease)
    try:
        emulator.wait_until_ready(within_s)
        if reserved is None:
            with suppress(EmulatorError):  # a restart has ended the lease
                emulator.release()
        else:
            emulator.reserve(reserved.seconds_left)
    except EmulatorError as problem:
        raise OwltError(Mistake(f"{rig.name}: {problem}", fix="collect the logs: owlt rig collect")) from problem


def _forget(rig: LabRig) -> None:
    from orchestrator.rigs.lab.reservations import forget_reservation

    forget_reservation(rig.emulator.service)
