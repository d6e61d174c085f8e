"""What a run's captures say, kept beside its record; then the captures themselves are kept as the sweep asks."""

from __future__ import annotations

import json
from pathlib import Path

from captures.cache import CAPTURES, load_or_summarise, load_summary
from captures.headers import keep_only_headers
from captures.session import Session
from captures.suspicion import Expected
from captures.tcpdump import CaptureCounters
from orchestrator.plan import PLAN_NAME
from orchestrator.record import RECORD_NAME, Outcome, RunRecord, read_record

MTU_BYTES = 1500
NOT_DELIVERED = ("dropped_packets", "dropped_queue_packets", "dropped_mtu_packets", "waiting_packets")
"""The emulator's counters of packets that came in and did not go out, whichever stage has them."""


def analyse_run(directory: Path, keep: str) -> None:
    """Summarise the captures of one run, unless that is done, and keep them "whole", as "headers" or not at all.

    A run that has no captures, because it ended before them, has no summary, nor has one that its build cannot do.
    """
    captures = [directory / name for name in CAPTURES]
    record = read_record(directory)
    if not record.session or record.outcome is Outcome.UNSUPPORTED or not all(path.exists() for path in captures):
        return
    session = Session.model_validate(record.session)
    summary = load_or_summarise(directory, session, record.file_size_bytes, record.file_whole_at_ns, _expected(record))
    if keep == "headers" and not summary.headers_only:
        keep_only_headers(directory)
    elif keep == "none":
        for path in captures:
            path.unlink()


def analyse_runs(results: Path) -> None:
    """Summarise every recorded run that has no summary of this version yet."""
    keep = json.loads((results / PLAN_NAME).read_text())["sweep"]["keep_captures"]
    for directory in sorted((results / "runs").iterdir()):
        if (directory / RECORD_NAME).exists() and load_summary(directory) is None:
            analyse_run(directory, keep)


def _expected(record: RunRecord) -> Expected:
    counters = {role: CaptureCounters(**counted) for role, counted in record.captures.items()}
    return Expected(
        sender_counters=counters.get("sender"),
        receiver_counters=counters.get("receiver"),
        mtu_bytes=MTU_BYTES,
        forward_dropped=_dropped(record.emulator_statistics.get("forward")),
        reverse_dropped=_dropped(record.emulator_statistics.get("reverse")),
    )


def _dropped(stages: dict[str, dict[str, int]] | None) -> int | None:
    """How many packets of one direction the emulator says that it dropped or still held at the end."""
    if stages is None:
        return None
    return sum(counters.get(name, 0) for counters in stages.values() for name in NOT_DELIVERED)
