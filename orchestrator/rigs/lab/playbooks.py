"""Runs the playbooks in playbooks/ on a rig of an inventory, with ansible-playbook as a program of its own.

Ansible gets what owlt has read of the inventory: pinned host keys, jump hosts, the administrator's login.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from owlt import PACKAGE
from owlt.inputs.mistake import Mistake
from owlt.installation import is_clone, write_source
from owlt.orchestrator.errors import Missing
from owlt.orchestrator.profiles.inventory import LabHostEntry, LabRig, login_parts
from owlt.orchestrator.rigs.lab.session import SOURCE

PLAYBOOKS = (PACKAGE / "playbooks").resolve()
SYSCTLS = {"net.core.rmem_max": 16_777_216, "net.core.wmem_max": 16_777_216, "net.core.netdev_max_backlog": 100_000}
"""The settings that provisioning makes on each host: the largest socket buffers in bytes; packets that wait for a
processor."""


@dataclass(frozen=True)
class Administrator:
    """Who may become root on the hosts: root, or a user that may do everything with sudo and no password.

    `key`: the private key; None: the key of each host in the inventory.
    """

    user: str
    key: Path | None


def ansible_playbook() -> Path:
    """The program, beside this Python. Raises Missing."""
    program = Path(sys.executable).parent / "ansible-playbook"
    if not program.exists():
        fix = "install owlt with its extra 'lab' (pip install '.[lab]' in a clone), or ansible-core>=2.18 beside it"
        raise Missing(Mistake(f"{program} is missing, which runs the playbooks", fix=fix))
    return program


def run_playbook(
    name: str,
    inventory: Path,
    rig: LabRig,
    administrator: Administrator,
    check: bool = False,
    collected: Path = Path(),
    diff: bool = False,
) -> int:
    """Run a playbook on the hosts of a rig that are provisioned; its output is Ansible's. Returns its exit status.

    `check`: only show what would change; `diff`: with the lines of the files.
    `collected`: where `collect` writes to.
    """
    if not provisioned_hosts(rig):
        return 0
    with tempfile.TemporaryDirectory(prefix="owlt-playbook-") as directory:
        place = Path(directory)
        command = _command(name, inventory, rig, administrator, collected, place) + check_options(check, diff)
        return subprocess.run(command, env=_environment(place), check=False).returncode


def check_playbook(name: str, inventory: Path, rig: LabRig, administrator: Administrator) -> str:
    """What a playbook would change, as Ansible prints it in check mode; "" if no host of the rig is provisioned."""
    if not provisioned_hosts(rig):
        return ""
    with tempfile.TemporaryDirectory(prefix="owlt-playbook-") as directory:
        place = Path(directory)
        command = _command(name, inventory, rig, administrator, Path(), place) + check_options(True, diff=False)
        done = subprocess.run(command, env=_environment(place), capture_output=True, text=True, check=False)
        return done.stdout + done.stderr


def check_options(check: bool, diff: bool) -> list[str]:
    """Ansible's options of check mode. With `diff` it prints every line that would change, once for each host."""
    return (["--check", "--diff"] if diff else ["--check"]) if check else []


def provisioned_hosts(rig: LabRig) -> list[LabHostEntry]:
    """The hosts that the playbooks change: not those with `owlt_provision: false`."""
    return [host for host in rig.hosts if host.provision]


def _command(
    name: str, inventory: Path, rig: LabRig, administrator: Administrator, collected: Path, place: Path
) -> list[str]:
    """The program with its files in `place`. Variables of a later inventory replace those of an earlier one."""
    known_hosts, hosts, variables = place / "known_hosts", place / "hosts.json", place / "variables.json"
    known_hosts.write_text(known_hosts_lines(rig))
    hosts.write_text(json.dumps(host_variables(rig, administrator, known_hosts)))
    variables.write_text(json.dumps(_rig_variables(rig, _archive(place), collected)))
    command = [str(ansible_playbook()), "--inventory", str(inventory), "--inventory", str(hosts)]
    command += ["--limit", ",".join(host.name for host in provisioned_hosts(rig))]
    command += ["--extra-vars", f"@{variables}"]
    return [*command, str(PLAYBOOKS / f"{name}.yml")]


