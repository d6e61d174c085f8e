"""The rules for repeating a run: whether, and how often, decided from its record alone.

A run that failed because of the rig has no result for the implementation, so it is repeated; every rule has a limit.
Repeating it, and keeping the files of earlier attempts, is the task of `orchestrator.sweep`.

The machine disturbed a run if it delayed the session by too much of its length. A session ends later by no more than
the machine delayed it, unless a timer expires meanwhile, so the machine's delay bounds how much too low a goodput is.
docs/measures.md has the measurements behind the two limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from owlt.results.record import MachineDelay, Outcome, ReasonCode, RunRecord

MOST_OVERDUE = 0.02
"""The longest time for which packets may be late in the emulator, as a share of the session. They are on the path that
decides when the session ends."""
MOST_WAITED = 0.05
"""The longest time for which processes may wait for a processor, as a share of the session.

A wait need not delay the session.
"""
DISPATCH_NS = 6_000
"""The longest mean time that a quiet machine takes to dispatch a ready thread: not counted as a wait. 40 runs of
five implementations on a quiet machine had 2.2 to 5.2 µs, except two that were disturbed."""
MOST_WAITED_PER_DISPATCH_NS = DISPATCH_NS + 2_000
"""The longest mean wait while a channel is certified. A certificate has the 99th percentile of delays, to 0.2 ms: one
probe in a hundred that waits for so long adds 2 µs to the mean."""


def disturbance(delay: MachineDelay) -> str:
    """Why the time of a run may not be its protocol's, with the numbers; "" if the machine did not disturb it."""
    reasons = []
    waited_ns = _beyond_dispatch_ns(delay)
    if waited_ns > MOST_WAITED * delay.session_ns:
        reasons.append(f"the rig's processes waited {_ms(waited_ns)} for a processor")
    if delay.overdue_ns is not None and delay.overdue_ns > MOST_OVERDUE * delay.session_ns:
        reasons.append(f"packets were overdue in the emulator for {_ms(delay.overdue_ns)}")
    if not reasons:
        return ""
    return f"the machine was busy: during a session of {_ms(delay.session_ns)} {' and '.join(reasons)}"


def may_have_delayed_probes(waited_ns: int, dispatches: int) -> bool:
    """Whether processes waited long enough for a processor, while a channel was certified, to change its delays."""
    return waited_ns > MOST_WAITED_PER_DISPATCH_NS * dispatches


def described(clock: str, delay: MachineDelay | None) -> list[tuple[str, str]]:
    """A run's machine delay as names and values for people; empty if it was not measured."""
    if clock == "exact":
        return [("machine delay", "n/a on the exact clock, where computation takes no time")]
    if delay is None:
        return []
    share = 100 / max(delay.session_ns, 1)
    overdue, waited, dispatches = delay.overdue_ns, delay.waited_ns, delay.dispatches
    return [
        (
            "packets overdue in the emulator",
            "n/a on a channel that varies"
            if overdue is None
            else f"{_ms(overdue)}, {share * overdue:.1f} % of the session",
        ),
        (
            "processes waited for a processor",
            "not measured" if waited is None else f"{_ms(waited)} in {dispatches} dispatches",
        ),
    ]


def _beyond_dispatch_ns(delay: MachineDelay) -> int:
    """The part of the waits that a quiet machine would not have caused."""
    return (delay.waited_ns or 0) - DISPATCH_NS * (delay.dispatches or 0)


def _ms(time_ns: int) -> str:
    return f"{time_ns / 1e6:.1f} ms"


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


_MISSING = (ReasonCode.CHANNEL_UNSUPPORTED, ReasonCode.NOT_INSTALLED, ReasonCode.NOT_LOADED, ReasonCode.PROFILE)

RULES: tuple[Rule, ...] = (
    # what a kernel or a host does not have, it does not have a minute later either
    Rule(
        "aborted",
        lambda record: record.reason_code in _MISSING,
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
