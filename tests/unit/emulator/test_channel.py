"""What can be asked of a channel, and how it travels."""

from __future__ import annotations

import xmlrpc.client
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from owlt.emulator.channel.link import Jitter, Pattern, Reordering
from owlt.emulator.channel.loss_models import FourState, GilbertElliott
from owlt.emulator.channel.spec import ChannelSpec, LinkSpec, Step, Timeline
from owlt.emulator.channel.text import LARGEST_BIT_ERROR_RATE, LARGEST_SEED, LONGEST_DELAY_NS, SMALLEST_ERROR_RATE
from owlt.emulator.faults import InvalidChannel


def made(kind: Any, **fields: Any) -> Any:
    return st.fixed_dictionaries(fields).map(lambda given: kind(**given))


SPREADS = st.integers(1, 2**31 - 1)
PROBABILITIES = st.just(0.0) | st.floats(SMALLEST_ERROR_RATE, 1)
POSITIONS = st.sets(st.integers(0, LARGEST_SEED), min_size=1, max_size=5).map(sorted).map(tuple)
ERRORS = st.one_of(
    st.fixed_dictionaries({"packet_error_rate": PROBABILITIES}),
    st.fixed_dictionaries({"bit_error_rate": st.floats(0, LARGEST_BIT_ERROR_RATE)}),
    st.fixed_dictionaries({"pattern": made(Pattern, packets=POSITIONS) | made(Pattern, bits=POSITIONS)}),
)
DELAYS = st.one_of(
    st.fixed_dictionaries({"keeps_order": st.booleans()}),
    st.fixed_dictionaries(
        {
            "jitter": made(Jitter, amount_ns=SPREADS, distribution=st.sampled_from(["uniform", "pareto"]))
            | made(Jitter, amount_ns=SPREADS, distribution=st.just("table"), table=st.just((0.5, -1.25)))
        }
    ),
    st.fixed_dictionaries(
        {"keeps_order": st.just(False), "reordering": made(Reordering, rate=st.floats(1e-4, 1), by_ns=SPREADS)}
    ),
)
QUEUES = st.one_of(
    st.fixed_dictionaries({"queue_packets": st.integers(1, 2**31 - 1)}),
    st.fixed_dictionaries({"rate_bps": st.floats(8, 1e12), "queue_bytes": st.integers(1, 10**12)}),
    st.fixed_dictionaries({"rate_bps": st.floats(8, 1e12), "queue_ns": st.integers(1, 10**15)}),
    st.fixed_dictionaries({"rate_bps": st.floats(8, 1e12), "queue_bdp": st.floats(1e-3, 1e3)}),
)
OTHERS = st.fixed_dictionaries(
    {
        "delay_ns": st.integers(0, LONGEST_DELAY_NS),
        "overhead_bytes": st.integers(0, 10_000),
        "mtu_bytes": st.none() | st.integers(68, 65_535),
        "loss": st.none()
        | made(GilbertElliott, mean_rate=st.floats(1e-6, 0.5), burst_packets=st.floats(1, 1e6))
        | made(FourState, p13=st.floats(1e-6, 0.5), p31=st.floats(1e-6, 0.5), p14=st.floats(0, 0.5)),
        "duplication_rate": PROBABILITIES,
        "seed": st.none() | st.integers(0, LARGEST_SEED),
    }
)
LINKS = st.tuples(ERRORS, DELAYS, QUEUES, OTHERS).map(
    lambda parts: LinkSpec(**{name: value for part in parts for name, value in part.items()})
)
STEPS = st.lists(st.tuples(LINKS, LINKS), min_size=1, max_size=3).map(
    lambda links: tuple(Step(at_ns=7 * at, forward=one, reverse=other) for at, (one, other) in enumerate(links))
)
TIMELINES = made(Timeline, steps=STEPS, loop_after_ns=st.none() | st.integers(100, LONGEST_DELAY_NS))


@given(LINKS, LINKS, st.none() | TIMELINES)
def test_a_channel_survives_xml_rpc_as_it_is(forward: LinkSpec, reverse: LinkSpec, timeline: Timeline | None) -> None:
    channel = ChannelSpec(forward=forward, reverse=reverse, timeline=timeline)

    (received,), _ = xmlrpc.client.loads(xmlrpc.client.dumps((channel.to_wire(),), "configure"))
    assert ChannelSpec.from_wire(received) == channel


