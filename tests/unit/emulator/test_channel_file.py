"""Channel profiles: from YAML to a channel, and what is said about a file that is none."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owlt.emulator.channel.channel_file import Changes, contact_steps, load_channel, parse_channel, parse_windows
from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from owlt.emulator.faults import InvalidChannel
from owlt.inputs.quantities import format_delay, parse_delay_ns

PROFILES = sorted((Path(__file__).parents[3] / "profiles" / "channels").glob("*.yaml"))
TRACE = "t,forward.delay_ms,both.up\n0,5,1\n60,6,0\n120,7,1\n"


def channel(text: str, trace: str = TRACE, changes: Changes | None = None) -> ChannelSpec:
    return parse_channel(text, "dir/c.yaml", lambda name: trace, changes).channel


def refusal(text: str, trace: str = TRACE, changes: Changes | None = None) -> str:
    with pytest.raises(InvalidChannel) as error:
        channel(text, trace, changes)
    return str(error.value)


def ups(given: ChannelSpec) -> list[tuple[int, bool]]:
    assert given.timeline is not None
    return [(step.at_ns // 10**9, step.forward.up) for step in given.timeline.steps]


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_a_profile_that_comes_with_owlt_loads_and_survives_being_written(path: Path) -> None:
    profile = load_channel(path)

    assert profile.name == path.stem
    assert profile.title
    assert profile.source
    assert ChannelSpec.from_wire(profile.channel.to_wire()) == profile.channel


def test_the_papers_channels_have_the_papers_delays() -> None:
    delays = {path.stem: load_channel(path).channel.forward.delay_ns // 10**6 for path in PROFILES}

    assert (delays["terrestrial"], delays["geo"], delays["cislunar"]) == (25, 250, 1250)
    assert (delays["deep-space"], delays["mars-near"], delays["mars-far"]) == (600_000, 182_000, 1_342_000)


def test_deep_space_is_250_times_slower_back() -> None:
    links = next(load_channel(path).channel for path in PROFILES if path.stem == "deep-space")

    assert links.forward.rate_bps == 250 * (links.reverse.rate_bps or 0)


def test_what_is_not_said_of_a_channel_is_left_empty_and_its_name_is_the_files() -> None:
    profile = parse_channel("both: {delay: 25 ms}", "dir/mine.yaml", lambda name: "")

    assert (profile.name, profile.title, profile.source) == ("mine", "", "")


def test_a_direction_stands_above_both() -> None:
    links = channel("both: {delay: 25 ms, rate: 1 Mbit/s}\nreverse: {rate: 8 kbit/s}")

    assert links == ChannelSpec(
        forward=LinkSpec(delay_ns=25_000_000, rate_bps=1e6), reverse=LinkSpec(delay_ns=25_000_000, rate_bps=8e3)
    )


def test_a_trace_is_read_from_beside_the_profile(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("timeline: {trace: t.csv, loop_after: 200 s}")
    (tmp_path / "t.csv").write_text(TRACE)
    timeline = load_channel(tmp_path / "c.yaml").channel.timeline

    assert timeline is not None
    assert [step.forward.delay_ns // 10**6 for step in timeline.steps] == [5, 6, 7]
    assert timeline.loop_after_ns == 200 * 10**9


def test_a_trace_of_jitter_keeps_the_links_distribution() -> None:
    links = channel(
        "both: {jitter: {amount: 1 ms, distribution: pareto}}\ntimeline: {trace: t}", "t,both.jitter_ms\n0,3\n"
    )

    assert links.timeline is not None
    jitter = links.timeline.steps[0].reverse.jitter
    assert jitter is not None
    assert (jitter.amount_ns, jitter.distribution) == (3_000_000, "pareto")


def test_both_links_are_up_inside_contacts_and_down_outside() -> None:
    links = channel("timeline: {contacts: [[10 s, 20 s], [1 min, 2 min]]}")

    assert ups(links) == [(0, False), (10, True), (20, False), (60, True), (120, False)]
    assert links.timeline is not None
    assert all(step.forward == step.reverse for step in links.timeline.steps)


def test_a_contact_may_last_until_the_timeline_loops() -> None:
    assert ups(channel("timeline: {contacts: [[0 s, 20 s], [60 s, 90 s]], loop_after: 90 s}")) == [
        (0, True),
        (20, False),
        (60, True),
    ]


def test_packets_wait_outside_contacts_if_so_asked() -> None:
    links = channel("timeline: {contacts: [[10 s, 20 s]], outside: hold, loop_after: 60 s}")

    assert links.timeline is not None
    assert links.timeline.steps[0].forward.while_down == "hold"


def test_contacts_and_a_trace_are_one_timeline() -> None:
    links = channel(
        "timeline: {trace: t.csv, contacts: [[0 s, 60 s], [90 s, 150 s]]}", "t,both.delay_ms\n0,5\n60,6\n100,7\n"
    )

    assert links.timeline is not None
    assert [(at, up) for at, up in ups(links)] == [(0, True), (60, False), (90, True), (100, True), (150, False)]
    assert [step.reverse.delay_ns // 10**6 for step in links.timeline.steps] == [5, 6, 6, 7, 7]


@given(st.lists(st.integers(0, 10**13), min_size=2, max_size=40, unique=True).map(sorted))
def test_windows_are_what_the_steps_say(times_ns: list[int]) -> None:
    windows = list(zip(times_ns[::2], times_ns[1::2], strict=False))
    assert parse_windows([[format_delay(begin), format_delay(end)] for begin, end in windows]) == windows
    steps = [(parse_delay_ns(step["at"]), step["both"]["up"]) for step in contact_steps(windows, "drop", None)]

    assert [at for at, up in steps if up] == [begin for begin, _ in windows]
    assert [at for at, up in steps if not up] == [0] * (windows[0][0] > 0) + [end for _, end in windows]
    assert all(one[0] < other[0] and one[1] != other[1] for one, other in pairwise(steps))


def test_a_change_stands_above_both_and_above_the_links_own() -> None:
    text = "both: {delay: 25 ms, jitter: {amount: 1 ms, distribution: uniform}}\nforward: {rate: 1 Mbit/s}"
    links = channel(text, changes={"forward": {"delay": "300 ms", "jitter": {"amount": "5 ms"}}})

    assert links.forward.delay_ns == 300_000_000
    assert links.forward.rate_bps == 1e6
    assert links.forward.jitter is not None
    assert (links.forward.jitter.amount_ns, links.forward.jitter.distribution) == (5_000_000, "uniform")
    assert links.reverse.delay_ns == 25_000_000


def test_a_change_leaves_what_a_step_sets_to_the_step() -> None:
    links = channel("timeline: {trace: t.csv}", changes={"forward": {"delay": "300 ms"}})

    assert links.timeline is not None
    delays_ms = [link.delay_ns // 10**6 for link in (links.forward, *(each.forward for each in links.timeline.steps))]
    assert delays_ms == [5, 5, 6, 7]


def test_a_step_at_the_beginning_is_what_the_links_are_before_it_too() -> None:
    links = channel("both: {delay: 1 s}\ntimeline: {steps: [{at: 0 s, forward: {delay: 2 s}}, {at: 5 s}]}")

    assert (links.forward.delay_ns, links.reverse.delay_ns) == (2 * 10**9, 10**9)
    assert links.timeline is not None
    assert [step.at_ns for step in links.timeline.steps] == [0, 5 * 10**9]


def test_a_step_behind_the_beginning_leaves_the_links_before_it() -> None:
    links = channel("both: {delay: 1 s}\ntimeline: {steps: [{at: 1 ns, both: {delay: 2 s}}]}")

    assert links.forward.delay_ns == 10**9


def test_an_outage_that_holds_from_the_beginning_stays_in_its_step() -> None:
    hold = "{at: 0 s, forward: {up: false, while_down: hold}}"
    links = channel(f"timeline: {{steps: [{hold}, {{at: 5 s, forward: {{up: true}}}}]}}")

    assert links.forward.up
    assert ups(links) == [(0, False), (5, True)]


def test_an_outage_that_holds_outside_the_timeline_is_refused_with_its_place() -> None:
    told = refusal("both: {delay: 1 s}\nforward: {up: false, while_down: hold}")

    assert told.startswith("dir/c.yaml:2: forward: got an outage that holds packets")


def test_a_mistake_of_a_complete_direction_is_reported_with_its_own_line() -> None:
    told = refusal("both: {delay: 1 s}\nforward: {packet_error_rate: 0.1, bit_error_rate: 1.0e-6}")

    assert told.startswith("dir/c.yaml:2: forward: got ")


@pytest.mark.parametrize("name", ["a/b", "-x", "two words", "..", "é"])
def test_a_name_that_is_none_for_a_directory_is_refused(name: str) -> None:
    told = refusal(f"title: x\nname: {name}\n")

    assert told == (
        f"dir/c.yaml:2: name: got {name!r}, expected letters, digits, dots, hyphens and underscores, a letter or digit "
        "first, such as geo-2"
    )


@pytest.mark.parametrize("value", ["2001-99-99", "!!int x", "!!bool x", "!!float x", "[" * 1000, r'"\U99999999"'])
def test_a_value_that_cannot_be_made_is_refused_in_a_line(value: str) -> None:
    told = refusal(f"name: {value}\n")

    assert told.startswith("dir/c.yaml: not valid YAML: ")
    assert len(told) < 300


def test_a_key_that_is_none_of_a_profiles_is_answered_with_those_that_are() -> None:
    told = refusal("wormhole: {}")

    assert told.endswith("known: both, forward, reverse, timeline, faults, fault_scope, bypass, name, title, source")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("forward:\n  delay: 25\n", ["dir/c.yaml:2: forward.delay", "got 25", "write the unit"]),
        ("both:\n  delay: 25 ms\n  rate: fast\n", ["dir/c.yaml:3: both.rate", "'fast'", "Mbit/s"]),
        ("forward:\n  dely: 25 ms\n", ["dir/c.yaml:2: forward.dely", "did you mean delay?"]),
        ("forwards: {}\n", ["dir/c.yaml:1: forwards", "is not a known key; did you mean forward?"]),
        ("forward: {delay: 25 ms\n", ["dir/c.yaml:", "YAML"]),
        ("- 25 ms\n", ["dir/c.yaml", "expected keys"]),
        ("", ["dir/c.yaml", "expected keys"]),
        ("title: 25\n", ["dir/c.yaml:1: title", "got 25", "quote"]),
        ("forward: {delay: 1 s}\nforward: {}\n", ["dir/c.yaml:2", "forward: appears twice, first on line 1"]),
        ("timeline:\n  steps:\n  - at: 0 s\n  - at: 1 s\n    forward: {rate: 1}\n", ["dir/c.yaml:4", "forward.rate"]),
        ("timeline:\n  stepps: []\n", ["dir/c.yaml:2: timeline.stepps", "is not a known key; did you mean steps?"]),
        ("timeline: {loop_after: 3 s}\n", ["dir/c.yaml:1: timeline", "steps, a trace or contacts"]),
        ("timeline:\n  outside: drop\n", ["dir/c.yaml:2: timeline.outside", "needs contacts"]),
        ("timeline:\n  contacts: [[0 s, 600]]\n", ["dir/c.yaml:2: timeline.contacts[0]", "got 600"]),
        ("timeline:\n  contacts: [[5 s, 4 s]]\n", ["dir/c.yaml:2: timeline.contacts[0]", "end after the start"]),
        ("timeline:\n  contacts: [[0 s, 5 s], [5 s, 6 s]]\n", ["timeline.contacts[1]", "merge windows"]),
        ("timeline:\n  contacts: []\n", ["dir/c.yaml:2: timeline.contacts", "list of windows"]),
        ("timeline:\n  contacts: [[0 s, 5 s]]\n  outside: wait\n", ["dir/c.yaml:3", "drop or hold"]),
        ("timeline:\n  contacts: [[0 s, 5 s]]\n  outside: hold\n", ["dir/c.yaml:3: timeline.outside", "loop_after"]),
        ("timeline:\n  contacts: [[0 s, 5 s]]\n  loop_after: 4 s\n", ["timeline.contacts[0]", "4 s, where"]),
        ("timeline: {trace: t.csv, contacts: [[0 s, 5 s]]}\n", ["dir/t.csv:2", "got up", "contacts alone"]),
        (
            "timeline:\n  trace: t.csv\n  steps:\n  - {at: 60 s, forward: {delay: 1 s}}\n",
            ["dir/t.csv:3", "delay", "dir/c.yaml:4"],
        ),
        ("timeline: {trace: [t.csv]}\n", ["dir/c.yaml:1: timeline.trace", "name of a CSV file"]),
    ],
)
def test_a_mistake_is_reported_with_its_place(text: str, told: list[str]) -> None:
    text = refusal(text)

    assert all(word in text for word in told), text


def test_a_value_of_a_trace_that_cannot_be_is_reported_with_its_row() -> None:
    told = refusal("timeline: {trace: t.csv}", "t,both.packet_error_rate\n0,0.1\n1,1.5\n")

    assert told == 'dir/t.csv:3: both.packet_error_rate: got 1.5, expected a number from 0 to 1, or percent as in "1 %"'


def test_every_mistake_is_reported_at_once() -> None:
    assert len(refusal("forward: {delay: 1, rate: 2}\nreverse: {mtu: 3}").splitlines()) == 3


def test_a_mistake_in_both_is_reported_once() -> None:
    assert len(refusal("both: {delay: 25}").splitlines()) == 1


def test_a_mistake_in_a_change_is_reported_as_such() -> None:
    assert "with the given changes: forward.delay: got 25" in refusal(
        "forward: {rate: 1 Mbit/s}", changes={"forward": {"delay": 25}}
    )


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidChannel, match=r"none\.yaml: there is no such file"):
        load_channel(tmp_path / "none.yaml")


def test_a_trace_that_is_not_there_is_reported_with_who_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("timeline:\n  trace: none.csv\n")

    with pytest.raises(InvalidChannel, match=r"c\.yaml:2: timeline\.trace: .*none\.csv: there is no such file"):
        load_channel(tmp_path / "c.yaml")
