"""The record of a run of which only the plan and the outcome are known, such as one that was lost with its guest."""

from __future__ import annotations

from owlt.agents.contract.implementation import Implementation
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.planning.sweep import Sweep
from owlt.orchestrator.results.certificates import Certified
from owlt.orchestrator.results.reason_codes import ReasonCode
from owlt.orchestrator.results.record import Outcome, RunRecord


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
