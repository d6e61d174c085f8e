"""What a guest costs: boot to power-off, and 10,000 paced UDP packets through netem, boot and set-up included.

The packets have 1 kB of payload and go at 10 Mbit/s over 25 ms with 1 % of them hit: 8.4 s of virtual time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from math import sqrt
from pathlib import Path

from orchestrator.kernel import Kernel, find
from orchestrator.kernel.probe import boot_for, run_guest
from orchestrator.rigs.guest import INIT_NAME, command_line

SCRIPT = Path(__file__).parent / "in_guest" / "packets.sh"
REPETITIONS = 5
"""The least of so many is taken: what else the machine does can only add."""
BOOT_LIMIT_S = 0.1
SECCOMP_LIMIT_S = 1.1
PTRACE_LIMIT_S = 2.2

SENT = 10_000
HIT = 0.01
VIRTUAL_S = SENT * 833.6e-6 + 25e-3
NOTHING = "#!/bin/sh\nmount -t proc proc /proc\necho o >/proc/sysrq-trigger\nsleep 60\n"


def boot_wall_s(kernel: Kernel) -> float:
    """Wall time of a guest whose first program switches it off."""
    with tempfile.TemporaryDirectory(prefix="owlt-bench-") as name:
        init = Path(name, INIT_NAME)
        init.write_text(NOTHING)
        init.chmod(0o755)
        start_s = time.monotonic()
        command = command_line(boot_for(kernel.path, "exact", kernel.seccomp))
        environment = {"PATH": "/usr/bin:/bin", "HOME": ".", "TMPDIR": "/dev/shm"}
        subprocess.run(
            command, cwd=name, env=environment, timeout=60, check=False, stdin=subprocess.DEVNULL, capture_output=True
        )
        return time.monotonic() - start_s


def packets_wall_s(kernel: Kernel) -> float:
    """Wall time of a guest that makes the three hosts and sends. Raises ValueError when it did not do all of it."""
    with tempfile.TemporaryDirectory(prefix="owlt-bench-") as name:
        run = run_guest(boot_for(kernel.path, "exact", kernel.seccomp), Path(name), ["sh", str(SCRIPT), sys.executable])
        told = Path(name, "packets.json")
        if not told.exists() or not told.read_text():
            raise ValueError(f"the guest told nothing; its console: {run.console}")
        check(**json.loads(told.read_text()))
        return run.wall_s


def check(received: int, took_s: float) -> None:
    """What came and when: all but those hit, five standard deviations allowed, in the time that the channel takes."""
    spread = 5 * sqrt(SENT * HIT * (1 - HIT))
    if abs(received - SENT * (1 - HIT)) > spread or abs(took_s - VIRTUAL_S) > 0.05:
        raise ValueError(f"{received} packets in {took_s} s; wanted {SENT * (1 - HIT):g} in {VIRTUAL_S:.3f} s")


def main() -> int:
    """Print both figures and their limits. Exit status 1 when one is over its limit."""
    kernel = find()
    if kernel is None:
        sys.exit("bench: no virtual-time kernel is cached; run 'owlt kernel build'")
    print(f"kernel: {kernel.told}")
    limit_s = SECCOMP_LIMIT_S if kernel.seccomp else PTRACE_LIMIT_S
    over = report("boot to power-off", min(boot_wall_s(kernel) for _ in range(REPETITIONS)), BOOT_LIMIT_S)
    over |= report("10,000 packets", min(packets_wall_s(kernel) for _ in range(REPETITIONS)), limit_s)
    return int(over)


def report(what: str, wall_s: float, limit_s: float) -> bool:
    """Print a figure; true when it is over the limit."""
    over = wall_s > limit_s
    print(f"  {what:18} {wall_s:6.3f} s, {'OVER' if over else 'within'} {limit_s:g} s")
    return over
