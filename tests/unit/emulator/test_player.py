"""A timeline as moments: their order, their loops, the ends of outages; and how it is played."""

from __future__ import annotations

from itertools import islice
from typing import Any

from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.service.player import Links, Moment, Player, moments

S = 10**9


def channel(*steps: dict[str, Any], **timeline: Any) -> ChannelSpec:
    return ChannelSpec.from_wire({"timeline": {"steps": list(steps), **timeline}})


LOOP = channel(
    {"at": "1 s", "forward": {"delay": "10 ms"}}, {"at": "2 s", "forward": {"delay": "20 ms"}}, loop_after="4 s"
)


def test_steps_come_once_where_nothing_loops() -> None:
    told = list(moments(channel({"at": "1 s"}, {"at": "2 s"})))

    assert [(moment.number, moment.at_ns) for moment in told] == [(1, S), (2, 2 * S)]


def test_a_loop_begins_anew_with_the_links_before_the_first_step() -> None:
    told = list(islice(moments(LOOP), 6))

    assert [moment.at_ns for moment in told] == [0, S, 2 * S, 4 * S, 5 * S, 6 * S]
    assert [moment.links["forward"].delay_ns // 10**6 for moment in told] == [0, 10, 20, 0, 10, 20]


def test_steps_of_a_loop_are_counted_on() -> None:
    assert [moment.number for moment in islice(moments(LOOP), 6)] == [1, 2, 3, 4, 5, 6]


def test_an_outage_lasts_until_the_next_step_that_is_up() -> None:
    down, still, up = moments(
        channel(
            {"at": "1 s", "forward": {"up": False}},
            {"at": "2 s", "forward": {"delay": "1 ms"}},
            {"at": "9 s", "forward": {"up": True}},
        )
    )

    assert [moment.down_until_ns for moment in (down, still, up)] == [{"forward": 9 * S}, {"forward": 9 * S}, {}]


def test_an_outage_at_the_end_of_a_loop_lasts_into_the_next_turn() -> None:
    steps = ({"at": "0 s", "forward": {"up": True}}, {"at": "6 s", "forward": {"up": False}})
    told = list(islice(moments(channel(*steps, loop_after="10 s")), 4))

    assert [moment.down_until_ns.get("forward") for moment in told] == [None, 10 * S, None, 20 * S]


def test_an_outage_without_an_end_has_none() -> None:
    (down,) = moments(channel({"at": "1 s", "forward": {"up": False}}))

    assert down.down_until_ns == {"forward": None}


def test_a_player_applies_every_step_and_tells_how_late() -> None:
    applied: list[int] = []

    def apply(player: Player, moment: Moment, before: Links) -> None:
        applied.append(moment.number)

    player = Player(channel({"at": "1 ms"}, {"at": "2 ms"}), apply)
    player.join()

    status = player.status()
    assert applied == [1, 2]
    assert (status["steps_applied"], len(status["late_ns"]), status["failure"]) == (2, 2, "")
    assert all(late_ns >= 0 for late_ns in status["late_ns"])


def test_a_stopped_player_applies_nothing_more() -> None:
    applied: list[int] = []
    player = Player(channel({"at": "1 h"}), lambda player, moment, before: applied.append(moment.number))

    player.stop()
    player.join()

    assert (applied, player.status()["running"]) == ([], False)


def test_a_step_that_is_refused_ends_the_timeline_and_says_why() -> None:
    def refuse(player: Player, moment: Moment, before: Links) -> None:
        raise RuntimeError("no such wormhole")

    player = Player(channel({"at": "0 s"}, {"at": "1 ms"}), refuse)
    player.join()

    status = player.status()
    assert status["steps_applied"] == 0
    assert "no such wormhole" in status["failure"]


def test_a_step_is_given_the_links_before_it() -> None:
    seen: list[int] = []
    player = Player(
        channel({"at": "0 s", "forward": {"delay": "1 ns"}}, {"at": "1 ms", "forward": {"delay": "2 ns"}}),
        lambda player, moment, before: seen.append(before["forward"].delay_ns),
    )
    player.join()

    assert seen == [0, 1]
