"""Whether a run is tried again, decided from its record alone, and how often.

A record that blames the rig says nothing about the implementation, so the run is repeated; every rule bounds how often.
Performing the repetition, and keeping what the earlier attempts left, is the supervisor's part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.record import Outcome, RunRecord


@dataclass(frozen=True)
class Rule:
    """A fault for which a run is repeated."""

    fault: str
    """As a user reads it."""
    applies: Callable[[RunRecord], bool]
    attempts_per_start: int
    """How often one `owlt run` performs such a run at most, the first time included."""
    at_later_starts: bool
    """Whether a later `owlt run` tries again where the earlier one gave up."""


RULES: tuple[Rule, ...] = (
    Rule("aborted", lambda record: record.outcome is Outcome.ABORTED, attempts_per_start=3, at_later_starts=True),
)


def rule_for(record: RunRecord) -> Rule | None:
    """The first rule by which a record calls for another attempt; None: the record stands."""
    return next((rule for rule in RULES if rule.applies(record)), None)


def is_repeated_now(record: RunRecord, attempts: int) -> bool:
    """Whether this start of the sweep performs the run once more, after so many attempts of its own."""
    rule = rule_for(record)
    return rule is not None and attempts < rule.attempts_per_start


def is_repeated_later(record: RunRecord) -> bool:
    """Whether a later start of the sweep performs the run again."""
    rule = rule_for(record)
    return rule is not None and rule.at_later_starts
