"""The subcommands of `owlt rig`."""

from __future__ import annotations

from owlt.orchestrator.commands.rigs.installing import collect, provision, remove, update
from owlt.orchestrator.commands.rigs.leases import clear_rig, lease_rig, release_rig, rig_status
from owlt.orchestrator.commands.rigs.verifying import verify
from owlt.orchestrator.terminal.usage import add_command, new_app

rig_app = new_app("Install, verify, lease and clear a lab rig.")

for name, function in (
    ("status", rig_status),
    ("lease", lease_rig),
    ("release", release_rig),
    ("clear", clear_rig),
    ("provision", provision),
    ("verify", verify),
    ("update", update),
    ("collect", collect),
    ("remove", remove),
):
    add_command(rig_app, name)(function)
