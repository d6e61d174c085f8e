"""What the emulated channel costs: packets a second through its stages against a bare bridge, and applying it.

Packets: in a guest on the exact clock, by the host's clock, every packet's whole way on one CPU. Applying: on the
guest's real clock, over XML-RPC.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from owlt.orchestrator.kernel.kernel import find_kernel
from tests.system.conftest import Guest

IN_GUEST = Path(__file__).parent / "in_guest"
PACKETS, PAYLOAD_BYTES, REPETITIONS, APPLIED_TIMES = 50_000, 1000, 5, 20
APPLY_LIMIT_S = 0.05
OPEN = {"rate": "1 Tbit/s", "queue": "100000 packets", "delay": "1 ns"}
CHANNELS = {
    "bare bridge": {"bypass": True},
    "rate and delay": {"forward": OPEN},
    "and packet errors": {"forward": {**OPEN, "packet_error_rate": 0.01, "seed": 1}},
    "and a queue in bytes (eBPF)": {"forward": {**OPEN, "queue": "100 MB"}},
    "and BER 1e-9 (eBPF)": {"forward": {**OPEN, "bit_error_rate": 1e-9, "seed": 1}},
    "and BER 1e-5 (eBPF)": {"forward": {**OPEN, "bit_error_rate": 1e-5, "seed": 1}},
    "both eBPF stages": {"forward": {**OPEN, "queue": "100 MB", "bit_error_rate": 1e-5, "seed": 1}},
}
PAPERS = {"delay": "1250 ms", "rate": "10 Mbit/s"}
APPLIED = {
    "delay, rate, packet errors, both ways": {"both": {**PAPERS, "packet_error_rate": 0.01}},
    "and bit errors, a queue in bytes (eBPF)": {"both": {**PAPERS, "bit_error_rate": 1e-5, "queue": "64 kB"}},
}


def main() -> int:
    """Print all figures. Exit status 1 when applying a channel takes longer than its limit."""
    found = find_kernel()
    if found is None:
        sys.exit("bench: no virtual-time kernel is cached; run 'owlt kernel build'")
    print(f"channel: {PACKETS:,} packets of {PAYLOAD_BYTES} bytes, the least of {REPETITIONS}; {found.told}")
    passing = {"channels": CHANNELS, "count": PACKETS, "size_bytes": PAYLOAD_BYTES, "repetitions": REPETITIONS}
    with tempfile.TemporaryDirectory(prefix="owlt-bench-") as name:
        subprocess.run(["cc", "-O2", "-o", f"{name}/blast", str(IN_GUEST / "blast.c")], check=True)
        report_packets(in_guest(Guest(Path(name), found), "tree.py", "/run/task/blast", json.dumps(passing)))
        applying = {"channels": APPLIED, "repetitions": APPLIED_TIMES}
        applied = in_guest(Guest(Path(name), found), "apply.py", json.dumps(applying), clock="real")
    return int(report_applying(applied))


def in_guest(guest: Guest, script: str, *arguments: str, clock: str = "exact", timeout_s: float = 300) -> Any:
    """What the script printed."""
    done = guest.run(IN_GUEST / script, *arguments, clock=clock, timeout_s=timeout_s)
    if done.returncode:
        raise SystemExit(f"bench: the guest failed: {done.stderr}")
    return json.loads(done.stdout)


def report_packets(told: Any) -> None:
    """A line a channel, as a ratio to the bridge."""
    bare_s = min(told["times_s"]["bare bridge"])
    for what, times_s in told["times_s"].items():
        lost = told["missing"][what]
        print(
            f"  {what:42} {PACKETS / min(times_s):10,.0f} packets/s, {bare_s / min(times_s):5.2f} of the bridge's"
            + (f"; {lost} DID NOT ARRIVE" if lost else "")
        )


def report_applying(told: Any) -> bool:
    """A line a channel, and one about all; true when one takes longer than the limit."""
    slowest_s = 0.0
    for what, times_s in told["times_s"].items():
        least_s = min(times_s)
        slowest_s = max(slowest_s, least_s)
        verdict = "OVER" if least_s > APPLY_LIMIT_S else "within"
        print(
            f"  apply {what:42} {least_s * 1e3:6.1f} ms, {verdict} {APPLY_LIMIT_S * 1e3:g} ms "
            f"(the least of {len(times_s)}; median {median(times_s) * 1e3:.1f}, greatest {max(times_s) * 1e3:.1f})"
        )
    over = slowest_s > APPLY_LIMIT_S
    print(
        f"channel: applying takes {slowest_s * 1e3:.1f} ms at most, the least of {APPLIED_TIMES} each: "
        f"{'over' if over else 'within'} {APPLY_LIMIT_S * 1e3:g} ms"
    )
    return over
