"""The delay that a machine adds to runs in a guest: `make bench PART=disturbance` has the goodputs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.system.sweeps import RECORDED, perform_beside_a_load, records


def test_a_run_beside_a_load_on_all_cores_is_marked_with_its_machine_delay(tmp_path: Path) -> None:
    names = ["cfdp", "saratoga"]
    size = ["1 MB"]  # long enough to meet the load: within 0.15 s no packet may be overdue
    done = perform_beside_a_load(tmp_path, 2, clock="real", certify=False, implementations=names, file_size=size)

    assert done.returncode in RECORDED, done.stderr
    found = records(tmp_path / "results")
    assert len(found) == 2
    for run in found.values():
        assert run["machine_delay"]["overdue_ns"] > 0
        assert run["machine_delay"]["waited_ns"] > 0
        assert [reason for reason in run["suspect"] if reason.startswith("the machine was busy: ")]
    assert re.search("2 suspect: (cfdp 1, saratoga 1|saratoga 1, cfdp 1) ", done.stdout)


def test_on_the_exact_clock_the_same_load_delays_nothing(tmp_path: Path) -> None:
    done = perform_beside_a_load(tmp_path, 1, clock="exact", certify=False)

    assert done.returncode in RECORDED, done.stderr
    (run,) = records(tmp_path / "results").values()
    assert (run["machine_delay"], run["suspect"], run["attempt"]) == (None, [], 1)
