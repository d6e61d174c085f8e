"""Delta debugging: what is left still has the effect, and nothing of it can be left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owlt.emulator.channel.spec import ChannelSpec
from owlt.orchestrator.checks.fault_cases import Hit, Hits, Place
from owlt.orchestrator.checks.shrinking import losses_of, shrink, without_random_effects
from owlt.orchestrator.errors import OwltError
from tests.unit.orchestrator.runs_with_losses import DAMAGED, LOST, run_with_losses

LOSSES: Hits = tuple(Hit(Place("forward", number)) for number in range(1, 17))


def left_of(losses: Hits, has_effect: Callable[[Hits], bool]) -> tuple[Hits, list[Hits]]:
    """What is left, and all sets that were tried."""
    search, tried = shrink(losses), list[Hits]()
    answer: list[bool] | None = None
    try:
        while True:
            sets = search.send(answer)  # type: ignore[arg-type]
            tried += sets
            answer = [has_effect(each) for each in sets]
    except StopIteration as end:
        return end.value, tried


@given(st.sets(st.sampled_from(LOSSES), min_size=1, max_size=5))
def test_the_losses_that_are_needed_together_are_left_and_no_others(needed: set[Hit]) -> None:
    left, _ = left_of(LOSSES, needed.issubset)

    assert set(left) == needed


@given(st.sets(st.frozensets(st.sampled_from(LOSSES), min_size=1), min_size=1, max_size=20))
def test_none_of_what_is_left_can_be_left_out(effective: set[frozenset[Hit]]) -> None:
    def has_effect(losses: Hits) -> bool:
        return frozenset(losses) in effective or losses == LOSSES

    left, _ = left_of(LOSSES, has_effect)

    assert has_effect(left)
    if len(left) > 1:
        assert not any(has_effect(tuple(each for each in left if each != out)) for out in left)


def test_one_loss_of_many_is_found_with_few_sets() -> None:
    left, tried = left_of(LOSSES, lambda losses: LOSSES[11] in losses)

    assert left == (LOSSES[11],)
    assert len(tried) == 8


def test_a_single_loss_is_left_as_it_is() -> None:
    assert left_of(LOSSES[:1], lambda _: True) == (LOSSES[:1], [])


@pytest.mark.parametrize(
    "errors",
    [
        {"packet_error_rate": 0.1, "seed": 3.0},
        {"bit_error_rate": 1e-5},
        {"loss": {"model": "gilbert_elliott", "mean_rate": 0.01, "burst_packets": 5}},
        {"jitter": {"amount": "1 ms"}},
        {"duplication_rate": 0.1},
    ],
)
def test_a_channel_without_random_effects_keeps_delay_rate_and_timeline(errors: dict[str, object]) -> None:
    link = {"delay": "250 ms", "rate": "1 Mbit/s"}
    step = {"at": "5 s", "forward": {"delay": "300 ms"}}
    faults = [{"direction": "forward", "action": "drop"}]
    noisy = ChannelSpec.from_wire({"both": link | errors, "timeline": {"steps": [step]}, "faults": faults})
    calm = ChannelSpec.from_wire({"both": link, "timeline": {"steps": [step]}})

    assert noisy != calm
    assert without_random_effects(noisy) == calm


@pytest.mark.parametrize("is_cut", [False, True], ids=["complete", "cut"])
def test_losses_are_packets_that_were_lost_or_damaged_also_behind_the_headers(tmp_path: Path, is_cut: bool) -> None:
    run = run_with_losses(tmp_path, is_cut)

    assert [hit.place for hit in losses_of(run)] == [Place("forward", number) for number in sorted((LOST, DAMAGED))]


def test_without_its_pairs_a_cut_run_has_no_known_losses(tmp_path: Path) -> None:
    run = run_with_losses(tmp_path, is_cut=True)
    (run / "pairs.json").unlink()

    with pytest.raises(OwltError, match=r"pairs\.json is missing or damaged, and captures cut to headers do not show"):
        losses_of(run)
