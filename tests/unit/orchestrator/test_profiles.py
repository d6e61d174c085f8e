"""Every profile that comes with owlt loads, and the schemas for editors are those of the code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from owlt.orchestrator.planning.plan import plan_sweep
from owlt.orchestrator.profiles.catalogue import PROFILES, find_implementation, implementation_files, implementations_of
from owlt.orchestrator.profiles.load import load_sweep
from owlt.orchestrator.profiles.schemas import SCHEMAS

SWEEPS = sorted((PROFILES / "sweeps").glob("*.yaml"))


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_a_sweep_profile_loads_and_can_be_planned(path: Path) -> None:
    sweep = load_sweep(path)

    assert plan_sweep(sweep, implementations_of(sweep)).runs


@pytest.mark.parametrize("path", implementation_files(), ids=lambda path: path.stem)
def test_an_implementation_profile_loads(path: Path) -> None:
    assert find_implementation(str(path)).name == path.stem


def test_the_demo_is_at_most_336_runs() -> None:
    sweep = load_sweep(PROFILES / "sweeps" / "demo.yaml")

    assert len(plan_sweep(sweep, implementations_of(sweep)).runs) == 336


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_schema_file_is_that_of_the_code(kind: str) -> None:
    """When it is not: owlt schema KIND > profiles/schemas/KIND.json"""
    kept = json.loads((PROFILES / "schemas" / f"{kind}.json").read_text())

    assert kept == json.loads(json.dumps(SCHEMAS[kind]()))


def test_tcp_is_not_run_where_linux_cannot_measure_the_round_trip() -> None:
    limits = find_implementation("tcp").limits

    assert limits.exceeded(100_000, 1e6, 1342) is None
    assert "longest_one_way_delay_s is 2140" in str(limits.exceeded(100_000, 1e6, 2148))
