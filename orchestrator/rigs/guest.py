"""Boots a User-Mode Linux guest whose root is this machine's own file system, and gives it a program to run.

The guest sees the machine's files read-only, fresh tmpfs where programs write, and one directory, the
guest's own, to read its task from and leave its results in. What it runs there is not known here.
"""

from __future__ import annotations

import compileall
import os
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.builds.places import builds_directory
from orchestrator.clock import Clock
from orchestrator.rigs import warden

START_NS = 1_767_225_600 * 10**9
"""Every guest's clock starts at 2026-01-01 00:00:00 UTC, so that two runs can be compared byte for byte."""

MASKED = ("/run", "/tmp", "/var/tmp", "/var/log", "/dev/shm")
RIG_DIRECTORY = "/run/owlt"
TASK_DIRECTORY = "/run/task"
INIT_NAME = "init"

CLOCK_OPTIONS: dict[Clock, list[str]] = {
    "exact": ["time-travel=inf-cpu"],
    "skip": ["time-travel"],
    "real": [],
}


@dataclass(frozen=True)
class Boot:
    """How a guest is booted. `seed` decides all that is random in it; on the exact clock it is then repeatable."""

    kernel: Path
    clock: Clock
    cpu: int
    memory_mb: int
    seed: int
    seccomp: bool


def command_line(boot: Boot) -> list[str]:
    """The guest as a command: pinned to one CPU, ended when the thread that started it ends.

    Nothing in it depends on where the results are, since the kernel mixes its command line into its randomness.
    """
    virtual = boot.clock != "real"
    return [
        *["setpriv", "--pdeathsig", "KILL", "taskset", "-c", str(boot.cpu), str(boot.kernel)],
        *["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init=/proc/self/cwd/{INIT_NAME}"],
        *["con=null", "con0=fd:0,fd:1", "quiet", f"mem={boot.memory_mb}M"],
        *CLOCK_OPTIONS[boot.clock],
        *([f"time-travel-start={START_NS}", f"fixed-random={boot.seed}"] if virtual else []),
        f"seccomp={'on' if boot.seccomp else 'off'}",
    ]


def init_script(program: Sequence[str]) -> str:
    """The guest's first program: mounts, then `program` in the guest's directory, then power off.

    What lies below a masked directory and is still needed (a clone in /tmp, say) is mounted there again.
    """
    masks = "\n".join(f"mount -t tmpfs tmpfs {path}" for path in MASKED)
    again = "\n".join(
        f"mkdir -p {shlex.quote(path)} && mount -t hostfs -o ro none {shlex.quote(path)} -o {shlex.quote(path)}"
        for path in needed_paths()
        if any(Path(path).is_relative_to(mask) for mask in MASKED)
    )
    return f"""#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run LANG=C.UTF-8
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
ln -s /proc/self/fd /dev/fd; ln -s fd/0 /dev/stdin; ln -s fd/1 /dev/stdout; ln -s fd/2 /dev/stderr
mount -t devpts devpts /dev/pts
{masks}
{again}
mkdir -p {TASK_DIRECTORY} {RIG_DIRECTORY} /run/netns
mount -t hostfs none {TASK_DIRECTORY} -o /proc/self/cwd
echo 100000 >/proc/sys/net/core/netdev_max_backlog
echo 16777216 >/proc/sys/net/core/rmem_max
echo 16777216 >/proc/sys/net/core/wmem_max
{warden.SCRIPT}
cd {TASK_DIRECTORY}
{shlex.join(program)} </dev/null
echo o >/proc/sysrq-trigger
sleep 60
"""


def needed_paths() -> list[str]:
    """Where this project, its environment, the Python below it and third-party builds lie on the machine."""
    project = Path(__file__).parents[2]
    builds = builds_directory()
    prefixes = [
        project,
        *([builds] if builds.is_dir() else []),
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(sysconfig.get_path("purelib")),
    ]
    chosen: list[str] = []
    for path in sorted({str(prefix.resolve()) for prefix in prefixes}):
        if not any(Path(path).is_relative_to(parent) for parent in chosen):
            chosen.append(path)
    return chosen


def compile_ahead() -> None:
    """Compile this project's modules where that was not done: a guest cannot keep what it compiles."""
    project = Path(__file__).parents[2]
    for package in ("agents", "captures", "emulator", "orchestrator"):
        compileall.compile_dir(project / package, quiet=2)


def launch(boot: Boot, directory: Path, program: Sequence[str]) -> subprocess.Popen[str]:
    """Boot a guest that runs `program` in `directory` and powers off. Its console is the process's output and input.

    Start it from a thread that lives as long as the guest shall.
    """
    init = directory / INIT_NAME
    init.write_text(init_script(program))
    init.chmod(0o755)
    return subprocess.Popen(
        command_line(boot),
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        env={"PATH": os.defpath, "HOME": ".", "TMPDIR": "/dev/shm"},
    )
