"""`owlt shrink`: a failed run is repeated with the fewest of its losses that still have the effect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from owlt.orchestrator.checks.fault_cases import PLAIN_CHANNEL, Hit, Place, aimed_at, plan_over
from owlt.orchestrator.planning.plan import plan_sweep
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.results.recorded_runs import run_directory
from tests.system.fault_trials import PLANTED, merged, owlt, perform, with_defect

pytestmark = pytest.mark.usefixtures("guest_kernel")


Runs = dict[str, list[Path]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Three runs of the endpoint with each defect in which the packets of the smallest set are lost, and one more: what
    a duplicate shows, the loss of the answer to it does too. One plan performs them."""
    folder = tmp_path_factory.mktemp("lossy")
    plans = {}
    for defect, planted in PLANTED.items():
        profile = with_defect(defect, folder, planted.endpoint, planted.parameters)
        lost = [fault.split() for fault in planted.faults if fault.endswith("lost")] or [["reverse", "#1"]]
        places = [(direction, int(number[1:])) for direction, number, *_ in lost] + [planted.also_lost]
        faults = aimed_at(tuple(Hit(Place(direction, number)) for direction, number in places))  # type: ignore[arg-type]
        channels = {"lossy": PLAIN_CHANNEL.model_copy(update={"faults": faults})}
        once = plan_over("lossy", find_implementation(str(profile)), channels, 2000)
        thrice = once.sweep.model_copy(update={"repetitions": 3})
        plans[defect] = plan_sweep(thrice, once.implementations, channels)
    perform(merged(list(plans.values())), folder / "results")
    return {
        defect: [run_directory(folder / "results", run.run_id) for run in plan.runs] for defect, plan in plans.items()
    }


@pytest.mark.parametrize("defect", PLANTED)
def test_a_run_that_shows_a_planted_defect_does_so_three_times_and_is_shrunk_to_the_fewest_losses(
    tmp_path: Path, runs: Runs, defect: str
) -> None:
    planted = PLANTED[defect]
    outcomes = [json.loads((run / "record.json").read_text())["outcome"] for run in runs[defect]]
    status, shrunk = owlt(tmp_path, "shrink", str(runs[defect][0]), "--guests", "1")

    both_are_needed = planted.kinds == "duplicate"  # after the first alone, the sender ends before it repeats its EOF
    assert len(outcomes) == 3
    assert len(set(outcomes)) == 1 and outcomes[0] != "completed"
    assert (status, shrunk["losses"]) == (0, len(planted.faults) + 1)
    assert len(shrunk["left"]) == len(planted.faults) + both_are_needed


def test_losses_that_only_shift_the_numbers_of_others_are_left_out(tmp_path: Path) -> None:
    """The sender gives up for a lost acknowledgement of its EOF, and the repetition of a packet is lost too: it is the
    15th only if two more packets of data are repeated before it."""
    lost = [("forward", number) for number in (4, 6, 8, 15)] + [("reverse", 1)]
    sweep = {
        "name": "shifted",
        "seed": 4,
        "implementations": ["cfdp"],
        "parameters": {"cfdp": {"ack_limit": 1}},
        "file_size": "10 kB",
        "rate": "1 Mbit/s",
        "delay": "250 ms",
        "packet_error_rate": 0,
        "certify": False,
        "faults": [{"direction": direction, "occurrence": number, "action": "drop"} for direction, number in lost],
    }
    (tmp_path / "sweep.yaml").write_text(json.dumps(sweep))
    owlt(tmp_path, "run", "sweep.yaml", "--results", "shifted", "--no-report", "--guests", "1")
    (run,) = (tmp_path / "shifted/runs").iterdir()
    status, shrunk = owlt(tmp_path, "shrink", str(run), "--guests", "1")

    assert (status, shrunk["losses"]) == (0, len(lost))
    assert shrunk["left"] == [
        "forward data 6000-6999 #1",
        "reverse cfdp.ack-eof #1",
        "forward data 6000-6999 #2",
    ]
