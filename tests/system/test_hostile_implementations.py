"""Hostile implementations: each is stopped at a limit and named in a record, and the next run is not affected.

Between each two of them CFDP carries the same file over the same clean channel, in the same guests.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from owlt.agents.contract.implementation import load_implementation
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.planning.plan import Batch, Plan, Run, plan_sweep
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.orchestrator.sweep.campaign import Start, perform_plan
from tests.system.hostile_implementations import FIRST_HALF, SECOND_HALF, Hostile

pytestmark = pytest.mark.timeout(900)
"""All that these tests look at happens before the first of them: 122 runs, and seconds of silence in some."""
KINDS = FIRST_HALF | SECOND_HALF
GOOD = "cfdp"
SILENCE_S = 7
"""The wall time after which a computing implementation is ended, and 3 s for the file: many times what runs need."""


def plan_of(halves: list[dict[str, Hostile]], directory: Path) -> Plan:
    """CFDP, then a hostile implementation, in turns, each half in a guest."""
    files = {name: kind.write(name, directory) for half in halves for name, kind in half.items()}
    implementations = {name: load_implementation(path) for name, path in files.items()} | {
        GOOD: find_implementation(GOOD)
    }
    sweep = Sweep.model_validate(
        {
            "name": "hostile",
            "seed": 7,
            "implementations": [*(str(path) for path in files.values()), GOOD],
            "file_size": "100 kB",
            "rate": "10 Mbit/s",
            "delay": "25 ms",
            "packet_error_rate": 0,
            "repetitions": len(files) + len(halves),
            "certify": False,
        }
    )
    drawn = plan_sweep(sweep, implementations)
    good = iter([run for run in drawn.runs if run.permutation.implementation == GOOD])
    first = {run.permutation.implementation: run for run in drawn.runs if run.repetition == 1}
    batches = []
    for index, half in enumerate(halves):
        runs: list[Run] = [next(good)]
        for name in half:
            runs += [first[name], next(good)]
        batches.append(Batch(index=index, seed=index + 1, runs=runs))
    return drawn.model_copy(update={"batches": batches})


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """All of them once, in two guests side by side."""
    directory = tmp_path_factory.mktemp("hostile")
    plan = plan_of([FIRST_HALF, SECOND_HALF], directory)
    before = os.environ.get("OWLT_HANG_S")
    os.environ["OWLT_HANG_S"] = str(SILENCE_S)
    try:
        perform_plan(Start(plan, directory / "results", "again"), lambda *_: lambda _event: None)
    finally:
        os.environ.pop("OWLT_HANG_S") if before is None else os.environ.update(OWLT_HANG_S=before)
    return directory / "results"


@pytest.fixture(scope="module")
def ended(results: Path) -> dict[str, dict[str, Any]]:
    """The record of each hostile implementation."""
    records = (json.loads(path.read_text()) for path in results.glob("runs/*/record.json"))
    return {record["implementation"]: record for record in records if record["implementation"] != GOOD}


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_build_is_named_in_its_record(ended: dict[str, dict[str, Any]], kind: str) -> None:
    record, expected = ended[kind], KINDS[kind]

    assert re.fullmatch(expected.outcome, record["outcome"]), (record["outcome"], record["reason"])
    assert re.search(expected.reason, record["reason"]), record["reason"]
    assert record["reason"].isprintable()


def test_a_third_guest_is_booted_only_if_a_program_had_starved_the_worker_of_its_lease(results: Path) -> None:
    journal = [json.loads(line) for line in (results / "journal.jsonl").read_text().splitlines()]
    starved = [event for event in journal if event["event"] == "retry" and event["reason"].startswith("lease: ")]

    assert [event["event"] for event in journal].count("boot") == 2 + len(starved)
    assert len(starved) <= 1


def test_the_good_build_completes_between_each_two(results: Path) -> None:
    records = [json.loads(path.read_text()) for path in results.glob(f"runs/{GOOD}_*/record.json")]

    assert [record["outcome"] for record in records] == ["completed"] * (len(KINDS) + 2)
    assert not [reason for record in records for reason in record["suspect"]]


def test_the_good_build_has_the_same_numbers_behind_each(results: Path) -> None:
    summaries = [json.loads(path.read_text()) for path in results.glob(f"runs/{GOOD}_*/summary.json")]
    goodputs_bps = [summary["goodput_bps"] for summary in summaries]

    assert len({(each["str_sent"], each["rts_sent"]) for each in summaries}) == 1
    assert max(goodputs_bps) / min(goodputs_bps) < 1.001


def test_no_daemon_of_a_build_is_left(ended: dict[str, dict[str, Any]]) -> None:
    left = ended["daemon"]["sender"]["left_running"]

    assert sorted(left) == ["sleep 5000", "sleep 6000"]
