"""A sweep file: what it means, and what it says when it cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import ProfileError
from orchestrator.load import load_sweep

SMALL = """\
name: small
seed: 7
implementations: cfdp
file_size: 100 kB
rate: 10 Mbit/s
delay: [25 ms, 1250 ms]
packet_error_rate: [0, 0.01]
"""


def written(directory: Path, text: str) -> Path:
    path = directory / "sweep.yaml"
    path.write_text(text)
    return path


def complaint(directory: Path, text: str) -> str:
    with pytest.raises(ProfileError) as raised:
        load_sweep(written(directory, text))
    return str(raised.value)


def test_quantities_become_numbers_in_their_base_units(tmp_path: Path) -> None:
    sweep = load_sweep(written(tmp_path, SMALL))

    assert (sweep.file_size, sweep.rate, sweep.delay) == ([100_000], [10e6], [25_000_000, 1_250_000_000])


def test_the_grid_is_the_product_of_its_lists(tmp_path: Path) -> None:
    points = load_sweep(written(tmp_path, SMALL)).permutations(["cfdp"], {})

    assert [(point.delay_ns, point.packet_error_rate) for point in points] == [
        (25_000_000, 0),
        (25_000_000, 0.01),
        (1_250_000_000, 0),
        (1_250_000_000, 0.01),
    ]


def test_an_unknown_key_is_named_with_the_known_ones(tmp_path: Path) -> None:
    told = complaint(tmp_path, SMALL + "delays: 25 ms\n")

    assert "delays: unknown key" in told
    assert "packet_error_rate" in told


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    assert "seed: missing" in complaint(tmp_path, SMALL.replace("seed: 7\n", ""))


def test_a_bare_number_of_a_quantity_shows_the_right_spelling(tmp_path: Path) -> None:
    told = complaint(tmp_path, SMALL.replace("100 kB", "100000"))

    assert "file_size.0: size: got 100000" in told
    assert 'as in "100000 kB"' in told


def test_a_sweep_without_a_channel_profile_needs_all_that_makes_a_channel(tmp_path: Path) -> None:
    assert "neither channel nor delay" in complaint(tmp_path, SMALL.replace("delay: [25 ms, 1250 ms]\n", ""))


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    told = complaint(tmp_path, SMALL.replace("100 kB", "big").replace("10 Mbit/s", "fast"))

    assert len(told.splitlines()) == 2


def test_a_probability_above_one_is_refused_with_what_was_got(tmp_path: Path) -> None:
    assert "packet_error_rate.1" in complaint(tmp_path, SMALL.replace("0.01", "1.5"))


def test_a_file_that_is_not_yaml_is_named_with_the_place(tmp_path: Path) -> None:
    told = complaint(tmp_path, "name: [unclosed\n")

    assert "sweep.yaml, line 2: is not YAML" in told
    assert "line" in told


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="there is no such file"):
        load_sweep(tmp_path / "nothing.yaml")


def test_a_value_given_twice_is_refused(tmp_path: Path) -> None:
    assert "twice" in complaint(tmp_path, SMALL.replace("[0, 0.01]", "[0, 0]"))


def test_an_unlimited_rate_is_spelled_out(tmp_path: Path) -> None:
    assert load_sweep(written(tmp_path, SMALL.replace("10 Mbit/s", "unlimited"))).rate == [None]


def test_a_sweep_reads_the_same_from_its_own_echo(tmp_path: Path) -> None:
    sweep = load_sweep(written(tmp_path, SMALL))

    assert type(sweep).model_validate_json(sweep.model_dump_json()) == sweep