def test_what_is_not_asked_for_does_not_travel() -> None:
    assert ChannelSpec().to_wire() == {"forward": {}, "reverse": {}}


def test_quantities_are_written_with_their_units() -> None:
    link = LinkSpec(delay_ns=25_000_000, rate_bps=10e6, queue_bytes=64_000, mtu_bytes=1500)

    assert link.to_wire() == {"delay": "25 ms", "rate": "10 Mbit/s", "queue": "64 kB", "mtu": "1500 B"}


def test_both_gives_what_the_directions_share() -> None:
    channel = ChannelSpec.from_wire({"both": {"delay": "25 ms", "rate": "2 Mbit/s"}, "reverse": {"rate": "8 kbit/s"}})

    assert (channel.forward.delay_ns, channel.reverse.delay_ns) == (25_000_000, 25_000_000)
    assert (channel.forward.rate_bps, channel.reverse.rate_bps) == (2e6, 8e3)


def test_a_step_says_what_changes_and_all_else_stays() -> None:
    channel = ChannelSpec.from_wire(
        {
            "forward": {"delay": "25 ms", "rate": "1 Mbit/s"},
            "timeline": {
                "steps": [
                    {"at": "1 s", "forward": {"delay": "5 ms"}},
                    {"at": "2 s", "both": {"up": False}, "forward": {"rate": "unlimited"}},
                ]
            },
        }
    )
    assert channel.timeline is not None
    first, second = channel.timeline.steps

    assert (first.forward.delay_ns, first.forward.rate_bps) == (5_000_000, 1e6)
    assert (second.forward.delay_ns, second.forward.rate_bps, second.forward.up) == (5_000_000, None, False)
    assert (first.reverse.up, second.reverse.up) == (True, False)


def test_a_step_takes_away_what_it_calls_none() -> None:
    channel = ChannelSpec.from_wire(
        {
            "forward": {"jitter": {"amount": "1 ms"}},
            "timeline": {"steps": [{"at": "1 s", "forward": {"jitter": "none"}}]},
        }
    )

    assert channel.timeline is not None
    assert channel.timeline.steps[0].forward.jitter is None


@pytest.mark.parametrize(
    ("timeline", "wanted"),
    [
        ({"steps": []}, "at least 1"),
        ({"steps": [{"at": "2 s"}, {"at": "1 s"}]}, "increasing order"),
        ({"steps": [{"at": "2 s"}], "loop_after": "2 s"}, "later than the last step"),
        ({"steps": [{"at": 2}]}, "with one of the units"),
        ({"steps": [{"at": "1 s", "forward": {"up": False, "while_down": "hold"}}]}, "a later step that ends"),
    ],
)
def test_a_timeline_that_makes_no_sense_is_refused(timeline: Any, wanted: str) -> None:
    with pytest.raises(InvalidChannel, match=wanted):
        ChannelSpec.from_wire({"timeline": timeline})


def test_a_bypass_has_no_links() -> None:
    assert ChannelSpec.from_wire({"bypass": True}).bypass
    with pytest.raises(InvalidChannel, match="bypass without links"):
        ChannelSpec.from_wire({"bypass": True, "forward": {"delay": "1 ms"}})


@pytest.mark.parametrize(
    ("link", "wanted"),
    [
        ({"packet_error_rate": 0.1, "bit_error_rate": 1e-6}, "one kind of error"),
        ({"queue": "64 kB"}, "a rate, or no queue"),
        ({"reordering": {"rate": 0.1, "by": "1 ms"}}, "keeps_order: false"),
        ({"jitter": {"amount": "1 ms", "distribution": "table"}}, "a table of values"),
        ({"jitter": {"amount": "3 s"}}, "at most 2.147483647 s"),
        ({"loss": {"model": "gilbert_elliott", "mean_rate": 0.9, "burst_packets": 2}}, "bursts of 9 packets at least"),
        ({"loss": {"model": "four_state", "p13": 0.9, "p31": 0.5, "p14": 0.2}}, "p13 \\+ p14"),
        ({"pattern": {"packets": [2, 1]}}, "increasing order"),
        ({"pattern": {}}, "either packets or bits"),
        (
            {"packet_error_rate": 0.1, "error_effect": "drop", "loss": {"model": "four_state", "p13": 0.1, "p31": 0.1}},
            "single losses .* or losses in bursts",
        ),
    ],
)
def test_a_link_that_contradicts_itself_is_refused(link: Any, wanted: str) -> None:
    with pytest.raises(InvalidChannel, match=wanted):
        ChannelSpec.from_wire({"forward": link})


