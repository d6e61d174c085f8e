"""Holds the lease of a lab rig while playbooks change its hosts, so that nobody else starts a sweep meanwhile.

The lease is short and renewed: a command that is killed does not block the rig for long. The service has it in memory,
so a playbook that restarts the service ends it; it is taken again as soon as the service answers. `owlt rig provision`
and `remove` also work without a service, or with one that is dead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agents.inputs.mistake import Mistake
from orchestrator.errors import Missing, OwltError

if TYPE_CHECKING:
    from orchestrator.profiles.inventory import LabRig
    from orchestrator.rigs.lab.emulator import LabEmulator

RENEWALS = 3
"""In the length of a lease."""
STARTING_S = 30.0
"""How long the service may take to answer after it was restarted."""
ANSWERING_S = 10.0
"""How long it may take to answer after a playbook that failed."""

ClientOf = Callable[["LabRig"], "LabEmulator"]


@dataclass(frozen=True)
class Change:
    """What is done to a rig, in words: `purpose` for the holder of the lease, `action` for a refusal."""

    purpose: str
    action: str
    needs_service: bool = False
    """A service that does not answer is an error; otherwise it has no lease."""
    removes_service: bool = False
    """There is no lease to return at the end."""


@contextmanager
def leased(rig: LabRig, change: Change, client_of: ClientOf) -> Iterator[None]:
    """Hold the lease during the block; then release it, or keep the user's own reservation.

    Raises OwltError if it is refused.
    """
    lease = _Lease(rig, change, client_of)
    if not lease.take():
        yield
        return
    renewing = threading.Thread(target=lease.renew_until_over, daemon=True)
    renewing.start()
    has_service = True
    try:
        try:
            yield
        finally:
            lease.over.set()
            renewing.join()
        has_service = not (change.removes_service and rig.emulator.provision)
    except BaseException:
        with suppress(OwltError, Missing):
            lease.return_within(ANSWERING_S)
        raise
    if has_service:
        lease.return_within(STARTING_S)
    else:
        lease.forget()


class _Lease:
    """The lease of a rig for a change, in this thread or, until `over`, in the one that renews it."""

    def __init__(self, rig: LabRig, change: Change, client_of: ClientOf) -> None:
        self.over = threading.Event()
        self._rig = rig
        self._change = change
        self._client_of = client_of

    def take(self) -> bool:
        """Whether it was taken: not without a service, or with one that does not accept the token that this user has.

        Raises OwltError if somebody else has it.
        """
        from emulator.faults import EmulatorError, EmulatorUnreachable, NotAllowed

        try:
            self._emulator = self._client_of(self._rig)
            self._take()
        except Missing:  # never provisioned from here
            if self._change.needs_service:
                raise
            return False
        except (EmulatorUnreachable, NotAllowed) as problem:
            if self._change.needs_service or self._holder():
                raise self._refused(problem) from problem
            return False
        except EmulatorError as problem:
            raise self._refused(problem) from problem
        return True

    def renew_until_over(self) -> None:
        """Renew it until `over`; take it again if the service was restarted."""
        from emulator.faults import EmulatorError

        while not self.over.wait(self._rig.emulator.lease_s / RENEWALS):
            with suppress(EmulatorError, Missing):
                self._take()

    def return_within(self, within_s: float) -> None:
        """End it, or keep it for as long as the user has reserved the rig. Raises OwltError if that fails."""
        from emulator.faults import EmulatorError, LeaseHeld, LeaseLost
        from orchestrator.rigs.lab.reservations import read_reservation, write_reservation

        try:
            self._emulator.wait_until_ready(within_s)
            reserved = read_reservation(self._rig.emulator.service)
            if reserved is None:
                with suppress(LeaseLost):  # a restart has ended it
                    self._emulator.release()
                return
            self._take()
            if reserved.lease != self._id:
                write_reservation(replace(reserved, lease=self._id))
            self._emulator.renew(reserved.seconds_left)
        except LeaseHeld as problem:
            wrong = f"{self._rig.name}: your lease ended when the service was restarted, and now {self._holder()}"
            raise OwltError(Mistake(wrong, fix="wait, or ask them for: owlt rig release")) from problem
        except EmulatorError as problem:
            wrong = f"{self._rig.name}: the lease could not be returned; it ends by itself: {problem}"
            raise OwltError(Mistake(wrong, fix="collect the logs: owlt rig collect")) from problem

    def forget(self) -> None:
        """Forget the user's reservation: its service is removed."""
        from orchestrator.rigs.lab.reservations import forget_reservation

        forget_reservation(self._rig.emulator.service)

    def _take(self) -> None:
        """Take it, or renew it. Raises EmulatorError, or Missing if a playbook is replacing the certificate."""
        from emulator.faults import EmulatorUnreachable, LeaseLost

        try:
            self._id = self._emulator.lease(self._change.purpose, self._rig.emulator.lease_s)
        except (LeaseLost, EmulatorUnreachable):  # restarted, perhaps with another token or certificate
            self._emulator = self._client_of(self._rig)
            self._id = self._emulator.lease(self._change.purpose, self._rig.emulator.lease_s)

    def _holder(self) -> str:
        """Who has the lease, as the rest of a sentence; "" if nobody has it or the service does not answer."""
        from emulator.faults import EmulatorError

        with suppress(EmulatorError):
            status = self._emulator.lease_status()
            if status["held"]:
                return f"it is leased to {status['holder']} for {status['seconds_left']:.0f} s"
        return ""

    def _refused(self, problem: Exception) -> OwltError:
        wrong = f"{self._rig.name} cannot be {self._change.action}"
        if held := self._holder():
            fix = "wait, or ask them for: owlt rig release"
            return OwltError(Mistake(f"{wrong}: {held}", "a rig that nobody else has leased", fix))
        return OwltError(Mistake(f"{wrong}: {problem}"))
