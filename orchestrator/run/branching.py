"""Runs that share their beginning: one guest starts both programs and then becomes a template; each run continues in a
copy of this guest, with its own faults and seeds.

Runs share their beginning if they differ only in the packets that their aimed faults hit, or, as runs of a
deterministic implementation, only in the packet error rate and the seeds of their channel. The first packet leaves the
queue, and is counted, only after the branch, so a run has the same packets as one that was performed from its start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from owlt.emulator.channel.aimed_fault import ANY
from owlt.emulator.channel.spec import DIRECTIONS, ChannelSpec
from owlt.inputs.sweep import OF_CHANNELS
from owlt.orchestrator.hosts.confinement import START_STEP_NS
from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.planning.plan import Plan, Run, channel_of, first_sharing
from owlt.orchestrator.planning.run_channel import channel_key, with_links
from owlt.orchestrator.rigs.template import become_template, free_reads, wait_for_idle
from owlt.orchestrator.run.applying import enter_certificate
from owlt.orchestrator.run.programs import Intervention
from owlt.orchestrator.run.state import RunResult, Setting
from owlt.orchestrator.run.task import OwnPart
from owlt.results.recorded_runs import run_directory

BEGINNING = "shared-beginning"
"""The id of the shared run that the others branch from, and the name of its channel."""
NEVER = 999_999_999_999_999
"""An occurrence that no run reaches."""
_NO_HITS = [{"direction": direction, "occurrence": NEVER, "action": "drop"} for direction in DIRECTIONS]
_RANDOM_KEYS = {"packet_error_rate", "seed"}
"""The keys of a link whose values may differ from those in the shared run."""
_SIMPLE_ACTIONS = {"delay", "duplicate"}
BRANCH_AFTER_NS = 30_000
"""Time from the start of the second program to the branch, or to the moment after it when both programs wait.
Computing takes no time on the exact clock, so the second one has then sent its first packet, but the packet is still in
the queue: 100 bytes at 10 Mbit/s take 80 µs."""


class Sharing:
    """Which runs of a plan share their beginning."""

    def __init__(self, plan: Plan) -> None:
        implementations = plan.implementations.items()
        self._sweep = plan.sweep
        self._deterministic = {name for name, each in implementations if each.is_deterministic}
        self._given_error_rates = {name for name, each in implementations if each.is_given_error_rates}
        self._without_errors = {
            key: _without_errors(channel)
            for key, channel in plan.channels.items()
            if plan.sweep.clock == "exact" and channel.timeline is None  # the steps of a timeline have seeds, too
        }
        self._keys = {key: channel_key(channel) for key, channel in self._without_errors.items()}

    @property
    def channels(self) -> dict[str, ChannelSpec]:
        """The channels of the shared runs, by their keys."""
        return {self._keys[key]: channel for key, channel in self._without_errors.items()}

    def beginning_of(self, run: Run) -> Run | None:
        """The shared run: it begins like this run, and its faults hit nothing. It is equal for all runs that can share
        it; None if this run has to be performed from its start. Its channel is one of the plan or of `channels`."""
        sweep, name = self._sweep, run.permutation.channel_name
        is_altered = sweep.announce_outages or any(name in getattr(sweep, key) for key in OF_CHANNELS)
        is_alone = sweep.clock != "exact" or sweep.rig != "virtual" or sweep.host_captures or is_altered
        if is_alone or not all(map(_is_simple, run.faults)):
            return None
        if run.faults or not self._starts_alike(run):
            run = run.model_copy(update={"faults": _NO_HITS})
        else:
            run = self._without_random_effects(run)
        permutation = run.permutation.model_copy(update={"channel_name": BEGINNING})
        return run.model_copy(update={"run_id": BEGINNING, "permutation": permutation, "order": 0})

    def _starts_alike(self, run: Run) -> bool:
        """Whether nothing depends on the seed of the run before the first packet has left the queue; without a rate, no
        packet waits there."""
        is_deterministic = run.permutation.implementation in self._deterministic
        return is_deterministic and run.slowest_rate_bps is not None and run.channel_key in self._keys

    def _without_random_effects(self, run: Run) -> Run:
        """The run with what is equal in all that start alike: the first of their repetitions, no seed, and, unless the
        programs are given an error rate, no packet errors."""
        alike = {"repetition": first_sharing(run.repetition), "seed": 0}
        if run.permutation.implementation in self._given_error_rates:
            return run.model_copy(update=alike)
        channel = {"permutation": run.permutation.without_errors, "channel_key": self._keys[run.channel_key]}
        return run.model_copy(update=alike | channel)


def _without_errors(channel: ChannelSpec) -> ChannelSpec:
    """The channel without packet errors."""
    return with_links(channel, lambda _, link: link.model_copy(update={"packet_error_rate": 0.0}))


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

    def __init__(self, beginning: Run, own_part: Callable[[], OwnPart], results: Path) -> None:
        """`own_part` returns the part of a copy's task that is its own; `results` is the directory for its results."""
        self.run = beginning
        self.setting: Setting | None = None
        """The setting of the copy's own run; None before the branch."""
        self._results = results
        self._own_part = own_part

    @property
    def directory(self) -> Path:
        """The directory of the run."""
        return run_directory(self._results, self.run.run_id)

    def in_own_directory(self, text: str) -> str:
        """A text with the run's own directory on the hosts, instead of that of the shared run, in which it takes
        place."""
        return text.replace(f"/{BEGINNING}/", f"/{self.run.run_id}/")

    def interventions(self, setting: Setting, result: RunResult) -> Iterable[Intervention]:
        """The branch, after the launch of the second program: programs start at multiples of START_STEP_NS."""
        now_ns = time.time_ns()
        branch_ns = now_ns + START_STEP_NS - now_ns % START_STEP_NS + BRANCH_AFTER_NS
        return [
            Intervention(time.monotonic(), "the run was to branch", lambda: self._branch(branch_ns, setting, result))
        ]

    def _branch(self, earliest_ns: int, setting: Setting, result: RunResult) -> None:
        wait_for_idle(earliest_ns)
        with free_reads():
            _require_nothing_sent(setting)
            become_template()
            own = self._own_part()
            sweep = setting.sweep.model_copy(update={"name": own.sweep_name})
            setting = replace(setting, sweep=sweep, channels=own.channels, certificates=own.certificates)
            self._apply_own_effects(own.run, setting, result)
            enter_certificate(own.run, setting, result)
        self.run, self.setting = own.run, setting

    def _apply_own_effects(self, own: Run, setting: Setting, result: RunResult) -> None:
        """Give the channel the faults, or the packet error rates and the seeds, of the copy's own run."""
        channel = setting.rig.channel
        if self.run.faults:
            result.channel = channel.faults_replace(own.faults).to_wire()
            return
        specified = channel_of(own, setting.channel_of(own), setting.netem_takes_seeds).to_wire()
        own_values = {
            way: {key: value for key, value in specified.get(way, {}).items() if key in _RANDOM_KEYS}
            for way in DIRECTIONS
        }
        if any(own_values.values()):
            result.channel = channel.change("each", **own_values).to_wire()


def _require_nothing_sent(setting: Setting) -> None:
    """Raise HostError if a packet has left the queue, where nothing depends on chance or on a fault yet."""
    for stages in setting.rig.channel.statistics().values():
        for name, counters in stages.items():
            waiting = counters.get("waiting_packets", 0) if name == "pipe" else 0
            if name != "gate" and counters.get("packets", 0) + waiting > 0:
                raise HostError("the first packet left the queue before the run branched")