@pytest.mark.parametrize(
    ("wire", "told"),
    [
        ({"forward": {"delay": "25 h"}}, "forward.delay: got '25 h', expected at most 24 h"),
        ({"forward": {"rate": "7 bit/s"}}, "forward.rate: got '7 bit/s', expected at least 8 bit/s"),
        ({"forward": {"mtu": "10 B"}}, "forward.mtu: got '10 B', expected at least 68 B"),
        ({"forward": {"up": "nope"}}, "forward.up: got 'nope', expected true or false"),
        ({"forward": {"queue": "0 B", "rate": "1 kbit/s"}}, "forward.queue: got '0 B', expected at least 1 B"),
        ({"forward": {"loss": {"mean_rate": 0.1}}}, "expected model: gilbert_elliott or four_state"),
        ({"forward": {"loss": {"model": "x"}}}, "forward.loss.model: got 'x', expected gilbert_elliott or four_state"),
        (
            {"forward": {"loss": {"model": "four_state", "p13": 0.1}}},
            "forward.loss.p31: is missing; add it (required: p13, p31)",
        ),
        (
            {"forward": {"loss": {"model": "gilbert_elliott", "mean_rate": 0.1, "burst_packets": 2, "x": 1}}},
            "forward.loss.x: is not a known key; known: model, mean_rate, burst_packets",
        ),
        (
            {"forward": {"jitter": {"amount": "1 ms", "x": 1}}},
            "forward.jitter.x: is not a known key; known: amount, distribution, table",
        ),
        ({"forward": {"pattern": {"bits": [1], "x": 1}}}, "is not a known key; known: packets, bits"),
        ({"timeline": {"steps": [{"at": "1 s"}], "x": 1}}, "timeline.x: is not a known key; known: steps"),
        ({"timeline": {"steps": [{}]}}, "timeline.steps[0].at: is missing; add it (required: at)"),
        ({"timeline": {"steps": [{"at": "9000 h"}]}}, "timeline.steps[0].at: got '9000 h', expected at most 366 days"),
        (5, "channel: got 5, expected keys and values: both, forward, reverse, timeline, faults, fault_scope, bypass"),
        ({"both": 5}, "both: got 5, expected the keys of a link: delay, "),
    ],
)
def test_a_mistake_is_reported_in_the_words_in_which_values_are_written(wire: Any, told: str) -> None:
    with pytest.raises(InvalidChannel) as refusal:
        ChannelSpec.from_wire(wire)
    assert told in str(refusal.value)


def test_a_mistake_in_a_queue_is_reported_for_the_queue() -> None:
    with pytest.raises(InvalidChannel, match=r"^forward\.queue: got '5 KB', expected a number with one of the units"):
        ChannelSpec.from_wire({"forward": {"rate": "1 Mbit/s", "queue": "5 KB"}})


def test_a_size_without_its_unit_is_answered_with_bytes() -> None:
    with pytest.raises(InvalidChannel, match='write the unit, as in "1000 B"'):
        ChannelSpec.from_wire({"forward": {"mtu": 1000}})


@pytest.mark.parametrize("mean_rate", [0.01, 0.3])
@pytest.mark.parametrize("burst_packets", [1.0, 8.0])
def test_gilbert_elliotts_states_have_the_mean_loss_asked_for(mean_rate: float, burst_packets: float) -> None:
    model = GilbertElliott(mean_rate=mean_rate, burst_packets=burst_packets)

    assert model.to_bad / (model.to_bad + model.to_good) == pytest.approx(mean_rate)


def test_a_channel_of_nothing_is_unimpaired() -> None:
    assert ChannelSpec().unimpaired
    assert ChannelSpec.from_wire({}) == ChannelSpec()


def test_a_queue_and_a_seed_alone_impair_nothing() -> None:
    assert LinkSpec(queue_packets=5, seed=5).unimpaired


