"""When sides are suspended and resumed: each outage that begins after the launch, and nothing else."""

from __future__ import annotations

from itertools import islice

import pytest

from owlt.emulator.channel.link import LinkSpec
from owlt.emulator.channel.spec import ChannelSpec, Step, Timeline
from owlt.orchestrator.run.programs import announce_outages
from owlt.orchestrator.run.state import Sides

S = 1_000_000_000


def announced(begins_up: bool, *steps: bool, loops: bool = False) -> list[tuple[float, str]]:
    """The first announcements for a link that is up or down from each second on: when, and what is done."""

    def link(up: bool) -> LinkSpec:
        return LinkSpec(up=up)

    timeline = Timeline(
        steps=tuple(Step(at_ns=at_s * S, forward=link(up), reverse=link(True)) for at_s, up in enumerate(steps, 1)),
        loop_after_ns=(len(steps) + 1) * S if loops else None,
    )
    channel = ChannelSpec(forward=link(begins_up), reverse=link(True), timeline=timeline)
    found = islice(announce_outages(channel, Sides(), 0.0), 5)
    return [(each.at_s, each.text.rpartition(" ")[2]) for each in found]


def test_both_sides_are_suspended_when_a_link_goes_down_and_resumed_when_it_is_up_again() -> None:
    assert announced(True, False, False, True, True) == [(1.0, "suspended"), (3.0, "resumed")]


def test_outages_repeat_with_their_timeline() -> None:
    assert announced(True, False, True, loops=True) == [
        (1.0, "suspended"),
        (2.0, "resumed"),
        (4.0, "suspended"),
        (5.0, "resumed"),
        (7.0, "suspended"),
    ]


def test_the_end_of_an_outage_that_was_not_announced_is_not_announced() -> None:
    assert announced(False, True, False, True) == [(2.0, "suspended"), (3.0, "resumed")]


@pytest.mark.parametrize("is_up", [True, False])
def test_a_timeline_that_repeats_without_an_outage_announces_nothing(is_up: bool) -> None:
    assert announced(is_up, is_up, is_up, is_up, loops=True) == []


def test_a_link_that_ends_for_good_in_a_loop_is_announced_once() -> None:
    channel = ChannelSpec(
        timeline=Timeline(steps=(Step(at_ns=0, forward=LinkSpec(up=False), reverse=LinkSpec()),), loop_after_ns=S)
    )

    assert [each.at_s for each in announce_outages(channel, Sides(), 0.0)] == [0.0]
