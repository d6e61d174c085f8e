"""Boots a User-Mode Linux guest whose root is this machine's own file system, and gives it a program to run.

The guest sees the machine's files read-only, an empty tmpfs wherever programs write, and one directory of its own, with
its task and its results. The program that runs there belongs to `orchestrator.run`.
"""

from __future__ import annotations

import compileall
import os
import resource
import shlex
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

from owlt import PACKAGE
from owlt.agents.contract.implementation import Clock
from owlt.emulator.kernel.bpf.loading import compiled_object, object_cache, sources
from owlt.orchestrator.hosts.binaries import results_directories
from owlt.orchestrator.hosts.mount_namespace import fstab_field, mount
from owlt.orchestrator.own_directories import third_party_directory
from owlt.orchestrator.rigs.killed_programs import WARDEN_SCRIPT

PACKAGES = ("inputs", "results", "agents", "captures", "emulator", "orchestrator", "reports")
"""The directories from which a worker imports modules."""
START_NS = 1_767_225_600 * 10**9
"""The clock of guests starts at 2026-01-01 00:00:00 UTC, so that two runs can be compared byte for byte."""

MASKED = ("/run", "/tmp", "/var/tmp", "/var/log", "/dev/shm")
RIG_DIRECTORY = "/run/owlt"
TASK_DIRECTORY = "/run/task"
BEGINNING_DIRECTORY = "/run/beginning"
"""In a guest's memory: what a run that others branch from has written."""
OWN_DIRECTORY = "/proc/self/cwd"
"""A guest's own directory, for the kernel that is the guest."""
PROJECT = "/run/machine/owlt"
ENVIRONMENT = "/run/machine/environment"
CACHE = "/run/machine/cache"
THIRD_PARTY = f"{CACHE}/owlt/third-party"
EBPF_OBJECTS = f"{CACHE}/owlt/bpf"
RESULTS_FILE = Path("/run/machine/results")
"""In a guest: the results directories of the machine that have to be hidden, a line each. They are looked for outside,
because a guest would need seconds to read large directories."""
INIT_NAME = "init"
OPEN_FILES = 65_536
MEMORY_DIRECTORY = "/dev/shm"
"""Where the kernel of a guest keeps the guest's memory, in a file without a name."""
_MOUNT = f"""mount -t tmpfs -o huge=always,size=0,mode=1777 owlt-guests {MEMORY_DIRECTORY} 2>/dev/null
exec "$@\""""
_IN_HUGE_PAGES = """unshare --mount true 2>/dev/null || exec "$@"
exec unshare --mount sh -c "$0" sh "$@\""""

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
    start_ns: int = START_NS
    """What its clock shows at the start, in ns since 1970."""


def command_line(boot: Boot) -> list[str]:
    """The guest as a command: pinned to one CPU, ended when the thread that started it ends.

    Nothing in it depends on where the results are, since the kernel mixes its command line into its randomness.
    """
    virtual = boot.clock != "real"
    kernel = ["taskset", "-c", str(boot.cpu), str(boot.kernel)]
    needed = [str(boot.kernel.resolve()), *seen_directories().values()]
    return [
        *["setpriv", "--pdeathsig", "KILL", *(kernel if _is_in_memory(needed) else in_huge_pages(kernel))],
        *["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={OWN_DIRECTORY}/{INIT_NAME}"],
        *["con=null", "con0=fd:0,fd:1", "quiet", f"mem={boot.memory_mb}M"],
        *CLOCK_OPTIONS[boot.clock],
        *([f"time-travel-start={boot.start_ns}", f"fixed-random={boot.seed}"] if virtual else []),
        f"seccomp={'on' if boot.seccomp else 'off'}",
    ]


def _is_in_memory(paths: Sequence[str]) -> bool:
    """Whether one of the paths is below `MEMORY_DIRECTORY`, which a guest with its own mount there would hide."""
    return any(Path(path).is_relative_to(MEMORY_DIRECTORY) for path in paths)


def in_huge_pages(command: list[str]) -> list[str]:
    """A shell that becomes the command, with a /dev/shm of its own in huge pages: copying a guest's memory then takes
    40 % less time (Documentation/admin-guide/mm/transhuge.rst).

    /dev/shm stays the machine's if it cannot be mounted: for ordinary users, for root without CAP_SYS_ADMIN, and on
    kernels without huge pages in tmpfs.
    """
    return ["sh", "-c", _IN_HUGE_PAGES, _MOUNT, *command]


