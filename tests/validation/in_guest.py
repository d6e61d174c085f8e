"""In a guest on the clock real: a lab rig of three hosts as namespaces, and `owlt run` on it.

Arguments: the time limit in seconds, then those of `owlt run` without the rig. The results are in OUT_DIR.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.commands import owlt_program
from tests.lab.rack import rack

place = Path("/run/rack")
place.mkdir()
with rack(place) as made:
    limit_s, *arguments = sys.argv[1:]
    rig = ["--rig", made.inventory, "--results", os.environ["OUT_DIR"], "--no-report"]
    done = owlt_program("run", *arguments, *rig, timeout_s=float(limit_s))
print(done.stdout)
print(done.stderr, file=sys.stderr)
sys.exit(done.returncode)
