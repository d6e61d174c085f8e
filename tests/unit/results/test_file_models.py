"""Reports read the files of the orchestrator and the emulator with models of their own: both agree on every key."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

import owlt.orchestrator.planning.plan as planned
import owlt.orchestrator.planning.sweep as planned_sweep
import owlt.results.record as recorded
from owlt.agents.contract import implementation as contract
from owlt.results import files as records

PAIRS: list[tuple[type[BaseModel], type[BaseModel]]] = [
    (recorded.Permutation, planned_sweep.Permutation),
    (records.Sweep, planned_sweep.Sweep),
    (records.PlannedRun, planned.Run),
    (records.Plan, planned.Plan),
    (records.Profile, contract.Implementation),
    (records.Limits, contract.Limits),
    (records.KnownLimit, contract.KnownLimit),
]
DERIVED = {"digest"}
"""Keys that the report computes from the others."""
NAMES = [read.__name__ for read, _ in PAIRS]


@pytest.mark.parametrize(("read", "written"), PAIRS, ids=NAMES)
def test_every_key_that_a_report_reads_is_written(read: type[BaseModel], written: type[BaseModel]) -> None:
    assert read.model_fields.keys() - DERIVED <= written.model_fields.keys()


@pytest.mark.parametrize(("read", "written"), PAIRS, ids=NAMES)
def test_a_key_with_a_default_has_the_same_default_in_both_models(
    read: type[BaseModel], written: type[BaseModel]
) -> None:
    def plain(model: type[BaseModel], name: str) -> Any:
        default = model.model_fields[name].get_default(call_default_factory=True)
        value = default.model_dump() if isinstance(default, BaseModel) else default
        return tuple(value) if isinstance(value, list | tuple) else value

    fields = {name: field for name, field in read.model_fields.items() if name not in DERIVED}
    with_default = [name for name, field in fields.items() if not field.is_required()]
    optional = [name for name in with_default if not written.model_fields[name].is_required()]

    assert {name: plain(read, name) for name in optional if name not in ("sender", "receiver", "limits")} == {
        name: plain(written, name) for name in optional if name not in ("sender", "receiver", "limits")
    }
