"""What can be asked of a channel, and how it travels."""

from __future__ import annotations

import xmlrpc.client
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from emulator.channel import LARGEST_SEED, LONGEST_DELAY_NS, SMALLEST_ERROR_RATE, ChannelSpec, LinkSpec
from emulator.faults import InvalidChannel

LINKS = st.builds(
    LinkSpec,
    delay_ns=st.integers(0, LONGEST_DELAY_NS),
    rate_bps=st.none() | st.floats(8, 1e12),
    packet_error_rate=st.just(0.0) | st.floats(SMALLEST_ERROR_RATE, 1),
    queue_packets=st.integers(1, 2**31 - 1),
    seed=st.none() | st.integers(0, LARGEST_SEED),
)


@given(LINKS, LINKS)
def test_a_channel_survives_xml_rpc_as_it_is(forward: LinkSpec, reverse: LinkSpec) -> None:
    channel = ChannelSpec(forward=forward, reverse=reverse)

    (received,), _ = xmlrpc.client.loads(xmlrpc.client.dumps((channel.to_wire(),), "configure"))
    assert ChannelSpec.from_wire(received) == channel


def test_what_is_not_asked_for_does_not_travel() -> None:
    assert set(ChannelSpec().to_wire()["forward"]) == {"delay_ns", "packet_error_rate", "queue_packets"}


def test_a_channel_of_nothing_is_unimpaired() -> None:
    assert ChannelSpec().unimpaired
    assert ChannelSpec.from_wire({}) == ChannelSpec()


def test_a_queue_and_a_seed_alone_impair_nothing() -> None:
    assert LinkSpec(queue_packets=5, seed=5).unimpaired


@pytest.mark.parametrize("field", [{"delay_ns": 1}, {"rate_bps": 1e6}, {"packet_error_rate": 0.001}])
def test_any_impairment_of_one_direction_impairs_the_channel(field: Any) -> None:
    assert not ChannelSpec(reverse=LinkSpec(**field)).unimpaired


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("delay_ns", -1),
        ("delay_ns", LONGEST_DELAY_NS + 1),
        ("delay_ns", 0.5),
        ("delay_ns", True),
        ("delay_ns", "25 ms"),
        ("delay_ns", float("nan")),
        ("delay_ns", float("inf")),
        ("delay_ns", None),
        ("rate_bps", 0),
        ("rate_bps", 7.9),
        ("rate_bps", -1e6),
        ("rate_bps", 1.1e12),
        ("rate_bps", float("nan")),
        ("rate_bps", True),
        ("packet_error_rate", -0.1),
        ("packet_error_rate", 1.1),
        ("packet_error_rate", 1e-10),
        ("packet_error_rate", "0.1"),
        ("queue_packets", 0),
        ("queue_packets", 2**31),
        ("queue_packets", 1.5),
        ("seed", -1),
        ("seed", LARGEST_SEED + 1),
        ("delay", 1),
        ("bit_error_rate", 1e-6),
    ],
)
def test_what_is_no_link_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidChannel, match=rf"^reverse\.{field}: got .*, wanted "):
        ChannelSpec.from_wire({"reverse": {field: value}})


@pytest.mark.parametrize(
    "wire", [None, 5, "25 ms", [], [{}], {"forward": 5}, {"forward": None}, {"sideways": {}}, {5: {}}]
)
def test_what_is_no_channel_is_refused(wire: object) -> None:
    with pytest.raises(InvalidChannel, match="got"):
        ChannelSpec.from_wire(wire)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(InvalidChannel, match=r"forward\.delay_ns.*; reverse\.rate_bps"):
        ChannelSpec.from_wire({"forward": {"delay_ns": -1}, "reverse": {"rate_bps": -1}})


def test_a_very_deep_value_is_refused_in_few_words() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]

    with pytest.raises(InvalidChannel) as refusal:
        ChannelSpec.from_wire({"forward": {"delay_ns": deep}})
    assert len(str(refusal.value)) < 300


def test_a_specification_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        LinkSpec().delay_ns = 5  # type: ignore[misc]
