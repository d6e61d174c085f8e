"""The points of a sweep's grid: axes that vary together, points left out, points added."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.inputs.sweep import Sweep
from owlt.orchestrator.errors import ProfileError
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.profiles.catalogue import resolve
from owlt.results.permutation import Permutation

BASE = """\
name: x
seed: 7
implementations: [cfdp, norm]
file_size: [100 kB, 1 MB]
rate: 10 Mbit/s
delay: [25 ms, 1 s]
packet_error_rate: 0
"""


def planned(directory: Path, text: str) -> Plan:
    path = directory / "sweep.yaml"
    path.write_text(text)
    return resolve(path)


def points(directory: Path, text: str) -> set[Permutation]:
    return {run.permutation for run in planned(directory, text).runs}


def complaint(directory: Path, text: str) -> str:
    with pytest.raises(ProfileError) as raised:
        planned(directory, text)
    return str(raised.value)


TOGETHER = BASE.replace("rate: 10 Mbit/s\ndelay: [25 ms, 1 s]\n", "") + (
    "together:\n  rate: [10 Mbit/s, 1 Mbit/s]\n  delay: [25 ms, 1 s]\n"
)


def test_axes_that_vary_together_have_their_values_in_pairs(tmp_path: Path) -> None:
    found = points(tmp_path, TOGETHER)

    assert {(point.rate_bps, point.delay_ns) for point in found} == {(10e6, 25_000_000), (1e6, 1_000_000_000)}
    assert len(found) == 2 * 2 * 2


def test_two_groups_of_axes_vary_independently(tmp_path: Path) -> None:
    text = TOGETHER.replace("file_size: [100 kB, 1 MB]\n", "").replace("packet_error_rate: 0\n", "")
    lines = text.replace("together:\n  rate", "together:\n- rate").replace("\n  delay", "\n  delay")
    found = points(tmp_path, lines + "- {file_size: [1 kB, 2 kB, 3 kB], packet_error_rate: [0, 0.1, 0.2]}\n")

    assert {(point.file_size_bytes, point.packet_error_rate) for point in found} == {
        (1000, 0),
        (2000, 0.1),
        (3000, 0.2),
    }
    assert len(found) == 2 * 2 * 3


def test_together_can_replace_values_of_a_channel_profile(tmp_path: Path) -> None:
    text = TOGETHER.replace("packet_error_rate: 0\n", "channel: geo\n")
    plan = planned(tmp_path, text)

    links = {(channel.forward.rate_bps, channel.forward.delay_ns) for channel in plan.channels.values()}
    assert links == {(10e6, 25_000_000), (1e6, 1_000_000_000)}


def test_ranges_of_one_length_can_vary_together(tmp_path: Path) -> None:
    text = TOGETHER.replace("[10 Mbit/s, 1 Mbit/s]", "{from: 1 Mbit/s, to: 10 Mbit/s, factor: 10}")

    assert {(point.rate_bps, point.delay_ns) for point in points(tmp_path, text)} == {
        (1e6, 25_000_000),
        (10e6, 1_000_000_000),
    }


def test_an_excluded_point_has_all_values_of_the_rule(tmp_path: Path) -> None:
    left = points(tmp_path, BASE + "exclude: {implementations: norm, delay: 1 s}\n")

    assert len(left) == 6
    assert not any(point.implementation == "norm" and point.delay_ns == 10**9 for point in left)


def test_a_rule_may_name_several_values_or_an_interval(tmp_path: Path) -> None:
    left = points(tmp_path, BASE + "exclude:\n- {delay: {to: 30 ms}, file_size: [100 kB, 1 MB]}\n")

    assert {point.delay_ns for point in left} == {10**9}


def test_an_interval_includes_its_ends(tmp_path: Path) -> None:
    left = points(tmp_path, BASE + "exclude: {file_size: {from: 1 MB, to: 1 MB}}\n")

    assert {point.file_size_bytes for point in left} == {100_000}


def test_excluding_an_implementation_excludes_its_variants(tmp_path: Path) -> None:
    text = BASE + "parameters: {norm: {parity_segments: [0, 8]}}\nexclude: {implementations: norm, delay: 1 s}\n"

    assert len(points(tmp_path, text)) == 4 + 2 * 2


def test_one_variant_can_be_excluded(tmp_path: Path) -> None:
    rule = 'exclude: {implementations: "norm+parity_segments=8"}\n'
    left = points(tmp_path, BASE + "parameters: {norm: {parity_segments: [0, 8]}}\n" + rule)

    assert {point.implementation for point in left} == {"cfdp", "norm+parity_segments=0"}


def test_an_included_grid_has_the_axes_of_the_sweep_where_it_has_none(tmp_path: Path) -> None:
    found = points(tmp_path, BASE + "include: {implementations: cfdp, delay: 10 min}\n")

    added = {point for point in found if point.delay_ns == 600 * 10**9}
    assert {(point.implementation, point.file_size_bytes) for point in added} == {("cfdp", 100_000), ("cfdp", 10**6)}
    assert len(found) == 8 + 2


def test_a_star_of_one_factor_at_a_time_is_made_of_included_grids(tmp_path: Path) -> None:
    star = BASE.replace("[100 kB, 1 MB]", "100 kB").replace("[25 ms, 1 s]", "25 ms")
    found = points(tmp_path, star + "include:\n- {delay: [25 ms, 1 s, 5 s]}\n- {file_size: [1 MB, 10 MB]}\n")

    assert len(found) == 2 * (1 + 2 + 2)


def test_a_point_that_is_included_twice_is_run_once(tmp_path: Path) -> None:
    runs = planned(tmp_path, BASE + "include:\n- {delay: 1 s}\n- {delay: 1 s}\n").runs

    assert len({run.run_id for run in runs}) == len(runs) == 8


def test_an_excluded_point_can_be_included_again(tmp_path: Path) -> None:
    text = BASE + "exclude: {implementations: norm}\ninclude: {implementations: norm, file_size: 1 MB, delay: 1 s}\n"
    left = points(tmp_path, text)

    assert [(point.file_size_bytes, point.delay_ns) for point in left if point.implementation == "norm"] == [
        (10**6, 10**9)
    ]


def test_an_included_axis_leaves_the_group_that_it_belongs_to(tmp_path: Path) -> None:
    found = points(tmp_path, TOGETHER + "include: {implementations: cfdp, file_size: 100 kB, delay: 5 s}\n")

    assert {point.rate_bps for point in found if point.delay_ns == 5 * 10**9} == {1e6, 10e6}


def test_a_sweep_with_rules_is_the_same_after_writing_it(tmp_path: Path) -> None:
    text = TOGETHER + "exclude:\n- {delay: [25 ms], file_size: {from: 1 MB}}\ninclude: {delay: 5 s, rate: 1 Mbit/s}\n"
    plan = planned(tmp_path, text)

    assert Sweep.model_validate_json(plan.sweep.model_dump_json()) == plan.sweep


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("exclude: {delay: 2 s}", "sweep.yaml:8: exclude.delay: got '2 s', expected a delay of this sweep: 25 ms, 1 s"),
        ("exclude: {delay: 2 s}", "; write one of them here, or 'delay: [25 ms, 1 s, 2 s]' in the sweep"),
        ("exclude: {delay: {from: 2 s}}", "; write a range that contains one of them"),
        ("exclude: {implementations: ltp}", "write 'implementations: [cfdp, norm, ltp]' in the sweep"),
        ("exclude: [{delay: 25 ms}, {delay: 2 s}]", "exclude[1].delay: got '2 s', expected a delay of this sweep"),
        ("exclude: {delay: 25}", "exclude.delay: got 25, expected a number with one of the units ns"),
        ("exclude: {delay: {from: 2 s}}", "exclude.delay: got {'from': '2 s'}, expected a delay of this sweep"),
        ("exclude: {colour: red}", "exclude.colour: is not a known key; known: implementations, file_size"),
        (
            "exclude: {implementations: norn}",
            "got 'norn', expected one of this sweep's: cfdp, norm; did you mean norm?",
        ),
        ("exclude: {implementations: ltp}", "got 'ltp', expected one of this sweep's: cfdp, norm; add it to 'impl"),
        ("exclude: {channel: geo}", "exclude.channel: got 'geo', expected a sweep with 'channel'; add it to 'channel'"),
        ("exclude: {rate: 10 Mbit/s}", "exclude: excludes every point of the grid"),
        ("exclude: red", "exclude: got 'red', expected axes with their values, such as {delay: 25 ms}"),
        (
            "baseline: {delay: 1 s}",
            "baseline: got {'delay': '1 s'}, expected 'every' and the values of one point, such as",
        ),
        ("baseline: {every: 0, delay: 1 s}", "baseline.every: got 0, expected a whole number of runs, from 1 up"),
        ("baseline: {every: 9, delay: 1}", "baseline.delay: got 1, expected a number with one of the units"),
        ("baseline: {every: 9, delay: 1 s}", "sweep.yaml:8: baseline: names 4 points, such as cfdp_100kB_"),
        ("include: {}", "include: got {}, expected axes with their values"),
        ("include: {delay: []}", "include.delay: got [], expected at least one value"),
        ("include: {delay: [5 ms, 5000 us]}", "include.delay[1]: 5 ms is listed twice, expected each value once"),
        ("include: {implementations: ltp}", "include.implementations: got 'ltp', expected one of this sweep's: cfdp"),
        ("together: {rate: [1 Mbit/s, 2 Mbit/s]}", "together: got rate alone, expected two or more axes that vary"),
        ("together: {rate: [1 Mbit/s], delay: [1 s, 2 s]}", "together: got 1 of rate, 2 of delay, expected the same"),
        ("together: {rate: 1 Mbit/s, delay: 1 s}", "together.rate: is given twice, expected each axis once; remove it"),
        (
            "together: {channel: geo, delay: 1 s}",
            "together.channel: is not a known key; known: file_size, duration, ip, rate",
        ),
    ],
)
def test_a_rule_without_sense_is_refused_with_its_key(tmp_path: Path, line: str, message: str) -> None:
    assert message in complaint(tmp_path, BASE + line + "\n")


def test_a_rule_whose_values_never_meet_is_refused(tmp_path: Path) -> None:
    text = TOGETHER + "exclude: {rate: 10 Mbit/s, delay: 1 s}\n"

    assert "exclude: excludes nothing, expected values that meet in this sweep" in complaint(tmp_path, text)


def test_a_channels_own_value_cannot_be_changed_in_an_included_grid_alone(tmp_path: Path) -> None:
    text = "name: x\nseed: 7\nimplementations: cfdp\nfile_size: 1 MB\nchannel: geo\ninclude: {delay: 1 s}\n"

    assert "include.delay: each channel has its own value, expected a sweep with 'delay'" in complaint(tmp_path, text)


def test_a_sweep_without_a_file_size_is_refused(tmp_path: Path) -> None:
    assert "file_size: is missing; add it" in complaint(tmp_path, BASE.replace("file_size: [100 kB, 1 MB]\n", ""))


def test_the_sweep_of_distances_leaves_large_files_on_slow_links_out(tmp_path: Path) -> None:
    plan = resolve(Path(__file__).parents[3] / "profiles" / "sweeps" / "distances.yaml")
    found = {run.permutation for run in plan.runs}

    assert {point.file_size_bytes for point in found if point.rate_bps == 1e6} == {10_000, 100_000, 1_000_000}
    assert {point.implementation for point in found if point.delay_ns == 600 * 10**9} == {"cfdp", "ltp"}
    assert len(found) == 4 * (4 + 4 + 3) * 4 + 2 * 4
