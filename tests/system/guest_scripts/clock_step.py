"""In a guest on the real clock: a sweep on the local rig while the clock is set, an hour forward and two hours back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.commands import OWLT
from tests.system.sweeps import PROJECT, sweep_file

STEPS_S = (3600, -7200)
DEADLINE_S = 200

out = Path(os.environ["OUT_DIR"])
results = out / "results"
grid = {"rig": "local", "clock": "real", "certify": False, "file_size": "1 MB", "repetitions": 5, "runs_per_guest": 5}
command = [*OWLT, "run", sweep_file(out, **grid), "--results", results, "--no-report", "--for", "50 min"]
with (out / "output.txt").open("w") as output:
    sweep = subprocess.Popen(list(map(str, command)), cwd=PROJECT, stdout=output, stderr=output)


def transfers() -> int:
    """How many runs have begun their transfer."""
    journal = results / "journal.jsonl"
    return journal.read_text().count('"phase": "transfer"') if journal.exists() else 0


end_s = time.monotonic() + DEADLINE_S
for number, step_s in enumerate(STEPS_S):
    while transfers() < 1 + 2 * number:
        assert time.monotonic() < end_s and sweep.poll() is None, (out / "output.txt").read_text()
        time.sleep(0.02)
    time.clock_settime(time.CLOCK_REALTIME, time.time() + step_s)
    shown = subprocess.run(
        [*OWLT, "status", results, "--json"], capture_output=True, text=True, check=True, cwd=PROJECT
    )
    (out / f"status-{number}.json").write_text(json.dumps(json.loads(shown.stdout)))
sys.exit(sweep.wait())
