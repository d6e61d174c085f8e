"""A session on a host of a lab rig: root's programs in namespaces that the host ends with their lease.

The host's part is `owlt-host`, beside this module, which the login user may run with sudo. Shell lines furnish the
session: its files, its view of the machine, its test interface.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from owlt.orchestrator.hosts.host import Completed, HostError
from owlt.orchestrator.hosts.printable import how_ended
from owlt.orchestrator.hosts.program import OUTPUT_LIMIT_BYTES
from owlt.orchestrator.rigs.enclosure import accounts_alone, base_of, enclosure
from owlt.orchestrator.rigs.lab.management import ManagementHost
from owlt.orchestrator.rigs.namespaces import SSHD_CONFIG, make_key

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


FILES = Path("/var/lib/owlt/rig")
"""Where `owlt-host` keeps a session's files, and removes them at its end."""
LOGIN = FILES / "login"
SSHD_CONFIG_FILE = str(LOGIN / "sshd_config")
LOGS_BYTES = 4 * OUTPUT_LIMIT_BYTES
"""The space for output on a host; a program that fills it gets an error."""


@dataclass(frozen=True)
class Keys:
    """The keys of one session's sshd, made for it alone. `user_key` and `known_hosts` are files here."""

    user_key: Path
    known_hosts: Path
    user_public: str
    host_private: str


def make_keys(directory: Path, address: str) -> Keys:
    """New keys in a directory of this machine. Raises HostError."""
    directory.mkdir(mode=0o700)
    user_key, host_key = directory / "user_key", directory / "host_key"
    for path in (user_key, host_key):
        make_key(path)
    known_hosts = directory / "known_hosts"
    known_hosts.write_text(f"{address} {host_key.with_suffix('.pub').read_text().strip()}\n")
    host_private = host_key.read_text()
    host_key.unlink()
    return Keys(user_key, known_hosts, user_key.with_suffix(".pub").read_text(), host_private)


def base_on_host(role: str) -> str:
    """The directory of the rig on a host, as its session sees it."""
    return str(FILES / role) if role == "emulator" else base_of(role)


def furnishing(role: str, keys: Keys, needed: list[str], names: Mapping[str, str], interface_lines: str) -> str:
    """The shell lines; `needed` are paths that stay visible, `names` the test addresses by role, `interface_lines` come
    last.
    """
    view = accounts_alone(LOGIN) if role == "emulator" else enclosure(FILES, role, LOGIN, needed, names)
    logs = f"{base_on_host(role)}/logs"
    return f"""set -e
exec 2>&1
umask 077
mkdir -p {LOGIN}/home {FILES}/{role}/logs
chmod 755 {FILES.parent} {FILES} {FILES}/{role} {LOGIN}
cat >{LOGIN}/host_key <<'END'
{keys.host_private.strip()}
END
cat >{LOGIN}/user_key.pub <<'END'
{keys.user_public.strip()}
END
cat >{SSHD_CONFIG_FILE} <<'END'
{SSHD_CONFIG.format(login=LOGIN)}END
{{ echo root:x:0:0:root:{LOGIN}/home:/bin/sh; grep -v '^root:' /etc/passwd; }} >{LOGIN}/passwd
echo 'root:*:20000:0:99999:7:::' >{LOGIN}/shadow
chmod 644 {LOGIN}/passwd
umask 022
mkdir -p /run/sshd
mount --make-rprivate /
{view}
mount -t tmpfs -o size={LOGS_BYTES},mode=755 owlt-logs {shlex.quote(logs)}
{interface_lines}"""
