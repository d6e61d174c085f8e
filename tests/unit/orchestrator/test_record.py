"""A record: whole or not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.errors import ResultsConflict
from orchestrator.record import Outcome, read_record, write_record
from tests.unit.orchestrator.making import record

RECORD = record(outcome=Outcome.FAILED, reason="the sender ended with status 1", rate_bps=1e7, packet_error_rate=0.01)


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