def init_script(program: Sequence[str], in_task_directory: bool = True) -> str:
    """The guest's first program: mounts, then `program`, then power off.

    The guest's own directory is the working directory of `program`, unless it mounts that itself (`mount_task`).
    """
    enter = f"mount -t hostfs none {TASK_DIRECTORY} -o {OWN_DIRECTORY}\ncd {TASK_DIRECTORY}"
    return f"""#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run LANG=C.UTF-8
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PYTHONHASHSEED=0 XDG_CACHE_HOME={CACHE}
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
printf %s {shlex.quote(_mounts())} >/run/mounts
mount --all --fstab /run/mounts
ln -s /proc/self/fd /dev/fd; ln -s fd/0 /dev/stdin; ln -s fd/1 /dev/stdout; ln -s fd/2 /dev/stderr
{_imports_from_project()}
{_results_noted()}
mkdir -p {TASK_DIRECTORY} {RIG_DIRECTORY} /run/netns
echo 100000 >/proc/sys/net/core/netdev_max_backlog
echo 16777216 >/proc/sys/net/core/rmem_max
echo 16777216 >/proc/sys/net/core/wmem_max
echo 4096 131072 6291456 >/proc/sys/net/ipv4/tcp_rmem  # as with 1 GB: below, Linux derives the maximum from the memory
echo 4096 16384 4194304 >/proc/sys/net/ipv4/tcp_wmem
{WARDEN_SCRIPT}
{enter if in_task_directory else "cd /run"}
{shlex.join(program)} </dev/null
echo o >/proc/sysrq-trigger
sleep 60
"""


def _mounts() -> str:
    """What a guest mounts once /proc and /run are there, as lines of fstab(5)."""
    lines = ["sysfs /sys sysfs rw", "devtmpfs /dev devtmpfs rw", "devpts /dev/pts devpts X-mount.mkdir"]
    lines += [f"tmpfs {path} tmpfs X-mount.mkdir" for path in MASKED if path != "/run"]
    lines += [
        f"none {fstab_field(place)} hostfs ro,X-mount.mkdir,{fstab_field(path)}"
        for place, path in seen_directories().items()
    ]
    return "".join(f"{line} 0 0\n" for line in lines)


def mount_task() -> None:
    """Inside a guest: make its own directory the working directory."""
    mount("none", TASK_DIRECTORY, "hostfs", OWN_DIRECTORY)
    os.chdir(TASK_DIRECTORY)


def power_off() -> NoReturn:
    """Inside a guest: end it at once."""
    Path("/proc/sysrq-trigger").write_text("o")
    while True:
        signal.pause()


def python_command(module: str, *arguments: str) -> list[str]:
    """A module of this project as a command inside a guest."""
    return [guest_python(), "-P", "-m", module, *arguments]


def guest_python() -> str:
    """This process's Python interpreter, by its path inside a guest."""
    return f"{ENVIRONMENT}/bin/python" if sys.prefix != sys.base_prefix else sys.executable


def seen_directories() -> dict[str, str]:
    """Directories of the machine that a guest sees although /run and others are masked, by their place in it.

    The project, its environment and third-party implementations have the same place in every guest, wherever they are
    on the machine.
    """
    places = {PROJECT: PACKAGE.parent, ENVIRONMENT: Path(sys.prefix), THIRD_PARTY: third_party_directory()}
    if any(path.is_relative_to(object_cache()) for path in map(compiled_object, sources()) if path is not None):
        places[EBPF_OBJECTS] = object_cache()  # else they are beside their sources
    python = Path(sys.base_prefix).resolve()
    if any(python.is_relative_to(mask) for mask in MASKED):
        places[str(python)] = python
    return {place: str(path.resolve()) for place, path in places.items()}


def _results_noted() -> str:
    """A shell line that writes `RESULTS_FILE`."""
    lines = shlex.quote("".join(f"{path}\n" for path in results_directories()))
    return f"printf %s {lines} >{RESULTS_FILE}"


