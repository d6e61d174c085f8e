"""Axes of a sweep for each direction of a link: their keys, pairs of values, and the channels that follow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from owlt.inputs.axes import AXES, conditions_of
from owlt.inputs.mistake import Invalid
from owlt.inputs.quantities import parse_probability
from owlt.orchestrator.errors import OwltError, ProfileError
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.planning.selection import runs_named
from owlt.orchestrator.profiles.catalogue import resolve

HEAD = "name: x\nseed: 7\nimplementations: cfdp\nfile_size: 1 kB\n"
RATE, DELAY, ERRORS = "rate: 10 Mbit/s\n", "delay: 25 ms\n", "packet_error_rate: 0\n"
PLAIN = HEAD + RATE + DELAY + ERRORS

Planned = Callable[[str], Plan]


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    def plan(text: str) -> Plan:
        path = tmp_path / "sweep.yaml"
        path.write_text(text)
        return resolve(path)

    return plan


def links(plan: Plan, name: str) -> list[tuple[object, object]]:
    """The values of both links of the channel of each run, in the order of their slugs."""
    runs = sorted(plan.runs, key=lambda run: run.permutation.slug)
    channels = [plan.channels[run.channel_key] for run in runs]
    return sorted((getattr(channel.forward, name), getattr(channel.reverse, name)) for channel in channels)


def test_each_direction_has_an_axis_of_its_own(planned: Planned) -> None:
    plan = planned(HEAD + DELAY + ERRORS + "forward_rate: 10 Mbit/s\nreverse_rate: [64 kbit/s, 1 Mbit/s]\n")

    assert links(plan, "rate_bps") == [(10e6, 64e3), (10e6, 1e6)]
    assert links(plan, "delay_ns") == [(25_000_000, 25_000_000)] * 2


def test_a_value_for_both_directions_is_short_for_the_two_keys(planned: Planned) -> None:
    short = planned(HEAD + DELAY + ERRORS + "rate: {forward: 10 Mbit/s, reverse: [64 kbit/s, 1 Mbit/s]}\n")
    long = planned(HEAD + DELAY + ERRORS + "forward_rate: 10 Mbit/s\nreverse_rate: [64 kbit/s, 1 Mbit/s]\n")

    assert short == long


def test_pairs_in_a_list_vary_together(planned: Planned) -> None:
    plan = planned(HEAD + RATE + DELAY + "packet_error_rate: [{forward: 0.01, reverse: 0}, 0.02]\n")

    assert links(plan, "packet_error_rate") == [(0.01, 0), (0.02, 0.02)]


def test_a_channel_that_is_the_same_both_ways_is_one_point_however_it_is_written(planned: Planned) -> None:
    plain = planned(PLAIN)
    pairs = planned(PLAIN.replace("packet_error_rate: 0", "packet_error_rate: [0, {forward: 0, reverse: 0.1}]"))

    runs = {run.run_id: run.seed for run in pairs.runs}
    assert {run.run_id: run.seed for run in plain.runs}.items() < runs.items()
    assert set(runs) == {"cfdp_1kB_10Mbps_25ms_per0_r1", "cfdp_1kB_10Mbps_25ms_per0_reverse-per0.1_r1"}


def test_one_direction_of_a_profile_is_replaced_and_the_other_left(planned: Planned) -> None:
    geo = planned(HEAD + "channel: geo\n")
    plan = planned(HEAD + "channel: geo\nforward_delay: 5 ms\n")

    ((_, reverse),) = links(geo, "delay_ns")
    assert links(plan, "delay_ns") == [(5_000_000, reverse)]
    assert reverse != 5_000_000


def test_an_unlimited_reverse_rate_survives_a_file(planned: Planned) -> None:
    plan = planned(HEAD + DELAY + ERRORS + "rate: {forward: 10 Mbit/s, reverse: unlimited}\n")

    assert links(plan, "rate_bps") == [(10e6, None)]
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    (point,) = (run.permutation for run in plan.runs)
    assert (point.slug, AXES["reverse_rate"].of(point)) == ("cfdp_1kB_10Mbps_25ms_per0_reverse-unlimited", None)


def test_the_queues_of_the_directions_may_differ(planned: Planned) -> None:
    assert links(planned(PLAIN + "queue_packets: {forward: 50, reverse: 9}\n"), "queue_packets") == [(50, 9)]
    assert links(planned(PLAIN + "reverse_queue_packets: 9\n"), "queue_packets") == [(1000, 9)]


def test_runs_are_selected_by_a_direction(planned: Planned) -> None:
    plan = planned(HEAD + DELAY + ERRORS + "rate: [10 Mbit/s, {forward: 10 Mbit/s, reverse: 64 kbit/s}]\n")

    assert len(runs_named(plan, ["reverse_rate=64kbit/s"])) == len(runs_named(plan, ["reverse_rate=10Mbit/s"])) == 1
    assert len(runs_named(plan, ["forward_rate=10Mbit/s"])) == 2
    with pytest.raises(OwltError, match="reverse_rate"):
        runs_named(plan, ["reverse_rate=1Mbit/s"])


def test_rules_match_and_add_directions(planned: Planned) -> None:
    text = HEAD + DELAY + ERRORS + "forward_rate: [1 Mbit/s, 2 Mbit/s]\nreverse_rate: [8 kbit/s, 64 kbit/s]\n"
    rules = "exclude: {rate: {forward: 1 Mbit/s, reverse: 8 kbit/s}}\n"
    rules += "include: {reverse_rate: 9 kbit/s, forward_rate: 3 Mbit/s}\n"

    assert links(planned(text + rules), "rate_bps") == [(1e6, 64e3), (2e6, 8e3), (2e6, 64e3), (3e6, 9e3)]


def test_cells_show_directions_only_where_they_differ(planned: Planned) -> None:
    same = [run.permutation for run in planned(PLAIN).runs]
    differ = [
        run.permutation for run in planned(PLAIN.replace(RATE, "rate: [{forward: 2 Mbit/s, reverse: 1 Mbit/s}]\n")).runs
    ]

    assert "rate" in conditions_of(same)
    assert [key for key in conditions_of(differ) if "rate" in key] == [
        "forward_rate",
        "reverse_rate",
        "packet_error_rate",
    ]


@pytest.mark.parametrize(
    ("lines", "mistake"),
    [
        ("rate: {forward: 1 Mbit/s}\n", "rate.reverse: is missing, expected both directions"),
        ("rate: {forward: 1, reverse: 2 Mbit/s}\n", "rate.forward: got 1, expected a number with one of the units"),
        ("rate: [{forward: [1 Mbit/s, 2 Mbit/s], reverse: 2 Mbit/s}]\n", "rate[0].forward: got"),
        ("rate: 1 Mbit/s\nreverse_rate: 1 kbit/s\n", "reverse_rate: is given twice"),
        ("rate: {forward: 1 bit/s, reverse: 1 bit/s}\nreverse_rate: 1 kbit/s\n", "reverse_rate: is given twice"),
        ("forward_rate: 1 Mbit/s\n", "reverse_rate: got none"),
        ("delay: 1 s\n", "rate: got none"),
        ("rate: 1 Mbit/s\nqueue_packets: {forward: 5}\n", "queue_packets.reverse: is missing, expected both"),
        ("rate: 1 Mbit/s\nqueue_packets: 5\nforward_queue_packets: 6\n", "forward_queue_packets: is given twice"),
        (
            "rate: 1 Mbit/s\nexclude: {rate: [{forward: 1 Mbit/s, reverse: 1 Mbit/s}]}\n",
            "a list of pairs for forward_rate and reverse_rate",
        ),
        ("rate: 1 Mbit/s\ninclude: {reverse_rate: 1 kbit/s}\n", "expected a sweep with 'reverse_rate'"),
    ],
)
def test_a_mistake_in_directions_is_named_with_its_place(planned: Planned, lines: str, mistake: str) -> None:
    text = HEAD + ERRORS + ("" if "delay" in lines else DELAY) + lines

    with pytest.raises(ProfileError) as raised:
        planned(text)
    assert mistake in str(raised.value)


@pytest.mark.parametrize(
    ("pair", "mistakes"),
    [
        ("{forward: 1 %,\n  reverse: none}", "6: packet_error_rate.reverse: got 'none', expected a number from 0 to 1"),
        ("{forward: 1 %,\n  reverse: 2}", "6: packet_error_rate.reverse: got 2, expected a number from 0 to 1"),
        ("{forward: 1 %,\n  reverse: 1 ms}", "6: packet_error_rate.reverse: got '1 ms', expected a number from 0 to 1"),
        ("{forward: 1 %,\n  revers: 0}", "6: packet_error_rate.revers: is not a known key; did you mean reverse?"),
        ("{forward: 1 %,\n  reverse: 0, \n  x: 1}", "7: packet_error_rate.x: is not a known key; known: forward, rev"),
        ("{forward: 1 %}", "5: packet_error_rate.reverse: is missing, expected both directions"),
        ("{forward: 1 %,\n  reverse: }", "6: packet_error_rate.reverse: is missing, expected both directions"),
        ("\n- 0\n- {forward: 1 %,\n   reverse: none}", "8: packet_error_rate[1].reverse: got 'none', expected"),
        ("\n- 0\n- none\n- {forward: 1 %,\n   reverse: 0}", "7: packet_error_rate[1]: got 'none', expected"),
        ("{forward: 1 %,\n  reverse: [0,\n  2]}", "7: packet_error_rate.reverse[1]: got 2, expected a number"),
        (
            "{forward: 1 %,\n  reverse: [0,\n  0]}",
            "7: packet_error_rate.reverse[1]: got 0, expected each value",
        ),
        (
            "{forward: 0,\n  reverse: {from: 0,\n  to: 2, points: 3}}",
            "7: packet_error_rate.reverse.to: got 2, ",
        ),
        ("{forwrad: 1 %,\n  rev: 1 %}", "5: packet_error_rate.forwrad: is not a known key; did you mean forward?"),
    ],
)
def test_a_mistake_in_a_pair_has_the_line_and_the_value_of_its_own_key(
    planned: Planned, tmp_path: Path, pair: str, mistakes: str
) -> None:
    with pytest.raises(ProfileError) as raised:
        planned(HEAD + f"packet_error_rate: {pair}\n" + RATE + DELAY)
    first, *_ = str(raised.value).splitlines()
    assert first.startswith(f"{tmp_path}/sweep.yaml:{mistakes}")


def test_mistakes_in_both_halves_and_beside_a_pair_are_all_reported(planned: Planned) -> None:
    with pytest.raises(ProfileError) as raised:
        planned(HEAD + RATE + "delay: {forward: 1, reverse: 2}\npacket_error_rate: 3\n")
    keys = {line.split(": ")[1] for line in str(raised.value).splitlines()}
    assert keys == {"packet_error_rate", "delay.forward", "delay.reverse"}


@pytest.mark.parametrize(
    ("rule", "mistake"),
    [
        ("exclude:\n  delay:\n    forward: 1 s\n    reverse: 3\n", "11: exclude.delay.reverse: got 3, expected"),
        ("exclude:\n- delay:\n    forward: 1 s\n    revers: 1 s\n", "11: exclude[0].delay.revers: is not a known key"),
        ("include:\n  delay:\n    forward: 1 s\n    reverse: [1 s,\n 3]\n", "12: include.delay.reverse[1]: got 3"),
        (
            "together:\n  file_size: 1 kB\n  duration:\n  - 3\nexclude:\n  delay: {forward: 1 s, reverse: [\n   1]}\n",
            "14: exclude.delay.reverse[0]: got 1, expected",
        ),
    ],
)
def test_a_mistake_in_a_pair_of_a_rule_has_its_line_too(planned: Planned, rule: str, mistake: str) -> None:
    with pytest.raises(ProfileError) as raised:
        planned(PLAIN + rule)
    assert mistake in str(raised.value)


def test_queues_that_differ_by_direction_are_refused_as_a_list(planned: Planned) -> None:
    with pytest.raises(ProfileError, match=r"queue_packets: got \[.*, expected one value, or {forward"):
        planned(PLAIN + "queue_packets: [{forward: 5, reverse: 6}]\n")


@pytest.mark.parametrize(
    ("written", "value"), [("1 %", 0.01), ("0.1%", 0.001), ("100 %", 1.0), (" 2.5e-3 % ", 0.000025), (0.5, 0.5)]
)
def test_a_probability_may_be_in_percent(written: object, value: float) -> None:
    assert parse_probability(written) == value


@pytest.mark.parametrize("written", ["101 %", "-1 %", "1", "%", "1 % 2", True])
def test_what_is_no_probability_is_refused_with_both_forms(written: object) -> None:
    with pytest.raises(Invalid, match=r'a number from 0 to 1, or percent as in "1 %"'):
        parse_probability(written)


def test_a_sweep_and_a_channel_accept_percent(planned: Planned, tmp_path: Path) -> None:
    profile = tmp_path / "own.yaml"
    profile.write_text("both: {delay: 25 ms, packet_error_rate: 1 %}\n")

    assert links(planned(PLAIN.replace("rate: 0", "rate: [1 %, 0.02]")), "packet_error_rate") == [
        (0.01,) * 2,
        (0.02,) * 2,
    ]
    assert links(planned(f"{HEAD}channel: {profile}\n"), "packet_error_rate") == [(0.01, 0.01)]
