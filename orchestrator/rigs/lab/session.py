"""A session on a host of a lab rig: root's programs in namespaces that the host ends with their lease.

The host's part is `owlt-host`, beside this module, which the login user may run with sudo.
"""

from __future__ import annotations

import re
from pathlib import Path

from owlt.orchestrator.hosts.exit_status import how_ended
from owlt.orchestrator.hosts.host import Completed, HostError
from owlt.orchestrator.rigs.lab.management import ManagementHost

OWLT_HOST = "/usr/local/sbin/owlt-host"
"""The program on the host, as sudo's rule names it."""
SOURCE = Path(__file__).parent / "owlt-host"
VERSION = "owlt-host 1"
SUDO_RULE = f"{{user}} ALL=(root) NOPASSWD: {OWLT_HOST}"
"""The line of /etc/sudoers.d/owlt."""
CLOSED_STATUS = 69
"""The exit status of `owlt-host enter` if its session has ended."""
ON_HOST = ["sudo", "-n", OWLT_HOST]


def open_session(host: ManagementHost, setup: str, lease_s: int, interface: str | None) -> None:
    """Make the session; `setup` are shell lines that furnish it. Raises HostError, also if there is one already."""
    command = [*ON_HOST, "open", str(lease_s), *([interface] if interface else [])]
    _accept(host, "open", host.run_with_input(command, setup.encode()))


def renew_session(host: ManagementHost, lease_s: int) -> None:
    """Let the session end so many seconds from now. Raises HostError if it has ended."""
    _accept(host, "renew", host.run([*ON_HOST, "renew", str(lease_s)]))


def close_session(host: ManagementHost) -> None:
    """End all programs of the session, if there is one. Raises HostError."""
    _accept(host, "close", host.run([*ON_HOST, "close"]))


def session_seconds_left(host: ManagementHost) -> int | None:
    """How long the session's lease lasts; None if none is open. Raises HostError."""
    done = host.run([*ON_HOST, "status"])
    _accept(host, "status", done)
    state = re.match(rb"open (-?\d+)", done.stdout)
    return int(state[1]) if state else None


def _accept(host: ManagementHost, verb: str, done: Completed) -> None:
    if done.exit_status != 0:
        text = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise HostError(f"{host.entry.name}: owlt-host {verb} {how_ended(done.exit_status)}: {text}")
