"""What this machine has and lacks for a sweep, each lack with the command that mends it. Changes nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from agents.contract import Binary, Implementation, Need
from agents.needs import unmet
from emulator.kernel.compile import is_compiled, sources
from orchestrator import kernel
from orchestrator.binaries import find_here, why_not_here
from orchestrator.builds.places import builds_directory
from orchestrator.variants import base_name

SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])


@dataclass(frozen=True)
class Finding:
    """One thing looked for. `wanted_for` says who wants it; `mend` how to get it."""

    name: str
    found: bool
    detail: str
    wanted_for: str
    mend: str = ""


COMMANDS = [
    ("ip", "every rig", "apt-get install iproute2"),
    ("tc", "every rig", "apt-get install iproute2"),
    ("ethtool", "every rig", "apt-get install ethtool"),
    ("sshd", "every rig", "apt-get install openssh-server"),
    ("ssh-keygen", "every rig", "apt-get install openssh-client"),
    ("tcpdump", "captures", "apt-get install tcpdump"),
    ("tshark", "protocol messages and tests", "apt-get install tshark"),
    ("taskset", "the virtual rig", "apt-get install util-linux"),
    ("setpriv", "the virtual rig", "apt-get install util-linux"),
    ("unshare", "every rig", "apt-get install util-linux"),
]


def examine(implementations: Iterable[Implementation]) -> list[Finding]:
    """Everything that a rig or one of the implementations needs, found or not."""
    findings = [_command(*row) for row in COMMANDS]
    findings += [_kernel(), _programs(), _shared_memory(), _root(), _netem()]
    for build in implementations:
        findings += _needs(build)
    return _each_once(findings)


def lacks_of_rig(rig: str) -> list[Finding]:
    """The programs missing here that a sweep on such a rig needs, whichever implementations it has."""
    not_needed = {"local": ["the virtual rig"], "virtual": []}[rig]
    needed = [row for row in COMMANDS if row[1] not in not_needed]
    return [finding for finding in map(_command, *zip(*needed, strict=True)) if not finding.found]


def _each_once(findings: Iterable[Finding]) -> list[Finding]:
    """What several want in one line, with all of them."""
    merged: dict[tuple[str, str], Finding] = {}
    for each in findings:
        before = merged.setdefault((each.name, each.detail), each)
        wanted_for = dict.fromkeys([*before.wanted_for.split(", "), *each.wanted_for.split(", ")])
        mend = dict.fromkeys([before.mend, each.mend])
        merged[each.name, each.detail] = replace(
            before, wanted_for=", ".join(wanted_for), mend="; or ".join(filter(None, mend))
        )
    return list(merged.values())


def lacks_for(build: Implementation) -> list[Finding]:
    """What this machine lacks to run one implementation."""
    return [finding for finding in _needs(build) if not finding.found]


def _needs(build: Implementation) -> list[Finding]:
    lacking = unmet(build.needs)
    needs = [_need(build, need, lacking) for need in build.needs]
    return needs + [_program(build, name, binary) for name, binary in build.binary.items()]


def _program(build: Implementation, name: str, binary: Binary) -> Finding:
    builds = str(builds_directory())
    place = find_here(binary, builds)
    return Finding(name, place is not None, place or why_not_here(binary, builds), base_name(build.name), binary.mend)


def _command(name: str, wanted_for: str, mend: str) -> Finding:
    path = shutil.which(name, path=SEARCH_PATH)
    return Finding(name, path is not None, path or "not on the path", wanted_for, mend)


def _kernel() -> Finding:
    found = kernel.find()
    detail = (
        f"Linux {found.version}, {'seccomp' if found.seccomp else 'ptrace'}, {found.path}"
        if found
        else "none built yet"
    )
    return Finding("virtual-time kernel", found is not None, detail, "the virtual rig", "owlt kernel build")


def _programs() -> Finding:
    missing = [source.name for source in sources() if not is_compiled(source)]
    detail = f"not compiled: {', '.join(missing)}" if missing else "compiled"
    wanted_for = "bit errors, patterns, MTUs, queues that are not in packets, certificates"
    return Finding("emulator's eBPF programs", not missing, detail, wanted_for, "make setup")


def _shared_memory() -> Finding:
    free_mb = shutil.disk_usage("/dev/shm").free // 10**6 if Path("/dev/shm").is_dir() else 0
    wanted_mb = 1024
    return Finding(
        "/dev/shm",
        free_mb >= wanted_mb,
        f"{free_mb} MB free",
        "the virtual rig (guests' memory)",
        f"mount -o remount,size={wanted_mb * 2}M /dev/shm",
    )


def _root() -> Finding:
    found = os.geteuid() == 0
    return Finding(
        "root", found, "yes" if found else "no", "the local rig", "run owlt with sudo, or use 'rig: virtual'"
    )


def _netem() -> Finding:
    """netem in the running kernel, told from its modules without loading one."""
    release = os.uname().release
    modules = Path("/lib/modules", release)
    listed = [modules / "modules.builtin", modules / "modules.dep"]
    found = any("sch_netem.ko" in path.read_text() for path in listed if path.exists())
    return Finding(
        "netem in this kernel",
        found,
        f"Linux {release}",
        "channels with delay or errors on the local rig",
        "use 'rig: virtual', or a kernel with CONFIG_NET_SCH_NETEM",
    )


def _need(build: Implementation, need: Need, lacking: list[Need]) -> Finding:
    kind, name = next((kind, name) for kind, name in need if name is not None)
    return Finding(str(name), need not in lacking, kind.replace("_", " "), build.name, need.mend)