def _environment(place: Path) -> dict[str, str]:
    """Connections are shared within one play only: a later one must see the host key that the host shows then."""
    own = {"ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg"), "ANSIBLE_SSH_CONTROL_PATH_DIR": str(place / "ssh")}
    return {**os.environ, **own, "LC_ALL": "C.UTF-8"}


def _rig_variables(rig: LabRig, archive: Path, collected: Path) -> dict[str, object]:
    """What the playbooks need beside the inventory. No secret is among it: keys and tokens are named by their files."""
    return {
        "owlt_account_comment": "lab rig",
        "owlt_host_program": str(SOURCE),
        "owlt_sysctls": SYSCTLS,
        "owlt_archive": str(archive),
        "owlt_local_python": sys.executable,
        "owlt_local_ca": str(rig.emulator.service_ca),
        "owlt_local_token": str(rig.emulator.token_file),
        "owlt_collected": str(collected.absolute()),
        **clock_variables(rig),
    }


def clock_variables(rig: LabRig) -> dict[str, object]:
    """The emulator as the time source of chrony on the other hosts; none if it is not provisioned, or has no chrony."""
    emulator = rig.emulator
    return {
        "owlt_time_source": emulator.address if emulator.provision and emulator.clock == "chrony" else "",
        "owlt_time_clients": [host.address for host in (rig.sender, rig.receiver)],
    }


def host_variables(rig: LabRig, administrator: Administrator, known_hosts: Path) -> dict[str, Any]:
    """An inventory with what differs from host to host: the administrator's login, owlt's login and its key."""
    hosts = {
        host.name: {
            "ansible_user": administrator.user,
            "ansible_ssh_private_key_file": str(administrator.key or host.key),
            "ansible_ssh_common_args": _ssh_options(host, known_hosts),
            "owlt_login": host.user,
            "owlt_public_key": _public_key(host),
        }
        for host in rig.hosts
    }
    return {"all": {"children": {rig.name: {"hosts": hosts}}}}


def _ssh_options(host: LabHostEntry, known_hosts: Path) -> str:
    """Pinned keys, and the jump host."""
    options = ["-o", f"UserKnownHostsFile={known_hosts}", "-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes"]
    if host.jump is not None:
        user, address, port = login_parts(host.jump)
        jump = ["ssh", *options, "-i", str(host.key), "-p", str(port), "-W", "%h:%p", f"{user}@{address}"]
        options += ["-o", f"ProxyCommand={shlex.join(jump)}"]
    return shlex.join(options)


def known_hosts_lines(rig: LabRig) -> str:
    """The pinned keys of the hosts and of their jump hosts (sshd(8))."""
    lines = [_known(host.address, host.port, host.host_key) for host in rig.hosts]
    for host in rig.hosts:
        if host.jump is not None:
            _, address, port = login_parts(host.jump)
            lines.append(_known(address, port, str(host.jump_host_key)))
    return "".join(dict.fromkeys(lines))


def _known(address: str, port: int, key: str) -> str:
    """A line of known_hosts (sshd(8))."""
    return f"{address if port == 22 else f'[{address}]:{port}'} {key}\n"


def _public_key(entry: LabHostEntry) -> str:
    """The public part of the key that owlt logs in with. Raises Missing."""
    path = Path(f"{entry.key}.pub")
    try:
        return path.read_text().strip()
    except OSError as problem:
        fix = f"make a key: ssh-keygen -t ed25519 -N '' -f {entry.key}"
        raise Missing(Mistake(f"{path}: {problem.strerror}", fix=fix)) from None


def _archive(place: Path) -> Path:
    """The source that the hosts install, as a tar file: the last commit of a clone, or else this installed package."""
    archive = place / "owlt.tar"
    if not is_clone():
        write_source(archive)
        return archive
    git = [
        "git",
        "-c",
        f"safe.directory={PACKAGE.parent}",
        "-C",
        str(PACKAGE.parent),
        "archive",
        "--format=tar",
        "HEAD",
    ]
    done = subprocess.run([*git, "-o", str(archive)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fix = "commit what the hosts are to have; git has to be installed"
        raise Missing(Mistake(f"git archive: {done.stderr.strip()}", fix=fix))
    return archive
