"""Parameters that a sweep varies make third-party of their own; advertised values can differ from the channel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from owlt.inputs.axes import base_name
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.errors import ProfileError, SweepMistake
from owlt.orchestrator.planning.plan import AdvertisedValues, Run, advertised_values, plan_sweep
from owlt.orchestrator.profiles.catalogue import channels_of, implementations_of
from owlt.orchestrator.profiles.load import load_sweep

SMALL: dict[str, Any] = {
    "name": "small",
    "seed": 1,
    "implementations": ["cfdp", "norm"],
    "file_size": "10 kB",
    "rate": ["1.024 Mbit/s", "10.24 Mbit/s"],
    "delay": ["25 ms", "1 s"],
    "packet_error_rate": 0,
}


def sweep(directory: Path, **changes: object) -> Sweep:
    """The small sweep with changes."""
    path = directory / "sweep.yaml"
    path.write_text(json.dumps(SMALL | changes))
    return load_sweep(path)


def runs(asked: Sweep) -> list[Run]:
    """All its runs."""
    return plan_sweep(asked, implementations_of(asked)).runs


def advertised(asked: Sweep, implementation: str) -> set[tuple[float | None, float, float]]:
    """The values given to one implementation over all its runs: rate, delay, round trip."""
    values = [advertised_values(run, asked) for run in runs(asked) if run.permutation.implementation == implementation]
    return {(value.rate_bps, value.one_way_delay_s, value.rtt_s) for value in values}


def test_a_parameter_that_is_a_list_makes_a_build_of_each_value(tmp_path: Path) -> None:
    found = implementations_of(sweep(tmp_path, parameters={"norm": {"parity_segments": [0, 8], "port": 6003}}))

    assert list(found) == ["cfdp", "norm+parity_segments=0", "norm+parity_segments=8"]
    assert [build.parameters.get("parity_segments") for build in found.values()] == [None, 0, 8]
    assert {build.parameters["port"] for name, build in found.items() if name != "cfdp"} == {6003}


def test_a_variants_title_says_its_value(tmp_path: Path) -> None:
    found = implementations_of(sweep(tmp_path, parameters={"norm": {"parity_segments": [0, 8]}}))

    assert found["norm+parity_segments=8"].title == "NORM (libnorm), parity_segments 8"


def test_two_lists_multiply(tmp_path: Path) -> None:
    varied = {"parity_segments": [0, 8], "end": ["flushed", "acknowledged"]}

    assert len(implementations_of(sweep(tmp_path, parameters={"norm": varied}))) == 1 + 4


def test_every_variant_has_runs_with_names_of_their_own(tmp_path: Path) -> None:
    planned = runs(sweep(tmp_path, parameters={"norm": {"parity_segments": [0, 8]}}))

    assert len(planned) == len({run.run_id for run in planned}) == 3 * 4


def test_a_variant_knows_its_build() -> None:
    assert base_name("norm+parity_segments=8+end=flushed") == base_name("norm") == "norm"


def test_an_unknown_parameter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ProfileError, match=r"parameters\.norm\.parity: is not a parameter of norm; did you mean parity_segments\?"
    ):
        implementations_of(sweep(tmp_path, parameters={"norm": {"parity": [1, 2]}}))


def test_a_build_is_given_the_channels_rate_and_delay(tmp_path: Path) -> None:
    asked = sweep(tmp_path, rate="10.24 Mbit/s", delay="25 ms")

    assert advertised(asked, "cfdp") == {(10_240_000, 0.025, 0.05)}


def test_a_build_is_given_the_rate_advertised_for_each_of_the_channels(tmp_path: Path) -> None:
    rates = {"1.024 Mbit/s": "1 Mbit/s", "10240 kbit/s": "10 Mbit/s"}
    asked = sweep(tmp_path, delay="25 ms", advertised={"norm": {"rate": rates}})

    assert advertised(asked, "norm") == {(1e6, 0.025, 0.05), (10e6, 0.025, 0.05)}
    assert advertised(asked, "cfdp") == {(1.024e6, 0.025, 0.05), (10.24e6, 0.025, 0.05)}


def test_an_advertised_delay_applies_in_both_directions(tmp_path: Path) -> None:
    asked = sweep(tmp_path, rate="1.024 Mbit/s", advertised={"norm": {"delay": "2 s"}})

    assert advertised(asked, "norm") == {(1.024e6, 2.0, 4.0)}


def test_advertised_values_survive_the_plan_file(tmp_path: Path) -> None:
    asked = sweep(tmp_path, advertised={"norm": {"rate": "1 Mbit/s", "delay": {"25 ms": "30 ms"}}})

    again = Sweep.model_validate_json(asked.model_dump_json())
    assert again == asked
    run = next(run for run in runs(again) if run.permutation.implementation == "norm" and run.rtt_s == 0.05)
    assert advertised_values(run, again) == AdvertisedValues(1e6, 0.03, 0.06)


def test_an_advertised_value_for_a_rate_that_the_sweep_does_not_have_is_refused(tmp_path: Path) -> None:
    asked = sweep(tmp_path, advertised={"norm": {"rate": {"2 Mbit/s": "1 Mbit/s"}}})

    with pytest.raises(SweepMistake, match=r"advertised\.norm\.rate: got '2 Mbit/s', expected a rate of this sweep: "):
        runs(asked)


def test_an_advertised_value_for_a_delay_that_the_channel_profile_does_not_have_is_refused() -> None:
    asked = Sweep(
        name="x",
        seed=1,
        implementations="cfdp",
        file_size="1 MB",
        channel="geo",
        advertised={"cfdp": {"delay": {"1 s": "2 s"}}},
    )

    with pytest.raises(SweepMistake, match=r"advertised\.cfdp\.delay: got '1 s', expected a delay of this sweep: "):
        plan_sweep(asked, implementations_of(asked), channels_of(asked))


def test_two_values_that_make_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SweepMistake, match=r"parameters\.cfdp: two of its values make cfdp\+segment_bytes=1"):
        implementations_of(sweep(tmp_path, parameters={"cfdp": {"segment_bytes": [1, "1"]}}))


def test_advertised_values_for_an_implementation_outside_the_sweep_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"advertised\.ltp: is not an implementation of this sweep; it has cfdp"):
        implementations_of(sweep(tmp_path, advertised={"ltp": {"rate": "1 Mbit/s"}}))
