"""Runs that share their beginning: one guest starts both programs and then becomes a template; each run continues in a
copy of this guest, with its own faults and seeds.

Runs share their beginning if they differ only in the packets that their aimed faults hit, or, as repetitions of a
deterministic implementation, only in the seeds of their channel. The first packet leaves the queue, and is counted,
only after the branch, so a run has the same packets as one that was performed from its start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from owlt.emulator.channel.packet_filter import ANY
from owlt.emulator.channel.spec import DIRECTIONS
from owlt.inputs.sweep import OF_CHANNELS, Sweep
from owlt.orchestrator.hosts.confinement import START_STEP_NS
from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.planning.plan import Run, channel_of, first_sharing
from owlt.orchestrator.rigs.template import become_template, free_reads, wait_for_idle
from owlt.orchestrator.run.programs import Intervention
from owlt.orchestrator.run.state import RunResult, Setting
from owlt.results.recorded_runs import run_directory

BEGINNING = "shared-beginning"
"""The id of the shared run that the others branch from, and the name of its channel."""
NEVER = 999_999_999_999_999
"""An occurrence that no run reaches."""
_NO_HITS = [{"direction": direction, "occurrence": NEVER, "action": "drop"} for direction in DIRECTIONS]
_SIMPLE_ACTIONS = {"delay", "duplicate"}
BRANCH_AFTER_NS = 30_000
"""Time from the start of the second program to the branch, or to the moment after it when both programs wait.
Computing takes no time on the exact clock, so the second one has then sent its first packet, but the packet is still in
the queue: 100 bytes at 10 Mbit/s take 80 µs."""


def beginning_of(run: Run, sweep: Sweep, is_deterministic: bool = False) -> Run | None:
    """The shared run: it begins like this run, and its faults hit nothing. It is equal for all runs that can share it;
    None if this run has to be performed from its start. `is_deterministic`: whether nothing depends on the run's seed
    before the first packet has left the queue."""
    name = run.permutation.channel_name
    is_altered = sweep.announce_outages or any(name in getattr(sweep, key) for key in OF_CHANNELS)
    is_alone = sweep.clock != "exact" or sweep.rig != "virtual" or sweep.host_captures or is_altered
    if is_alone or not all(map(_is_simple, run.faults)):
        return None
    permutation = run.permutation.model_copy(update={"channel_name": BEGINNING})
    own = {"run_id": BEGINNING, "permutation": permutation, "order": 0}
    if is_deterministic and run.repetition > 1 and not run.faults:
        return run.model_copy(update={**own, "repetition": first_sharing(run.repetition), "seed": 0})
    return run.model_copy(update={**own, "faults": _NO_HITS})


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

    def __init__(self, beginning: Run, setting: Setting, own_run: Callable[[], Run], results: Path) -> None:
        """`own_run` returns the run that a copy performs; `results` is the directory for its results."""
        self.run = beginning
        self.has_branched = False
        self._results = results
        self._setting = setting
        self._own_run = own_run

    @property
    def directory(self) -> Path:
        """The directory of the run."""
        return run_directory(self._results, self.run.run_id)

    def interventions(self, result: RunResult) -> Iterable[Intervention]:
        """The branch, after the launch of the second program: programs start at multiples of START_STEP_NS."""
        now_ns = time.time_ns()
        branch_ns = now_ns + START_STEP_NS - now_ns % START_STEP_NS + BRANCH_AFTER_NS
        return [Intervention(time.monotonic(), "the run was to branch", lambda: self._branch(branch_ns, result))]

    def _branch(self, earliest_ns: int, result: RunResult) -> None:
        wait_for_idle(earliest_ns)
        with free_reads():
            self._require_nothing_sent()
            become_template()
            own = self._own_run()
            self._give_own_chance(own, result)
        self.run, self.has_branched = own, True

    def _give_own_chance(self, own: Run, result: RunResult) -> None:
        """Give the channel the faults or the seeds of the copy's own run."""
        channel = self._setting.rig.channel
        if self.run.faults:
            result.channel = channel.faults_replace(own.faults).to_wire()
            return
        specified = channel_of(own, self._setting.channel_of(own), self._setting.netem_takes_seeds)
        seeds = {way: {"seed": seed} for way in DIRECTIONS if (seed := getattr(specified, way).seed) is not None}
        if seeds:
            result.channel = channel.change("each", **seeds).to_wire()

    def _require_nothing_sent(self) -> None:
        """Raise HostError if a packet has left the queue, where nothing depends on chance or on a fault yet."""
        for stages in self._setting.rig.channel.statistics().values():
            for name, counters in stages.items():
                waiting = counters.get("waiting_packets", 0) if name == "pipe" else 0
                if name != "gate" and counters.get("packets", 0) + waiting > 0:
                    raise HostError("the first packet left the queue before the run branched")
