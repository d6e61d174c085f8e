"""The files of a results directory that a report reads, checked: the plan and a run's record.

Only what a report needs is named here; whatever else the orchestrator writes is left unread.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

Outcome = Literal["completed", "corrupt", "unsupported", "failed", "timed_out", "aborted"]


class ReportError(Exception):
    """A results directory from which no report can be made; its text says what to do."""


class _FromFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    @classmethod
    def read(cls, path: Path) -> Self:
        """The value in a JSON file. Raises ReportError naming the file and the key."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as problem:
            raise ReportError(
                f"{path}: cannot be read ({problem.strerror}); wanted a results directory of owlt"
            ) from None
        except ValidationError as problem:
            first = problem.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise ReportError(
                f"{path}: {where}: {first['msg']}; make the report with the version of owlt that wrote it"
            ) from None


class Permutation(_FromFile):
    """One point of the grid: a box in a plot. `rate_bps` None is an unlimited channel."""

    implementation: str
    file_size_bytes: int
    rate_bps: float | None
    delay_ns: int
    packet_error_rate: float


class PlannedRun(_FromFile):
    """One repetition that was asked for."""

    run_id: str
    permutation: Permutation


class _Batch(_FromFile):
    runs: tuple[PlannedRun, ...]


class Sweep(_FromFile):
    """What the user asked for, as far as a report names it; quantities in ns, bit/s and bytes."""

    name: str
    title: str = ""
    seed: int
    implementations: tuple[str, ...]
    repetitions: int
    queue_packets: int | None = None

    def place(self, permutation: Permutation) -> tuple[float, ...]:
        """Where a permutation stands in tables: channel by channel, the implementations side by side."""
        names = [Path(name).stem for name in self.implementations]
        return (
            math.inf if permutation.rate_bps is None else permutation.rate_bps,
            permutation.delay_ns,
            permutation.file_size_bytes,
            permutation.packet_error_rate,
            names.index(permutation.implementation),
        )


class Plan(_FromFile):
    """plan.json: the sweep and every run of it."""

    schema_version: Literal[1]
    sweep: Sweep
    batches: tuple[_Batch, ...]

    @property
    def runs(self) -> list[PlannedRun]:
        """All runs in their order."""
        return [run for batch in self.batches for run in batch.runs]


class Record(Permutation):
    """record.json: how a run ended. Times are ns since 1970 of the rig's clock, virtual or not."""

    schema_version: Literal[1]
    run_id: str
    title: str
    protocol: str
    repetition: int
    order: int
    seed: int
    clock: str
    rig: str
    outcome: Outcome
    reason: str = ""
    suspect: tuple[str, ...] = ()
    started_at_ns: int | None = None
    ended_at_ns: int | None = None
    file_whole_at_ns: int | None = None
    versions: dict[str, str] = {}
    kernel_hz: int | None = None

    @property
    def permutation(self) -> Permutation:
        """The point of the grid that the run repeats."""
        return Permutation(**{name: getattr(self, name) for name in Permutation.model_fields})
