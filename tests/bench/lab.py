"""What a run on a lab rig takes beside its transfer: wall time from one run's begin to the next one's, without the time
from the first packet of a run to the end of its programs.

Some endpoints wait for repeated requests after the last packet, as their protocol specifies: that is their time, not
the rig's. The end is the time at which owlt noticed it.

Twenty runs, five of each of four protocols, 1 MB over the unrestricted channel, in real time on a rack of three
namespaces of this machine: login over SSH, owlt-host, sudo, TLS and captures are those of three machines in a rack.
Everything of the rack shares this machine's processors, so that other work on it makes the time longer.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import median

from tests.commands import owlt_program
from tests.lab.rack import RACK, leftovers, rack
from tests.system.sweeps import sweep_file

IMPLEMENTATIONS = ["cfdp", "ltp", "norm", "tcp"]
REPETITIONS = 5
LIMIT_S = 0.5
"""Of the median."""


def main() -> int:
    """Print the median of each phase and of the overhead. Exit status 1 if that is over the limit."""
    if os.geteuid() != 0:
        sys.exit("bench: the rack's hosts are namespaces, which need root; run 'sudo make bench PART=lab'")
    if standing := leftovers(RACK):
        sys.exit(f"bench: a rack stands already: {', '.join(standing)}; remove it, or wait for the tests that use it")
    with tempfile.TemporaryDirectory(prefix="owlt-bench-") as name:
        results = Path(name, "results")
        with rack(Path(name)) as made:
            changes = {"implementations": IMPLEMENTATIONS, "repetitions": REPETITIONS, "file_size": "1 MB"}
            channel = {"rate": "unlimited", "delay": "0 s", "certify": False}
            sweep = sweep_file(Path(name), **changes, **channel)
            done = owlt_program("run", sweep, "--rig", made.inventory, "--results", results, "--no-report")
        if done.returncode != 0:
            sys.exit(f"bench: the sweep ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
        if "it is repeated" in done.stderr:
            sys.exit(f"bench: runs were repeated, whose time is not that of a run:\n{done.stderr}")
        transfers_s = {path.name: transfer_s(path) for path in results.glob("runs/*")}
        walls_s, phases_s = timed(results / "journal.jsonl")
    overheads_s = [wall_s - transfers_s[run_id] for run_id, wall_s in walls_s.items()]
    for phase, spent_s in phases_s.items():
        print(f"  {phase:10} {median(spent_s):6.3f} s")
    together = f"{median(walls_s.values()):6.3f} s, of which the transfer {median(transfers_s.values()):.3f} s"
    print(f"  {'together':10} {together}")
    overhead_s = median(overheads_s)
    verdict = "within" if overhead_s <= LIMIT_S else "OVER"
    print(
        f"lab: {overhead_s:.2f} s beside the transfer, the median of {len(overheads_s)} runs "
        f"({min(overheads_s):.2f} to {max(overheads_s):.2f} s), {verdict} {LIMIT_S:g} s"
    )
    return int(overhead_s > LIMIT_S)


def transfer_s(run: Path) -> float:
    """The time from the first packet of a run to the end of its programs."""
    ended_at_ns = int(json.loads((run / "record.json").read_text())["ended_at_ns"])
    return (ended_at_ns - int(json.loads((run / "summary.json").read_text())["first_packet_ns"])) / 1e9


def timed(journal: Path) -> tuple[dict[str, float], dict[str, list[float]]]:
    """The wall time of each run until the next one begins, of the last of a batch until its end; and of its phases."""
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    worker = [event for event in events if event["event"] in ("run", "phase", "done", "end")]
    walls_s: dict[str, float] = {}
    phases_s: dict[str, list[float]] = {}
    for event, after in pairwise(worker):
        if event["event"] == "end" or (event["event"], after["event"]) == ("done", "end"):
            continue  # the rig is taken down, or raised
        lasted_s = after["at_s"] - event["at_s"]
        walls_s[event["run_id"]] = walls_s.get(event["run_id"], 0.0) + lasted_s
        phases_s.setdefault(event.get("phase", event["event"]), []).append(lasted_s)
    return walls_s, phases_s
