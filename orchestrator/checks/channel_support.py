"""Whether a kernel can make the channels of a plan; what a channel needs is decided by `emulator.kernel.capabilities`.

Where the kernel is, and how its capabilities are found out, is up to the callers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from owlt.emulator.kernel.capabilities import NEEDED_FOR, missing_reasons
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.planning.estimate import infeasible
from owlt.orchestrator.planning.plan import Plan

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
    """How a kernel gets a capability."""
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
