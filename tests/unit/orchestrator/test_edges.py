"""The edges of a pass: phases are chosen evenly, and an outage drops what is in flight or holds what comes."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from owlt.orchestrator.checks.fault_cases import STEP_NS, Interruption, Mode, Phase, Ways, at_most, with_outage
from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.errors import OwltError

S = 1_000_000_000
CHANNEL = ChannelSpec(forward=LinkSpec(delay_ns=2 * S, rate_bps=1e6), reverse=LinkSpec(delay_ns=S // 2, rate_bps=1e6))


def outage(mode: Mode, at_ns: int = 10 * S, ways: Ways = "both") -> list[tuple[float, bool, bool]]:
    """When the links change, in s, and whether forward and reverse are up from then on."""
    channel = with_outage(CHANNEL, Interruption(Phase(at_ns + STEP_NS, "", 0), 60 * S, mode), ways)
    assert channel.timeline is not None
    return [(step.at_ns / 1e9, step.forward.up, step.reverse.up) for step in channel.timeline.steps]


def test_an_outage_that_holds_begins_at_its_phase_and_ends_after_its_gap() -> None:
    assert outage("hold") == [(10, False, False), (70, True, True)]


def test_an_outage_that_drops_drops_what_entered_a_delay_before_it() -> None:
    assert outage("drop") == [(8, False, True), (9.5, False, False), (70, True, True)]


def test_an_outage_does_not_begin_before_the_launch() -> None:
    assert outage("drop", S) == [(0, False, True), (0.5, False, False), (61, True, True)]


@pytest.mark.parametrize(
    ("ways", "steps"),
    [("forward", [(8, False, True), (70, True, True)]), ("reverse", [(9.5, True, False), (70, True, True)])],
)
def test_an_outage_of_one_direction_leaves_the_other(ways: Ways, steps: list[tuple[float, bool, bool]]) -> None:
    assert outage("drop", ways=ways) == steps


@pytest.mark.parametrize("mode", ["drop", "hold"])
def test_packets_of_an_outage_are_dropped_or_held(mode: Mode) -> None:
    channel = with_outage(CHANNEL, Interruption(Phase(10 * S, "", 0), S, mode), "both")

    assert channel.timeline is not None
    assert channel.timeline.steps[-2].forward.while_down == mode


@pytest.mark.parametrize(
    ("count", "chosen"), [(1, [0]), (2, [0, 9]), (4, [0, 3, 6, 9]), (10, [*range(10)]), (99, [*range(10)])]
)
def test_phases_are_chosen_evenly_with_the_first_and_the_last(count: int, chosen: list[int]) -> None:
    phases = [Phase(number, "", 0) for number in range(10)]

    assert [phase.at_ns for phase in at_most(phases, count)] == chosen


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--gap", "0 s"], "--gap: is 0"), (["--channel", "CHANNEL"], "has a timeline, which the outage would replace")],
)
def test_an_outage_that_cannot_be_added_to_the_channel_is_refused(
    options: list[str], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "pass.yaml"
    path.write_text(
        "title: pass\nboth: {delay: 1 s, rate: 1 Mbit/s}\ntimeline: {steps: [{at: 9 s, both: {up: false}}]}\n"
    )

    with pytest.raises(OwltError, match=message):
        typer.main.get_command(app)(
            ["edges", "cfdp", *(str(path) if each == "CHANNEL" else each for each in options)], standalone_mode=False
        )
