"""A sweep file: what it means, and what it says when it cannot be used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from owlt.orchestrator.errors import ProfileError
from owlt.orchestrator.planning.grid import permutations
from owlt.orchestrator.profiles.catalogue import find_channel, find_implementation
from owlt.orchestrator.profiles.load import load_sweep

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
    points = permutations(load_sweep(written(tmp_path, SMALL)), ["cfdp"], {})

    assert [(point.delay_ns, point.packet_error_rate) for point in points] == [
        (25_000_000, 0),
        (25_000_000, 0.01),
        (1_250_000_000, 0),
        (1_250_000_000, 0.01),
    ]


def test_an_unknown_key_is_named_with_the_known_ones(tmp_path: Path) -> None:
    told = complaint(tmp_path, SMALL + "colour: red\n")

    assert "colour: is not a known key" in told
    assert "packet_error_rate" in told


def test_the_known_keys_are_listed_once_for_several_unknown_ones(tmp_path: Path) -> None:
    told = complaint(tmp_path, SMALL + "colour: red\nflavour: up\n")

    assert (told.count("is not a known key"), told.count(" packet_error_rate")) == (2, 1)


def test_a_misspelt_key_is_reported_with_the_nearest(tmp_path: Path) -> None:
    assert "delays: is not a known key; did you mean delay?" in complaint(tmp_path, SMALL + "delays: 25 ms\n")


def test_an_unknown_key_below_advertised_is_named_with_its_known_keys(tmp_path: Path) -> None:
    told = complaint(tmp_path, SMALL + "advertised: {cfdp: {rtt: 5 s}}\n")

    assert "advertised.cfdp.rtt: is not a known key; known: delay, rate" in told
    assert "repetitions" not in told


def test_a_word_that_is_none_of_those_wanted_is_reported_with_them(tmp_path: Path) -> None:
    told = complaint(tmp_path, SMALL + "clock: virtual\n")

    assert "clock: got 'virtual', expected " in told
    assert all(word in told for word in ("exact", "skip", "real"))


def test_a_mistake_has_the_file_and_the_line_in_front(tmp_path: Path) -> None:
    assert complaint(tmp_path, SMALL.replace("seed: 7", "seed: seven")).startswith(
        f"{tmp_path}/sweep.yaml:2: seed: got"
    )


@pytest.mark.parametrize("value", ["true", "[1, false]", ".inf", "[.nan]", "", "[]"])
def test_a_parameter_that_an_implementation_file_refuses_is_refused(tmp_path: Path, value: str) -> None:
    told = complaint(tmp_path, SMALL + f"parameters: {{cfdp: {{segment_bytes: {value}}}}}\n")

    assert re.search(r"parameters\.cfdp\.segment_bytes(\[[01]\])?: got ", told)


def test_two_keys_of_one_rate_are_refused(tmp_path: Path) -> None:
    told = complaint(tmp_path, SMALL + "advertised: {cfdp: {rate: {1 Mbit/s: 2 Mbit/s, 1000 kbit/s: 3 Mbit/s}}}\n")

    assert "each value of the axis once: 1 Mbit/s and 1000 kbit/s are the same" in told


@pytest.mark.parametrize("told", ["rate: {1 Mbit/s: }", "rate: "])
def test_an_advertised_rate_without_a_value_is_refused(tmp_path: Path, told: str) -> None:
    assert "advertised.cfdp.rate" in complaint(tmp_path, SMALL + f"advertised: {{cfdp: {{{told}}}}}\n")


def test_a_file_that_nobody_could_send_is_refused(tmp_path: Path) -> None:
    assert "file_size" in complaint(tmp_path, re.sub("file_size: .*", "file_size: 1e30 GB", SMALL))


def test_a_parameter_that_is_a_mapping_is_refused_in_one_line(tmp_path: Path) -> None:
    told = complaint(tmp_path, SMALL + "parameters: {cfdp: {segment_bytes: {a: 1}}}\n")

    assert "parameters.cfdp.segment_bytes: got {'a': 1}, expected a number or text; put quotes" in told
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "name: x\nprotocol: P\nsender: {}\n",
            "this is an implementation, expected a sweep, with implementations",
        ),
        (
            "both: {delay: 5 ms}\n",
            "this is a channel, expected a sweep, with implementations, file_size and seed; try: owlt channel",
        ),
    ],
)
def test_a_file_of_another_kind_is_reported_in_one_line_with_its_use(tmp_path: Path, text: str, said: str) -> None:
    told = complaint(tmp_path, text)

    assert said in told
    assert len(told.splitlines()) == 1


def test_a_sweep_that_lacks_most_keys_is_still_a_sweep(tmp_path: Path) -> None:
    assert "name: is missing" in complaint(tmp_path, "implementations: cfdp\nboth: {delay: 5 ms}\n")


def test_a_sweep_is_not_taken_for_an_implementation_or_a_channel(tmp_path: Path) -> None:
    path = str(written(tmp_path, SMALL))

    for find in (find_implementation, find_channel):
        with pytest.raises(ProfileError, match=f"this is a sweep, expected an? .*; try: owlt run {path}$"):
            find(path)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    assert "seed: is missing; add it" in complaint(tmp_path, SMALL.replace("seed: 7\n", ""))


def test_a_bare_number_of_a_quantity_shows_the_right_spelling(tmp_path: Path) -> None:
    told = complaint(tmp_path, SMALL.replace("100 kB", "100000"))

    assert "file_size: got 100000, expected a number with one of the units" in told
    assert 'as in "100000 B"' in told


def test_a_sweep_without_a_channel_profile_needs_all_that_makes_a_channel(tmp_path: Path) -> None:
    told = complaint(tmp_path, SMALL.replace("delay: [25 ms, 1250 ms]\n", ""))

    assert "delay: got none, expected all three of rate, delay and packet_error_rate, or a channel profile" in told


def test_every_mistake_is_reported_at_once(tmp_path: Path) -> None:
    told = complaint(tmp_path, SMALL.replace("100 kB", "big").replace("10 Mbit/s", "fast"))

    assert len(told.splitlines()) == 2


def test_a_probability_above_one_is_refused_with_what_was_got(tmp_path: Path) -> None:
    assert "packet_error_rate[1]: got 1.5" in complaint(tmp_path, SMALL.replace("0.01", "1.5"))


def test_a_file_that_is_not_yaml_is_named_with_the_place(tmp_path: Path) -> None:
    told = complaint(tmp_path, "name: [unclosed\n")

    assert "sweep.yaml:1: not valid YAML" in told


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ProfileError,
        match=r"there is no such file: /.*/nothing\.yaml; relative paths are resolved",
    ):
        load_sweep(tmp_path / "nothing.yaml")


@pytest.mark.parametrize(
    ("axis", "values", "mistake"),
    [
        ("implementations", "[cfdp,\n cfdp]", "2: implementations[1]: got 'cfdp', expected each value once: 'cfdp'"),
        ("channel", "[geo,\n geo]", "2: channel[1]: got 'geo', expected each value once: 'geo' is"),
        ("rate", "[1 Mbit/s,\n 1000 kbit/s]", "2: rate[1]: got '1000 kbit/s', expected each value once: 1 Mbit/s is"),
        (
            "delay",
            "[1 s, {from: 1 s, to: 2 s, points: 2}]",
            "1: delay: got ['1 s', {'from': '1 s', ",
        ),
        ("file_size", "[1 MB,\n 1000 kB]", "2: file_size[1]: got '1000 kB', expected each value once: 1 MB is"),
        ("packet_error_rate", "[1 %,\n 0.01]", "2: packet_error_rate[1]: got 0.01, expected each value once: 0.01 is"),
        (
            "parameters",
            "{tcp: {congestion_control: [reno,\n reno]}}",
            "2: parameters.tcp.congestion_control[1]: got 'reno',",
        ),
        ("parameters", "{tcp: {x: [1,\n 1.0]}}", "2: parameters.tcp.x[1]: got 1.0, expected each value once: 1.0 is"),
        ("include", "{delay: [1 ms,\n 1000 us]}", "2: include.delay[1]: 1 ms is"),
    ],
)
def test_a_value_given_twice_is_refused_with_its_line_and_in_the_words_of_the_file(
    tmp_path: Path, axis: str, values: str, mistake: str
) -> None:
    (line,) = [each for each in complaint(tmp_path, f"{axis}: {values}\n").splitlines() if "missing" not in each]

    assert line.startswith(f"{tmp_path}/sweep.yaml:{mistake}")
    assert "is listed twice" in line


def test_an_unlimited_rate_is_spelled_out(tmp_path: Path) -> None:
    assert load_sweep(written(tmp_path, SMALL.replace("10 Mbit/s", "unlimited"))).rate == [None]


def test_a_sweep_reads_the_same_from_its_own_echo(tmp_path: Path) -> None:
    sweep = load_sweep(written(tmp_path, SMALL))

    assert type(sweep).model_validate_json(sweep.model_dump_json()) == sweep
