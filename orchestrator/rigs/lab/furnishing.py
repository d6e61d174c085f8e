"""The shell lines that furnish a session on a lab host: its files, its view of the machine, its test interface."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.rigs.enclosure import accounts_alone, base_of, enclosure
from owlt.orchestrator.rigs.lab.followed import LOGS_BYTES
from owlt.orchestrator.rigs.namespaces import SSHD_CONFIG

FILES = Path("/var/lib/owlt/rig")
"""Where `owlt-host` keeps a session's files, and removes them at its end."""
LOGIN = FILES / "login"
SSHD_CONFIG_FILE = str(LOGIN / "sshd_config")


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
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise HostError(f"ssh-keygen: {done.stderr.strip()}")
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
