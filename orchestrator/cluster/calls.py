"""What `owlt run` calls on a machine: functions that Dask runs there, each for the machine's service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributed import WorkerPlugin, get_worker
from pydantic import TypeAdapter

from owlt.orchestrator.planning.plan import Batch
from owlt.orchestrator.results.certificates import Certified
from owlt.orchestrator.rigs.quiet import stalled_in_all_s

if TYPE_CHECKING:
    from owlt.orchestrator.cluster.jobs import Report
    from owlt.orchestrator.cluster.service import Opened, Service

PLUGIN = "owlt"
REPORTS_S = 1.0
"""How long a call waits for a complete run; the other reports come at least as often."""
CERTIFICATES: TypeAdapter[dict[str, Certified]] = TypeAdapter(dict[str, Certified])


class ServicePlugin(WorkerPlugin):  # type: ignore[misc]
    """Gives the service of `owlt worker` to the functions below."""

    name = PLUGIN

    def __init__(self, service: Service) -> None:
        self.service = service


def open_sweep(user: str, plan: str, provenance: str) -> Opened:
    """Have the machine take the sweep of a user; both texts are JSON."""
    return _service().open(user, plan, provenance)


def start_job(user: str, job: str, batch: str, slot: int, certificates: str) -> list[Report]:
    """Start a job; returns its first reports."""
    values = Batch.model_validate_json(batch), slot, CERTIFICATES.validate_json(certificates)
    _service().sweep_of(user).start(job, *values)
    return reports(user, job)


def reports(user: str, job: str) -> list[Report]:
    """What a job has reported since the last call."""
    return _service().sweep_of(user).reports(job, REPORTS_S)


def stop_job(user: str, job: str) -> None:
    """End a job."""
    _service().sweep_of(user).stop(job)


def keep_sweep(user: str) -> None:
    """Extend the lease."""
    _service().keep(user)


def close_sweep(user: str) -> None:
    """End all jobs of a user."""
    _service().close(user)


def stalled_s() -> float | None:
    """For how long the machine's threads have waited for a processor, since it started."""
    return stalled_in_all_s()


def _service() -> Service:
    """Raises LookupError if this is no worker that `owlt worker` started."""
    service: Service = get_worker().plugins[PLUGIN].service
    return service
