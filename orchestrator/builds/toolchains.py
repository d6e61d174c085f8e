"""The compilers that builds need: found on this machine and new enough, or a text that says how to get them."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from orchestrator.builds.places import search_path


@dataclass(frozen=True)
class Toolchain:
    """A compiler's driver, where it is looked for besides the path, and how to get one."""

    program: str
    language: str
    place: Path
    version_command: tuple[str, ...]
    source: str


RUST = Toolchain(
    program="cargo",
    language="Rust",
    place=Path("~/.cargo/bin"),
    version_command=("--version",),
    source="rustup, as the Rust project's site tells, or 'apt-get install cargo' where 'apt-cache policy cargo' "
    "shows such a version",
)
GO = Toolchain(
    program="go",
    language="Go",
    place=Path("/usr/local/go/bin"),
    version_command=("version",),
    source="the Go project's archive, unpacked in /usr/local, or 'apt-get install golang-go' where "
    "'apt-cache policy golang-go' shows such a version",
)


class NotHere(Exception):
    """A toolchain that is missing or too old. `next_step` says how to get it."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(reason)
        self.next_step = next_step


def find(toolchain: Toolchain, minimum: str) -> Path:
    """The newest driver that is found. Raises NotHere where none is new enough."""
    places = [*search_path().split(":"), str(toolchain.place.expanduser())]
    drivers = {Path(path) for place in places if (path := shutil.which(toolchain.program, path=place))}
    versions = {driver: _version(driver, toolchain) for driver in drivers}
    best = max(versions, key=lambda driver: numbers(versions[driver]), default=None)
    if best and numbers(versions[best]) >= numbers(minimum):
        return best
    wanted = f"{toolchain.language} {minimum} or later is needed to compile it"
    had = f"{best} is {versions[best] or 'of no version that it tells'}" if best else f"no {toolchain.program} is here"
    raise NotHere(
        f"{wanted}; {had}",
        f"install {toolchain.language} {minimum} or later, so that {toolchain.program} is on the path or in "
        f"{toolchain.place}: {toolchain.source}",
    )


def numbers(version: str) -> tuple[int, ...]:
    """1.85.0 as (1, 85, 0): versions in their order."""
    return tuple(int(part) for part in version.split(".") if part)


def _version(driver: Path, toolchain: Toolchain) -> str:
    told = subprocess.run([driver, *toolchain.version_command], capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.\d+(\.\d+)?", told.stdout)
    return found[0] if found else ""
