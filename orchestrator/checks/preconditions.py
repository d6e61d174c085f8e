"""What is missing to perform a plan; `owlt run` refuses to start without it.

On this machine, programs and what the rig needs; in a kernel, what makes the channels of the plan
(`emulator.kernel.capabilities` decides what a channel needs). `doctor` checks what does not depend on a plan.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Mapping
from typing import Any

from owlt.agents.contract.implementation import Implementation
from owlt.agents.contract.placeholders import as_text
from owlt.inputs.axes import base_name
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.checks.doctor import missing_for, missing_for_rig
from owlt.orchestrator.errors import did_you_mean
from owlt.orchestrator.kernel.kernel import find_kernel
from owlt.orchestrator.planning.estimate import infeasible
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.rigs.namespaces import standing


def missing_for_plan(plan: Plan) -> list[Mistake]:
    """Return what is missing: of implementations, and for the rig; each with how to get it.

    `lab_doctor` checks the hosts of a lab rig.
    """
    if plan.sweep.rig == "lab":
        return [Mistake("a lab rig needs an inventory, which names its hosts", fix="add --rig INVENTORY (docs/lab.md)")]
    return [*missing_implementations(plan), *_missing_for_rig(plan.sweep.rig), *_missing_in_kernel(plan)]


def missing_implementations(plan: Plan) -> list[Mistake]:
    """The programs of its implementations that are missing on this machine, each with how to get it."""
    members = [each for implementation in plan.implementations.values() for each in implementation.members]
    implementations = {base_name(each.name): each for each in members}
    return [
        Mistake(f"implementation {name!r} needs {each.name}, which is missing ({each.detail})", fix=each.fix)
        for name, implementation in implementations.items()
        for each in missing_for(implementation)
    ]


def _missing_for_rig(rig: str) -> list[Mistake]:
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
PROBE_LIMIT_S = 30.0


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
