"""The key `duration` of an implementation: the commands for a given time, and the number that its receiver prints."""

from __future__ import annotations

from typing import Any

import pytest

from owlt.agents.contract.implementation import Duration
from owlt.agents.contract.placeholders import RunValues
from tests.unit.agents.test_side import implementation, refusal

TIMED = {"sender": ["send", "{duration_s}"], "receiver": ["count"], "received_bytes": "^got ([0-9]+)$"}


def timed(**changes: Any) -> dict[str, Any]:
    return TIMED | changes


def test_the_commands_for_a_duration_replace_those_of_the_sides(run_values: RunValues) -> None:
    filled = implementation(duration=TIMED).for_a_duration.rendered(run_values.as_text() | {"duration_s": "600"}, {})

    assert (filled.sender.command, filled.receiver.command) == (["send", "600"], ["count"])


def test_the_last_number_in_the_output_counts() -> None:
    assert Duration.model_validate(TIMED).reported_bytes("got 1\nother\ngot 20\n") == 20


def test_output_without_a_number_reports_none() -> None:
    assert Duration.model_validate(TIMED).reported_bytes("got nothing\n") is None


def test_a_number_may_be_found_over_several_lines() -> None:
    pattern = r'"sum_received":\s*\{[^}]*"bytes":\s*([0-9]+)'
    json = '"sum_sent": {\n"bytes":\t7},\n"sum_received":\t{\n"start":\t0,\n"bytes":\t11595000,\n}'

    assert Duration.model_validate(timed(received_bytes=pattern)).reported_bytes(json) == 11_595_000


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"received_bytes": "got [0-9]+"}, "a regular expression with one group"),
        ({"sender": ["send", "{file}", "{duration_s}"]}, "{file} has no value in a run that sends no file"),
        ({"sender": ["send"]}, "neither command has {duration_s}"),
        ({"receiver": ["count", "{time}"]}, "{time} is not a known placeholder"),
    ],
)
def test_a_duration_without_sense_is_refused_with_the_reason(changes: dict[str, Any], words: str) -> None:
    assert words in refusal(duration=timed(**changes))


def test_the_duration_has_no_value_in_a_command_for_a_file() -> None:
    assert "{duration_s} is not a known placeholder" in refusal(sender={"command": ["send", "{duration_s}"]})


def test_an_implementation_whose_runs_end_with_the_file_cannot_have_a_duration() -> None:
    assert "a run that sends no file never delivers one" in refusal(duration=TIMED, done="file_delivered")


def test_a_parameter_that_only_the_commands_for_a_duration_use_is_used() -> None:
    used = implementation(duration=timed(receiver=["count", "{port}"]), parameters={"port": 5})

    assert used.parameters == {"port": 5}
