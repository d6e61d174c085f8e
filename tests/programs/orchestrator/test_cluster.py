"""Sweeps on many machines: a real scheduler and real connections on loopback, machines whose workers are in memory."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from distributed import Client, Scheduler, Worker

from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import Plan, Run
from owlt.orchestrator.rigs.provenance import Provenance, own_files
from owlt.orchestrator.run.events import Entry, RunPublished, RunRepeated, WorkerLost
from owlt.orchestrator.run.task import Task
from owlt.orchestrator.sweep import cluster as pools
from owlt.orchestrator.sweep.cluster import Pool, RemoteWorkers
from owlt.orchestrator.sweep.cluster_service import Service, ServicePlugin
from owlt.orchestrator.sweep.supervisor import Workers, supervise
from owlt.results.record import read_record
from tests.unit.orchestrator.small_sweep import at_once, small_plan, small_workers
from tests.unit.orchestrator.workers_in_memory import InMemoryWorkers, PerformRun, Reported, complete

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own, of its event loops and ports
HERE = Provenance(groups={"kernel": {"guest": "1"}, "owlt": own_files()})
OTHER = HERE.model_copy(update={"groups": HERE.groups | {"kernel": {"guest": "2"}}})
PATIENCE_S = 120.0
PROJECT = Path(__file__).parents[3]


class Loopback:
    """A scheduler and machines, in the event loop of a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._services: list[Service] = []
        self._workers: dict[str, Worker] = {}
        self._scheduler = self._do(self._started(lambda: Scheduler(protocol="tcp", host="127.0.0.1", dashboard=False)))
        self.address = self._scheduler.address
        self.warnings: list[str] = []

    def add(self, name: str, machine: InMemoryWorkers, provenance: Provenance = HERE) -> None:
        """A machine with one slot."""
        machine.provenance = provenance
        service = Service(name, machine, [0], note=lambda text: None)
        self._services.append(service)
        plugins = (ServicePlugin(service),)
        options = {"name": name, "nthreads": 4, "memory_limit": 0, "plugins": plugins, "host": "127.0.0.1"}
        self._workers[name] = self._do(self._started(lambda: Worker(self.address, **options)))

    def lose(self, name: str) -> None:
        """End the connection of a machine."""
        self._do(self._workers.pop(name).close(nanny=False))

    def perform(
        self, plan: Plan, results: Path, provenance: Provenance = HERE, warn: Callable[[str], None] | None = None
    ) -> list[Entry]:
        """Perform a plan on the machines. Returns what was observed."""
        entries: list[Entry] = []
        client = Client(self.address, set_as_default=False)
        pool = Pool(client, "alice", plan, provenance, warn or self.warnings.append)
        launch = RemoteWorkers(client, pool, provenance)
        try:
            pool.wait_for_machine()
            observe, analyse = entries.append, (lambda directory: "")
            workers = Workers(launch, pool, lambda: ThreadPoolExecutor(1))
            supervise(plan, results, workers, observe, analyse, at_once())
        finally:
            launch.close()
        return entries

    def close(self) -> None:
        for name in list(self._workers):
            self.lose(name)
        self._do(self._scheduler.close())
        for service in self._services:
            service.shut_down()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, coroutine: object) -> object:  # type: ignore[misc]
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_S)  # type: ignore[arg-type]

    async def _started(self, make: Callable[[], object]) -> object:
        return await make()  # type: ignore[misc]


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    loopback = Loopback()
    yield loopback
    loopback.close()


def published(entries: list[Entry]) -> Counter[str]:
    return Counter(entry.event.run_id for entry in entries if isinstance(entry.event, RunPublished))


