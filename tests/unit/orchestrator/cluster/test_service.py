"""What a machine does for an `owlt run` elsewhere: it compares itself, performs jobs and reports them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from owlt.orchestrator.planning.plan import Batch, Plan, Run
from owlt.orchestrator.rigs.provenance import Provenance, own_files
from owlt.orchestrator.run.events import RunEnded, event_in
from owlt.orchestrator.run.task import Task
from owlt.orchestrator.sweep.cluster_service import Service, WorkerReport
from owlt.results.certificates import Certified
from tests.unit.orchestrator.small_sweep import lose_worker, small_plan, small_workers
from tests.unit.orchestrator.workers_in_memory import InMemoryWorkers, Reported, Silence

HERE = Provenance(groups={"kernel": {"guest": "1"}, "owlt": own_files()})
PLAN = small_plan("exact", certify=True)
USER = "alice@lab (process 1)"


class Machine(InMemoryWorkers):
    """Workers in memory on the machine HERE, which count how often they were closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def make_service() -> Iterator[Callable[..., Service]]:
    services = []

    def make(workers: InMemoryWorkers | None = None, **options: float) -> Service:
        workers = workers or small_workers(PLAN)
        workers.provenance = HERE
        services.append(Service("lab2", workers, [0, 1], note=lambda text: None, **options))  # type: ignore[arg-type]
        return services[-1]

    yield make
    for service in services:
        service.shut_down()


def opened(service: Service, user: str = USER, plan: Plan = PLAN, provenance: Provenance = HERE) -> Service:
    service.open(user, plan.model_dump_json(), provenance.model_dump_json())
    return service


def all_reports(service: Service, batch: int = 0, certify: bool = False) -> list[WorkerReport]:
    sweep = service.sweep_of(USER)
    sweep.start("job", (PLAN.certifications if certify else PLAN.batches)[batch], 0, {})
    reports: list[WorkerReport] = []
    while not (reports and reports[-1].has_ended):
        reports += sweep.reports("job", 10.0)
    return reports


def test_an_equal_machine_offers_a_slot_for_each_core(make_service: Callable[..., Service]) -> None:
    assert make_service().open(USER, PLAN.model_dump_json(), HERE.model_dump_json()).slots == 2


def test_on_the_real_clock_a_core_is_left_for_the_analyses(make_service: Callable[..., Service]) -> None:
    assert make_service().open(USER, small_plan("real").model_dump_json(), HERE.model_dump_json()).slots == 1


def test_a_machine_with_another_kernel_refuses_and_names_it(make_service: Callable[..., Service]) -> None:
    other = HERE.model_copy(update={"groups": HERE.groups | {"kernel": {"guest": "2"}}})

    answer = make_service().open(USER, PLAN.model_dump_json(), other.model_dump_json())

    assert (answer.slots, answer.refusal) == (0, "it differs in kernel: guest")


def test_a_machine_with_another_version_of_owlt_refuses_a_plan_that_it_cannot_read(
    make_service: Callable[..., Service],
) -> None:
    newer = HERE.model_copy(update={"groups": HERE.groups | {"owlt": own_files() | {"new.py": "1"}}})

    assert make_service().open(USER, "a newer plan", newer.model_dump_json()).refusal == "it differs in owlt: new.py"


def test_a_machine_performs_the_sweep_of_one_user_at_a_time(make_service: Callable[..., Service]) -> None:
    service = opened(make_service())

    answer = service.open("bob", PLAN.model_dump_json(), HERE.model_dump_json())

    assert (answer.slots, answer.is_busy, answer.refusal) == (0, True, f"it performs the sweep of {USER}")


def test_a_machine_that_was_given_back_takes_the_next_user(make_service: Callable[..., Service]) -> None:
    service = opened(make_service())
    service.close(USER)

    assert service.open("bob", PLAN.model_dump_json(), HERE.model_dump_json()).slots == 2


def test_a_run_is_reported_with_its_record_which_names_the_machine(make_service: Callable[..., Service]) -> None:
    reports = all_reports(opened(make_service()))

    (run,) = PLAN.batches[0].runs
    (done,) = [report for report in reports if isinstance(event_in(report.line), RunEnded)]
    assert json.loads(done.files[f"runs/{run.run_id}/record.json"])["machine"] == "lab2"


def test_a_certificate_is_reported_with_its_channel(make_service: Callable[..., Service]) -> None:
    reports = all_reports(opened(make_service()), certify=True)

    assert [name for report in reports for name in report.files] == [
        f"certificates/{PLAN.certifications[0].certify[0]}.json"
    ]


def test_a_worker_that_is_lost_ends_its_job(make_service: Callable[..., Service]) -> None:
    reports = all_reports(opened(make_service(small_workers(PLAN, lose_worker))))

    assert [report.line for report in reports][-2:] == ["the bridge fell down\n", ""]
    assert reports[-1] == WorkerReport(has_ended=True)


def fall_silent(_run: Run, _task: Task, _directory: Path) -> Iterator[Reported]:
    yield Silence()


def test_a_worker_that_hangs_is_reported_with_its_silence(make_service: Callable[..., Service]) -> None:
    reports = all_reports(opened(make_service(small_workers(PLAN, fall_silent))))

    assert reports[-1].hung_s is not None
    assert reports[-1].hung_s > 0


def break_disk(_run: Run, _task: Task, _directory: Path) -> Iterator[Reported]:
    raise OSError(28, "No space left on device")
    yield


def test_a_fault_of_the_machine_is_reported_with_its_name(make_service: Callable[..., Service]) -> None:
    reports = all_reports(opened(make_service(small_workers(PLAN, break_disk))))

    assert reports[-1].failure == "lab2: OSError: [Errno 28] No space left on device"


def test_a_user_that_is_silent_loses_the_machine(make_service: Callable[..., Service]) -> None:
    workers = Machine(PLAN)
    service = opened(make_service(workers, lease_s=0.0))

    deadline_s = time.monotonic() + 60
    while not workers.closed:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)

    with pytest.raises(LookupError, match="lab2 no longer performs the sweep of alice"):
        service.sweep_of(USER)


class EndlessWorker:
    """A worker that goes on until it is ended."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def lines(self, limit_s: Callable[[], float]) -> Iterator[str]:
        while not self.ended.wait(0.01):
            yield "works\n"

    def waits(self) -> None:
        """None."""

    def end(self) -> None:
        self.ended.set()


class EndlessWorkers(InMemoryWorkers):
    """Launches one endless worker."""

    def __init__(self) -> None:
        super().__init__(PLAN)
        self.worker = EndlessWorker()

    def __call__(self, batch: Batch, directory: Path, slot: int, certificates: dict[str, Certified]) -> EndlessWorker:
        return self.worker


def test_a_user_that_lost_the_machine_and_takes_it_again_has_its_earlier_jobs_ended(
    make_service: Callable[..., Service],
) -> None:
    workers = EndlessWorkers()
    service = opened(make_service(workers))
    service.sweep_of(USER).start("job", PLAN.batches[0], 0, {})

    opened(service)

    assert workers.worker.ended.is_set()
