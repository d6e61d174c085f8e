"""Refuses to change a lab rig on which a sweep runs, or a host with another host key."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from owlt.orchestrator.profiles.inventory import LabHostEntry


def require_no_session(
    hosts: Sequence[LabHostEntry], seconds_left: Callable[[LabHostEntry], int | None], only_keys: bool = False
) -> None:
    """Raise OwltError if a session is open on one of the hosts, which a sweep has, or if one shows another host key.

    A host that owlt cannot log in to is passed over: it is not provisioned yet, or no longer.
    `only_keys`: sessions may be open.
    """
    from owlt.orchestrator.hosts.host import HostError
    from owlt.orchestrator.rigs.lab.reconnecting import OtherHostKey

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
    from owlt.orchestrator.rigs.lab.management import ManagementHost
    from owlt.orchestrator.rigs.lab.session import session_seconds_left

    with closing(ManagementHost(entry)) as host:
        return session_seconds_left(host)


def open_session(entry: LabHostEntry, left_s: int) -> Mistake:
    """What is wrong if a session is open."""
    session = f"{entry.name}: a session is open, {left_s} s of its lease are left"
    return Mistake(session, "an idle rig", "wait until the sweep ends; if none runs: owlt rig clear")
