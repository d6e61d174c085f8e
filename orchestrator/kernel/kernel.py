"""The virtual-time kernel as a value: where it is and what it can do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

Observe = Callable[[str, float | None, str], None]
"""Told the phase of a build, how much of it is done (0 to 1, None when unknown), and a word on it."""


class Kernel(BaseModel):
    """A User-Mode Linux kernel that guests boot."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    version: str
    package: str
    """Debian's source package and its version, or the tarball it was built from."""
    recipe: str
    """The digest of the configuration fragment and the patches."""
    patches: list[str]
    """Those that fitted this version."""
    seccomp: bool
    """Whether guests run their programs under seccomp on this machine; ptrace takes twice as long."""
    hz: int

    @property
    def told(self) -> str:
        """One line for people."""
        mode = "seccomp" if self.seccomp else "ptrace"
        return (
            f"Linux {self.version} ({self.package}), {mode}, {self.hz} Hz, patches {', '.join(self.patches) or 'none'}"
        )
