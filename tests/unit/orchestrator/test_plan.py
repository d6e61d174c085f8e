"""A plan: a pure function of the sweep."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from owlt.agents.contract.requirements import Need
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.mistake import ResultsConflict
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.errors import ProfileError
from owlt.orchestrator.planning.plan import Plan, channel_of, first_sharing, plan_sweep, read_plan_values
from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.orchestrator.profiles.catalogue import channels_of, implementations_of


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


def test_each_repetition_is_complete_before_the_next_begins() -> None:
    for clock in ("skip", "exact"):
        repetitions = [
            run.repetition
            for run in planned(clock=clock, parameters={"norm": {"backoff_factor": [4]}}).runs
            if clock == "skip" or run.permutation.implementation != "cfdp"
        ]

        assert repetitions == sorted(repetitions)


def test_the_first_repetition_of_every_cell_comes_before_those_that_share_their_start() -> None:
    repetitions = [run.repetition for run in planned(repetitions=12).runs]

    assert set(repetitions[: repetitions.index(2)]) == {1}
    assert repetitions.count(1) == repetitions.index(2)


@pytest.mark.parametrize("name", ["cfdp", "norm"])
def test_repetitions_of_a_deterministic_implementation_follow_each_other_on_the_exact_clock(name: str) -> None:
    batches = [batch for batch in planned(repetitions=12).batches if batch.runs[0].permutation.implementation == name]

    assert {tuple(run.repetition for run in batch.runs) for batch in batches} == {
        (1,),
        tuple(range(2, 11)),
        (11, 12),
    }
    assert all(len({run.permutation for run in batch.runs}) == 1 for batch in batches)


def test_runs_that_differ_in_the_error_rate_follow_each_other_if_their_programs_start_alike() -> None:
    runs = planned(packet_error_rate=[0, 0.01, 0.1], repetitions=12).runs
    starts = [(run.permutation.without_errors, first_sharing(run.repetition)) for run in runs]
    after_the_quickest = [start for start, _ in groupby(starts[2:])]

    assert len(after_the_quickest) == len(set(after_the_quickest)) == 2 * 2 * 3


def test_the_guests_of_a_deterministic_implementation_have_one_seed_for_all_repetitions_and_error_rates() -> None:
    plan = planned(repetitions=12)
    seeds = {
        (batch.runs[0].permutation.file_size_bytes, batch.seed)
        for batch in plan.batches
        if batch.runs[0].permutation.implementation == "cfdp"
    }

    assert len(seeds) == len({seed for _, seed in seeds}) == 2
    assert len({run.seed for run in plan.runs}) == len(plan.runs)


def test_the_quickest_run_of_each_implementation_comes_first() -> None:
    norm = {"parameters": {"norm": {"parity_segments": [0, 8]}}, "delay": ["1 s", "25 ms"]}
    first = [run.permutation for run in planned(**norm).runs[:4]]

    assert {point.implementation for point in first[:3]} == {
        "cfdp",
        "norm+parity_segments=0",
        "norm+parity_segments=8",
    }
    assert {point.cell for point in first[:3]} == {"100kB_10Mbps_25ms_per0"}
    assert first[3].cell != first[0].cell or planned(**norm).runs[3].repetition > 1


def test_each_repetition_has_an_order_of_its_own() -> None:
    points = [run.permutation for run in planned().runs]

    assert len({tuple(points[start : start + 8]) for start in (0, 8, 16)}) == 3


def test_a_batch_has_as_many_runs_as_the_sweep_says() -> None:
    assert [len(batch.runs) for batch in planned(runs_per_guest=10, clock="skip").batches] == [10, 10, 4]


def test_on_the_exact_clock_a_run_has_a_guest_of_its_own_with_its_seed() -> None:
    batches = [
        batch
        for batch in planned(runs_per_guest=10, parameters={"norm": {"backoff_factor": [4]}}).batches
        if batch.runs[0].permutation.implementation != "cfdp"
    ]

    assert len(batches) == 4 * 3
    assert all(len(batch.runs) == 1 and batch.seed == batch.runs[0].seed for batch in batches)


def test_both_directions_have_errors_of_their_own() -> None:
    plan = planned()
    run = next(run for run in plan.runs if run.permutation.packet_error_rate)
    channel = channel_of(run, plan.channels[run.channel_key], netem_takes_seeds=True)

    assert channel.forward.packet_error_rate == channel.reverse.packet_error_rate == 0.01
    assert channel.forward.seed != channel.reverse.seed


def test_a_kernel_that_takes_no_seed_is_given_none() -> None:
    plan = planned()
    run = next(run for run in plan.runs if run.permutation.packet_error_rate)

    assert channel_of(run, plan.channels[run.channel_key], netem_takes_seeds=False).forward.seed is None


CHANNELS = {
    "far": ChannelSpec.from_wire({"forward": {"delay": "600 s", "rate": "2 Mbit/s"}, "reverse": {"rate": "8 kbit/s"}}),
    "noisy": ChannelSpec.from_wire({"both": {"bit_error_rate": 1e-5}}),
    "moving": ChannelSpec.from_wire({"timeline": {"steps": [{"at": "50 s", "both": {"delay": "7 s"}}]}}),
    "bypass": ChannelSpec(bypass=True),
}
OF_THE_CHANNEL = {"rate": None, "delay": None, "packet_error_rate": None}


def planned_over(*names: str, **changes: object) -> Plan:
    asked = Sweep.model_validate(sweep().model_dump(mode="json") | OF_THE_CHANNEL | {"channel": [*names]} | changes)
    return plan_sweep(asked, implementations_of(asked), {name: CHANNELS[name] for name in names})


def test_a_run_over_a_profile_has_the_links_of_that_profile() -> None:
    plan = planned_over("far")

    assert list(plan.channels.values()) == [CHANNELS["far"]]
    assert {run.permutation.rate_bps for run in plan.runs} == {2e6}
    assert {(run.rtt_s, run.slowest_rate_bps) for run in plan.runs} == {(600.0, 8e3)}


def test_what_the_sweep_gives_takes_the_place_of_the_profiles_both_ways() -> None:
    plan = planned_over("far", rate="1 Mbit/s")

    (channel,) = plan.channels.values()
    assert (channel.forward.rate_bps, channel.reverse.rate_bps) == (1e6, 1e6)
    assert channel.forward.delay_ns == 600 * 10**9


def test_a_packet_error_rate_of_the_sweep_takes_the_place_of_bit_errors() -> None:
    (channel,) = planned_over("noisy", packet_error_rate=0.1).channels.values()

    assert (channel.forward.packet_error_rate, channel.forward.bit_error_rate) == (0.1, 0)


def test_bit_errors_have_a_seed_even_where_netem_takes_none() -> None:
    plan = planned_over("noisy")
    run = plan.runs[0]

    channel = channel_of(run, plan.channels[run.channel_key], netem_takes_seeds=False)
    assert None not in (channel.forward.seed, channel.reverse.seed)
    assert channel.forward.seed != channel.reverse.seed


def test_a_run_has_time_for_what_its_channel_does_meanwhile() -> None:
    run = planned_over("moving").runs[0]

    assert (run.rtt_s, run.channel_changes_s) == (14.0, 50.0)


def test_a_sweep_that_contradicts_a_channel_that_changes_with_time_is_refused() -> None:
    with pytest.raises(ProfileError, match="'moving' changes with time, and the sweep gives its own delay_ns"):
        planned_over("moving", delay="1 s")


def test_every_channel_is_to_be_certified_once_whatever_runs_on_it() -> None:
    plan = planned_over("far", "noisy")

    assert [key for batch in plan.certifications for key in batch.certify] == sorted(plan.channels)
    assert len(plan.channels) == 2


def test_a_bypass_is_not_certified() -> None:
    assert planned_over("bypass").certifications == []


def test_a_sweep_that_wants_no_certificates_has_none() -> None:
    assert planned_over("far", certify=False).certifications == []


def test_axes_that_contradict_a_profile_are_refused_in_words() -> None:
    with pytest.raises(ProfileError, match=r"is not a channel: rate_bps got 1\.0, expected "):
        planned(rate="1 bit/s")


def test_two_channels_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.yaml").write_text("forward: {delay: 5 ms}\n")
    names = [str(tmp_path / folder / "mine.yaml") for folder in ("a", "b")]
    asked = Sweep.model_validate(sweep().model_dump(mode="json") | OF_THE_CHANNEL | {"channel": names})

    with pytest.raises(ProfileError, match=r"a/mine.yaml and .*b/mine.yaml are both named 'mine'"):
        channels_of(asked)


def test_a_channel_is_called_by_the_name_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_text("name: relay-2\nboth: {delay: 5 ms}\n")
    over = OF_THE_CHANNEL | {"channel": [str(tmp_path / "file.yaml")]}
    asked = Sweep.model_validate(sweep().model_dump(mode="json") | over)

    plan = plan_sweep(asked, implementations_of(asked), channels_of(asked))

    assert {run.permutation.channel_name for run in plan.runs} == {"relay-2"}
    assert all("_relay-2_" in run.run_id for run in plan.runs)


def test_two_files_that_give_one_name_are_refused_with_both_paths(tmp_path: Path) -> None:
    for file in ("one.yaml", "other.yaml"):
        (tmp_path / file).write_text("name: relay\nboth: {delay: 5 ms}\n")
    files = [str(tmp_path / file) for file in ("one.yaml", "other.yaml")]
    asked = Sweep.model_validate(sweep().model_dump(mode="json") | OF_THE_CHANNEL | {"channel": files})

    with pytest.raises(ProfileError, match=r"one.yaml and .*other.yaml are both named 'relay'"):
        channels_of(asked)


def test_the_plan_file_gives_the_plan_back(tmp_path: Path) -> None:
    plan = planned_over("far", "moving")
    write_plan(plan, tmp_path)

    there = Plan.model_validate_json((tmp_path / "plan.json").read_text())
    assert there.model_dump(exclude={"history"}) == plan.model_dump(exclude={"history"})


def test_another_sweep_is_not_mixed_into_a_results_directory(tmp_path: Path) -> None:
    write_plan(planned(), tmp_path)

    with pytest.raises(ResultsConflict, match="another sweep"):
        write_plan(planned(seed=8), tmp_path)


def test_a_plan_that_is_torn_is_refused_with_how_to_fix_it(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("torn {")

    with pytest.raises(ResultsConflict, match=r"plan\.json: damaged .*; remove it, and 'owlt run'"):
        write_plan(planned(), tmp_path)


@pytest.mark.parametrize("there", ["{}", "[1]"])
def test_a_plan_that_is_none_is_a_conflict_too(tmp_path: Path, there: str) -> None:
    (tmp_path / "plan.json").write_text(there)

    with pytest.raises(ResultsConflict, match=r"another sweep: its plan\.json is not "):
        write_plan(planned(), tmp_path)


def test_the_same_sweep_finds_its_own_results(tmp_path: Path) -> None:
    write_plan(planned(), tmp_path)

    write_plan(planned(), tmp_path)


def test_an_unknown_implementation_is_named_with_the_nearest() -> None:
    with pytest.raises(
        ProfileError, match=r"implementations: 'cfpd' is not a known implementation; did you mean cfdp\?"
    ):
        planned(implementations=["cfpd"])


def test_a_parameter_that_a_build_does_not_have_is_named() -> None:
    with pytest.raises(ProfileError, match=r"parameters\.cfdp\.segment: is not .*; did you mean segment_bytes\?"):
        planned(parameters={"cfdp": {"segment": 1}})


def with_profile(plan: Plan, **changes: object) -> Plan:
    changed = plan.implementations["cfdp"].model_copy(update=changes)
    return plan.model_copy(update={"implementations": plan.implementations | {"cfdp": changed}})


@pytest.mark.parametrize("changes", [{"title": "another"}, {"keep_captures": "none"}, {"margin_percent": 5}], ids=str)
def test_a_sweep_whose_presentation_has_changed_is_the_same_sweep(tmp_path: Path, changes: dict[str, object]) -> None:
    write_plan(planned(), tmp_path)

    write_plan(planned(**changes), tmp_path)

    assert read_plan_values(tmp_path)["sweep"].items() >= changes.items()


PRESENTATION = {
    "title": "another",
    "description": "another",
    "dissector": ["-d", "udp.port==1,ltp"],
    "not_repeatable": "a reason",
    "needs": [Need(python_module="cfdppy", fix="another")],
}


@pytest.mark.parametrize("key", PRESENTATION)
def test_a_profile_whose_presentation_has_changed_gives_the_same_sweep(tmp_path: Path, key: str) -> None:
    write_plan(planned(), tmp_path)

    write_plan(with_profile(planned(), **{key: PRESENTATION[key]}), tmp_path)


BASELINE = {"every": 10, "implementations": "cfdp", "file_size": "1 MB", "packet_error_rate": 0}


def test_a_baseline_is_performed_first_last_and_every_so_many_runs() -> None:
    runs = planned(baseline=BASELINE).runs

    assert [at for at, run in enumerate(runs) if run.is_baseline] == [0, 11, 22, 27]
    assert {run.permutation.slug for run in runs if run.is_baseline} == {"cfdp_1MB_10Mbps_25ms_per0"}


def test_the_runs_of_a_baseline_have_names_and_seeds_of_their_own() -> None:
    runs = planned(baseline=BASELINE).runs

    assert [run.run_id.rpartition("_")[2] for run in runs if run.is_baseline] == [f"baseline{n}" for n in (1, 2, 3, 4)]
    assert len({run.seed for run in runs}) == len({run.run_id for run in runs}) == 28


def test_a_baseline_leaves_the_other_runs_as_they_are() -> None:
    others = [run for run in planned(baseline=BASELINE).runs if not run.is_baseline]

    assert [(run.run_id, run.seed) for run in others] == [(run.run_id, run.seed) for run in planned().runs]


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        (
            BASELINE | {"packet_error_rate": [0, 0.01]},
            r"baseline: names 2 points, such as cfdp_\S+, expected exactly one",
        ),
        (BASELINE | {"packet_error_rate": 0.5}, "baseline: names no point of this sweep, expected exactly one point"),
    ],
)
def test_a_baseline_that_is_not_one_point_is_refused(baseline: dict[str, object], message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        planned(baseline=baseline)


def test_what_happens_during_the_runs_over_a_channel_is_kept_under_other_names_of_it() -> None:
    cancel = {"side": "sender", "at": "1 s", "command": "cancel"}
    restart = {"side": "receiver", "at": "2 s", "after": "1 s"}
    changed = sweep(commands={"geo": [cancel], "other": [cancel]}, restarts={"geo": restart})

    assert changed.of_channel("geo", ["a", "b"]) == {
        "restarts": {"a": changed.restarts["geo"], "b": changed.restarts["geo"]},
        "commands": {"a": changed.commands["geo"], "b": changed.commands["geo"]},
        "skipped_waits": {},
    }


def test_sides_are_suspended_only_by_commands_over_their_channel() -> None:
    suspend = {"side": "sender", "at": "1 s", "command": "suspend"}
    changed = sweep(commands={"geo": [suspend], "leo": [suspend | {"command": "cancel"}]})

    assert [changed.may_suspend(channel) for channel in ("geo", "leo", "other")] == [True, False, False]
