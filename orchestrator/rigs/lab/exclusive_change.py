"""Keeps a lab rig to one user while its hosts are changed: its lease, and the refusal while a session is open there.

The lease is short and renewed: a command that is killed does not block the rig for long. The service has it in memory,
so a playbook that restarts the service ends it; it is taken again as soon as the service answers. `owlt rig provision`
and `remove` also work without a service, or with one that is dead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import Missing, OwltError

if TYPE_CHECKING:
    from owlt.orchestrator.profiles.inventory import LabHostEntry, LabRig
    from owlt.orchestrator.rigs.lab.emulator import LabEmulator


RENEWALS = 3
"""How often a lease is renewed during its length."""
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
    try:
        with lease.renewed():
            yield
    except BaseException:
        with suppress(OwltError, Missing):
            lease.return_within(ANSWERING_S)
        raise
    if change.removes_service and rig.emulator.provision:
        lease.forget()
    else:
        lease.return_within(STARTING_S)


class _Lease:
    """The lease of a rig for a change."""

    def __init__(self, rig: LabRig, change: Change, client_of: ClientOf) -> None:
        self._rig = rig
        self._change = change
        self._client_of = client_of

    def take(self) -> bool:
        """Whether it was taken: not without a service, or with one that does not accept the token that this user has.

        Raises OwltError if somebody else has it.
        """
        from owlt.emulator.faults import EmulatorError, EmulatorUnreachable, NotAllowed

        try:
            self._take_anew()
        except Missing:  # never provisioned from here
            if self._change.needs_service:
                raise
            return False
        except EmulatorError as problem:
            held = self._holder()
            has_none = isinstance(problem, EmulatorUnreachable | NotAllowed) and not held
            if has_none and not self._change.needs_service:
                return False
            raise self._refused(problem, held) from problem
        return True

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew it meanwhile in another thread; take it again if the service was restarted."""
        from owlt.emulator.faults import EmulatorError

        over = threading.Event()

        def renewing() -> None:
            while not over.wait(self._rig.emulator.lease_s / RENEWALS):
                with suppress(EmulatorError, Missing):
                    self._take_again()

        thread = threading.Thread(target=renewing, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def return_within(self, within_s: float) -> None:
        """End it, or keep it for as long as the user has reserved the rig. Raises OwltError if that fails."""
        from owlt.emulator.faults import EmulatorError, LeaseHeld, LeaseLost
        from owlt.orchestrator.rigs.lab.emulator import read_reservation

        try:
            self._emulator.wait_until_ready(within_s)
            reserved = read_reservation(self._rig.emulator.service)
            if reserved is None:
                with suppress(LeaseLost):  # a restart has ended it
                    self._emulator.release()
                return
            self._take_again()
            self._emulator.reserve(reserved.seconds_left)
        except LeaseHeld as problem:
            wrong = f"{self._rig.name}: your lease ended when the service was restarted, and now {self._holder()}"
            raise OwltError(Mistake(wrong, fix="wait, or ask them for: owlt rig release")) from problem
        except EmulatorError as problem:
            wrong = f"{self._rig.name}: the lease could not be returned; it ends by itself: {problem}"
            raise OwltError(Mistake(wrong, fix="collect the logs: owlt rig collect")) from problem

    def forget(self) -> None:
        """Forget the user's reservation: its service is removed."""
        from owlt.orchestrator.rigs.lab.emulator import forget_reservation

        forget_reservation(self._rig.emulator.service)

    def _take_anew(self) -> None:
        """Take it with the token and the certificate that are here now. Raises EmulatorError or Missing."""
        self._emulator = self._client_of(self._rig)
        self._emulator.lease(self._change.purpose, self._rig.emulator.lease_s)

    def _take_again(self) -> None:
        """Renew it, or take it if it was lost. Raises EmulatorError, or Missing while the certificate is replaced."""
        from owlt.emulator.faults import EmulatorUnreachable, LeaseLost

        try:
            self._emulator.lease(self._change.purpose, self._rig.emulator.lease_s)
        except (LeaseLost, EmulatorUnreachable):  # restarted, perhaps with another token or certificate
            self._take_anew()

    def _holder(self) -> str:
        """Who has the lease, as the rest of a sentence; "" if nobody has it or the service does not answer."""
        from owlt.emulator.faults import EmulatorError

        with suppress(EmulatorError):
            status = self._emulator.lease_status()
            if status["held"]:
                return f"it is leased to {status['holder']} for {status['seconds_left']:.0f} s"
        return ""

    def _refused(self, problem: Exception, held: str) -> OwltError:
        wrong = f"{self._rig.name} cannot be {self._change.action}"
        if held:
            fix = "wait, or ask them for: owlt rig release"
            return OwltError(Mistake(f"{wrong}: {held}", "a rig that nobody else has leased", fix))
        return OwltError(Mistake(f"{wrong}: {problem}"))


def require_no_session(
    hosts: Sequence[LabHostEntry], seconds_left: Callable[[LabHostEntry], int | None], only_keys: bool = False
) -> None:
    """Raise OwltError if a session is open on one of the hosts, which a sweep has, or if one presents another host key.

    A host that owlt cannot log in to is passed over: it is not provisioned yet, or no longer.
    `only_keys`: sessions may be open.
    """
    from owlt.orchestrator.hosts.host import HostError
    from owlt.orchestrator.rigs.lab.ssh_hosts import OtherHostKey

    for entry in hosts:
        try:
            left_s = seconds_left(entry)
        except OtherHostKey as problem:
            raise OwltError(Mistake(str(problem))) from problem
        except HostError:
            continue
        if left_s is not None and not only_keys:
            raise OwltError(open_session(entry, left_s))


def session_of(entry: LabHostEntry) -> int | None:
    """How long the lease of a host's session lasts; None if none is open. Raises HostError."""
    from owlt.orchestrator.rigs.lab.session import session_seconds_left
    from owlt.orchestrator.rigs.lab.ssh_hosts import ManagementHost

    with closing(ManagementHost(entry)) as host:
        return session_seconds_left(host)


def open_session(entry: LabHostEntry, left_s: int) -> Mistake:
    """What is wrong if a session is open."""
    session = f"{entry.name}: a session is open, {left_s} s of its lease are left"
    return Mistake(session, "an idle rig", "wait until the sweep ends; if none runs: owlt rig clear")
