"""`owlt shrink`: a failed run is repeated with the fewest of its losses that still have the effect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.system.fault_trials import PLANTED, Planted, owlt, with_defect

pytestmark = pytest.mark.usefixtures("guest_kernel")


def run_lossy(folder: Path, planted: Planted, profile: Path) -> list[tuple[str, Path]]:
    """Outcome and directory of three runs in which the packets of the smallest set are lost, and one more: what a
    duplicate shows, the loss of the answer to it does too."""
    lost = [fault.split() for fault in planted.faults if fault.endswith("lost")] or [["reverse", "#1"]]
    hit = [(direction, int(number[1:])) for direction, number, *_ in lost]
    sweep = {
        "name": "three",
        "seed": 1,
        "implementations": [str(profile)],
        "file_size": "2 kB",
        "rate": "1 Mbit/s",
        "delay": "250 ms",
        "packet_error_rate": 0,
        "repetitions": 3,
        "certify": False,
        "faults": [
            {"direction": direction, "occurrence": number, "action": "drop"}
            for direction, number in [*hit, planted.also_lost]
        ],
    }
    (folder / "sweep.yaml").write_text(json.dumps(sweep))
    owlt(folder, "run", "sweep.yaml", "--results", "three", "--no-report", "--guests", "1")
    runs = sorted((folder / "three/runs").iterdir())
    return [(json.loads((run / "record.json").read_text())["outcome"], run) for run in runs]


@pytest.mark.parametrize("defect", PLANTED)
def test_a_run_that_shows_a_planted_defect_does_so_three_times_and_is_shrunk_to_the_fewest_losses(
    tmp_path: Path, defect: str
) -> None:
    planted = PLANTED[defect]
    profile = with_defect(defect, tmp_path, planted.endpoint, planted.parameters)
    outcomes, directories = zip(*run_lossy(tmp_path, planted, profile), strict=True)
    status, shrunk = owlt(tmp_path, "shrink", str(directories[0]), "--guests", "1")

    both_are_needed = planted.kinds == "duplicate"  # after the first alone, the sender ends before it repeats its EOF
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
