"""Records of runs, for tests to which only some of what they say matters."""

from __future__ import annotations

from typing import Any

from owlt.results.record import Outcome, RunRecord


def record(**changes: Any) -> RunRecord:
    """That of a run that completed, but for the changes."""
    said: dict[str, Any] = {
        "run_id": "cfdp_1MB_r1",
        "sweep": "small",
        "implementation": "cfdp",
        "title": "CFDP",
        "protocol": "CFDP",
        "file_size_bytes": 10**6,
        "delay_ns": 25_000_000,
        "rate_bps": None,
        "packet_error_rate": 0,
        "repetition": 1,
        "order": 1,
        "seed": 5,
        "clock": "exact",
        "rig": "virtual",
        "outcome": Outcome.COMPLETED,
    }
    return RunRecord(**said | changes)
