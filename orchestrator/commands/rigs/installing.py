"""`owlt rig provision`, `update`, `collect` and `remove`: the playbooks."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agents.inputs.mistake import Mistake
from orchestrator.commands.rigs.in_use import open_session, require_no_session, require_not_leased, session_of
from orchestrator.commands.rigs.leases import emulator_of
from orchestrator.commands.rigs.options import Admin, AdminKey, Check
from orchestrator.errors import OwltError
from orchestrator.terminal.options import Inventory
from orchestrator.terminal.output import Printer, verbosity

if TYPE_CHECKING:
    from orchestrator.profiles.inventory import LabRig

UPDATING_S = 3600.0
"""The lease of the emulator while owlt is installed: longer than that takes."""


def provision(inventory: Inventory, admin: Admin = "root", admin_key: AdminKey = None, check: Check = False) -> None:
    """Install what a lab rig needs on its hosts.

    Uses Ansible (the extra 'lab' of owlt). A second run changes nothing. Refused while somebody else has the lease, or
    a sweep runs. Exit status: that of ansible-playbook.
    """
    _require_not_in_use(inventory, "provisioned", check)
    try:
        _play("provision", inventory, admin, admin_key, check)
    except typer.Exit as end:
        if end.exit_code == 0 and not check:
            Printer().note(f"next: owlt doctor --rig {shlex.quote(inventory)}")
        raise


def update(inventory: Inventory, admin: Admin = "root", admin_key: AdminKey = None, check: Check = False) -> None:
    """Install this version of owlt on a provisioned lab rig.

    Leases the rig meanwhile: refused while somebody else has the lease, or a sweep runs. The emulator's service is
    restarted if its owlt has changed; your lease is kept. Exit status: that of ansible-playbook.
    """
    from contextlib import suppress

    from emulator.faults import EmulatorError
    from orchestrator.profiles.inventory import lab_rig

    _, rig = lab_rig(inventory)
    require_idle(rig)
    emulator = emulator_of(rig)
    try:
        lease = emulator.lease("owlt rig update", UPDATING_S)
    except EmulatorError as problem:
        raise OwltError(Mistake(f"{rig.name} cannot be updated: {problem}")) from problem
    try:
        _play("update", inventory, admin, admin_key, check)
    except BaseException:  # its exit status and message, not those of a service that does not answer after it
        with suppress(OwltError):
            _return_lease(rig, lease)
        raise
    _return_lease(rig, lease)


def _return_lease(rig: LabRig, lease: str) -> None:
    """End the lease of an update, or go on with the user's own. Raises OwltError if the service does not answer."""
    from contextlib import suppress

    from emulator.faults import EmulatorError
    from orchestrator.rigs.lab.reservations import read_reservation

    reserved = read_reservation(rig.emulator.service)
    emulator = emulator_of(rig)  # the playbook may have replaced the CA's certificate
    if reserved is None:
        emulator.adopt(lease)
    try:
        emulator.wait_until_ready(STARTING_S)
        if reserved is None:
            with suppress(EmulatorError):  # a restart has ended the lease
                emulator.release()
        else:
            emulator.reserve(reserved.seconds_left)
    except EmulatorError as problem:
        raise OwltError(Mistake(f"{rig.name}: {problem}", fix="collect the logs: owlt rig collect")) from problem


STARTING_S = 30.0
"""How long the service may take to answer after it was restarted."""


def require_idle(rig: LabRig) -> None:
    """Raise OwltError if a session is open on a host: a sweep runs."""
    from orchestrator.hosts.host import HostError

    for entry in rig.hosts:
        try:
            left_s = session_of(entry)
        except HostError as problem:
            raise OwltError(Mistake(str(problem), fix="see: owlt doctor --rig")) from problem
        if left_s is not None:
            raise OwltError(open_session(entry, left_s))


def _require_not_in_use(inventory: str, action: str, check: bool) -> None:
    """Raise OwltError if somebody else has the lease, a sweep runs, or a host shows another host key.

    `check`: nothing will change, so only the host keys matter.
    """
    from orchestrator.profiles.inventory import lab_rig
    from orchestrator.rigs.lab.playbooks import provisioned_hosts

    _, rig = lab_rig(inventory)
    if not check:
        require_not_leased(rig, action, emulator_of)
    require_no_session(provisioned_hosts(rig), session_of, only_keys=check)


def remove(inventory: Inventory, admin: Admin = "root", admin_key: AdminKey = None, check: Check = False) -> None:
    """Remove what 'owlt rig provision' installed; packages stay.

    Refused while somebody else has the lease, or a sweep runs. A service that does not answer has no lease.
    Exit status: that of ansible-playbook.
    """
    _require_not_in_use(inventory, "removed", check)
    _play("remove", inventory, admin, admin_key, check)


def collect(
    inventory: Inventory,
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Where the files go.")],
    admin: Admin = "root",
    admin_key: AdminKey = None,
) -> None:
    """Copy logs and the state of the hosts here, to explain a fault.

    Exit status: that of ansible-playbook.
    """
    _play("collect", inventory, admin, admin_key, False, directory)


def _play(
    name: str, inventory: str, admin: str, admin_key: Path | None, check: bool, collected: Path | None = None
) -> None:
    from orchestrator.profiles.inventory import lab_rig
    from orchestrator.rigs.lab.playbooks import Administrator, run_playbook

    path, rig = lab_rig(inventory)
    administrator = Administrator(admin, admin_key)
    for host in rig.hosts:
        if not host.provision:
            Printer().note(f"{host.name}: not changed, because owlt_provision is false")
    raise typer.Exit(run_playbook(name, path, rig, administrator, check, collected or Path(), verbosity.verbose))
