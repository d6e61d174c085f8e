"""What this machine is missing to perform a plan; `owlt run` refuses to start without it.

What `owlt doctor` examines, which is independent of a plan, is `doctor`'s.
"""

from __future__ import annotations

import os

from owlt.inputs.axes import base_name
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.checks.doctor import missing_for, missing_for_rig
from owlt.orchestrator.kernel.build import find_kernel
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.rigs import namespaces


def missing_for_plan(plan: Plan) -> list[Mistake]:
    """Return what is missing: of implementations, and for the rig; each with how to get it.

    The hosts of a lab rig are `lab_doctor`'s.
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
    if rig == "local" and os.geteuid() == 0 and (mistake := namespaces.standing()):
        missing.append(mistake)
    return missing
