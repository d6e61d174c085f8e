"""Judgements on a run that follow from its record and the files beside it: whether it is suspect, what it delivered.

A run is suspect if there is a reason to doubt its numbers. Reasons are sentences, from four sources:

- the record: what went wrong during the run (`orchestrator.run`), the failed certificate of the channel
  (`orchestrator.run.applying`), and too much machine delay (`owlt.results.repeat_rules`);
- the summary: faults of the captures (`captures.accounting.suspicion`), and captures that contradict the
  delivered file (`captures.accounting.summary`);
- the decoded messages: the kernel and the packets disagree on retransmissions;
- the files beside the record: a certificate that cannot be read, an analysis that failed.

Report, dashboard, `owlt status` and `owlt run` all decide with `reasons_for_doubt`.

The medians of an implementation are of the files that it delivered. If it delivered only the easy ones, they cannot be
compared with those of one that delivered all. So implementations that delivered every file come first, then those that
delivered some, then those that delivered none and have no goodput; within each group in the order of the sweep.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from owlt.agents.contract.implementation import Implementation
from owlt.results.certificates import certificate_or_problem
from owlt.results.files import FAILURE_NAME
from owlt.results.plain_files import read_json, read_plain_text
from owlt.results.record import NOT_DELIVERED, SUMMARY, VIEW, HostTcp, Outcome, RunRecord

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
