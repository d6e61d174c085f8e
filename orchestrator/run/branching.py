"""Runs that share their beginning: one guest starts both programs and then becomes a template; each run continues in a
copy of this guest, with its own faults.

Runs share their beginning if they differ only in the packets that their aimed faults hit. The first packet leaves the
queue, and is counted, only after the branch, so a run has the same packets as one that was performed from its start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from owlt.emulator.channel.packet_filter import ANY
from owlt.emulator.channel.spec import DIRECTIONS
from owlt.inputs.sweep import OF_CHANNELS, Sweep
from owlt.orchestrator.hosts.confinement import START_STEP_NS
from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.rigs.rig import Rig
from owlt.orchestrator.rigs.template import become_template
from owlt.orchestrator.run.programs import Intervention
from owlt.orchestrator.run.state import RunResult

BEGINNING = "shared-beginning"
"""The id of the shared run that the others branch from, and the name of its channel."""
NEVER = 999_999_999_999_999
"""An occurrence that no run reaches."""
_NO_HITS = [{"direction": direction, "occurrence": NEVER, "action": "drop"} for direction in DIRECTIONS]
_SIMPLE_ACTIONS = {"delay", "duplicate"}
BRANCH_AFTER_NS = 100_000
"""Time from the start of the second program to the branch. Computing takes no time on the exact clock, so the program
has then sent its first packet, but the packet is still in the queue: 100 bytes at 1 Mbit/s take 0.8 ms."""


def beginning_of(run: Run, sweep: Sweep) -> Run | None:
    """The shared run: it begins like this run, and its faults hit nothing. It is equal for all runs that can share it;
    None if this run has to be performed from its start."""
    name = run.permutation.channel_name
    is_altered = sweep.announce_outages or any(name in getattr(sweep, key) for key in OF_CHANNELS)
    is_alone = sweep.clock != "exact" or sweep.rig != "virtual" or sweep.host_captures or is_altered
    if is_alone or not all(map(_is_simple, run.faults)):
        return None
    permutation = run.permutation.model_copy(update={"channel_name": BEGINNING})
    own = {"run_id": BEGINNING, "permutation": permutation, "order": 0, "faults": _NO_HITS}
    return run.model_copy(update=own)


def _is_simple(fault: Mapping[str, Any]) -> bool:
    """Whether a fault, as in a plan, is aimed at packets of any class, from the launch on, and needs no other
    packet."""
    action = fault["action"]
    return (
        fault.keys() <= {"direction", "packet", "occurrence", "action"}
        and fault.get("packet", ANY) == ANY
        and (action == "drop" or action.keys() <= _SIMPLE_ACTIONS)
    )


class Branching:
    """The run that a guest performs: first the shared run; after the branch, in each copy, the copy's own run."""

    def __init__(self, beginning: Run, own_run: Callable[[], Run]) -> None:
        """`own_run` returns the run that a copy performs."""
        self.run = beginning
        self.has_branched = False
        self._own_run = own_run

    def interventions(self, rig: Rig, result: RunResult) -> Iterable[Intervention]:
        """The branch, right after the launch of the second program: programs start at multiples of START_STEP_NS."""
        now_ns = time.time_ns()
        wait_ns = START_STEP_NS - now_ns % START_STEP_NS + BRANCH_AFTER_NS
        return [
            Intervention(time.monotonic() + wait_ns / 1e9, "the run was to branch", lambda: self._branch(rig, result))
        ]

    def _branch(self, rig: Rig, result: RunResult) -> None:
        if any(fault["seen"] for fault in rig.channel.faults_status()["faults"]):
            raise HostError("the first packet left the queue before the run branched")
        become_template()
        own = self._own_run()
        result.channel = rig.channel.faults_replace(own.faults).to_wire()
        self.run, self.has_branched = own, True
