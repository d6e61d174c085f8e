"""Examines what this machine has and what is missing for a sweep, with the command that fixes it. Changes nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from owlt.agents.contract.implementation import Implementation
from owlt.agents.contract.requirements import Binary, Need, unmet
from owlt.emulator.kernel.bpf.loading import compiled_object, sources
from owlt.inputs.axes import base_name
from owlt.installation import setup_command
from owlt.orchestrator.hosts.binaries import find_here, why_not_here
from owlt.orchestrator.kernel.kernel import find_kernel
from owlt.orchestrator.own_directories import third_party_directory

SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])


@dataclass(frozen=True)
class Requirement:
    """One thing that a run needs. `needed_by` names the rigs or implementations, `fix` says how to get it."""

    name: str
    found: bool
    """Whether this machine has it."""
    detail: str
    needed_by: str
    fix: str = ""
    limits: str = ""
    """What a sweep cannot do without it; "": no sweep can start."""

    @property
    def stops_sweeps(self) -> bool:
        """Whether it is missing, and no sweep can start without it."""
        return not self.found and not self.limits


BY_HAND = "a rig by hand (owlt rig)"
COMMANDS = [
    ("ip", "every rig", "apt-get install iproute2"),
    ("tc", "every rig", "apt-get install iproute2"),
    ("ethtool", "every rig", "apt-get install ethtool"),
    ("sshd", BY_HAND, "apt-get install openssh-server"),
    ("ssh-keygen", BY_HAND, "apt-get install openssh-client"),
    ("ldd", "the provenance of runs", "apt-get install libc-bin"),
    ("tcpdump", "captures", "apt-get install tcpdump"),
    ("tshark", "protocol messages and tests", "apt-get install tshark"),
    ("taskset", "the virtual rig", "apt-get install util-linux"),
    ("setpriv", "the virtual rig", "apt-get install util-linux"),
    ("unshare", "every rig", "apt-get install util-linux"),
    ("nsenter", "the virtual and the local rig", "apt-get install util-linux"),
]


def examine(implementations: Iterable[Implementation]) -> list[Requirement]:
    """Everything that a rig or one of the implementations needs, whether this machine has it or not."""
    requirements = [_command(*row) for row in COMMANDS]
    requirements += [_kernel(), _programs(), _shared_memory(), _root(), _netem()]
    for implementation in implementations:
        requirements += _needs(implementation)
    return _merged(requirements)


def rig_requirements(rig: str) -> list[Requirement]:
    """Everything that a rig needs, whether this machine has it or not, for any implementation."""
    others = {"local": [_root(), _netem()], "virtual": [_kernel(), _shared_memory()]}[rig]
    return [*_rig_commands(rig), _programs(), *others]


def missing_for_rig(rig: str) -> list[Requirement]:
    """The programs that are missing on this machine for any sweep on this rig."""
    return [each for each in _rig_commands(rig) if not each.found and each.needed_by != BY_HAND]


def _rig_commands(rig: str) -> list[Requirement]:
    not_needed = {"local": ["the virtual rig"], "virtual": []}[rig]
    return [_command(*row) for row in COMMANDS if row[1] not in not_needed]


def _merged(requirements: Iterable[Requirement]) -> list[Requirement]:
    """Equal requirements as one, which names all that need it."""
    merged: dict[tuple[str, str], Requirement] = {}
    for each in requirements:
        before = merged.setdefault((each.name, each.detail), each)
        needed_by = dict.fromkeys([*before.needed_by.split(", "), *each.needed_by.split(", ")])
        fix = dict.fromkeys([before.fix, each.fix])
        merged[each.name, each.detail] = replace(
            before, needed_by=", ".join(needed_by), fix="; or ".join(filter(None, fix))
        )
    return list(merged.values())


def missing_for(implementation: Implementation) -> list[Requirement]:
    """What is missing on this machine to run one implementation."""
    needs = [need for each in implementation.members for need in _needs(each)]
    return [need for need in dict.fromkeys(needs) if not need.found]


def _needs(implementation: Implementation) -> list[Requirement]:
    missing = unmet(implementation.needs)
    needs = [_need(implementation, need, missing) for need in implementation.needs]
    return needs + [_program(implementation, name, binary) for name, binary in implementation.binary.items()]


def _program(implementation: Implementation, name: str, binary: Binary) -> Requirement:
    third_party = str(third_party_directory())
    place = find_here(binary, third_party)
    return Requirement(
        name, place is not None, place or why_not_here(binary, third_party), base_name(implementation.name), binary.fix
    )


def _command(name: str, needed_by: str, fix: str) -> Requirement:
    path = shutil.which(name, path=SEARCH_PATH)
    return Requirement(name, path is not None, path or "not on PATH", needed_by, fix)


def _kernel() -> Requirement:
    kernel = find_kernel()
    detail = (
        f"Linux {kernel.version}, {'seccomp' if kernel.seccomp else 'ptrace'}, {kernel.path}"
        if kernel
        else "not built yet"
    )
    return Requirement("virtual-time kernel", kernel is not None, detail, "the virtual rig", "owlt kernel build")


def _programs() -> Requirement:
    missing = [source.name for source in sources() if compiled_object(source) is None]
    detail = f"not compiled, or from an older source: {', '.join(missing)}" if missing else "compiled"
    needed_by = "bit errors, patterns, MTUs, queues that are not in packets, certificates"
    return Requirement("emulator's eBPF programs", not missing, detail, needed_by, setup_command())


def _shared_memory() -> Requirement:
    free_mb = shutil.disk_usage("/dev/shm").free // 10**6 if Path("/dev/shm").is_dir() else 0
    needed_mb = 1024
    return Requirement(
        "/dev/shm",
        free_mb >= needed_mb,
        f"{free_mb} MB free",
        "the virtual rig (guests' memory)",
        f"mount -o remount,size={needed_mb * 2}M /dev/shm",
    )


def _root() -> Requirement:
    is_root = os.geteuid() == 0
    return Requirement(
        "root", is_root, "yes" if is_root else "no", "the local rig", "run owlt with sudo, or use 'rig: virtual'"
    )


def _netem() -> Requirement:
    """netem in the running kernel, according to the list of its modules; none is loaded."""
    release = os.uname().release
    modules = Path("/lib/modules", release)
    listed = [modules / "modules.builtin", modules / "modules.dep"]
    found = any("sch_netem.ko" in path.read_text() for path in listed if path.exists())
    return Requirement(
        "netem in this kernel",
        found,
        f"Linux {release}",
        "channels with delay or errors on the local rig",
        "use 'rig: virtual', or a kernel with CONFIG_NET_SCH_NETEM",
    )


def _need(implementation: Implementation, need: Need, missing: list[Need]) -> Requirement:
    kind, name = next((kind, name) for kind, name in need if name is not None)
    return Requirement(str(name), need not in missing, kind.replace("_", " "), implementation.name, need.fix)
