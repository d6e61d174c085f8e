"""The events of a sweep, as lines of a worker and of the journal."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from owlt.orchestrator.run.events import (
    ChannelCertified,
    Event,
    PhaseStarted,
    RunAnalysed,
    RunEnded,
    RunPublished,
    RunRepeated,
    SweepInterrupted,
    WorkerStarted,
    decode,
    encode,
    event_in,
    worker_line,
)
from owlt.results.record import Outcome

ENDING = {"run_id": "a_r1", "outcome": Outcome.FAILED, "reason": "no bytes"}
EVENTS: list[Event] = [
    ChannelCertified(channel="ab12", verdict="ok"),
    PhaseStarted(run_id="a_r1", phase="transfer"),
    RunEnded.model_validate(ENDING),
    WorkerStarted(slot=1),
    RunRepeated.model_validate(ENDING | {"attempt": 2, "fault": "aborted"}),
    RunPublished.model_validate(ENDING | {"attempt": 3}),
    RunAnalysed(run_id="a_r1", problem="no tshark"),
    SweepInterrupted(times=2),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.event)
def test_an_event_is_the_same_when_it_was_encoded_and_decoded(event: Event) -> None:
    assert decode(json.loads(json.dumps(encode(event)))) == event


def test_every_event_has_a_name_of_its_own() -> None:
    names = [each.model_fields["event"].default for each in get_args(Event)]

    assert len(set(names)) == len(names)


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        WorkerStarted(slot=1).slot = 2  # type: ignore[misc]


def test_a_journal_line_of_an_earlier_version_is_decoded_with_defaults_and_without_its_other_keys() -> None:
    written = {"event": "published", "run_id": "a_r1", "outcome": "completed", "suspicion": []}

    assert decode(written) == RunPublished(run_id="a_r1", outcome=Outcome.COMPLETED)


@pytest.mark.parametrize(
    "written", [{}, {"event": "unheard of"}, {"event": "run"}, {"event": "certified", "channel": 3}]
)
def test_what_is_no_event_is_refused(written: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        decode(written)


def test_a_workers_line_is_the_event_that_it_reports() -> None:
    event = PhaseStarted(run_id="a_r1", phase="fetch")

    assert event_in(worker_line(event) + "\n") == event


@pytest.mark.parametrize("line", ["Booting\n", "@owlt {\n", "@owlt []\n", '@owlt {"event": "nothing known"}\n'])
def test_other_lines_of_a_worker_are_its_consoles(line: str) -> None:
    assert event_in(line) is None
