"""Examines what this machine has and what is missing for a sweep, with the command that fixes it. Changes nothing.

`owlt run` refuses to start if this machine is missing a program or something that the rig needs, or the kernel a
feature that the channels of the plan need (`emulator.kernel.capabilities` decides which).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from owlt.agents.contract.implementation import Implementation
from owlt.agents.contract.placeholders import as_text
from owlt.agents.contract.requirements import Binary, Need, unmet
from owlt.emulator.kernel.bpf.loading import compiled_object, sources
from owlt.inputs.axes import base_name
from owlt.inputs.mistake import Mistake
from owlt.installation import setup_command
from owlt.orchestrator.errors import did_you_mean
from owlt.orchestrator.hosts.binaries import find_here, why_not_here
from owlt.orchestrator.kernel.kernel import find_kernel
from owlt.orchestrator.own_directories import third_party_directory
from owlt.orchestrator.planning.estimate import infeasible
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.rigs.namespaces import standing

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


def missing_for_plan(plan: Plan) -> list[Mistake]:
    """Return what is missing: of implementations, and for the rig; each with how to get it.

    `lab_doctor` checks the hosts of a lab rig.
    """
    if plan.sweep.rig == "lab":
        return [Mistake("a lab rig needs an inventory, which names its hosts", fix="add --rig INVENTORY (docs/lab.md)")]
    return [*missing_implementations(plan), *_mistakes_of_rig(plan.sweep.rig), *_missing_in_kernel(plan)]


def missing_implementations(plan: Plan) -> list[Mistake]:
    """The programs of its implementations that are missing on this machine, each with how to get it."""
    members = [each for implementation in plan.implementations.values() for each in implementation.members]
    implementations = {base_name(each.name): each for each in members}
    return [
        Mistake(f"implementation {name!r} needs {each.name}, which is missing ({each.detail})", fix=each.fix)
        for name, implementation in implementations.items()
        for each in missing_for(implementation)
    ]


def _mistakes_of_rig(rig: str) -> list[Mistake]:
    missing = []
    if rig == "virtual" and find_kernel() is None:
        fix = "run 'owlt kernel build' (4 to 9 minutes, once)"
        missing.append(Mistake("the virtual rig needs a kernel to boot, and none is built", fix=fix))
    if rig == "local" and os.geteuid() != 0:
        fix = "run owlt with sudo, or write 'rig: virtual'"
        missing.append(Mistake("the local rig makes network namespaces, which needs root", fix=fix))
    missing += [
        Mistake(f"the sweep needs {each.name} for {each.needed_by}, which is missing ({each.detail})", fix=each.fix)
        for each in missing_for_rig(rig)
    ]
    if rig == "local" and os.geteuid() == 0 and (mistake := standing()):
        missing.append(mistake)
    return missing


PROBE_LIMIT_S = 30.0


_CONGESTION_CONTROL_NAMES = {"hstcp": "highspeed"}
"""Names that differ from those of their options in the kernel's configuration, in lower case."""
LIST_CONGESTION_CONTROLS = r"""d=/lib/modules/$(uname -r)
[ -e "$d/modules.dep" ] || exit 1
cat /proc/sys/net/ipv4/tcp_available_congestion_control
sed -nE '/tcp_diag/d; s#^[^:]*/tcp_([a-z0-9_]+)\.ko.*#\1#p' "$d/modules.dep"
"""
"""Prints the congestion controls of a host: those of its kernel, and modules that TCP loads when they are asked for. It
fails in a container without them, where it cannot be known."""


def unavailable_congestion_controls(
    implementations: Mapping[str, Implementation], offered: Collection[str], place: str
) -> list[Mistake]:
    """A mistake for each implementation with a congestion control that a kernel does not have; `place` names it."""
    return [
        Mistake(
            f"{name}: {parameter} {as_text(each.parameters[parameter])} is not in {place}",
            f"one of {', '.join(sorted(offered))}",
            did_you_mean(as_text(each.parameters[parameter]), offered, "write one of these in the sweep"),
        )
        for name, each in implementations.items()
        for parameter in kernel_parameters(each)
        if as_text(each.parameters[parameter]) not in offered
    ]


