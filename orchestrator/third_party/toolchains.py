"""Find the compilers that third-party implementations need, in a new enough version, or say how to install them."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from owlt.orchestrator.third_party.places import search_path


@dataclass(frozen=True)
class Toolchain:
    """A compiler's driver, the directory that is searched besides PATH, and how to install it."""

    program: str
    language: str
    directory: Path
    version_command: tuple[str, ...]
    source: str


RUST = Toolchain(
    program="cargo",
    language="Rust",
    directory=Path("~/.cargo/bin"),
    version_command=("--version",),
    source="rustup (see the Rust project's site), or 'apt-get install cargo' if 'apt-cache policy cargo' shows such a "
    "version",
)
GO = Toolchain(
    program="go",
    language="Go",
    directory=Path("/usr/local/go/bin"),
    version_command=("version",),
    source="the Go project's archive, unpacked in /usr/local, or 'apt-get install golang-go' if "
    "'apt-cache policy golang-go' shows such a version",
)


class ToolchainMissing(Exception):
    """A toolchain is missing or too old. `next_step` says how to install it."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(reason)
        self.next_step = next_step


def find(toolchain: Toolchain, minimum: str, path: str | None = None) -> Path:
    """The newest driver found in `path`, by default `search_path()`, or in the toolchain's own directory.

    Raises ToolchainMissing if none is new enough.
    """
    directories = [*(search_path() if path is None else path).split(":"), str(toolchain.directory.expanduser())]
    drivers = {Path(path) for directory in directories if (path := shutil.which(toolchain.program, path=directory))}
    versions = {driver: _version(driver, toolchain) for driver in drivers}
    best = max(versions, key=lambda driver: numbers(versions[driver]), default=None)
    if best and numbers(versions[best]) >= numbers(minimum):
        return best
    found = f"{best} is {versions[best] or 'of an unknown version'}" if best else f"{toolchain.program} is missing"
    raise ToolchainMissing(
        f"compiling it needs {toolchain.language} {minimum} or later; {found}",
        f"install {toolchain.language} {minimum} or later, so that {toolchain.program} is on PATH or in "
        f"{toolchain.directory}: {toolchain.source}",
    )


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers that sort in its order: 1.85.0 as (1, 85, 0)."""
    return tuple(int(part) for part in version.split(".") if part)


def _version(driver: Path, toolchain: Toolchain) -> str:
    done = subprocess.run([driver, *toolchain.version_command], capture_output=True, text=True, check=False)
    match = re.search(r"\d+\.\d+(\.\d+)?", done.stdout)
    return match[0] if match else ""
