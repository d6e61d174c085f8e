"""In a guest on the real clock: a rack of three hosts whose kernel has netem; `owlt rig verify`, then a sweep.

Prints, as JSON, what `owlt rig verify` found, and the last that `tc -s` showed of netem at each port during the sweep.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.commands import owlt_program
from tests.lab.rack import RACK, rack
from tests.system.sweeps import sweep_file

LOSSY = {"name": "lossy", "both": {"delay": "25 ms"}, "forward": {"packet_error_rate": 0.02, "error_effect": "drop"}}
TC = ["ip", "netns", "exec", RACK.namespace("emulator"), "tc", "-s", "-j", "qdisc", "show"]


def watch_tc(over: threading.Event, largest: dict[str, dict[str, Any]]) -> None:
    """Read `tc -s` again and again: the counters of a channel are gone with it."""
    while not over.wait(0.05):
        shown = subprocess.run(TC, capture_output=True, text=True, check=True).stdout
        for each in json.loads(shown or "[]"):
            if each["kind"] == "netem" and each["packets"] >= largest.get(each["dev"], each)["packets"]:
                largest[each["dev"]] = each


def without_ipv6(role: str) -> None:
    """A host that gets its interface back after a session then sends no IPv6 packets, which netem would count."""
    setting = "net.ipv6.conf.default.disable_ipv6=1"
    subprocess.run(["ip", "netns", "exec", RACK.namespace(role), "sysctl", "-qw", setting], check=True)


out = Path(os.environ["OUT_DIR"])
place = Path("/run/rack")
place.mkdir()
with rack(place) as made:
    for role in ("sender", "receiver"):
        without_ipv6(role)
    lossy = out / "lossy.yaml"
    lossy.write_text(json.dumps(LOSSY))
    options = ["--no-read-back", "--results", out / "verified", "--json"]
    verified = owlt_program("rig", "verify", made.inventory, *options)
    unspecified = {"rate": None, "delay": None, "packet_error_rate": None}
    changes = {"implementations": ["cfdp"], "channel": [str(lossy)], "file_size": "1 MB"} | unspecified
    sweep = sweep_file(out, **changes, keep_captures="full", certify=False)
    largest: dict[str, dict[str, Any]] = {}
    over = threading.Event()
    watching = threading.Thread(target=watch_tc, args=(over, largest))
    watching.start()
    done = owlt_program("run", sweep, "--rig", made.inventory, "--results", out / "results", "--no-report")
    over.set()
    watching.join()
print(json.dumps({"verified": json.loads(verified.stdout or "[]"), "tc": list(largest.values())}))
print(verified.stderr, done.stdout, done.stderr, file=sys.stderr)
sys.exit(done.returncode)
