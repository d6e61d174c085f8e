"""plan.json: the sweep, its implementations and channels, and every run with its seed, in batches.

How a sweep becomes a plan belongs to `orchestrator.planning.plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, model_validator

from owlt.agents.contract.implementation import Implementation
from owlt.inputs.sweep import Sweep
from owlt.results.files import WrittenChannel, stating_problems_of
from owlt.results.permutation import Permutation
from owlt.results.plain_files import FileName, read_json
from owlt.results.upgrades import MOST_PLAN_BYTES, PLAN_STEPS, upgraded

Channel = TypeVar("Channel")


class Run(BaseModel):
    """One repetition of one permutation. `order` is its place in this plan, from 1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: FileName
    permutation: Permutation
    repetition: int
    is_baseline: bool = False
    """Whether it is one of the runs that show drift; their repetitions are counted on their own."""
    order: int
    seed: int
    channel_key: str
    """The key of one of the plan's channels; the run adds its own seeds to it."""
    rtt_s: float
    """The longest round trip of the channel: the propagation delays of both directions."""
    slowest_rate_bps: float | None
    """The lowest rate of the channel over time; None: unlimited."""
    channel_changes_s: float = 0.0
    """The duration of the channel's timeline, or the time until a host has restarted and all commands are
    given."""
    faults: list[dict[str, JsonValue]] = []
    """The faults that are aimed at its packets, as a channel has them written; a channel of the plan has none."""

    @property
    def file_time_s(self) -> float:
        """The transmission time of the file at the channel's lowest rate; 0 if it is unlimited, or without a file."""
        size_bytes = self.permutation.file_size_bytes or 0
        return 8 * size_bytes / self.slowest_rate_bps if self.slowest_rate_bps else 0.0

    @property
    def duration_s(self) -> float:
        """How long the sender is to send; 0 if it sends a file."""
        return (self.permutation.duration_ns or 0) / 1e9

    def deadline_s(self, implementation: Implementation) -> float:
        """The duration of the session, on the rig's clock, after which the run times out."""
        size_bytes = self.permutation.file_size_bytes
        limit_s = implementation.time_limit.deadline_s(self.rtt_s, size_bytes, self.slowest_rate_bps, self.duration_s)
        return limit_s + self.channel_changes_s


class Batch(BaseModel):
    """The work of one worker, in this order; on a virtual rig, in one guest booted with this seed. On the exact clock
    each run has a guest of its own, all with this seed.

    `certify` has the keys of channels to be certified; a batch has these or runs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int
    seed: int
    certify: list[str] = []
    runs: list[Run] = []


class PlanChange(BaseModel):
    """A plan that was written into a results directory: when, by which version of owlt, and what was new in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: datetime
    owlt: str
    runs: int
    """The number of runs of the complete plan."""
    added: int
    removed: int
    """Runs of the previous plan that have no record and are not in this one."""
    changes: list[str] = []
    """The keys of the sweep that changed, with both values; [] for the first plan."""

    @property
    def text(self) -> str:
        """One line for users."""
        counts = [f"{count} {'run' if count == 1 else 'runs'} {what}" for count, what in self._counts if count]
        why = f" ({'; '.join(self.changes)})" if self.changes else ""
        return f"{', '.join(counts) or 'no run added'}{why}"

    @property
    def _counts(self) -> tuple[tuple[int, str], ...]:
        return (self.added, "added"), (self.removed, "removed before being performed")


OrderOfRepetitions = Literal["one after the other", "first, then the others", "mixed"]
"""Whether all runs of a repetition come before those of the next, or only those of the first before all others."""


class PlanFile(BaseModel, Generic[Channel]):
    """A resolved sweep: nothing in it depends on chance or on the machine, except for its history.

    Its channels are values for those who perform it. Readers of results leave them in their written form: to parse a
    timeline of 100,000 steps takes seconds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[19] = 19
    sweep: Sweep
    implementations: dict[str, Implementation]
    """The implementations by name, in the order of the sweep; a variant for each value of a parameter that it
    varies."""
    left_out_pairs: dict[str, str] = {}
    """The pairs that the sweep's `pairs` would have if they were possible: why not, by name."""
    channels: dict[str, Channel]
    """Every channel of the sweep, without seeds, by its key."""
    certifications: list[Batch]
    """The batches of certifications, performed before any run."""
    batches: list[Batch]
    history: list[PlanChange] = []
    """One entry for each plan written into the results directory, oldest first; [] until the plan is written."""

    @property
    def runs(self) -> list[Run]:
        """All runs in their order."""
        return [run for batch in self.batches for run in batch.runs]

    @property
    def guest_seeds(self) -> dict[str, int]:
        """The seed of each run's guest, by the name of the run."""
        return {run.run_id: batch.seed for batch in self.batches for run in batch.runs}

    @property
    def order_of_repetitions(self) -> OrderOfRepetitions:
        """Older versions mixed all of them."""
        in_order = sorted((run for run in self.runs if not run.is_baseline), key=lambda run: run.order)
        repetitions = [run.repetition for run in in_order]
        if repetitions == sorted(repetitions):
            return "one after the other"
        first = repetitions.count(1)
        return "first, then the others" if set(repetitions[:first]) == {1} else "mixed"

    def place(self, permutation: Permutation, implementations: Sequence[str]) -> tuple[float, ...]:
        """The position of a permutation in tables: channel by channel, the implementations side by side in this
        order."""
        channels = self.sweep.channel_names
        return (
            channels.index(permutation.channel_name) if permutation.channel_name in channels else len(channels),
            permutation.ip,
            *permutation.places("rate", "reverse_rate", "delay", "reverse_delay"),
            permutation.load,
            *permutation.places("packet_error_rate", "reverse_packet_error_rate"),
            implementations.index(permutation.implementation),
        )


class WrittenPlan(PlanFile[WrittenChannel]):
    """The plan of recorded runs, whose channels are as they are written."""

    @model_validator(mode="after")
    def _require_every_channel(self) -> Self:
        if missing := sorted({run.channel_key for run in self.runs} - set(self.channels)):
            raise ValueError(f"runs are on the channel {missing[0]}, which is not among its channels")
        return self


def read_written_plan(path: Path) -> WrittenPlan:
    """The plan in a file, upgraded if an older version of owlt wrote it. Keys that this version does not know are
    ignored.

    Raises FileNotFoundError if the file does not exist, DamagedFile if it cannot be read, ReportError, naming file and
    key, if a newer version of owlt wrote it or a key is missing.
    """
    with stating_problems_of(path):
        values: Any = upgraded(read_json(path, MOST_PLAN_BYTES), PLAN_STEPS)
        return WrittenPlan.model_validate(values, extra="ignore")
