"""A record: whole or not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.errors import ResultsConflict
from orchestrator.record import Outcome, RunRecord, read_record, write_record

RECORD = RunRecord(
    run_id="cfdp_1MB_r1",
    sweep="small",
    implementation="cfdp",
    title="CFDP",
    protocol="CFDP",
    file_size_bytes=10**6,
    delay_ns=25_000_000,
    rate_bps=1e7,
    packet_error_rate=0.01,
    repetition=1,
    order=1,
    seed=5,
    clock="exact",
    rig="virtual",
    outcome=Outcome.FAILED,
    reason="the sender ended with status 1",
)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_record(RECORD, tmp_path)

    assert read_record(tmp_path) == RECORD


def test_writing_leaves_nothing_beside_the_record(tmp_path: Path) -> None:
    write_record(RECORD, tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_a_record_of_another_schema_is_refused_with_its_path(tmp_path: Path) -> None:
    write_record(RECORD, tmp_path)
    path = tmp_path / "record.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"a_field_of_the_future": 1}))

    with pytest.raises(ResultsConflict, match=r"record\.json"):
        read_record(tmp_path)