def slowly(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
    """A run that takes long enough for another machine to perform some, too."""
    time.sleep(0.2)
    return complete(run, task, directory)


def once_in(event: threading.Event, then: PerformRun) -> PerformRun:
    """Set an event when the first run begins."""

    def perform(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
        event.set()
        yield from then(run, task, directory)

    return perform


def test_two_machines_perform_every_run_once_and_are_named_in_the_records(loopback: Loopback, tmp_path: Path) -> None:
    plan = small_plan("exact", repetitions=6)
    for name in ("one", "two"):
        loopback.add(name, small_workers(plan, slowly))

    entries = loopback.perform(plan, tmp_path)

    assert published(entries) == Counter({run.run_id: 1 for run in plan.runs})
    assert {read_record(tmp_path / "runs" / run.run_id).machine for run in plan.runs} == {"one", "two"}


def test_on_other_clocks_a_repetition_stays_on_one_machine(loopback: Loopback, tmp_path: Path) -> None:
    plan = small_plan("skip", repetitions=4, runs_per_guest=4)
    for name in ("one", "two"):
        loopback.add(name, small_workers(plan, slowly))

    loopback.perform(plan, tmp_path)

    machines = {run.repetition: set[str]() for run in plan.runs}
    for run in plan.runs:
        machines[run.repetition].add(read_record(tmp_path / "runs" / run.run_id).machine)
    assert all(len(names) == 1 for names in machines.values()), machines


def test_every_machine_certifies_the_channels_of_its_runs(loopback: Loopback, tmp_path: Path) -> None:
    plan = small_plan("exact", certify=True)
    for name in ("one", "two"):
        loopback.add(name, small_workers(plan, slowly))

    loopback.perform(plan, tmp_path)

    assert {path.stem for path in (tmp_path / "certificates").iterdir()} == set(plan.channels)
    for run in plan.runs:
        machine = read_record(tmp_path / "runs" / run.run_id).machine
        assert (tmp_path / "machines" / machine / "certificates" / f"{run.channel_key}.json").exists()


def test_the_run_of_a_lost_machine_is_attempted_on_another(loopback: Loopback, tmp_path: Path) -> None:
    plan = small_plan("exact")
    has_begun, is_over = threading.Event(), threading.Event()

    def wait(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
        is_over.wait(PATIENCE_S)
        yield from complete(run, task, directory)

    loopback.add("one", small_workers(plan, once_in(has_begun, wait)))
    with ThreadPoolExecutor(1) as executor:
        performing = executor.submit(loopback.perform, plan, tmp_path)
        assert has_begun.wait(PATIENCE_S)
        loopback.lose("one")
        loopback.add("two", small_workers(plan))
        entries = performing.result(PATIENCE_S)
    is_over.set()

    assert published(entries) == Counter({run.run_id: 1 for run in plan.runs})
    assert {read_record(tmp_path / "runs" / run.run_id).machine for run in plan.runs} == {"two"}
    lost = [entry.event.reason for entry in entries if isinstance(entry.event, WorkerLost | RunRepeated)]
    assert lost == ["the machine one was lost"]
    assert "the machine one was lost: it is no longer connected to the scheduler" in loopback.warnings


def test_a_machine_that_is_lost_while_its_reports_are_fetched_does_not_stop_the_sweep(
    loopback: Loopback, tmp_path: Path
) -> None:
    plan = small_plan("exact")
    command = [sys.executable, "-m", "tests.programs.orchestrator.vanishing_machine", loopback.address, "vanishing"]
    vanishing = subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.DEVNULL)
    try:
        with ThreadPoolExecutor(1) as executor:
            performing = executor.submit(loopback.perform, plan, tmp_path)
            assert vanishing.wait(PATIENCE_S) == 1
            loopback.add("other", small_workers(plan))
            entries = performing.result(PATIENCE_S)
    finally:
        vanishing.kill()

    assert published(entries) == Counter({run.run_id: 1 for run in plan.runs})
    assert any("the machine vanishing was lost" in text for text in loopback.warnings), loopback.warnings


def test_only_machines_with_the_same_files_take_runs(loopback: Loopback, tmp_path: Path) -> None:
    plan = small_plan("exact")
    loopback.add("other", small_workers(plan), OTHER)
    loopback.add("same", small_workers(plan))

    loopback.perform(plan, tmp_path)

    assert {read_record(tmp_path / "runs" / run.run_id).machine for run in plan.runs} == {"same"}
    assert loopback.warnings == ["the machine other takes no runs: it differs in kernel: guest"]


def test_machines_are_found_after_a_warning_that_could_not_be_printed(loopback: Loopback, tmp_path: Path) -> None:
    plan = small_plan("exact")
    is_refused, is_added = threading.Event(), threading.Event()

    def print_to_nobody(text: str) -> None:
        is_refused.set()
        is_added.wait(PATIENCE_S)
        raise BrokenPipeError(32, "Broken pipe")

    loopback.add("other", small_workers(plan), OTHER)
    with ThreadPoolExecutor(1) as executor:
        performing = executor.submit(loopback.perform, plan, tmp_path, HERE, print_to_nobody)
        assert is_refused.wait(PATIENCE_S)
        loopback.add("same", small_workers(plan))
        is_added.set()
        performing.result(PATIENCE_S)

    assert {read_record(tmp_path / "runs" / run.run_id).machine for run in plan.runs} == {"same"}


def test_a_sweep_without_any_machine_ends_with_their_reasons(loopback: Loopback, tmp_path: Path) -> None:
    plan = small_plan("exact")
    loopback.add("other", small_workers(plan), OTHER)

    with pytest.raises(OwltError, match=r"no machine takes runs \(other: it differs in kernel: guest\)"):
        loopback.perform(plan, tmp_path)

    assert not list(tmp_path.iterdir())


def test_a_sweep_whose_machines_are_all_lost_ends(
    loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "WITHOUT_MACHINE_S", 1.0)
    plan = small_plan("exact")
    has_begun = threading.Event()
    loopback.add("one", small_workers(plan, once_in(has_begun, slowly)))
    with ThreadPoolExecutor(1) as executor:
        performing = executor.submit(loopback.perform, plan, tmp_path)
        assert has_begun.wait(PATIENCE_S)
        loopback.lose("one")

        with pytest.raises(OwltError, match="no machine has taken runs for"):
            performing.result(PATIENCE_S)

    journal = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert journal[-1]["event"] == "stop"
