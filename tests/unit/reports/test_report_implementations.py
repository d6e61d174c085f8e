"""What the report says of each build beside its numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from owlt.agents.contract.implementation import Implementation
from owlt.agents.contract.limits import KnownLimit
from owlt.reports.page.implementations import (
    MOST_NOTES,
    VERSION_LETTERS,
    ImplementationRow,
    implementation_rows,
    origin_of,
)
from owlt.reports.results.load import load_results
from owlt.results.judgements import known_failure
from owlt.results.permutation import Permutation
from tests.unit.reports.conftest import change_record, few, page_text, plan_of, sweep, write_results

RUN = "cfdp_1MB_10Mbps_25ms_per0_r1"
HERE = Permutation(
    implementation="cfdp", file_size_bytes=1_000_000, rate_bps=1e7, delay_ns=1_250_000_000, packet_error_rate=0.01
)

RowOf = Callable[..., ImplementationRow]


@pytest.fixture
def row_of(tmp_path: Path) -> RowOf:
    """The one build of two runs, its first record and its profile changed."""

    def of(profile: dict[str, Any] | None = None, **changes: Any) -> ImplementationRow:
        write_results(tmp_path, few(repetitions=2, implementations="cfdp", packet_error_rate=0))
        change_record(tmp_path, RUN, **changes)
        _change_profile(tmp_path, "cfdp", {"limits": {}, "known_limits": [], **(profile or {})})
        (found,) = implementation_rows(load_results(tmp_path))
        return found

    return of


def _change_profile(directory: Path, name: str, changes: dict[str, Any]) -> None:
    plan = json.loads((directory / "plan.json").read_text())
    plan["implementations"][name] |= changes
    (directory / "plan.json").write_text(json.dumps(plan))


def test_an_implementation_given_the_channels_values_has_no_note(row_of: RowOf) -> None:
    assert row_of(advertised={"rate_bps": 1e7, "one_way_delay_s": 0.025, "rtt_s": 0.05}).notes == ()


def test_a_port_has_no_thousands_separator(row_of: RowOf) -> None:
    parameters = row_of(parameters={"receiver_port": 12347, "segment_bytes": 1400}).parameters

    assert parameters == {"receiver_port": "12347", "segment_bytes": "1\N{NARROW NO-BREAK SPACE}400"}


def test_an_advertised_rate_other_than_the_channels_is_noted(row_of: RowOf) -> None:
    assert row_of(advertised={"rate_bps": 8e6}).notes == ("advertised 8 Mbit/s on a channel of 10 Mbit/s",)


def test_an_advertised_delay_other_than_the_channels_is_noted(row_of: RowOf) -> None:
    assert row_of(advertised={"one_way_delay_s": 2.5}).notes == ("advertised 2500 ms one way on a channel of 25 ms",)


def test_an_implementation_that_is_not_repeatable_has_a_note_on_the_exact_clock(row_of: RowOf) -> None:
    (note,) = row_of(profile={"not_repeatable": "it asks the processor for its numbers"}).notes

    assert note == "the same seed does not reproduce the same packets: it asks the processor for its numbers"


def test_a_name_in_figures_has_the_advertised_rate(tmp_path: Path) -> None:
    write_results(tmp_path, few(repetitions=2, packet_error_rate=0))
    change_record(tmp_path, RUN, advertised={"rate_bps": 8e6})

    titles = load_results(tmp_path).implementations

    assert titles["cfdp"].endswith(" (advertised 8 Mbit/s)")
    assert "advertised" not in titles["norm"]


def test_a_name_does_not_list_several_advertised_values(tmp_path: Path) -> None:
    write_results(tmp_path, few(repetitions=2, implementations="cfdp", packet_error_rate=0))
    change_record(tmp_path, RUN, advertised={"rate_bps": 8e6, "one_way_delay_s": 2.5})

    assert load_results(tmp_path).implementations["cfdp"].endswith(" (advertised differently)")


def test_a_side_paced_by_its_card_is_noted(row_of: RowOf) -> None:
    assert row_of(sender={"card_rate_bps": 1e7}).notes == ("the sender’s network card paces it at 10 Mbit/s",)


def test_a_program_left_running_is_named_without_its_directory(row_of: RowOf) -> None:
    (note,) = row_of(receiver={"left_running": ["/opt/builds/dtnd -n receiver"]}).notes

    assert note == "in 1 run the receiver left a process running, which was killed: dtnd -n receiver"


def test_many_notes_of_a_kind_are_cut_and_counted(row_of: RowOf) -> None:
    notes = row_of(receiver={"left_running": [f"daemon{number}" for number in range(MOST_NOTES + 3)]}).notes

    assert len(notes) == MOST_NOTES + 1
    assert notes[-1] == "and 3 more"


def test_limits_of_an_implementation_are_notes(row_of: RowOf) -> None:
    limits = {"largest_file_bytes": 32_000_000, "slowest_rate_bps": 1000, "longest_one_way_delay_s": 1.4}

    assert row_of({"limits": limits}).notes == (
        "not started for files over 32 MB",
        "not started for rates below 1 kbit/s",
        "not started for more than 1400 ms one way",
    )


def test_a_known_limit_is_noted_with_all_its_bounds_and_why(row_of: RowOf) -> None:
    limit = {"why": "it crashes", "file_bytes_above": 1e7, "one_way_delay_s_above": 60, "packet_error_rate_above": 0}
    where = "files over 10 MB and more than 60 s one way and a packet error rate above 0"

    assert row_of({"known_limits": [limit]}).notes == (f"known to fail with {where}: it crashes",)


def test_a_known_limit_without_bounds_is_everywhere(row_of: RowOf) -> None:
    assert row_of({"known_limits": [{"why": "never ends"}]}).notes == ("known to fail: never ends",)


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
    assert (
        KnownLimit(why="why", **bounds).covers(
            "part_of_file", HERE.file_size_bytes, HERE.delay_ns / 1e9, HERE.packet_error_rate, {}
        )
        == is_there
    )


@pytest.mark.parametrize(
    ("parameters", "is_there"),
    [
        ({"settings": "default", "limit_s": 30}, True),
        ({"settings": "default", "limit_s": 60}, True),
        ({"settings": "deep-space", "limit_s": 30}, False),
        ({"settings": "default", "limit_s": 90}, False),
        ({"settings": "default"}, False),
    ],
)
def test_a_known_limit_of_parameters_covers_only_their_values(parameters: dict[str, Any], is_there: bool) -> None:
    limit = KnownLimit(why="why", parameters={"settings": ["default"], "limit_s": [30, 60]})

    assert limit.covers("part_of_file", None, 0, 0, parameters) == is_there


def test_a_known_limit_is_noted_with_its_parameters(row_of: RowOf) -> None:
    limit = {"why": "it crashes", "parameters": {"checksum": ["crc32", "modular"]}}

    assert row_of({"known_limits": [limit]}).notes == ("known to fail with checksum crc32 or modular: it crashes",)


LAUNCHED = {"command": ["mine"]}


@pytest.mark.parametrize(
    ("outcome", "code", "sender", "why"),
    [
        ("failed", "no_file", LAUNCHED, "errors"),
        ("incomplete", "part_of_file", LAUNCHED, "errors"),
        ("corrupt", "wrong_file", LAUNCHED, "flips"),
        ("failed", "exited", LAUNCHED, ""),  # no limit says that it exits
        ("timed_out", "time_limit", {}, ""),  # the sender was not launched
        ("aborted", "no_file", LAUNCHED, ""),
    ],
)
def test_the_first_known_limit_that_covers_a_point_and_its_failure_explains_it(
    tmp_path: Path, outcome: str, code: str, sender: dict[str, Any], why: str
) -> None:
    flips = KnownLimit(why="flips", fails_with=("wrong_file",))
    far = KnownLimit(why="far", one_way_delay_s_above=60)
    limits = (far, flips, KnownLimit(why="errors"), KnownLimit(why="last"))
    write_results(tmp_path, few(repetitions=1, implementations="cfdp", packet_error_rate=0))
    change_record(tmp_path, RUN, outcome=outcome, reason_code=code, sender=sender, receiver=LAUNCHED)
    (record,) = [run.record for run in load_results(tmp_path).runs if run.record.run_id == RUN]

    cfdp = load_results(tmp_path).profiles["cfdp"].model_copy(update={"known_limits": limits})
    assert known_failure(cfdp, record) == why


def test_a_long_version_is_cut_and_on_one_line(row_of: RowOf) -> None:
    build = row_of(versions={"implementation": "iperf 3.12\t(cJSON 1.7.15)\n" + "features " * 20})
    text = build.versions_text.removeprefix("cfdp-py 0.7.0 and ")

    assert text.startswith("iperf 3.12 (cJSON 1.7.15) features")
    assert text.endswith(" …")
    assert len(text) <= VERSION_LETTERS


def test_versions_that_differ_only_at_their_end_are_two(row_of: RowOf) -> None:
    assert len(row_of(versions={"implementation": "cfdp-py 0.7.0" + " same" * 20}).versions) == 2


def test_all_parameters_are_listed_and_those_of_the_sweep_apart(tmp_path: Path) -> None:
    asked = few(repetitions=1, implementations="norm", packet_error_rate=0, parameters={"norm": {"block_segments": 32}})
    write_results(tmp_path, asked)
    change_record(tmp_path, "norm_1MB_10Mbps_25ms_per0_r1", parameters={"block_segments": 32, "segment_bytes": 1000})
    (build,) = implementation_rows(load_results(tmp_path))

    assert build.chosen == {"block_segments": "32"}
    assert list(build.parameters) == ["block_segments", "segment_bytes"]


def test_a_variant_has_the_parameters_of_its_implementation(tmp_path: Path) -> None:
    varied = {"norm": {"parity_segments": [0, 8]}}
    asked = few(repetitions=1, implementations="norm", packet_error_rate=0, parameters=varied)
    write_results(tmp_path, asked)
    for number in (0, 8):
        run_id = f"norm+parity_segments={number}_1MB_10Mbps_25ms_per0_r1"
        change_record(tmp_path, run_id, parameters={"parity_segments": number})

    assert [build.chosen for build in implementation_rows(load_results(tmp_path))] == [
        {"parity_segments": "0"},
        {"parity_segments": "8"},
    ]


def test_a_known_limit_is_beside_the_reason_of_a_failure(tmp_path: Path) -> None:
    write_results(tmp_path, few(repetitions=2, implementations="cfdp", packet_error_rate=0))
    launched = {"sender": LAUNCHED, "receiver": LAUNCHED}
    change_record(tmp_path, RUN, outcome="failed", reason="it exited with status 1", reason_code="no_file", **launched)
    _change_profile(tmp_path, "cfdp", {"known_limits": [{"why": "nothing is repeated"}]})

    assert "it exited with status 1<div" in (page := page_text(tmp_path))
    assert page.count("Known limit: nothing is repeated") == 1


def test_the_description_in_a_profile_is_in_the_page(tmp_path: Path) -> None:
    write_results(tmp_path, few(repetitions=1, implementations="cfdp", packet_error_rate=0))
    _change_profile(tmp_path, "cfdp", {"description": "Written for <this> test."})

    assert "Written for &lt;this&gt; test." in page_text(tmp_path)


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        *(("ltp", "own"), ("saratoga", "own"), ("cfdp", "endpoint"), ("norm", "endpoint"), ("tcp", "endpoint")),
        *(("iperf3", "other"), ("hdtn-ltp", "other"), ("saratoga-perl", "other"), ("licklider", "other")),
    ],
)
def test_the_origin_of_an_implementation_follows_from_its_profile(name: str, origin: str) -> None:
    asked = sweep(implementations=[name], file_size="100 kB", clock="real")
    profile = json.loads(plan_of(asked).model_dump_json())["implementations"][name]

    assert origin_of(Implementation.model_validate(profile)) == origin
