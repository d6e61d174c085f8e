"""Whether a run is tried again, decided from its record alone, and how often.

A record that blames the rig says nothing about the implementation, so the run is repeated; every rule bounds how often.
Performing the repetition, and keeping what the earlier attempts left, is the supervisor's part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.disturbance import disturbance
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
    needs_quiet: bool = False
    """Whether another attempt is worth it only when the machine is quiet."""


def is_disturbed(record: RunRecord) -> bool:
    """Whether the machine withheld so much from a run that its time need not be the protocol's."""
    return record.withheld is not None and bool(disturbance(record.withheld))


RULES: tuple[Rule, ...] = (
    Rule("aborted", lambda record: record.outcome is Outcome.ABORTED, attempts_per_start=3, at_later_starts=True),
    Rule(
        "disturbed by other work on this machine",
        is_disturbed,
        attempts_per_start=3,
        at_later_starts=False,
        needs_quiet=True,
    ),
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


def needs_quiet(record: RunRecord) -> bool:
    """Whether another attempt is worth it only when the machine is quiet."""
    rule = rule_for(record)
    return rule is not None and rule.needs_quiet


def fault(record: RunRecord) -> str:
    """What a run is repeated for, as a user reads it; "" where the record stands."""
    rule = rule_for(record)
    return "" if rule is None else rule.fault
