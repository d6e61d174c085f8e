"""A plan: a pure function of the sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.catalogue import implementations_of
from orchestrator.errors import ProfileError, ResultsConflict
from orchestrator.plan import Plan, channel_of, plan_sweep, write_plan
from orchestrator.sweep import Sweep


def sweep(**changes: object) -> Sweep:
    settings: dict[str, object] = {
        "name": "small",
        "seed": 7,
        "implementations": ["cfdp", "norm"],
        "file_size": ["100 kB", "1 MB"],
        "rate": "10 Mbit/s",
        "delay": "25 ms",
        "packet_error_rate": [0, 0.01],
        "repetitions": 3,
    }
    return Sweep.model_validate(settings | changes)


def planned(**changes: object) -> Plan:
    asked = sweep(**changes)
    return plan_sweep(asked, implementations_of(asked))


def test_every_permutation_is_run_as_often_as_asked() -> None:
    ids = [run.run_id for run in planned().runs]

    assert len(ids) == len(set(ids)) == 2 * 2 * 2 * 3


def test_the_same_sweep_gives_the_same_plan() -> None:
    assert planned() == planned()


def test_another_seed_gives_another_order() -> None:
    assert [run.run_id for run in planned(seed=8).runs] != [run.run_id for run in planned().runs]


def test_a_runs_seed_depends_on_the_run_and_not_on_its_place() -> None:
    seeds = {run.run_id: run.seed for run in planned().runs}
    fewer = {run.run_id: run.seed for run in planned(repetitions=1).runs}

    assert fewer.items() <= seeds.items()


def test_no_two_runs_share_a_seed() -> None:
    seeds = [run.seed for run in planned().runs]

    assert len(seeds) == len(set(seeds))


def test_a_batch_has_as_many_runs_as_the_sweep_says() -> None:
    assert [len(batch.runs) for batch in planned(runs_per_guest=10).batches] == [10, 10, 4]


def test_both_directions_have_errors_of_their_own() -> None:
    run = next(run for run in planned().runs if run.permutation.packet_error_rate)
    channel = channel_of(run, queue_packets=100, seeded=True)

    assert channel.forward.packet_error_rate == channel.reverse.packet_error_rate == 0.01
    assert channel.forward.seed != channel.reverse.seed


def test_a_kernel_that_takes_no_seed_is_given_none() -> None:
    run = next(run for run in planned().runs if run.permutation.packet_error_rate)

    assert channel_of(run, queue_packets=100, seeded=False).forward.seed is None


def test_another_sweep_is_not_mixed_into_a_results_directory(tmp_path: Path) -> None:
    write_plan(planned(), tmp_path)

    with pytest.raises(ResultsConflict, match="another sweep"):
        write_plan(planned(seed=8), tmp_path)


def test_the_same_sweep_finds_its_own_results(tmp_path: Path) -> None:
    write_plan(planned(), tmp_path)

    write_plan(planned(), tmp_path)


def test_an_unknown_implementation_is_named_with_the_known_ones() -> None:
    with pytest.raises(ProfileError, match=r"'cfpd': not found; wanted one of cfdp, norm"):
        planned(implementations=["cfpd"])


def test_a_parameter_that_a_build_does_not_have_is_named() -> None:
    with pytest.raises(ProfileError, match=r"parameters\.cfdp: .*'segment'"):
        planned(parameters={"cfdp": {"segment": 1}})
