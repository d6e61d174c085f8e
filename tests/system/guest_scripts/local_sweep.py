"""In a guest on the real clock: a sweep on the local rig, as a user with a netem kernel would run it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.system.sweeps import perform

out = Path(os.environ["OUT_DIR"])
grid = {"rig": "local", "clock": "real", "implementations": ["cfdp", "norm"], "packet_error_rate": [0, 0.02]}
done = perform(out, out / "results", **grid)
print(done.stdout, done.stderr)
sys.exit(done.returncode)
