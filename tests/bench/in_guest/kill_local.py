"""In a guest on the real clock: kill processes of a sweep on the local rig; arguments: kills, runs."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

from tests.bench.kills import SEED, report_of
from tests.kills import KilledSweep, kinds_of_local_rig

out = Path(os.environ["OUT_DIR"])
temporary = Path("/tmp/temporary")
temporary.mkdir()
sweep, results = out / "kills.yaml", out / "local"
killed = KilledSweep(sweep, results, temporary, kinds_of_local_rig(), random.Random(SEED))
print(json.dumps(report_of(killed, int(sys.argv[1]), int(sys.argv[2]))))
