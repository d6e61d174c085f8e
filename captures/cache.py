"""The summary kept beside the captures as summary.json, and made again only when its sources have changed.

A capture is known by its SHA-256, which copying does not change. A capture that is cut to its headers gives
no better summary than the whole one did, so the hash of the cut form is entered as a second accepted one
before it replaces the whole form: the summary made from whole frames stays valid. Where it must be made
again, for another schema version or other arguments, headers give all of it but bit errors in what was cut.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from pydantic import ValidationError

from captures.session import Session
from captures.summary import SCHEMA_VERSION, CaptureSummary, Source, summarise
from captures.suspicion import NOTHING_EXPECTED, Expected

CAPTURES = ("sender.pcap", "receiver.pcap")
SUMMARY = "summary.json"


def load_or_summarise(
    run_dir: Path,
    session: Session,
    file_size_bytes: int,
    file_whole_at_ns: int | None,
    expected: Expected = NOTHING_EXPECTED,
) -> CaptureSummary:
    """The summary of the run in `run_dir`: the kept one while captures, arguments and schema version are
    those that it was made from, else a new one, which is then kept. Arguments and errors as for
    `summarise`."""
    arguments = (session, file_size_bytes, file_whole_at_ns, expected)
    source = Source(
        arguments=_digest_of_arguments(*arguments),
        captures={name: [digest_of_file(run_dir / name)] for name in CAPTURES},
    )
    kept = load_summary(run_dir)
    if kept and kept.source and kept.source.accepts(source):
        return kept
    sender_pcap, receiver_pcap = (run_dir / name for name in CAPTURES)
    summary = summarise(sender_pcap, receiver_pcap, *arguments).model_copy(update={"source": source})
    keep_summary(run_dir, summary)
    return summary


def load_summary(run_dir: Path) -> CaptureSummary | None:
    """The kept summary as it is; None if there is none, or a damaged one, or one of another schema."""
    try:
        summary = CaptureSummary.model_validate_json((run_dir / SUMMARY).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    return summary if summary.schema_version == SCHEMA_VERSION else None


def keep_summary(run_dir: Path, summary: CaptureSummary) -> None:
    """Write summary.json, whole or not at all."""
    partial = run_dir / f".{SUMMARY}.partial"
    partial.write_text(summary.model_dump_json(indent=2) + "\n")
    partial.replace(run_dir / SUMMARY)


def digest_of_file(path: Path) -> str:
    """The SHA-256 of the file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_of_arguments(
    session: Session, file_size_bytes: int, file_whole_at_ns: int | None, expected: Expected
) -> str:
    values = [session.model_dump(mode="json"), file_size_bytes, file_whole_at_ns, asdict(expected)]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
