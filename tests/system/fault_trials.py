"""Endpoints with planted defects, and the commands that find these."""

from __future__ import annotations

import atexit
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from owlt.orchestrator.planning.plan import Batch, Plan
from owlt.orchestrator.sweep.campaign import Start, perform_plan
from owlt.orchestrator.sweep.machine import PreparedMachine
from tests import commands
from tests.system.conftest import GUEST_PROJECT, PROJECT


def with_defect(defect: str, folder: Path, name: str = "cfdp", parameters: Mapping[str, Any] | None = None) -> Path:
    """A profile of the endpoint with a defect, in its own file."""
    yaml = YAML()
    profile: Any = yaml.load((PROJECT / f"profiles/implementations/{name}.yaml").read_text())
    profile["name"] = f"{name}-{defect}"
    profile["parameters"] |= parameters or {}
    for side in ("sender", "receiver"):
        python, _, module, *rest = profile[side]["command"]
        program = f"{GUEST_PROJECT}/tests/system/programs/endpoint_with_defect.py"
        profile[side]["command"] = [python, program, module.rpartition(".")[2], defect, *rest]
    path = folder / f"{name}-{defect}.yaml"
    with path.open("w") as file:
        yaml.dump(profile, file)
    return path


def owlt(folder: Path, *words: str) -> tuple[int, Any]:
    """The exit status of a command and what it printed as JSON."""
    done = commands.owlt(*words, "--json", cwd=folder, timeout_s=1200, prepared=True)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def is_shared(run: Path) -> bool:
    """Whether a run began in a guest that started the programs once for several runs."""
    return "runs/shared-beginning/" in str(json.loads((run / "record.json").read_text())["receiver"]["command"])


def merged(plans: Sequence[Plan]) -> Plan:
    """The runs of several plans over different implementations as one plan, each run a batch of its own; what else a
    sweep states is that of the first plan."""
    runs = [run for plan in plans for run in plan.runs]
    return plans[0].model_copy(
        update={
            "implementations": {name: value for plan in plans for name, value in plan.implementations.items()},
            "channels": {key: value for plan in plans for key, value in plan.channels.items()},
            "batches": [Batch(index=index, seed=run.seed, runs=[run]) for index, run in enumerate(runs)],
        }
    )


@cache
def machine() -> PreparedMachine:
    """The guests of all tests of this process."""
    made = PreparedMachine()
    atexit.register(made.__exit__)
    return made


def perform(plan: Plan, results: Path) -> None:
    """Perform the runs of a plan, all of which get a record."""
    start = Start(plan, results, "pytest", machine=machine())
    performed = perform_plan(start, lambda _plan, _done: lambda _event: None)
    assert performed.recorded == len(plan.runs), performed.summary


@dataclass(frozen=True)
class Planted:
    """A defect of an endpoint, the case of the protocol's suite that finds it, and the smallest set of faults with
    which a proof finds it. `also_lost` is a packet whose loss alone does no harm."""

    defect: str
    endpoint: str
    case: str
    faults: tuple[str, ...]
    also_lost: tuple[str, int]
    kinds: str = "drop"
    parameters: Mapping[str, Any] = field(default_factory=dict)


UDP = {"convergence": "udp", "port": 4556, "bundle_bytes": 1000, "repeat_limit": 100_000}
TWO_REPORTS = {"segment_bytes": 500, "checkpoint_every": 2}
PLANTED = {
    each.defect: each
    for each in (
        Planted(
            "second-eof-opens-file",
            "cfdp",
            "eof-duplicated",
            ("forward #4 (EOF) is duplicated",),
            ("forward", 2),
            kinds="duplicate",
        ),
        Planted(
            "nak-loop",
            "cfdp",
            "first-nak-lost",
            ("forward #2 (data) is lost", "reverse #2 (NAK) is lost"),
            ("forward", 3),
        ),
        Planted(
            "finished-unacknowledged",
            "cfdp",
            "first-ack-of-finished-lost",
            ("forward #5 (ACK of Finished) is lost",),
            ("reverse", 1),
        ),
        Planted(
            "one-report-remembered",
            "ltp",
            "first-of-two-reports-lost",
            ("forward #1 (red data) is lost", "reverse #1 (report) is lost"),
            ("forward", 3),
            parameters=TWO_REPORTS,
        ),
        Planted(
            "checkpoint-without-timer",
            "ltp",
            "checkpoint-lost",
            ("forward #2 (checkpoint) is lost",),
            ("forward", 1),
        ),
        Planted(
            "flush-without-acknowledgement", "norm", "last-data-lost", ("forward #2 (DATA) is lost",), ("forward", 4)
        ),
        Planted("status-ignored", "saratoga", "first-data-lost", ("forward #2 (data) is lost",), ("forward", 1)),
        Planted(
            "second-signal-refused",
            "bp-cs",
            "first-signal-lost",
            ("reverse #1 (custody signal) is lost",),
            ("forward", 2),
            parameters=UDP,
        ),
    )
}
