"""What a sweep comes to: every run with its seed, in its order, in the batches that share a guest.

A plan is a pure function of the sweep and its implementations, so the same sweep gives the same plan on
every machine; that is what makes resuming a look-up and a repeated sweep comparable run by run.
"""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from agents.contract import Implementation
from emulator.channel import ChannelSpec, LinkSpec
from orchestrator.errors import ResultsConflict
from orchestrator.sweep import Permutation, Sweep

PLAN_NAME = "plan.json"


class Run(BaseModel):
    """One repetition of one permutation. `order` counts from 1 in the order drawn from the sweep's seed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    permutation: Permutation
    repetition: int
    order: int
    seed: int

    @property
    def rtt_s(self) -> float:
        """The round trip of light alone."""
        return 2 * self.permutation.delay_ns / 1e9

    @property
    def file_time_s(self) -> float:
        """The time the file alone takes at the channel's rate; none where it is unlimited."""
        point = self.permutation
        return 8 * point.file_size_bytes / point.rate_bps if point.rate_bps else 0.0

    def deadline_s(self, implementation: Implementation) -> float:
        """How long the session may take, in the rig's time, before the run has timed out."""
        point = self.permutation
        return implementation.time_limit.deadline_s(self.rtt_s, point.file_size_bytes, point.rate_bps)


class Batch(BaseModel):
    """Runs that one worker performs in this order; on a virtual rig, in one guest booted with this seed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int
    seed: int
    runs: list[Run]


class Plan(BaseModel):
    """A sweep resolved: nothing in it is left to chance or to the machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = 1
    sweep: Sweep
    implementations: dict[str, Implementation]
    batches: list[Batch]

    @property
    def runs(self) -> list[Run]:
        """All runs in their order."""
        return [run for batch in self.batches for run in batch.runs]


def derived_seed(*parts: object) -> int:
    """A 31-bit seed that depends on every part and on nothing else."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def plan_sweep(sweep: Sweep, implementations: dict[str, Implementation]) -> Plan:
    """Every run of the sweep, shuffled by its seed, cut into batches."""
    drawn = [
        (permutation, repetition)
        for permutation in sweep.permutations()
        for repetition in range(1, sweep.repetitions + 1)
    ]
    random.Random(sweep.seed).shuffle(drawn)
    runs = [_run(sweep, order, *point) for order, point in enumerate(drawn, start=1)]
    size = sweep.runs_per_guest
    batches = [
        Batch(index=index, seed=derived_seed(sweep.seed, "guest", index), runs=runs[start : start + size])
        for index, start in enumerate(range(0, len(runs), size))
    ]
    return Plan(sweep=sweep, implementations=implementations, batches=batches)


def _run(sweep: Sweep, order: int, permutation: Permutation, repetition: int) -> Run:
    run_id = f"{permutation.slug}_r{repetition}"
    return Run(
        run_id=run_id,
        permutation=permutation,
        repetition=repetition,
        order=order,
        seed=derived_seed(sweep.seed, "run", run_id),
    )


def channel_of(run: Run, queue_packets: int, seeded: bool) -> ChannelSpec:
    """The channel a run asks for: the same both ways, each direction with a seed of its own.

    `seeded` is false where the kernel's netem cannot take a seed (before Linux 6.7).
    """
    point = run.permutation

    def link(direction: str) -> LinkSpec:
        seed = derived_seed(run.seed, direction) if seeded and point.packet_error_rate else None
        return LinkSpec(
            delay_ns=point.delay_ns,
            rate_bps=point.rate_bps,
            packet_error_rate=point.packet_error_rate,
            queue_packets=queue_packets,
            seed=seed,
        )

    return ChannelSpec(forward=link("forward"), reverse=link("reverse"))


def write_plan(plan: Plan, results: Path) -> None:
    """Echo the plan into a results directory, or find the same one there already.

    Raises ResultsConflict when the directory holds another plan: nothing is mixed, nothing lost.
    """
    path = results / PLAN_NAME
    text = plan.model_dump_json(indent=2) + "\n"
    if path.exists() and path.read_text() != text:
        raise ResultsConflict(
            f"{results}: holds the results of another sweep (its {PLAN_NAME} differs from this one); "
            "give this sweep another name, choose another directory with --results, or move the old one away"
        )
    results.mkdir(parents=True, exist_ok=True)
    draft = results / f".{PLAN_NAME}.draft"
    draft.write_text(text)
    draft.rename(path)
