"""The local rig, on a kernel that has netem: a guest with time travel off."""

from __future__ import annotations

import json
from pathlib import Path

from tests.system.conftest import Guest
from tests.system.sweeps import records

SCRIPT = Path(__file__).parent / "guest_scripts" / "local_sweep.py"


def test_the_local_rig_performs_a_sweep_in_real_time(guest: Guest) -> None:
    done = guest.run(SCRIPT, clock="real", timeout_s=200)

    assert done.returncode == 0, done.stdout + done.stderr
    found = records(guest.out_dir / "results")
    assert {(run["rig"], run["clock"], run["outcome"]) for run in found.values()} == {("local", "real", "completed")}
    assert len(found) == 4
    for run_id in found:
        summary = json.loads((guest.out_dir / "results" / "runs" / run_id / "summary.json").read_text())
        assert summary["owd_forward"]["min_ns"] >= 25_000_000, run_id


def test_a_delay_changed_by_hand_is_that_of_the_next_packets(guest: Guest) -> None:
    done = guest.run(SCRIPT.with_name("rigs_up.py"), clock="real", timeout_s=200)

    assert done.returncode == 0, done.stdout + done.stderr
    before_s, after_s = json.loads(done.stdout)
    assert 0.5 < before_s < 1.4 <= after_s