def _imports_from_project() -> str:
    """Shell lines that have a guest's Python import this project from its place in the guest.

    An editable installation names the project's place on the machine in a file for site(1).
    """
    return "\n".join(
        f"echo {PROJECT} >/run/machine/owlt.pth\n"
        f"mount --bind /run/machine/owlt.pth {ENVIRONMENT}/{path.relative_to(sys.prefix)}"
        for path in _import_files()
    )


def _import_files() -> list[Path]:
    """The files of an editable installation that contain the project's path; none for other installations."""
    return sorted(Path(sysconfig.get_path("purelib")).glob("*owlt*.pth"))


def needed_paths() -> list[str]:
    """The paths of this project's modules, its environment, the environment's Python and third-party implementations.

    The rest of the project stays hidden: its results and sweeps contain the seeds of the files to transfer.
    """
    third_party = third_party_directory()
    installed = [Path(line) for path in _import_files() for line in path.read_text().splitlines()]
    prefixes = [
        *(each for place in (PACKAGE.parent, *installed) for each in _modules(place / "owlt")),
        *([third_party] if third_party.is_dir() else []),
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(sysconfig.get_path("purelib")),
    ]
    chosen: list[str] = []
    for path in sorted({str(prefix.resolve()) for prefix in prefixes}):
        if not any(Path(path).is_relative_to(parent) for parent in chosen):
            chosen.append(path)
    return chosen


def _modules(package: Path) -> list[Path]:
    """An owlt package's own directory and those that it links to; none if it is not there."""
    return [package, *(package / name for name in PACKAGES)] if package.is_dir() else []


def compile_ahead() -> None:
    """Compile this project's modules, and the packages that it uses, where that was not done.

    A guest cannot keep what it compiles, and on the exact clock packets would depend on whether it had to.
    """
    compileall.compile_dir(PACKAGE, maxlevels=0, quiet=2)
    for package in PACKAGES:
        compileall.compile_dir(PACKAGE / package, quiet=2)
    compile_packages(Path(sysconfig.get_path("purelib")))


def compile_packages(directory: Path) -> None:
    """Compile those of the installed packages in a directory of which nothing is compiled: some installers do not."""
    for init in directory.glob("*/__init__.py"):
        if not (init.parent / "__pycache__").exists():
            compileall.compile_dir(init.parent, quiet=2)


def launch(boot: Boot, directory: Path, program: Sequence[str], console: int | None = None) -> subprocess.Popen[str]:
    """Boot a guest that runs `program` in `directory` and powers off. Its console is the process's output and input.

    `console` is the descriptor of a second one, /dev/tty1. The guest ends with the thread that calls this.
    """
    return start(boot, directory, init_script(program), subprocess.PIPE, subprocess.PIPE, console)


def start(
    boot: Boot,
    directory: Path,
    script: str,
    stdin: socket.socket | int,
    stdout: IO[bytes] | int,
    console: int | None = None,
) -> subprocess.Popen[str]:
    """Boot a guest whose first program is `script`; the guest ends with the thread that calls this.

    `console` is the descriptor of its second console, /dev/tty1.
    """
    third_party_directory().mkdir(parents=True, exist_ok=True)  # a guest is the same without third-party programs
    init = directory / INIT_NAME
    init.write_text(script, errors="surrogateescape")
    init.chmod(0o755)
    process = subprocess.Popen(
        [*command_line(boot), *([] if console is None else [f"con1=fd:{console}"])],
        pass_fds=() if console is None else (console,),
        cwd=directory,
        stdin=stdin if isinstance(stdin, int) else stdin.fileno(),
        stdout=stdout,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        env={"PATH": os.defpath, "HOME": ".", "TMPDIR": MEMORY_DIRECTORY},
    )
    allow_open_files(process.pid)
    return process


def allow_open_files(pid: int) -> None:
    """Raise a process's limit of open files as far as its user may, at most to `OPEN_FILES`: a guest keeps the files of
    the machine open that its programs have read, more than the usual limit of 1,024."""
    with suppress(ProcessLookupError):  # it has ended, which its output explains
        least, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        allowed = OPEN_FILES if most == resource.RLIM_INFINITY else min(OPEN_FILES, most)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (max(least, allowed), most))
