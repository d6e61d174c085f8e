"""The keys of plan.json and record.json belong to a schema version: a key more or less makes another version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from owlt.agents.contract.implementation import Implementation
from owlt.orchestrator.planning.plan import Plan
from owlt.results.record import RunRecord
from owlt.results.upgrades import PLAN_STEPS, RECORD_STEPS, current_version

KEPT = Path(__file__).parents[1] / "older_results" / "keys.json"
"""The keys of each file and their version. If they change: raise the version, add an upgrade step, and renew the file
with `python -m tests.unit.orchestrator.test_plan_keys`."""
FILES: dict[str, tuple[type[BaseModel], int]] = {
    "plan.json": (Plan, current_version(PLAN_STEPS)),
    "record.json": (RunRecord, current_version(RECORD_STEPS)),
}


def keys_of(model: type[BaseModel]) -> dict[str, list[str]]:
    """The keys of a file, and those of each kind of value in it."""
    schema: dict[str, Any] = model.model_json_schema()
    kinds = {model.__name__: schema, **schema.get("$defs", {})}
    unwritten = {"Implementation": {name for name, field in Implementation.model_fields.items() if field.exclude}}
    return {
        name: sorted(kind["properties"].keys() - unwritten.get(name, set()))
        for name, kind in sorted(kinds.items())
        if "properties" in kind
    }


def values() -> dict[str, Any]:
    return {name: {"version": version, "keys": keys_of(model)} for name, (model, version) in FILES.items()}


@pytest.mark.parametrize("name", FILES)
def test_the_keys_of_a_file_are_those_of_its_schema_version(name: str) -> None:
    assert values()[name] == json.loads(KEPT.read_text())[name]


if __name__ == "__main__":
    KEPT.write_text(json.dumps(values(), indent=1) + "\n")
