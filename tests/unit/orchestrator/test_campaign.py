"""What is checked before the first run, and what a results directory that cannot be used says. No run is performed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from owlt.captures.accounting.derived_files import CAPTURES
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.mistake import Mistake
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.errors import Missing, OwltError
from owlt.orchestrator.planning.plan import Plan, Run, plan_sweep
from owlt.orchestrator.profiles.catalogue import implementations_of, resolve
from owlt.orchestrator.run.events import Observe
from owlt.orchestrator.run.task import Task
from owlt.orchestrator.sweep.campaign import Performed, Start, perform_plan
from owlt.orchestrator.sweep.report import make_report
from owlt.orchestrator.sweep.supervisor import supervise
from tests.unit.orchestrator.small_sweep import abort, at_once, except_in, small_plan, small_workers
from tests.unit.orchestrator.workers_in_memory import InMemoryWorkers, Reported, complete

LOCAL = """\
name: base
seed: 1
rig: local
clock: real
implementations: cfdp
file_size: 1 kB
rate: unlimited
delay: 0 s
packet_error_rate: 0
"""


def nobody_observes(_plan: Plan, _done: set[str]) -> Observe:
    return lambda entry: None


def test_the_local_rig_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(LOCAL)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(Missing, match="needs root; run owlt with sudo"):
        perform_plan(Start(resolve(sweep), tmp_path / "results", "owlt run sweep.yaml"), nobody_observes)

    assert not (tmp_path / "results").exists()


def perform(plan: Plan, results: Path, workers: InMemoryWorkers | None = None) -> Performed:
    """A plan, performed by workers in memory."""
    start = Start(plan, results, "owlt run small.yaml", machine=workers or small_workers(plan), guests=1)
    return perform_plan(start, nobody_observes, partial(supervise, timing=at_once()))


def test_strays_in_the_runs_are_ignored_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = small_plan()
    (tmp_path / "runs" / "of_another_sweep_r1").mkdir(parents=True)
    (tmp_path / "runs" / "notes.txt").touch()

    done = perform(plan, tmp_path)

    assert done.summary.startswith("6 of 6 runs recorded")
    assert done.is_complete
    warned = capsys.readouterr().err
    assert all(f"runs/{name}: not a run of this sweep" in warned for name in ("notes.txt", "of_another_sweep_r1"))


def test_the_summary_counts_the_suspect_runs_of_each_implementation(tmp_path: Path) -> None:
    plan = small_plan(implementations=["cfdp", "ltp"])
    doubtful = [run.run_id for run in plan.runs if run.permutation.implementation == "ltp"][:2]

    def doubt(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
        yield from complete(run, task, directory, **({"suspect": ["odd"]} if run.run_id in doubtful else {}))

    done = perform(plan, tmp_path, small_workers(plan, doubt))

    assert done.summary.endswith(f"12 completed; 2 suspect: ltp 2 (for the reasons: owlt status {tmp_path})")


@pytest.mark.parametrize(("certify", "said"), [(True, True), (False, False)])
def test_the_summary_names_steps_of_a_timeline_that_no_certificate_measures(
    tmp_path: Path, certify: bool, said: bool
) -> None:
    steps = {"steps": [{"at": "1 s", "both": {"up": False}}, {"at": "2 s", "both": {"up": True}}]}
    both = {"delay": "25 ms", "rate": "10 Mbit/s"}
    gap = ChannelSpec.from_wire({"both": both, "timeline": steps})
    steady = ChannelSpec.from_wire({"both": both})
    asked = Sweep.model_validate(
        {
            "name": "small",
            "seed": 7,
            "clock": "skip",
            "implementations": ["cfdp"],
            "file_size": "1 kB",
            "channel": ["gap", "steady"],
            "certify": certify,
        }
    )
    plan = plan_sweep(asked, implementations_of(asked), {"gap": gap, "steady": steady})

    done = perform(plan, tmp_path, small_workers(plan, complete))

    assert ("not certified, in contrast to the links before the first step: the 2 steps of gap" in done.summary) == said
    assert "steady" not in done.summary


def test_runs_that_stay_aborted_make_a_start_incomplete(tmp_path: Path) -> None:
    plan = small_plan()

    done = perform(plan, tmp_path, small_workers(plan, except_in(plan.runs[0].run_id, abort)))

    assert not done.is_complete
    assert "1 aborted by a fault of the rig, to be repeated: run 'owlt run small.yaml' again" in done.summary


def test_runs_that_the_kernel_does_not_support_are_not_to_be_repeated(tmp_path: Path) -> None:
    plan = small_plan()

    def refuse(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
        reason = {"reason_code": "channel_unsupported", "reason": "no netem"}
        yield from complete(run, task, directory, outcome="aborted", **reason)

    done = perform(plan, tmp_path, small_workers(plan, except_in(plan.runs[0].run_id, refuse)))

    assert not done.is_complete
    assert "1 aborted because the emulator's kernel does not support their channels" in done.summary
    assert "again" not in done.summary
    assert "fault of the rig" not in done.summary


def test_the_summary_counts_what_did_not_complete_by_implementation_and_reason(tmp_path: Path) -> None:
    plan = small_plan()

    def fail(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
        yield from complete(run, task, directory, outcome="failed", reason_code="exited", reason="status 3")

    done = perform(plan, tmp_path, small_workers(plan, except_in(plan.runs[0].run_id, fail)))

    assert "; cfdp: 1 exited with an error" in done.summary


def test_a_run_that_cannot_be_analysed_does_not_end_the_sweep(tmp_path: Path) -> None:
    plan = small_plan()
    victim = plan.runs[0].run_id

    def leave_empty_captures(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
        yield from complete(run, task, directory, session={"sender": 7})
        for name in CAPTURES:
            (directory / name).touch()

    done = perform(plan, tmp_path, small_workers(plan, except_in(victim, leave_empty_captures)))

    assert done.recorded == len(plan.runs)
    assert not done.is_complete
    assert "1 not analysed (see analysis-failed.txt in their directories)" in done.summary
    assert (tmp_path / "runs" / victim / "analysis-failed.txt").exists()


def test_a_run_whose_analysis_was_interrupted_is_analysed_by_the_next_start(tmp_path: Path) -> None:
    plan = small_plan()
    victim = plan.runs[0].run_id

    def leave_empty_captures(run: Run, task: Task, directory: Path) -> Iterator[Reported]:
        yield from complete(run, task, directory, session={"sender": 7})
        for name in CAPTURES:
            (directory / name).touch()

    perform(plan, tmp_path, small_workers(plan, except_in(victim, leave_empty_captures)))
    failure = tmp_path / "runs" / victim / "analysis-failed.txt"
    failure.unlink()

    perform(plan, tmp_path)

    assert failure.exists()


def test_a_full_disk_ends_a_start_with_what_to_do_and_the_sweep_resumes(tmp_path: Path) -> None:
    def fill(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    start = Start(small_plan(), tmp_path, "owlt run small.yaml", machine=small_workers(small_plan()), guests=1)
    with pytest.raises(
        OwltError, match=r"no space left on its file system; .*free some space, then run 'owlt run small"
    ):
        perform_plan(start, nobody_observes, fill)

    assert perform(small_plan(), tmp_path).is_complete


def test_a_journal_that_cannot_be_written_ends_a_start_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").mkdir()

    with pytest.raises(OwltError, match=r"journal\.jsonl"):
        perform(small_plan(), tmp_path)


def test_a_finished_sweep_needs_nothing_of_this_machine(tmp_path: Path) -> None:
    perform(small_plan(), tmp_path)
    nothing_there = InMemoryWorkers(small_plan(), is_missing=[Mistake("a kernel")])

    Start(small_plan(), tmp_path, "", machine=nothing_there).require_ready()


def test_the_report_of_a_resumed_sweep_has_its_new_title(tmp_path: Path) -> None:
    plan = small_plan()
    perform(plan, tmp_path)
    sweep = plan.sweep.model_copy(update={"title": "CFDP & others to the Moon"})
    perform(plan.model_copy(update={"sweep": sweep}), tmp_path)

    page = make_report(tmp_path).read_text()

    assert "<h1>CFDP &amp; others to the Moon</h1>" in page
