"""A worker's task, a file in its directory with all that it needs to perform its batch.

`planned_record` makes the record of a run of which only the task and the outcome are known, such as one that was lost
with its guest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AliasPath, BaseModel, ConfigDict, Field

from owlt.agents.contract.implementation import Implementation
from owlt.inputs.sweep import Sweep
from owlt.installation import own_version
from owlt.orchestrator.planning.plan import Batch, Channel, Plan, Run
from owlt.orchestrator.rigs.provenance import UNKNOWN_MACHINE, Provenance
from owlt.results.certificates import Certified
from owlt.results.record import Outcome, ReasonCode, RunRecord

TASK_NAME = "batch.json"


class Soak(BaseModel):
    """How the runs of a task follow each other in one life of the hosts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    starts_ns: list[int]
    """When each run starts, in ns since the start of the guest; later if the run before it still lasts."""
    number_parameter: str = ""
    """The parameter that numbers the sessions; "": they are not numbered."""
    numbers: list[int] = []
    """Its value for each run."""
    first_number: int = 1
    """Number of the first run among the transfers of the life that is asked for."""
    starts_both: bool = False
    """Whether both programs are started for each run, also one that could serve the next."""
    most_failed: int
    """Number of runs that are not completed after which the life ends."""


class Task(BaseModel):
    """One batch, with the parts of the plan that it refers to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sweep: Sweep
    implementations: dict[str, Implementation]
    channels: dict[str, Channel]
    certify: list[str]
    certificates: dict[str, Certified]
    runs: list[Run]
    owlt: str
    """Its version."""
    kernel_hz: int | None
    is_survey: bool = False
    """The worker only writes the versions of all implementations."""
    versions: dict[str, str] | None = None
    """The versions of the implementations, by name; None: the worker asks the programs."""
    provenance: dict[str, dict[str, str]] = {}
    """The machine's provenance in the records of each implementation, by name."""
    is_beginning: bool = False
    """The guest becomes a template after the launch of the one run, which all others of `branching` share."""
    soak: Soak | None = None
    """Not None: the runs, which are of one implementation, are one life of the hosts."""


def write_task(
    plan: Plan,
    batch: Batch,
    directory: Path,
    kernel_hz: int | None,
    certificates: dict[str, Certified],
    versions: dict[str, str] | None = None,
    provenance: Provenance = UNKNOWN_MACHINE,
    is_beginning: bool = False,
) -> None:
    """Write the task of a batch into its worker's directory; `certificates` are those of its runs' channels.

    The task has only what its runs need, so that a run does not depend on what else the plan has. That of a beginning
    has no certificates: they belong to the channels of the runs that share it.
    """
    keys = channel_keys(batch)
    names = {run.permutation.implementation for run in batch.runs}
    task = Task.model_construct(  # its parts are those of the plan, which were checked
        sweep=plan.sweep,
        implementations={name: each for name, each in plan.implementations.items() if name in names},
        channels={key: channel for key, channel in plan.channels.items() if key in keys},
        certify=batch.certify,
        certificates={} if is_beginning else certificates,
        runs=batch.runs,
        owlt=own_version(),
        kernel_hz=kernel_hz,
        versions=versions,
        provenance={name: provenance.digests(name) for name in sorted(names)},
        is_beginning=is_beginning,
    )
    (directory / TASK_NAME).write_text(task.model_dump_json())


def write_survey(plan: Plan, directory: Path) -> None:
    """Write the task of writing the versions of all implementations."""
    task = Task(
        sweep=plan.sweep,
        implementations=plan.implementations,
        channels={},
        certify=[],
        certificates={},
        runs=[],
        owlt=own_version(),
        kernel_hz=None,
        is_survey=True,
    )
    (directory / TASK_NAME).write_text(task.model_dump_json())


def read_task(directory: Path) -> Task:
    """The task that was written into a directory."""
    return Task.model_validate_json((directory / TASK_NAME).read_text())


class OwnPart(BaseModel):
    """The parts of a task that differ among runs that share their beginning."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    sweep_name: Annotated[str, Field(validation_alias=AliasPath("sweep", "name"))]
    runs: list[Run]
    channels: dict[str, Channel]
    certificates: dict[str, Certified]

    @property
    def run(self) -> Run:
        """The run of the task."""
        (run,) = self.runs
        return run


def read_own_part(directory: Path) -> OwnPart:
    """Read these parts of the task in a directory, without checks of the implementations, which take longer than all
    else."""
    return OwnPart.model_validate_json((directory / TASK_NAME).read_bytes())


def channel_keys(batch: Batch) -> set[str]:
    """The keys of all channels that a batch certifies or runs on."""
    return {*batch.certify, *(run.channel_key for run in batch.runs)}


def planned_record(
    run: Run,
    sweep: Sweep,
    implementation: Implementation,
    certificate: Certified | None,
    outcome: Outcome,
    code: ReasonCode | None = None,
    reason: str = "",
) -> RunRecord:
    """A run's record without anything measured; `certificate` is that of its channel."""
    return RunRecord(
        run_id=run.run_id,
        sweep=sweep.name,
        implementation=implementation.name,
        title=implementation.title,
        protocol=implementation.protocol,
        **run.permutation.model_dump(exclude={"implementation"}),
        channel_key=run.channel_key,
        certificate=certificate.verdict if certificate else "",
        suspect=certificate.suspicion if certificate else [],
        repetition=run.repetition,
        order=run.order,
        seed=run.seed,
        clock=sweep.clock,
        rig=sweep.rig,
        outcome=outcome,
        reason_code=code,
        reason=reason,
    )
