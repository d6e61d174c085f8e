"""How workers are launched: the memory of a guest."""

from __future__ import annotations

from owlt.orchestrator.planning.estimate import beyond_memory, guest_memory_mb, needed_memory_mb
from tests.unit.orchestrator.small_sweep import small_plan


def test_a_guest_has_memory_for_what_is_in_flight() -> None:
    near = small_plan().runs
    fast = near[0].permutation.model_copy(update={"rate_bps": 1e8})
    fast = fast.model_copy(update={"file_size_bytes": 10**11})
    near = [run.model_copy(update={"permutation": fast}) for run in near]
    far = [run.model_copy(update={"rtt_s": 2000.0}) for run in near]

    assert needed_memory_mb(far) - needed_memory_mb(near) > 2 * 1e8 / 8 * 1000 / 1e6
    assert guest_memory_mb(far) >= needed_memory_mb(far)


def test_the_bytes_in_flight_are_at_most_the_bytes_to_send() -> None:
    """100 kB over 12 h at 1 Mbit/s: 5.4 GB fit into the channel, and nobody sends them."""
    small = small_plan().runs[0].permutation.model_copy(update={"rate_bps": 1e6, "file_size_bytes": 100_000})
    run = small_plan().runs[0].model_copy(update={"permutation": small, "rtt_s": 2 * 12 * 3600.0})
    slow = run.model_copy(update={"permutation": small.model_copy(update={"rate_bps": 2e4})})

    assert needed_memory_mb([run]) == needed_memory_mb([slow])
    assert guest_memory_mb([run]) == 768
    assert beyond_memory(run, 1_000_000_000) is None


def test_the_bytes_sent_in_a_duration_limit_the_bytes_in_flight() -> None:
    sent = (
        small_plan()
        .runs[0]
        .permutation.model_copy(update={"rate_bps": 1e6, "file_size_bytes": None, "duration_ns": 10 * 10**9})
    )
    run = small_plan().runs[0].model_copy(update={"permutation": sent, "rtt_s": 2 * 12 * 3600.0})

    assert guest_memory_mb([run]) == 768


def test_runs_of_similar_size_share_a_template() -> None:
    runs = small_plan().runs
    larger = [run.model_copy(update={"rtt_s": 2 * run.rtt_s}) for run in runs]

    assert guest_memory_mb(runs) == guest_memory_mb(larger)


def test_a_guest_holds_the_captures_of_a_file_that_is_sent_27_times() -> None:
    """CFDP with lists of 20 gaps at a packet error rate of 0.1: two captures of 274 MB, in half of the memory."""
    large = small_plan().runs[0].permutation.model_copy(update={"file_size_bytes": 10_000_000})
    lossy = large.model_copy(update={"packet_error_rate": 0.1})
    run = small_plan().runs[0].model_copy(update={"permutation": large})
    repeating = run.model_copy(update={"permutation": lossy})

    assert guest_memory_mb([repeating]) / 2 > 2 * 274 + 2 * 10 > guest_memory_mb([run]) / 2
    assert beyond_memory(repeating, 1_000_000_000) is None
