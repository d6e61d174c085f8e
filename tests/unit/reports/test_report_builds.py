"""What the report says of each build beside its numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports.build import build_report
from reports.builds import MOST_NOTES, VERSION_LETTERS, Build, builds_of
from reports.load import load_results
from reports.records import KnownLimit, Permutation, Profile
from tests.unit.reports.conftest import change_record, few, write_results

RUN = "cfdp_1MB_10Mbps_25ms_per0_r1"
HERE = Permutation(
    implementation="cfdp", file_size_bytes=1_000_000, rate_bps=1e7, delay_ns=1_250_000_000, packet_error_rate=0.01
)

BuildOf = Callable[..., Build]


@pytest.fixture
def build_of(tmp_path: Path) -> BuildOf:
    """The one build of two runs, its first record and its profile changed."""

    def of(profile: dict[str, Any] | None = None, **changes: Any) -> Build:
        write_results(tmp_path, few(repetitions=2, implementations="cfdp", packet_error_rate=0))
        change_record(tmp_path, RUN, **changes)
        _change_profile(tmp_path, "cfdp", {"limits": {}, "known_limits": [], **(profile or {})})
        (found,) = builds_of(load_results(tmp_path))
        return found

    return of


def _change_profile(directory: Path, name: str, changes: dict[str, Any]) -> None:
    plan = json.loads((directory / "plan.json").read_text())
    plan["implementations"][name] |= changes
    (directory / "plan.json").write_text(json.dumps(plan))


def test_a_build_told_what_the_channel_is_has_no_note(build_of: BuildOf) -> None:
    assert build_of(told={"rate_bps": 1e7, "one_way_delay_s": 0.025, "rtt_s": 0.05}).notes == ()


def test_a_rate_told_other_than_the_channels_is_noted(build_of: BuildOf) -> None:
    assert build_of(told={"rate_bps": 8e6}).notes == ("told 8 Mbit/s on a channel of 10 Mbit/s",)


def test_a_delay_told_other_than_the_channels_is_noted(build_of: BuildOf) -> None:
    assert build_of(told={"one_way_delay_s": 2.5}).notes == ("told 2500 ms one way on a channel of 25 ms",)


def test_a_build_that_is_not_repeatable_on_exact_is_noted_with_its_reason(build_of: BuildOf) -> None:
    (note,) = build_of(profile={"not_repeatable": "it asks the processor for its numbers"}).notes

    assert note == "the same seed does not give the same packets again: it asks the processor for its numbers"


def test_a_name_in_figures_says_what_the_build_was_told_apart(tmp_path: Path) -> None:
    write_results(tmp_path, few(repetitions=2, packet_error_rate=0))
    change_record(tmp_path, RUN, told={"rate_bps": 8e6})

    titles = load_results(tmp_path).implementations

    assert titles["cfdp"].endswith(" (told 8 Mbit/s)")
    assert "told" not in titles["norm"]


def test_a_name_does_not_list_several_values_that_the_build_was_told(tmp_path: Path) -> None:
    write_results(tmp_path, few(repetitions=2, implementations="cfdp", packet_error_rate=0))
    change_record(tmp_path, RUN, told={"rate_bps": 8e6, "one_way_delay_s": 2.5})

    assert load_results(tmp_path).implementations["cfdp"].endswith(" (told otherwise)")


def test_a_side_paced_by_its_card_is_noted(build_of: BuildOf) -> None:
    assert build_of(sender={"card_rate_bps": 1e7}).notes == ("sender paced by its host’s card, at 10 Mbit/s",)


def test_a_program_left_running_is_named_without_its_directory(build_of: BuildOf) -> None:
    (note,) = build_of(receiver={"left_running": ["/opt/builds/dtnd -n receiver"]}).notes

    assert note == "the receiver left this running in 1 run, and it was ended with the run: dtnd -n receiver"


def test_of_many_notes_of_a_kind_the_first_are_said_and_the_others_counted(build_of: BuildOf) -> None:
    notes = build_of(receiver={"left_running": [f"daemon{number}" for number in range(MOST_NOTES + 3)]}).notes

    assert len(notes) == MOST_NOTES + 1
    assert notes[-1] == "and 3 more like that"


def test_limits_beyond_which_a_build_is_not_launched_are_noted(build_of: BuildOf) -> None:
    limits = {"largest_file_bytes": 32_000_000, "slowest_rate_bps": 1000, "longest_one_way_delay_s": 1.4}

    assert build_of({"limits": limits}).notes == (
        "not launched for files over 32 MB",
        "not launched for rates below 1 kbit/s",
        "not launched for more than 1400 ms one way",
    )


def test_a_known_limit_is_noted_with_all_its_bounds_and_why(build_of: BuildOf) -> None:
    limit = {"why": "it crashes", "file_bytes_above": 1e7, "one_way_delay_s_above": 60, "packet_error_rate_above": 0}
    where = "files over 10 MB and more than 60 s one way and a packet error rate above 0"

    assert build_of({"known_limits": [limit]}).notes == (f"known to fail with {where}: it crashes",)


def test_a_known_limit_without_bounds_is_everywhere(build_of: BuildOf) -> None:
    assert build_of({"known_limits": [{"why": "never ends"}]}).notes == ("known to fail: never ends",)


@pytest.mark.parametrize(
    ("bounds", "is_there"),
    [
        ({}, True),
        ({"packet_error_rate_above": 0.01}, False),
        ({"packet_error_rate_above": 0.001}, True),
        ({"packet_error_rate_above": 0.001, "one_way_delay_s_above": 60}, False),
        ({"packet_error_rate_above": 0.001, "one_way_delay_s_above": 1.2, "file_bytes_above": 999_999}, True),
    ],
)
def test_a_known_limit_covers_what_exceeds_all_of_its_bounds(bounds: dict[str, float], is_there: bool) -> None:
    assert KnownLimit(why="why", **bounds).covers(HERE) == is_there


@pytest.mark.parametrize(
    ("outcome", "why"), [("failed", "errors"), ("corrupt", "errors"), ("incomplete", "errors"), ("aborted", "")]
)
def test_the_first_known_limit_that_covers_a_point_explains_what_the_build_did(
    tmp_path: Path, outcome: str, why: str
) -> None:
    limits = (KnownLimit(why="far", one_way_delay_s_above=60), KnownLimit(why="errors"), KnownLimit(why="last"))
    write_results(tmp_path, few(repetitions=1, implementations="cfdp", packet_error_rate=0))
    change_record(tmp_path, RUN, outcome=outcome)
    (record,) = [run.record for run in load_results(tmp_path).runs if run.record.run_id == RUN]

    assert Profile(known_limits=limits).known_failure(record) == why


def test_a_long_version_is_cut_and_on_one_line(build_of: BuildOf) -> None:
    build = build_of(versions={"implementation": "iperf 3.12\t(cJSON 1.7.15)\n" + "features " * 20})
    text = build.versions_text.removeprefix("cfdp-py 0.7.0 and ")

    assert text.startswith("iperf 3.12 (cJSON 1.7.15) features")
    assert text.endswith(" …")
    assert len(text) <= VERSION_LETTERS


def test_versions_that_differ_only_at_their_end_are_two(build_of: BuildOf) -> None:
    assert len(build_of(versions={"implementation": "cfdp-py 0.7.0" + " same" * 20}).versions) == 2


def test_parameters_are_all_told_and_those_of_the_sweep_apart(tmp_path: Path) -> None:
    asked = few(repetitions=1, implementations="norm", packet_error_rate=0, parameters={"norm": {"block_segments": 32}})
    write_results(tmp_path, asked)
    change_record(tmp_path, "norm_1MB_10Mbps_25ms_per0_r1", parameters={"block_segments": 32, "segment_bytes": 1000})
    (build,) = builds_of(load_results(tmp_path))

    assert build.chosen == {"block_segments": "32"}
    assert list(build.parameters) == ["block_segments", "segment_bytes"]


def test_a_variant_has_the_parameters_that_its_build_is_given(tmp_path: Path) -> None:
    varied = {"norm": {"parity_segments": [0, 8]}}
    asked = few(repetitions=1, implementations="norm", packet_error_rate=0, parameters=varied)
    write_results(tmp_path, asked)
    for number in (0, 8):
        run_id = f"norm+parity_segments={number}_1MB_10Mbps_25ms_per0_r1"
        change_record(tmp_path, run_id, parameters={"parity_segments": number})

    assert [build.chosen for build in builds_of(load_results(tmp_path))] == [
        {"parity_segments": "0"},
        {"parity_segments": "8"},
    ]


def test_a_failure_that_is_known_is_said_beside_its_reason(tmp_path: Path) -> None:
    write_results(tmp_path, few(repetitions=2, implementations="cfdp", packet_error_rate=0))
    change_record(tmp_path, RUN, outcome="failed", reason="it ended with status 1")
    _change_profile(tmp_path, "cfdp", {"known_limits": [{"why": "nothing is repeated"}]})

    assert "it ended with status 1<div" in (page := build_report(tmp_path).read_text())
    assert page.count("As is known: nothing is repeated") == 1


def test_what_a_profile_says_of_its_build_is_in_the_page(tmp_path: Path) -> None:
    write_results(tmp_path, few(repetitions=1, implementations="cfdp", packet_error_rate=0))
    _change_profile(tmp_path, "cfdp", {"description": "Written for <this> test."})

    assert "Written for &lt;this&gt; test." in build_report(tmp_path).read_text()
