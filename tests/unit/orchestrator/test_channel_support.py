"""A sweep whose channels a kernel cannot make is refused before it starts, with what is missing."""

from __future__ import annotations

from owlt.orchestrator.checks.doctor import unsupported_channels
from owlt.orchestrator.planning.selection import Selection
from owlt.orchestrator.profiles.catalogue import resolve
from tests.memory.emulator import CAPABILITIES, MemoryEmulator
from tests.unit.orchestrator.small_sweep import small_plan
from tests.unit.orchestrator.test_lab import DEMO

WITHOUT_NETEM = MemoryEmulator(missing={"netem": "no module", "ifb": "no module"}).capabilities()


def test_a_sweep_needs_nothing_of_a_kernel_that_has_everything() -> None:
    assert unsupported_channels(resolve(DEMO, in_lab=True), MemoryEmulator().capabilities(), "rack1-emulator") == []


def test_a_sweep_that_no_cell_can_be_performed_of_is_refused_with_what_is_missing() -> None:
    (mistake,) = unsupported_channels(resolve(DEMO, in_lab=True), WITHOUT_NETEM, "rack1-emulator")

    assert mistake.problem == (
        "demo needs netem at rack1-emulator: 24 of 24 cells have a delay, a rate, or packet errors, losses or "
        "duplicates, and the kernel there, Linux in memory, does not have netem (no module)"
    )
    assert "modprobe sch_netem" in mistake.fix
    assert "--only" not in mistake.fix


def test_the_fix_for_some_of_the_cells_is_to_leave_them_out() -> None:
    plan = small_plan(rate="unlimited", delay=["0 s", "1 ms"], packet_error_rate=0)

    (mistake,) = unsupported_channels(plan, WITHOUT_NETEM, "this machine")

    assert "small needs netem at this machine: 1 of 2 cells" in mistake.problem
    assert "perform others with --only" in mistake.fix


def test_the_cells_that_the_kernel_can_make_are_not_refused() -> None:
    plan = small_plan(rate="unlimited", delay=["0 s", "1 ms"], packet_error_rate=0)
    possible = frozenset(run.run_id for run in plan.runs if not run.permutation.delay_ns)

    assert unsupported_channels(Selection(possible).alone(plan), WITHOUT_NETEM, "this machine") == []


def test_runs_that_are_not_launched_need_nothing_of_the_kernel() -> None:
    plan = small_plan()
    never = plan.implementations["cfdp"].time_limit.model_copy(update={"rtts": 0.0, "file_times": 0.0, "extra_s": 0.0})
    cfdp = plan.implementations["cfdp"].model_copy(update={"time_limit": never})
    plan = plan.model_copy(update={"implementations": {"cfdp": cfdp}})
    without_any = MemoryEmulator(missing=dict.fromkeys(CAPABILITIES, "no module")).capabilities()

    assert unsupported_channels(plan, without_any, "this machine") == []
