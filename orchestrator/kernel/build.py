"""Builds a User-Mode Linux kernel from a source tarball: unpack, patch, configure, make; and caches it.

`kernel` finds the cached one, `source` fetches the tarball, `probe` tests the result.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.errors import Missing, OwltError
from owlt.orchestrator.hosts.mount_namespace import with_own_devices
from owlt.orchestrator.kernel.kernel import (
    FRAGMENT,
    PATCHES,
    Kernel,
    Observe,
    find_kernel,
    keep_kernel,
    only_one_builds,
    recipe_digest,
    version_numbers,
    workshop,
)
from owlt.orchestrator.kernel.probe import abilities
from owlt.orchestrator.kernel.source import KernelSource, fetch_source, local_source

PACKAGE_OF_TOOL = {
    "gcc": "gcc",
    "ld": "binutils",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "patch": "patch",
    "tar": "tar",
    "xz": "xz-utils",
}
C_HEADER = "stdio.h"
SPACE_GB = 1.5
"""The disk space for a build; version 7.3 needs 0.9 GB with its tarball."""
OBJECTS = 790
"""The approximate number of files that are compiled; only for the progress bar."""

NOT_UNPACKED = [
    *(f"*/drivers/{of}/*.[ch]" for of in ("accel", "gpu", "infiniband", "media", "scsi", "staging")),
    *(f"*/drivers/net/{of}/*.[ch]" for of in ("ethernet", "wireless")),
    *("*/arch/[!ux]*/*.[chS]", "*/arch/*.dts*", "*/sound/*.[ch]", "*/tools/perf/*", "*/tools/testing/*"),
    *("*/Documentation/*.rst", "*/Documentation/*.yaml"),
]
"""Two thirds of a source tree: code for other machines than a guest. Every Kconfig and Makefile stays."""

SETTINGS = {
    "ARCH": "um",
    "SUBARCH": "x86_64",
    "KBUILD_BUILD_USER": "owlt",
    "KBUILD_BUILD_HOST": "owlt",
    "KBUILD_BUILD_TIMESTAMP": "1970-01-01",
    "LC_ALL": "C",
    "XZ_OPT": "-T0",
}
KEPT = ("PATH", "HOME", "TMPDIR")
"""Nothing else of the caller's environment reaches make: a MAKEFLAGS or CFLAGS of its own would change the kernel."""


OPTIONAL_SECTION = "# Not every version knows these"
"""The comment in the configuration fragment after which options may be missing."""


@dataclass(frozen=True)
class Built:
    """A kernel that was made, not cached yet."""

    linux: Path
    version: str
    patches: list[str]
    hz: int


def build_kernel(tarball: Path | None, observe: Observe, package: str | None = None) -> Kernel:
    """Build a kernel and cache it: from a tarball, from the named Debian package, or from the best package available.

    Takes 4 to 9 minutes and 1.5 GB of disk space, which is freed afterwards. Raises OwltError or Missing with the next
    step.
    """
    before = find_kernel()
    with only_one_builds(observe), workshop() as directory:
        check_machine(directory)
        if (built_meanwhile := find_kernel()) and built_meanwhile != before and not (tarball or package):
            return built_meanwhile
        source = local_source(tarball) if tarball else fetch_source(directory, observe, package)
        built = compile_kernel(source, directory, observe)
        observe("probe", None, "booting it")
        kernel = Kernel(
            path=built.linux,
            version=built.version,
            package=source.name,
            recipe=recipe_digest(),
            patches=built.patches,
            hz=built.hz,
            **asdict(abilities(built.linux)),
        )
        return keep_kernel(built.linux, kernel)


def check_machine(
    directory: Path, *, machine: str | None = None, header: str = C_HEADER, space_gb: float = SPACE_GB
) -> None:
    """Raise Missing if a build tool or disk space is missing on this machine, or if it is not an x86-64 machine."""
    machine = machine or platform.machine()
    if machine != "x86_64":
        raise Missing(
            Mistake(
                f"got a machine of type {machine}", "x86_64, where User-Mode Linux can be built", "use another machine"
            )
        )
    packages = [package for tool, package in PACKAGE_OF_TOOL.items() if shutil.which(tool) is None]
    if "gcc" not in packages and not _has_c_header(header):
        packages.append("libc6-dev")
    if packages:
        raise Missing(
            Mistake(f"building a kernel needs {', '.join(packages)}", fix=f"apt-get install {' '.join(packages)}")
        )
    free_gb = shutil.disk_usage(directory).free / 1e9
    if free_gb < space_gb:
        raise Missing(
            Mistake(
                f"building a kernel needs {space_gb:g} GB in {directory}, which has {free_gb:.1f} GB",
                fix="free space there, or set XDG_CACHE_HOME to a directory elsewhere",
            )
        )