def kernel_parameters(implementation: Implementation) -> list[str]:
    """Its parameters whose values are congestion controls of the kernel."""
    return [name for name, values in implementation.choices.items() if values == "kernel_congestion_controls"]


def _missing_in_kernel(plan: Plan) -> list[Mistake]:
    """The congestion controls of a plan that the kernel of the hosts does not have, on this machine; [] if its kernel
    cannot be asked."""
    if not any(map(kernel_parameters, plan.implementations.values())):
        return []
    kernel = find_kernel()
    if plan.sweep.rig == "virtual":
        settings = _output([str(kernel.path), "--showconfig"]) if kernel else ""
        options = (option.lower() for option in re.findall(r"^CONFIG_TCP_CONG_(\w+)=y", settings, re.MULTILINE))
        offered = {_CONGESTION_CONTROL_NAMES.get(option, option) for option in options} - {"advanced"}
        place = f"the guests' kernel, Linux {kernel.version if kernel else ''}"
    else:
        offered = set(_output(["sh", "-c", LIST_CONGESTION_CONTROLS]).split())
        place = f"this machine's kernel, Linux {os.uname().release}"
    return unavailable_congestion_controls(plan.implementations, offered | {"reno"}, place) if offered else []


def _output(command: list[str]) -> str:
    """What a command prints; "" if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=PROBE_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


KERNEL_FIXES = {
    "netem": "load the module there (modprobe sch_netem), or use a kernel that has it (CONFIG_NET_SCH_NETEM)",
    "programs": "compile the emulator's eBPF programs there, and use a kernel that loads them (CONFIG_BPF_SYSCALL)",
}
"""How to get a capability."""
OTHER_FIX = "use a kernel there that has it"
_PROBE = """import json
from owlt.emulator.kernel.capabilities import probe
from owlt.emulator.kernel.rtnetlink import open_rtnetlink
with open_rtnetlink() as netlink:
    print(json.dumps(probe(netlink)))"""


def unsupported_channels(plan: Plan, capabilities: dict[str, Any], place: str) -> list[Mistake]:
    """What the kernel at a place does not have for the channels of the runs to launch, each with how to fix it."""
    from owlt.emulator.kernel.capabilities import NEEDED_FOR, missing_reasons  # loads pyroute2

    channels = {
        run.permutation: run.channel_key
        for run in plan.runs
        if not infeasible(run, plan.implementations[run.permutation.implementation])
    }
    reasons = {key: missing_reasons(plan.channels[key], capabilities) for key in set(channels.values())}
    cells = [reasons[key] for key in channels.values()]
    absent = {name: reason for each in cells for name, reason in each.items()}
    others = any(not each for each in cells)
    return [
        Mistake(
            f"{plan.sweep.name} needs {name} at {place}: {sum(name in each for each in cells)} of {len(cells)} cells "
            f"have {NEEDED_FOR[name]}, and the kernel there, Linux {capabilities['kernel']}, does not have {name} "
            f"({reason})",
            fix=_fix(name, others),
        )
        for name, reason in sorted(absent.items())
    ]


def kernel_fix(name: str) -> str:
    """How to get a kernel with a capability."""
    return KERNEL_FIXES.get(name, OTHER_FIX)


def _fix(name: str, others: bool) -> str:
    """`others`: whether cells are left that the kernel can make."""
    if others:
        return f"{kernel_fix(name)}; or leave out such cells with 'exclude' in the sweep, or perform others with --only"
    return f"{kernel_fix(name)}; or perform a sweep whose channels do not need it"


def running_kernel_capabilities() -> dict[str, Any] | None:
    """The capabilities of the running kernel, tried in a network namespace of its own; None if that does not work.

    Needs root.
    """
    command = ["unshare", "--net", sys.executable, "-c", _PROBE]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=PROBE_LIMIT_S)
        capabilities = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return capabilities if isinstance(capabilities, dict) else None
