"""A User-Mode Linux kernel out of a source tarball: unpack, patch, configure, make."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import Missing, OwltError
from orchestrator.kernel import recipe
from orchestrator.kernel.kernel import Observe
from orchestrator.kernel.source import Source

TOOLS = ("gcc", "make", "flex", "bison", "bc", "xz", "patch", "strip")
TOOLS_MEND = "apt-get install build-essential flex bison bc xz-utils patch"
SPACE_GB = 3.0
OBJECTS = 1150
"""About as many files as a build compiles; only the progress bar believes it."""


@dataclass(frozen=True)
class Built:
    """A kernel that was made, not cached yet."""

    linux: Path
    version: str
    patches: list[str]
    hz: int


def check_machine(directory: Path) -> None:
    """Raise Missing when a build tool or the room to build is not there."""
    if lacking := [tool for tool in TOOLS if shutil.which(tool) is None]:
        raise Missing(f"building a kernel needs {', '.join(lacking)}: {TOOLS_MEND}")
    free_gb = shutil.disk_usage(directory).free / 1e9
    if free_gb < SPACE_GB:
        raise Missing(
            f"building a kernel needs {SPACE_GB:g} GB in {directory}, which has {free_gb:.1f} GB: make room there"
        )


def build_kernel(source: Source, directory: Path, observe: Observe) -> Built:
    """Build the guests' kernel below `directory`. Raises OwltError with the end of what a failing step said."""
    observe("unpack", None, source.name)
    tree, out = directory / "source", directory / "out"
    tree.mkdir()
    out.mkdir()
    _step("unpack", ["tar", "--extract", "--strip-components=1", "--file", str(source.tarball)], tree)
    observe("patch", None, "")
    patches = [path.stem for path in recipe.PATCHES if _applied(path, tree)]
    observe("configure", None, "")
    make = ["make", "ARCH=um", f"O={out}"]
    _step("configure", [*make, "tinyconfig"], tree)
    merge = ["scripts/kconfig/merge_config.sh", "-m", "-O", str(out), str(out / ".config"), str(recipe.FRAGMENT)]
    _step("configure", merge, tree)
    _step("configure", [*make, "olddefconfig"], tree)
    config = (out / ".config").read_text()
    if lost := recipe.options_not_taken(recipe.FRAGMENT.read_text(), config):
        raise OwltError(
            f"{source.name} does not take {', '.join(lost)} of {recipe.FRAGMENT.name}; use another --source"
        )
    _make([*make, f"-j{len(os.sched_getaffinity(0))}", "linux"], tree, observe)
    _step("strip", ["strip", "--strip-debug", str(out / "linux")], tree)
    version = (out / "include/config/kernel.release").read_text().strip()
    return Built(out / "linux", version, patches, recipe.timer_hz(config))


def _applied(patch: Path, tree: Path) -> bool:
    """Apply a patch if all of it fits; some are for one version only."""
    command = ["patch", "--strip=1", "--force", "--silent", "--input", str(patch)]
    if subprocess.run([*command, "--dry-run"], cwd=tree, capture_output=True, check=False).returncode != 0:
        return False
    _step("patch", command, tree)
    return True


def _step(phase: str, command: list[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise OwltError(f"kernel build: {phase} failed: {' '.join(command)}\n{_end_of(done.stdout + done.stderr)}")


def _make(command: list[str], directory: Path, observe: Observe) -> None:
    said: list[str] = []
    compiled = 0
    with subprocess.Popen(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if match := re.match(r"\s+(?:CC|AS)\s+(\S+)", line):
                compiled += 1
                observe("compile", min(compiled / OBJECTS, 0.99), match[1])
    if process.returncode != 0:
        raise OwltError(f"kernel build: make failed: {' '.join(command)}\n{_end_of(''.join(said))}")


def _end_of(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-20:])
