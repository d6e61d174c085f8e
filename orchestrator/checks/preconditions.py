"""What is missing to perform a plan; `owlt run` refuses to start without it.

On this machine, programs and what the rig needs; in a kernel, what makes the channels of the plan
(`emulator.kernel.capabilities` decides what a channel needs). `doctor` checks what does not depend on a plan.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from owlt.emulator.kernel.capabilities import NEEDED_FOR, missing_reasons
from owlt.inputs.axes import base_name
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.checks.doctor import missing_for, missing_for_rig
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
    return [*missing_implementations(plan), *_missing_for_rig(plan.sweep.rig)]


def missing_implementations(plan: Plan) -> list[Mistake]:
    """The programs of its implementations that are missing on this machine, each with how to get it."""
    implementations = {base_name(name): each for name, each in plan.implementations.items()}
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