@pytest.mark.parametrize(
    "field", [{"delay_ns": 1}, {"rate_bps": 1e6}, {"packet_error_rate": 0.001}, {"up": False}, {"mtu_bytes": 1500}]
)
def test_any_impairment_of_one_direction_impairs_the_channel(field: Any) -> None:
    assert not ChannelSpec(reverse=LinkSpec(**field)).unimpaired


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("delay", "-1 s"),
        ("delay", "25 h"),
        ("delay", "0.5 ns"),
        ("delay", True),
        ("delay", 25),
        ("delay", float("nan")),
        ("delay", None),
        ("rate", "0 bit/s"),
        ("rate", "7.9 bit/s"),
        ("rate", "1.1 Tbit/s"),
        ("rate", 1e6),
        ("packet_error_rate", -0.1),
        ("packet_error_rate", 1.1),
        ("packet_error_rate", 1e-10),
        ("packet_error_rate", "0.1"),
        ("packet_error_rate", float("nan")),
        ("bit_error_rate", 0.02),
        ("queue", "0 packets"),
        ("queue", f"{2**31} packets"),
        ("queue", "1.5 packets"),
        ("queue", 5),
        ("seed", -1),
        ("seed", 0.5),
        ("seed", LARGEST_SEED + 1),
    ],
)
def test_what_is_no_link_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidChannel, match=rf"^reverse\.{field}: got .*, expected "):
        ChannelSpec.from_wire({"reverse": {field: value}})


@pytest.mark.parametrize("field", ["delay_ns", "wormhole"])
def test_an_unknown_key_of_a_link_is_refused_by_name(field: str) -> None:
    with pytest.raises(InvalidChannel, match=rf"^reverse\.{field}: is not a known key; "):
        ChannelSpec.from_wire({"reverse": {field: 1}})


@pytest.mark.parametrize(
    "wire", [None, 5, "25 ms", [], [{}], {"forward": 5}, {"forward": None}, {"sideways": {}}, {5: {}}]
)
def test_what_is_no_channel_is_refused(wire: object) -> None:
    with pytest.raises(InvalidChannel, match=r"got|is not a known key"):
        ChannelSpec.from_wire(wire)


def test_all_that_is_wrong_is_reported_at_once() -> None:
    with pytest.raises(InvalidChannel, match=r"forward\.delay.*\nreverse\.rate"):
        ChannelSpec.from_wire({"forward": {"delay": -1}, "reverse": {"rate": -1}})


def test_a_very_deep_value_is_refused_in_few_words() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]

    with pytest.raises(InvalidChannel) as refusal:
        ChannelSpec.from_wire({"forward": {"delay": deep}})
    assert len(str(refusal.value)) < 300


def test_a_specification_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        LinkSpec().delay_ns = 5  # type: ignore[misc]


def with_steps(count: int, **link: Any) -> dict[str, Any]:
    return {"forward": link, "timeline": {"steps": [{"at": f"{number} s"} for number in range(count)]}}


def test_the_values_of_lists_that_steps_repeat_are_limited() -> None:
    pattern = {"packets": list(range(10_000))}
    refusal = (
        r"timeline\.steps: has more by step 101, expected at most 1,000,000 values of jitter tables and listed err"
    )

    with pytest.raises(InvalidChannel, match=refusal):
        ChannelSpec.from_wire(with_steps(10**5, pattern=pattern))
    table = {"amount": "5 ms", "distribution": "table", "table": [0.5] * 16_384}
    with pytest.raises(InvalidChannel, match=refusal.replace("101", "62")):
        ChannelSpec.from_wire(with_steps(10**5, jitter=table))


def test_steps_may_have_as_many_listed_values_as_the_limit() -> None:
    channel = ChannelSpec.from_wire(with_steps(100, pattern={"packets": list(range(1000))}))

    assert channel.timeline is not None
    assert len(channel.timeline.steps) == 100


def test_an_error_with_many_mistakes_lists_the_first() -> None:
    with pytest.raises(InvalidChannel) as refused:
        ChannelSpec.from_wire({"forward": {f"key{number}": 1 for number in range(5000)}})
    assert len(refused.value.mistakes) == 101
    assert str(refused.value.mistakes[-1]) == "4900 more mistakes"

    with pytest.raises(InvalidChannel) as refused:
        ChannelSpec.from_wire({"forward": {"pattern": {"packets": ["x"] * 5000}}})
    assert len(refused.value.mistakes) == 1, "the first value of a list that is wrong is enough"
