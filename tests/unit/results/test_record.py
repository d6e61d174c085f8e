"""A record is written atomically, and refused if a newer version wrote it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from owlt.inputs.mistake import ResultsConflict
from owlt.results.record import SCHEMA_VERSION, Outcome, read_record, write_record
from tests.unit.orchestrator.making import record

RECORD = record(outcome=Outcome.FAILED, reason="the sender exited with status 1", rate_bps=1e7, packet_error_rate=0.01)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_record(RECORD, tmp_path)

    assert read_record(tmp_path) == RECORD


def test_writing_leaves_nothing_beside_the_record(tmp_path: Path) -> None:
    write_record(RECORD, tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def change(directory: Path, **values: object) -> None:
    path = directory / "record.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_record_with_an_unknown_key_is_refused_with_its_path(tmp_path: Path) -> None:
    write_record(RECORD, tmp_path)
    change(tmp_path, a_field_of_the_future=1)

    with pytest.raises(ResultsConflict, match=r"record\.json: another version of owlt wrote it"):
        read_record(tmp_path)


def test_a_record_of_a_newer_schema_version_is_refused_with_both_versions_and_the_next_step(tmp_path: Path) -> None:
    write_record(RECORD, tmp_path)
    change(tmp_path, schema_version=SCHEMA_VERSION + 1)

    newer = (
        rf"schema version {SCHEMA_VERSION + 1}; this version of owlt reads up to {SCHEMA_VERSION}\); use the version"
    )
    with pytest.raises(ResultsConflict, match=rf"record\.json: a newer version of owlt wrote it \({newer}"):
        read_record(tmp_path)
