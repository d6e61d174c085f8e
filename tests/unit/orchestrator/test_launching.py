"""How workers are launched: the memory of a guest."""

from __future__ import annotations

from orchestrator.workers.launching import guest_memory_mb, needed_memory_mb
from tests.unit.orchestrator.small_sweep import small_plan


def test_a_guest_has_memory_for_what_is_in_flight() -> None:
    near = small_plan().runs
    fast = near[0].permutation.model_copy(update={"rate_bps": 1e8})
    far = [run.model_copy(update={"permutation": fast, "rtt_s": 2000.0}) for run in near]

    assert needed_memory_mb(far) - needed_memory_mb(near) > 2 * 1e8 / 8 * 1000 / 1e6
    assert guest_memory_mb(far) >= needed_memory_mb(far)


def test_runs_of_similar_size_share_a_template() -> None:
    runs = small_plan().runs
    larger = [run.model_copy(update={"rtt_s": 2 * run.rtt_s}) for run in runs]

    assert guest_memory_mb(runs) == guest_memory_mb(larger)
