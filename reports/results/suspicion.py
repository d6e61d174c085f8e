"""What decides that a run is suspect: all reasons to doubt its numbers, a sentence each.

They have four sources:

- the record: what went wrong during the run (`orchestrator.run`), the failed certificate of the channel
  (`orchestrator.run.applying`), and too much machine delay (`orchestrator.results.disturbance`);
- the summary: faults of the captures (`captures.accounting.suspicion`), and captures that contradict the
  delivered file (`captures.accounting.summary`);
- the decoded messages: the kernel and the packets disagree on retransmissions (`reports.results.tcp_agreement`);
- the files beside the record: a certificate that cannot be read, an analysis that failed.
"""

from __future__ import annotations

from pathlib import Path

from owlt.captures.accounting.summary import CaptureSummary
from owlt.captures.files.plain_files import read_plain_text
from owlt.captures.protocols.view import ProtocolView
from owlt.reports.results.records import Record
from owlt.reports.results.tcp_agreement import tcp_disagreement

FAILURE_NAME = "analysis-failed.txt"


def reasons_for_doubt(
    record: Record, summary: CaptureSummary | None, view: ProtocolView | None, of_files: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the reasons, each once; empty for most runs. `of_files` are those of `doubts_about_files`."""
    of_captures = summary.suspect if summary else []
    return tuple(dict.fromkeys((*record.suspect, *of_captures, *_of_messages(record, view), *of_files)))


def doubts_about_files(directory: Path, record: Record, certificate_problem: str) -> tuple[str, ...]:
    """Return the problems of the files that belong to a run: its channel's certificate, and its analysis."""
    doubts = [certificate_problem] if certificate_problem and record.certificate else []
    failure = directory / FAILURE_NAME
    if failure.exists():
        doubts.append(f"analysis failed: {read_plain_text(failure).partition(chr(10))[0]}")
    return tuple(doubts)


def _of_messages(record: Record, view: ProtocolView | None) -> tuple[str, ...]:
    kernel = record.tcp.get("sender")
    if kernel is None or view is None or view.tcp is None:
        return ()
    disagreement = tcp_disagreement(kernel, view.tcp)
    return (disagreement,) if disagreement else ()
