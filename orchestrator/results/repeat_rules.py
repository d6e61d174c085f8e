"""The rules for repeating a run: whether, and how often, decided from its record alone.

A run that failed because of the rig has no result for the implementation, so it is repeated; every rule has a limit.
Repeating it, and keeping the files of earlier attempts, is the task of `orchestrator.sweep`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from owlt.orchestrator.results.disturbance import disturbance
from owlt.orchestrator.results.reason_codes import ReasonCode
from owlt.orchestrator.results.record import Outcome, RunRecord


@dataclass(frozen=True)
class Rule:
    """A fault for which a run is repeated."""

    fault: str
    """In words, for users."""
    applies: Callable[[RunRecord], bool]
    attempts_per_start: int
    """Most attempts of one `owlt run`, the first included."""
    at_later_starts: bool
    """Whether a later `owlt run` tries again after an earlier one gave up."""
    needs_quiet: bool = False
    """Whether another attempt must wait until the machine is quiet."""


def is_disturbed(record: RunRecord) -> bool:
    """Whether the machine delayed a run so much that its time may not be the protocol's."""
    return record.machine_delay is not None and bool(disturbance(record.machine_delay))


RULES: tuple[Rule, ...] = (
    # what a kernel does not have, it does not have a minute later either
    Rule(
        "aborted",
        lambda record: record.reason_code is ReasonCode.CHANNEL_UNSUPPORTED,
        attempts_per_start=1,
        at_later_starts=True,
    ),
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
    """The first rule that applies to a record; None: the record stands."""
    return next((rule for rule in RULES if rule.applies(record)), None)


def is_repeated_now(record: RunRecord, attempts: int) -> bool:
    """Whether this start of the sweep repeats the run, after this number of its own attempts."""
    rule = rule_for(record)
    return rule is not None and attempts < rule.attempts_per_start


def is_repeated_later(record: RunRecord) -> bool:
    """Whether a later start of the sweep repeats the run."""
    rule = rule_for(record)
    return rule is not None and rule.at_later_starts


def needs_quiet(record: RunRecord) -> bool:
    """Whether another attempt must wait until the machine is quiet."""
    rule = rule_for(record)
    return rule is not None and rule.needs_quiet


def reason_code(record: RunRecord) -> ReasonCode | None:
    """The reason of a run, or of its repetition if it completed while the machine was busy; None if it stands."""
    return record.reason_code or (ReasonCode.MACHINE_BUSY if is_disturbed(record) else None)


def fault(record: RunRecord) -> str:
    """Why a run is repeated, in words for users; "" if the record stands."""
    rule = rule_for(record)
    return "" if rule is None else rule.fault
