"""`owlt rig provision`, `update`, `collect` and `remove`: the playbooks."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owlt.orchestrator.commands.rigs.in_use import require_no_session, session_of
from owlt.orchestrator.commands.rigs.leases import emulator_of
from owlt.orchestrator.commands.rigs.options import Admin, AdminKey, Check
from owlt.orchestrator.terminal.options import Inventory
from owlt.orchestrator.terminal.output import Printer, verbosity

if TYPE_CHECKING:
    from owlt.orchestrator.commands.rigs.leased import Change


def provision(inventory: Inventory, admin: Admin = "root", admin_key: AdminKey = None, check: Check = False) -> None:
    """Install what a lab rig needs on its hosts.

    Uses Ansible (the extra 'lab' of owlt). A second run changes nothing. Leases the rig meanwhile: refused while
    somebody else has the lease, or a sweep runs. Exit status: that of ansible-playbook.
    """
    from owlt.orchestrator.commands.rigs.leased import Change

    _play_leased("provision", inventory, admin, admin_key, check, Change("owlt rig provision", "provisioned"))
    if not check:
        Printer().note(f"next: owlt doctor --rig {shlex.quote(inventory)}")


def update(inventory: Inventory, admin: Admin = "root", admin_key: AdminKey = None, check: Check = False) -> None:
    """Install this version of owlt on a provisioned lab rig.

    Leases the rig meanwhile: refused while somebody else has the lease, or a sweep runs. The emulator's service is
    restarted if its owlt has changed; your lease is kept. Exit status: that of ansible-playbook.
    """
    from owlt.orchestrator.commands.rigs.leased import Change

    change = Change("owlt rig update", "updated", needs_service=True)
    _play_leased("update", inventory, admin, admin_key, check, change)


def remove(inventory: Inventory, admin: Admin = "root", admin_key: AdminKey = None, check: Check = False) -> None:
    """Remove what 'owlt rig provision' installed; packages stay.

    Leases the rig meanwhile: refused while somebody else has the lease, or a sweep runs. A service that does not
    answer has no lease. Exit status: that of ansible-playbook.
    """
    from owlt.orchestrator.commands.rigs.leased import Change

    change = Change("owlt rig remove", "removed", removes_service=True)
    _play_leased("remove", inventory, admin, admin_key, check, change)


def collect(
    inventory: Inventory,
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Where the files go.")],
    admin: Admin = "root",
    admin_key: AdminKey = None,
) -> None:
    """Copy logs and the state of the hosts here, to explain a fault.

    Exit status: that of ansible-playbook.
    """
    _play("collect", inventory, admin, admin_key, collected=directory)


def _play_leased(name: str, inventory: str, admin: str, admin_key: Path | None, check: bool, change: Change) -> None:
    """Run a playbook while nobody else uses the rig. `check`: nothing changes, so only the host keys matter.

    Raises OwltError, or typer.Exit with the exit status of ansible-playbook.
    """
    from owlt.orchestrator.commands.rigs.leased import leased
    from owlt.orchestrator.profiles.inventory import lab_rig

    _, rig = lab_rig(inventory)
    with nullcontext() if check else leased(rig, change, emulator_of):
        require_no_session(rig.hosts, session_of, only_keys=check)
        _play(name, inventory, admin, admin_key, check)


def _play(
    name: str,
    inventory: str,
    admin: str,
    admin_key: Path | None,
    check: bool = False,
    collected: Path | None = None,
) -> None:
    """Run a playbook. Raises typer.Exit with its exit status if that is not 0."""
    from owlt.orchestrator.profiles.inventory import lab_rig
    from owlt.orchestrator.rigs.lab.playbooks import Administrator, run_playbook

    path, rig = lab_rig(inventory)
    administrator = Administrator(admin, admin_key)
    for host in rig.hosts:
        if not host.provision:
            Printer().note(f"{host.name}: not changed, because owlt_provision is false")
    status = run_playbook(name, path, rig, administrator, check, collected or Path(), verbosity.verbose)
    if status != 0:
        raise typer.Exit(status)
