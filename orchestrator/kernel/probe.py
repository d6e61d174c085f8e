"""Boots a kernel to see that it comes up on this machine, and whether its programs can run under seccomp."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

BOOT_LIMIT_S = 20.0
SIGN = "owlt: the guest is up"
INIT = f"""#!/bin/sh
mount -t proc proc /proc
echo '{SIGN}'
echo o >/proc/sysrq-trigger
sleep 60
"""


def boot_seconds(linux: Path, seccomp: bool) -> float | None:
    """Wall time from boot to power-off of a guest that does nothing; None when it does not come up."""
    with tempfile.TemporaryDirectory(prefix="owlt-probe-") as directory:
        init = Path(directory, "init")
        init.write_text(INIT)
        init.chmod(0o755)
        cpu = str(min(os.sched_getaffinity(0)))
        command = [
            *["taskset", "-c", cpu, str(linux), "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"],
            *["init=/proc/self/cwd/init", "con=null", "con0=null,fd:1", "quiet", "mem=128M", "time-travel=inf-cpu"],
            f"seccomp={'on' if seccomp else 'off'}",
        ]
        start = time.monotonic()
        try:
            done = subprocess.run(
                command,
                cwd=directory,
                env={"PATH": os.defpath, "HOME": ".", "TMPDIR": "/dev/shm"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=BOOT_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
        return time.monotonic() - start if SIGN.encode() in done.stdout else None


def seccomp_works(linux: Path) -> bool | None:
    """Whether guests boot with seccomp (True) or with ptrace only (False); None when they do not boot at all."""
    for seccomp in (True, False):
        if boot_seconds(linux, seccomp) is not None:
            return seccomp
    return None