def compile_kernel(source: KernelSource, directory: Path, observe: Observe) -> Built:
    """Build the guests' kernel below `directory`. Raises OwltError with the last output of the step that failed."""
    observe("unpack", None, source.name)
    tree = _unpacked(source, directory / "source")
    observe("configure", None, "")
    patches = _patched(tree)
    config = _configured(tree, source)
    _make(["make", f"-j{len(os.sched_getaffinity(0))}", "linux"], tree, observe)
    _step("strip", ["strip", "linux"], tree)
    version = (tree / "include/config/kernel.release").read_text().strip()
    return Built(tree / "linux", version, patches, timer_hz(config))


def _has_c_header(header: str) -> bool:
    completed = subprocess.run(
        ["gcc", "-E", "-x", "c", "-"], input=f"#include <{header}>\n", text=True, capture_output=True, check=False
    )
    return completed.returncode == 0


def _unpacked(source: KernelSource, tree: Path) -> Path:
    tree.mkdir()
    left_out = tree.with_suffix(".left-out")
    left_out.write_text("\n".join(NOT_UNPACKED) + "\n")
    how = ["--strip-components=1", f"--exclude-from={left_out}"]
    _step("unpack", ["tar", "--extract", *how, "--file", str(source.tarball)], tree)
    if not (tree / "arch/um/Kconfig").is_file():
        raise OwltError(
            Mistake("is not a Linux source tree: it has no arch/um", "linux-*.tar.xz", where=Place(str(source.tarball)))
        )
    return tree


def _patched(tree: Path) -> list[str]:
    """Apply the patch of each purpose that fits this version.

    Returns those applied; a purpose without a fitting patch is skipped.
    """
    return [
        fitting.stem
        for choices in patch_choices(PATCHES)
        for fitting in [path for path in choices if _applied(path, tree, "--dry-run")][:1]
        if _applied(fitting, tree)
    ]


def _applied(patch: Path, tree: Path, *options: str) -> bool:
    """Apply a patch without fuzz, so that it is not applied in a wrong place. Returns whether it fits."""
    command = ["patch", "--strip=1", "--force", "--fuzz=0", "--silent", *options, "--input", str(patch)]
    return subprocess.run(command, cwd=tree, capture_output=True, check=False).returncode == 0


def _configured(tree: Path, source: KernelSource) -> str:
    """The finished configuration: the fragment and what it needs, all else off."""
    _step("configure", ["make", "tinyconfig"], tree)
    _step("configure", ["scripts/kconfig/merge_config.sh", "-n", ".config", str(FRAGMENT)], tree)
    config = (tree / ".config").read_text()
    if lost := options_not_taken(FRAGMENT.read_text(), config):
        raise OwltError(
            Mistake(
                f"{source.name} does not support {', '.join(lost)} of {FRAGMENT.name}",
                fix="use another --source",
            )
        )
    return config


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in KEPT if name in os.environ} | SETTINGS


def _step(phase: str, command: list[str], tree: Path) -> None:
    done = subprocess.run(
        with_own_devices(command),
        cwd=tree,
        env=_environment(),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise OwltError(f"kernel build: {phase} failed: {' '.join(command)}\n{_end_of(done.stdout + done.stderr)}")


def _make(command: list[str], tree: Path, observe: Observe) -> None:
    output: list[str] = []
    compiled = 0
    with subprocess.Popen(
        with_own_devices(command),
        cwd=tree,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                output.append(line)
                if match := re.match(r"\s+(?:CC|AS)\s+(\S+)", line):
                    compiled += 1
                    observe("compile", min(compiled / OBJECTS, 0.99), match[1])
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode != 0:
        raise OwltError(f"kernel build: make failed: {' '.join(command)}\n{_end_of(''.join(output))}")


def _end_of(text: str) -> str:
    """The errors of a failed step, which other jobs' output may surround, or else its last lines."""
    lines = text.strip().splitlines()
    errors = [line for line in lines if re.search(r"\berror:|\bundefined reference\b", line)]
    return "\n".join((errors or lines)[-20:])


def options_not_taken(fragment: str, config: str) -> list[str]:
    """The options of the fragment that a finished configuration does not have, without the optional section."""
    have = set(re.findall(r"^CONFIG_\w+=.*$", config, re.MULTILINE))
    required = fragment.partition(OPTIONAL_SECTION)[0]
    required_options = re.findall(r"^(CONFIG_\w+)=(.*)$", required, re.MULTILINE)
    return [
        f"{name}={value}"
        for name, value in required_options
        if (value != "n" and f"{name}={value}" not in have) or (value == "n" and f"{name}=y" in have)
    ]


def patch_choices(paths: list[Path]) -> list[list[Path]]:
    """The patches by purpose: of those that differ only in the version in their name the first that fits is
    applied, the newest before the others."""
    purposes: dict[str, list[Path]] = {}
    for path in paths:
        purposes.setdefault(re.sub(r"-\d+\.\d+$", "", path.stem), []).append(path)
    return [
        sorted(choices, key=lambda path: version_numbers(path.stem), reverse=True)
        for _, choices in sorted(purposes.items())
    ]


def timer_hz(config: str) -> int:
    """The timer frequency of a finished configuration. It moves delayed acknowledgements and time-outs."""
    match = re.search(r"^CONFIG_HZ=(\d+)$", config, re.MULTILINE)
    return int(match[1]) if match else 100
