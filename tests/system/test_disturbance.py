"""What a machine withholds from runs in a guest: `make bench PART=disturbance` has the goodputs that belong to it."""

from __future__ import annotations

from pathlib import Path

from tests.load import load
from tests.system.sweeps import perform, records

LONGEST_S = 240.0


def test_a_run_beside_a_load_on_all_cores_is_marked_with_what_was_withheld(tmp_path: Path) -> None:
    with load(LONGEST_S):
        builds = ["cfdp", "saratoga"]
        done = perform(tmp_path, tmp_path / "results", clock="real", implementations=builds, certify=False)

    assert done.returncode == 0, done.stderr
    found = records(tmp_path / "results")
    assert len(found) == 2
    for run in found.values():
        assert run["withheld"]["overdue_ns"] > 0
        assert run["withheld"]["waited_ns"] > 0
        assert [reason for reason in run["suspect"] if reason.startswith("the machine was busy: ")]
    assert "2 suspect because the machine was busy" in done.stdout


def test_on_the_exact_clock_nothing_is_withheld_beside_the_same_load(tmp_path: Path) -> None:
    with load(LONGEST_S):
        done = perform(tmp_path, tmp_path / "results", clock="exact", certify=False)

    assert done.returncode == 0, done.stderr
    (run,) = records(tmp_path / "results").values()
    assert (run["withheld"], run["suspect"], run["attempt"]) == (None, [], 1)
