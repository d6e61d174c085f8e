"""What a sweep comes to: every run with its seed, in its order, in the batches that share a guest.

A plan is a pure function of the sweep and its implementations, so the same sweep gives the same plan on
every machine; that is what makes resuming a look-up and a repeated sweep comparable run by run.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from agents.contract import Implementation
from emulator.channel import ChannelSpec
from orchestrator.differences import differences
from orchestrator.errors import ResultsConflict, SweepMistake
from orchestrator.run_channel import (
    channel_at,
    channel_key,
    longest_rtt_s,
    seeded,
    slowest_rate_bps,
    time_to_change_s,
)
from orchestrator.seeds import derived_seed
from orchestrator.sweep import Permutation, Sweep
from orchestrator.whole_file import write_whole

PLAN_NAME = "plan.json"
HOW_TO_WRITE_PLAN = "'owlt run' with the sweep file of these results writes it again"
CHANNELS_PER_GUEST = 3


Channel = Annotated[
    ChannelSpec,
    BeforeValidator(lambda given: given if isinstance(given, ChannelSpec) else ChannelSpec.from_wire(given)),
    PlainSerializer(ChannelSpec.to_wire),
]
"""A channel as it is written, in every file."""


class Run(BaseModel):
    """One repetition of one permutation. `order` counts from 1 in the order drawn from the sweep's seed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    permutation: Permutation
    repetition: int
    order: int
    seed: int
    channel_key: str
    """Which of the plan's channels; the run's own seeds make it the one that it asks for."""
    rtt_s: float
    """The round trip of light alone, the longest that the channel ever has."""
    slowest_rate_bps: float | None
    """The lowest rate that the channel ever has; None: unlimited."""
    channel_changes_s: float = 0.0
    """How long the channel's timeline is."""

    @property
    def file_time_s(self) -> float:
        """The time the file alone takes at the channel's lowest rate; none where it is unlimited."""
        return 8 * self.permutation.file_size_bytes / self.slowest_rate_bps if self.slowest_rate_bps else 0.0

    def deadline_s(self, implementation: Implementation) -> float:
        """How long the session may take, in the rig's time, before the run has timed out."""
        size_bytes = self.permutation.file_size_bytes
        limit_s = implementation.time_limit.deadline_s(self.rtt_s, size_bytes, self.slowest_rate_bps)
        return limit_s + self.channel_changes_s


class Batch(BaseModel):
    """What one worker does in this order; on a virtual rig, in one guest booted with this seed.

    `certify` has the keys of channels to be certified; a batch has these or runs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int
    seed: int
    certify: list[str] = []
    runs: list[Run] = []


class Plan(BaseModel):
    """A sweep resolved: nothing in it is left to chance or to the machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = 1
    sweep: Sweep
    implementations: dict[str, Implementation]
    channels: dict[str, Channel]
    """Every channel of the sweep, without seeds, by its key."""
    certifications: list[Batch]
    """Done before any run."""
    batches: list[Batch]

    @property
    def runs(self) -> list[Run]:
        """All runs in their order."""
        return [run for batch in self.batches for run in batch.runs]


def plan_sweep(
    sweep: Sweep, implementations: dict[str, Implementation], profiles: Mapping[str, ChannelSpec] = MappingProxyType({})
) -> Plan:
    """Every run of the sweep, shuffled by its seed, cut into batches; `profiles` has its channels by their own names.

    In the plan these names stand for the files that the sweep gives.

    Raises ProfileError where the sweep contradicts a profile, SweepMistake where it tells a build what no run is at.
    """
    points = sweep.permutations(implementations, profiles)
    if strangers := list(sweep.told_in_vain(points)):
        raise SweepMistake("\n".join(strangers))
    drawn = [(permutation, repetition) for permutation in points for repetition in range(1, sweep.repetitions + 1)]
    random.Random(sweep.seed).shuffle(drawn)
    channels: dict[str, ChannelSpec] = {}
    runs = []
    for order, (permutation, repetition) in enumerate(drawn, start=1):
        channel = channel_at(permutation, sweep, profiles.get(permutation.channel_name))
        key = channel_key(channel)
        channels[key] = channel
        runs.append(_run(sweep, order, permutation, repetition, key, channel))
    size = sweep.runs_per_guest
    batches = [
        Batch(index=index, seed=derived_seed(sweep.seed, "guest", index), runs=runs[start : start + size])
        for index, start in enumerate(range(0, len(runs), size))
    ]
    return Plan(
        sweep=sweep.model_copy(update={"channel": list(profiles)}) if sweep.channel else sweep,
        implementations=implementations,
        channels=dict(sorted(channels.items())),
        certifications=_certifications(sweep, channels, first_index=len(batches)) if sweep.certify else [],
        batches=batches,
    )


def _certifications(sweep: Sweep, channels: dict[str, ChannelSpec], first_index: int) -> list[Batch]:
    """Each channel once, a few in a guest. A bypass promises nothing that could be measured."""
    keys = sorted(key for key, channel in channels.items() if not channel.bypass)
    return [
        Batch(
            index=first_index + number,
            seed=derived_seed(sweep.seed, "certification", number),
            certify=keys[start : start + CHANNELS_PER_GUEST],
        )
        for number, start in enumerate(range(0, len(keys), CHANNELS_PER_GUEST))
    ]


def _run(sweep: Sweep, order: int, permutation: Permutation, repetition: int, key: str, channel: ChannelSpec) -> Run:
    run_id = f"{permutation.slug}_r{repetition}"
    return Run(
        run_id=run_id,
        permutation=permutation,
        repetition=repetition,
        order=order,
        seed=derived_seed(sweep.seed, "run", run_id),
        channel_key=key,
        rtt_s=longest_rtt_s(channel),
        slowest_rate_bps=slowest_rate_bps(channel),
        channel_changes_s=time_to_change_s(channel),
    )


def channel_of(run: Run, channel: ChannelSpec, netem_takes_seeds: bool) -> ChannelSpec:
    """The channel that a run asks for: the plan's, each direction with a seed of its own where it draws anything."""
    return seeded(channel, partial(derived_seed, run.seed), netem_takes_seeds)


def write_plan(plan: Plan, results: Path) -> None:
    """Echo the plan into a results directory, or find the same one there already.

    Raises ResultsConflict as `require_same_plan` does: nothing is mixed, nothing lost.
    """
    require_same_plan(plan, results)
    results.mkdir(parents=True, exist_ok=True)
    write_whole(results / PLAN_NAME, _text(plan))


def require_same_plan(plan: Plan, results: Path) -> None:
    """Raise ResultsConflict when a results directory holds another plan, or a damaged one; changes nothing."""
    path = results / PLAN_NAME
    try:
        there = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as problem:
        raise ResultsConflict(f"{path}: cannot be read ({problem.strerror}); {HOW_TO_WRITE_PLAN}") from problem
    if there == _text(plan).encode():
        return
    try:
        in_words = differences(json.loads(there), json.loads(_text(plan)))
    except (ValueError, LookupError, TypeError, AttributeError) as problem:
        raise ResultsConflict(f"{path}: damaged ({problem}); remove it, and {HOW_TO_WRITE_PLAN}") from problem
    raise ResultsConflict(
        f"{results}: holds the results of another sweep: {in_words}; "
        "choose another directory with --results, give this sweep another name, or move the old results away "
        "(nothing can be added to a sweep: the order of all its runs is drawn at once)"
    )


def _text(plan: Plan) -> str:
    return plan.model_dump_json(indent=2) + "\n"
