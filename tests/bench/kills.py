"""Whether a sweep survives 100 SIGKILLs of its processes while 200 short runs are performed.

On the virtual rig: of the orchestrator, guests, templates and processes of the analysis; afterwards the captures are
those of a sweep that nobody disturbed, bit for bit. On the local rig, in a guest whose kernel is the machine: of the
orchestrator, the worker, the emulator and sshd; its clock is real, so its captures differ anyway. OWLT_BENCH_KILLS=10
kills so many, over twice as many runs.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from owlt.orchestrator.kernel.kernel import find_kernel
from tests.bench.channel import IN_GUEST
from tests.commands import owlt_program
from tests.kills import DONE, KilledSweep, kinds_of_virtual_rig
from tests.system.conftest import Guest

KILLS = 100
VIRTUAL_SHARE = 0.8
SEED = 12
SWEEP = {
    "name": "kills",
    "seed": SEED,
    "implementations": ["cfdp", "ltp"],
    "file_size": "100 kB",
    "rate": "10 Mbit/s",
    "delay": "25 ms",
    "packet_error_rate": 0.01,
}
CELLS = 2
"""So few that the repetitions of each share their start."""
VIRTUAL = {"implementations": ["cfdp", "tcp"]}
"""With TCP, which tshark counts, few runs are not analysed by a thread but by processes, which can be killed."""
LOCAL = {"rig": "local", "clock": "real", "runs_per_guest": 2, "certify": False}
GUEST_LIMIT_S = 1800
CAPTURES = ("sender.pcap", "receiver.pcap")


def main() -> int:
    """Kill and compare. Exit status 1: a run was lost, performed twice or differs, or something is left over."""
    kernel = find_kernel()
    if kernel is None:
        sys.exit("bench: no virtual-time kernel is cached; run 'owlt kernel build'")
    kills = int(os.environ.get("OWLT_BENCH_KILLS", KILLS))
    virtual = round(VIRTUAL_SHARE * kills)
    with tempfile.TemporaryDirectory(prefix="owlt-kills-") as name:
        problems = kill_virtual(Path(name), virtual)
        problems += kill_local(Guest(Path(name), kernel), kills - virtual)
    for problem in problems:
        print(f"  {problem}")
    print(f"kills: {f'{len(problems)} PROBLEMS' if problems else 'every run once, nothing left over'}")
    return int(bool(problems))


def sweep_file(directory: Path, runs: int, **changes: object) -> Path:
    """A sweep of at least so many runs."""
    path = directory / "kills.yaml"
    path.write_text(json.dumps(SWEEP | {"repetitions": -(-runs // CELLS)} | changes))
    return path


def kill_virtual(directory: Path, kills: int) -> list[str]:
    """Kill processes of a sweep in guests, and compare it with an undisturbed one. Returns what is wrong."""
    runs = 2 * kills
    sweep = sweep_file(directory, runs, **VIRTUAL)
    undisturbed, results, temporary = (directory / name for name in ("undisturbed", "killed", "temporary"))
    temporary.mkdir()
    began_s = time.monotonic()
    done = owlt_program("run", sweep, "--results", undisturbed, "--no-report", timeout_s=GUEST_LIMIT_S)
    if done.returncode not in DONE:
        return [f"the undisturbed sweep failed: {done.stderr}"]
    undisturbed_s = time.monotonic() - began_s
    print(f"kills: virtual rig: {runs} runs undisturbed in {undisturbed_s:.0f} s", flush=True)
    kinds = kinds_of_virtual_rig(results, temporary)
    killed = KilledSweep(sweep, results, temporary, kinds, random.Random(SEED))
    report("virtual", report_of(killed, kills, runs))
    return killed.problems + differences(undisturbed, results)


def differences(undisturbed: Path, killed: Path) -> list[str]:
    """The runs whose captures are not the same bytes."""
    captures = [path.relative_to(undisturbed) for path in undisturbed.glob("runs/*/*.pcap")]
    unlike = [path for path in captures if not _is_same(undisturbed / path, killed / path)]
    print(
        f"  {len(captures) - len(unlike)} of {len(captures)} captures equal those of the undisturbed sweep, bit for bit"
    )
    return [f"{path}: differs from that of the undisturbed sweep" for path in unlike]


def _is_same(path: Path, other: Path) -> bool:
    return other.is_file() and path.read_bytes() == other.read_bytes()


def kill_local(guest: Guest, kills: int) -> list[str]:
    """Kill processes of a sweep on the local rig of a guest. Returns what is wrong."""
    sweep_file(guest.out_dir, 2 * kills, **LOCAL)
    done = guest.run(IN_GUEST / "kill_local.py", str(kills), str(2 * kills), clock="real", timeout_s=GUEST_LIMIT_S)
    if done.returncode:
        return [f"the guest of the local rig failed: {done.stderr}"]
    found = json.loads(done.stdout)
    report("local", found)
    return list(found["problems"])


def report_of(killed: KilledSweep, kills: int, runs: int) -> dict[str, Any]:
    """Perform a sweep with kills. Returns the figures, as JSON."""
    began_s = time.monotonic()
    killed.perform(kills, runs)
    return {
        "runs": runs,
        "kills": killed.kills,
        "starts": killed.starts,
        "repeated": killed.repeated,
        "took_s": time.monotonic() - began_s,
        "problems": killed.problems,
    }


def report(rig: str, found: dict[str, Any]) -> None:
    """Print the figures of a sweep."""
    kills = ", ".join(f"{count} of {kind}" for kind, count in sorted(found["kills"].items()))
    print(f"kills: {rig} rig: {sum(found['kills'].values())} kills ({kills}) over {found['runs']} runs")
    print(f"  {found['starts']} starts, {found['repeated']} attempts repeated, {found['took_s']:.0f} s", flush=True)
