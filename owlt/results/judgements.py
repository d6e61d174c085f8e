"""Judgements on a run that follow from its record and the files beside it: whether it is suspect, what it delivered,
whether it is repeated.

A run is suspect if there is a reason to doubt its numbers. Reasons are sentences, from four sources:

- the record: what went wrong during the run (`orchestrator.run`; on a lab rig also what its hosts were busy with, by
  `orchestrator.rigs.lab.raising`), the failed certificate of the channel (`orchestrator.run.applying`), and too much
  machine delay;
- the summary: faults of the captures (`captures.accounting.suspicion`), and captures that contradict the
  delivered file (`captures.accounting.summary`);
- the decoded messages: the kernel and the packets disagree on retransmissions;
- the files beside the record: a certificate that cannot be read, an analysis that failed.

Report, dashboard, `owlt status` and `owlt run` all decide with `reasons_for_doubt`.

The medians of an implementation are of the files that it delivered. If it delivered only the easy ones, they cannot be
compared with those of one that delivered all. So implementations that delivered every file come first, then those that
delivered some, then those that delivered none and have no goodput; within each group in the order of the sweep.

A run that failed because of the rig has no result for the implementation, so it is repeated; every rule has a limit,
and needs the record alone. Repeating it, and keeping the files of earlier attempts, is the task of
`orchestrator.sweep`. The machine disturbed a run if it delayed the session by too much of its length. A session ends
later by no more than the machine delayed it, unless a timer expires meanwhile, so the machine's delay bounds how much
too low a goodput is. docs/measures.md has the measurements behind the two limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from owlt.agents.contract.implementation import Implementation
from owlt.results.certificates import certificate_or_problem
from owlt.results.files import FAILURE_NAME
from owlt.results.plain_files import read_json, read_plain_text
from owlt.results.record import NOT_DELIVERED, SUMMARY, VIEW, HostTcp, MachineDelay, Outcome, ReasonCode, RunRecord

COMPLETED = Outcome.COMPLETED
ABORTED = Outcome.ABORTED
"""The outcome of a run that failed because of the rig, not the implementation."""
NOT_RUN = "not_run"
"""The outcome of a planned run that has no record yet, in tables."""


def reasons_for_doubt(
    record: RunRecord, of_captures: Iterable[str], sent_again: int | None, of_files: Iterable[str]
) -> tuple[str, ...]:
    """The reasons, each once; () for most runs.

    `of_captures` are those of the summary, `of_files` those of `doubts_about_files`. `sent_again` is the number of
    retransmitted segments in the decoded messages; None if they were not decoded, or are not of TCP.
    """
    sender = record.tcp.get("sender")
    disagreement = "" if sender is None or sent_again is None else tcp_disagreement(sender, sent_again)
    of_messages = [disagreement] if disagreement else []
    return tuple(dict.fromkeys((*record.suspect, *of_captures, *of_messages, *of_files)))


def doubts_of(record: RunRecord, directory: Path) -> tuple[str, ...]:
    """The reasons to doubt the run in a run directory, from the files in its results directory.

    Of summary and messages, single values are read from files of any version: to validate all of a summary would take a
    hundred times as long.
    """
    key = record.channel_key
    problem = certificate_or_problem(directory.parent.parent, key)[1] if record.certificate else ""
    written = _value(directory / SUMMARY, "suspect")
    of_captures = map(str, written) if isinstance(written, list) else ()
    counted = _value(directory / VIEW, "tcp", "sent_again") if "sender" in record.tcp else None
    sent_again = counted if isinstance(counted, int) else None
    return reasons_for_doubt(record, of_captures, sent_again, doubts_about_files(directory, record, problem))


def _value(path: Path, *keys: str) -> Any:
    """A value in a JSON file; None if there is none that can be read."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        value = read_json(path)
        for key in keys:
            value = value[key]
        return value
    return None


def doubts_about_files(directory: Path, record: RunRecord, certificate_problem: str) -> tuple[str, ...]:
    """The problems of the files that belong to a run: its channel's certificate, and its analysis."""
    doubts = [certificate_problem] if certificate_problem and record.certificate else []
    with suppress(FileNotFoundError):
        doubts.append(f"analysis failed: {read_plain_text(directory / FAILURE_NAME).partition(chr(10))[0]}")
    return tuple(doubts)


def tcp_disagreement(sender: HostTcp, sent_again: int) -> str:
    """A sentence if the kernel counted other retransmissions than the packets that were `sent_again`; "" if not.

    Also "" if the kernel's count may be incomplete: no numbers, or a connection that continued after the run.
    """
    if not sender.sockets or not all(socket.get("is_final") for socket in sender.sockets):
        return ""
    by_kernel = sum(int(socket.get("total_retrans") or 0) for socket in sender.sockets)
    if by_kernel == sent_again:
        return ""
    return (
        f"the sender's kernel counted {by_kernel} retransmitted segments, but {sent_again} reached the "
        "emulator: check for drops on the sender's host"
    )


def known_failure(implementation: Implementation, record: RunRecord) -> str:
    """The known limit that explains a failed run; "" if there is none, or if the implementation did not fail.

    A run in which a side was not launched shows nothing about the channel, and no limit explains it. After an aimed
    loss, the packet error rate counts as 1.
    """
    if record.outcome not in NOT_DELIVERED or not (record.sender.command and record.receiver.command):
        return ""
    faults = record.faults.faults if record.faults is not None else []
    has_aimed_losses = any(each.hits and each.action == "dropped" for each in faults)
    channel = (record.file_size_bytes, record.delay_ns / 1e9, 1.0 if has_aimed_losses else record.packet_error_rate)
    at = (record.reason_code, *channel, record.parameters)
    return next((limit.why for limit in implementation.known_limits if limit.covers(*at)), "")


@dataclass(frozen=True)
class Delivery:
    """The number of files that one implementation delivered, of those that it tried.

    Runs that the rig aborted do not count; runs that the implementation does not support, or was not started for, do.
    """

    delivered: int
    tried: int
    unsupported: int = 0
    """The runs among those tried that were not started, or ended, because the implementation does not support them."""

    @property
    def undelivered(self) -> int:
        """The number of files that were not delivered, for any reason of the implementation."""
        return self.tried - self.delivered

    @property
    def supported(self) -> int:
        """The number of files tried that the implementation supports."""
        return self.tried - self.unsupported

    @property
    def all_of_them(self) -> bool:
        """Whether every file was delivered; True if none was tried."""
        return self.delivered == self.tried

    @property
    def place(self) -> int:
        """The sort key. 0: it delivered every file; 1: some; 2: none."""
        return 2 if not self.delivered else int(not self.all_of_them)


def delivery_of(outcomes: Iterable[str]) -> Delivery:
    """The deliveries of the runs with these outcomes."""
    of_implementation = [outcome for outcome in outcomes if outcome not in (ABORTED, NOT_RUN)]
    return Delivery(
        sum(outcome == COMPLETED for outcome in of_implementation),
        len(of_implementation),
        sum(outcome == Outcome.UNSUPPORTED for outcome in of_implementation),
    )


def by_delivery(names: Sequence[str], records: Sequence[RunRecord]) -> dict[str, Delivery]:
    """Each implementation's deliveries, in the order of the report; `names` is the order of the sweep."""
    outcomes: dict[str, list[str]] = {name: [] for name in names}
    for record in records:
        outcomes[record.implementation].append(record.outcome)
    deliveries = {name: delivery_of(of_name) for name, of_name in outcomes.items()}
    return dict(sorted(deliveries.items(), key=lambda item: item[1].place))


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
